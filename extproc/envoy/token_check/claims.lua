-- Names the client of a request by the claims of its token, which the filter before this one has verified, or says why
-- it has no name. What follows in the filter chain decides. CLIENT, TEAM, NEEDED and LONGEST are made from the settings.

-- Two clients never get one name: each byte that no key's name could have is written as %XX. So a name has no slash of
-- its own either, and nothing that would end a header.
local function name_of(claim)
  if type(claim) ~= "string" or claim == "" then return nil end
  local name = claim:gsub("[^A-Za-z0-9_.@-]", function(byte) return string.format("%%%02X", byte:byte()) end)
  return #name <= LONGEST and name or nil
end

-- A list of one is what some providers make of an attribute, or of the groups of somebody who is in one.
local function team_of(claim)
  if type(claim) == "table" and #claim == 1 then claim = claim[1] end
  if type(claim) == "string" and #claim <= 64 and claim:find("^[A-Za-z0-9_.@-]+$") then return claim end
end

function envoy_on_request(handle)
  local verified = handle:streamInfo():dynamicMetadata():get("envoy.filters.http.jwt_authn")
  if verified == nil then return end -- a path that asks for no token
  local claims, headers = verified.claims, handle:headers()
  local name = name_of(claims[CLIENT])
  if name == nil then headers:replace("x-extproc-denied", "no_name") return end
  if TEAM ~= nil and NEEDED and claims[TEAM] == nil then headers:replace("x-extproc-denied", "no_team") return end
  if TEAM ~= nil and claims[TEAM] ~= nil then
    local team = team_of(claims[TEAM])
    if team == nil then headers:replace("x-extproc-denied", "wrong_team") return end
    headers:replace("x-extproc-team", team)
    name = team .. "/" .. name
  end
  headers:replace("x-extproc-client", name)
end
