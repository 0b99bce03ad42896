-- Makes the header fields that one of Envoy's filters has added into OpenAI's. BY says which filter that is, MARK which
-- header has the name of the one that has refused the request, if one has.

local function number(text) return text and tonumber(text:match("^%d+")) end

-- As OpenAI has it, which is Go's: 120ms, 47s, 6m0s. Rounded up.
local function duration(milliseconds)
  if milliseconds > 0 and milliseconds < 1000 then return string.format("%dms", math.ceil(milliseconds)) end
  local seconds = math.ceil(milliseconds / 1000)
  local hours, minutes = math.floor(seconds / 3600), math.floor(seconds / 60) % 60
  seconds = seconds % 60
  if hours > 0 then return string.format("%dh%dm%ds", hours, minutes, seconds) end
  if minutes > 0 then return string.format("%dm%ds", minutes, seconds) end
  return string.format("%ds", seconds)
end

-- What the filter has said of the limit that is nearest: how much it allows, what is left, and in how many seconds more
-- is there. Of several limits the first field has all: "1000, 1000;w=60, 5000;w=86400".
local function taken(headers)
  local limit, left = number(headers:get("x-ratelimit-limit")), number(headers:get("x-ratelimit-remaining"))
  local seconds = number(headers:get("x-ratelimit-reset"))
  for _, name in ipairs({"limit", "remaining", "reset"}) do headers:remove("x-ratelimit-" .. name) end
  if limit and left and seconds then return limit, left, seconds end
end

local function tell(headers, of, limit, left, milliseconds)
  headers:replace("x-ratelimit-limit-" .. of, string.format("%d", limit))
  headers:replace("x-ratelimit-remaining-" .. of, string.format("%d", left))
  headers:replace("x-ratelimit-reset-" .. of, duration(milliseconds))
end

-- Whether a filter of requests that stands further behind has told of a limit with less left, or with as little: if it
-- has refused the request, that is the one.
local function has_less(headers, left)
  local told = number(headers:get("x-ratelimit-remaining-requests"))
  return told and told <= left
end

local function of_all_envoys(headers)
  -- A service may say the same itself, under these names, of whatever it was asked.
  for _, name in ipairs({"limit", "remaining", "reset"}) do headers:remove("x-ratelimit-" .. name .. "-tokens") end
  if BY == "requests" and headers:get(MARK) == "tokens" then return end -- what is there is said of tokens
  local limit, left, seconds = taken(headers)
  if limit == nil or (BY == "requests" and has_less(headers, left)) then return end
  tell(headers, BY, limit, left, 1000 * seconds)
end

local function of_this_envoy(headers)
  local limit, left, seconds = taken(headers)
  if limit == nil then return end
  if headers:get(MARK) == BY then
    headers:replace("retry-after", string.format("%d", math.max(1, seconds)))
  elseif has_less(headers, left) then
    return
  end
  -- Envoy tells when one more may come. They come back one by one, so that all are back after as many times as long.
  tell(headers, "requests", limit, left, (limit - left) * 60000 / limit)
end

function envoy_on_response(handle)
  if BY == "here" then of_this_envoy(handle:headers()) else of_all_envoys(handle:headers()) end
end
