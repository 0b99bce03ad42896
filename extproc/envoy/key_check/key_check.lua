-- Names the client of a request by its key, or says why it has none. What follows in the filter chain decides.
-- OWNERS is made from the file of API keys: SHA-256 of a key, in hexadecimal, to the name that it stands under.
local bit = require("bit")
local band, bnot, bxor, rol, ror, rshift, tobit = bit.band, bit.bnot, bit.bxor, bit.rol, bit.ror, bit.rshift, bit.tobit

-- The cube roots of the first 64 primes, and the square roots of the first 8 (FIPS 180-4, 4.2.2 and 5.3.3).
local K, H = {}, {}
do
  local primes, candidate = {}, 2
  while #primes < 64 do
    local prime = true
    for _, smaller in ipairs(primes) do
      if candidate % smaller == 0 then prime = false break end
    end
    if prime then primes[#primes + 1] = candidate end
    candidate = candidate + 1
  end
  local function fraction(value) return tobit(math.floor((value - math.floor(value)) * 4294967296)) end
  for i = 1, 64 do K[i] = fraction(primes[i] ^ (1 / 3)) end
  for i = 1, 8 do H[i] = fraction(math.sqrt(primes[i])) end
end

local function sha256(text)
  local length = #text
  local padded = text .. "\128" .. string.rep("\0", (55 - length) % 64)
    .. string.char(0, 0, 0, 0, band(rshift(length, 21), 255), band(rshift(length, 13), 255), band(rshift(length, 5), 255), band(length * 8, 255))
  local state, w = {unpack(H)}, {}
  for block = 1, #padded, 64 do
    for i = 1, 16 do
      local a, b, c, d = padded:byte(block + 4 * i - 4, block + 4 * i - 1)
      w[i] = tobit(a * 16777216 + b * 65536 + c * 256 + d)
    end
    for i = 17, 64 do
      local x, y = w[i - 15], w[i - 2]
      w[i] = tobit(w[i - 16] + bxor(ror(x, 7), ror(x, 18), rshift(x, 3)) + w[i - 7] + bxor(ror(y, 17), ror(y, 19), rshift(y, 10)))
    end
    local a, b, c, d, e, f, g, h = unpack(state)
    for i = 1, 64 do
      local first = tobit(h + bxor(ror(e, 6), ror(e, 11), ror(e, 25)) + bxor(band(e, f), band(bnot(e), g)) + K[i] + w[i])
      local second = tobit(bxor(ror(a, 2), ror(a, 13), ror(a, 22)) + bxor(band(a, b), band(a, c), band(b, c)))
      a, b, c, d, e, f, g, h = tobit(first + second), a, b, c, tobit(d + first), e, f, g
    end
    for i, value in ipairs({a, b, c, d, e, f, g, h}) do state[i] = tobit(state[i] + value) end
  end
  for i = 1, 8 do state[i] = bit.tohex(state[i]) end
  return table.concat(state)
end

local LONGEST = 512 -- bytes of a key: hashing takes some microseconds for each 64

local function owner(key)
  key = key and key:match("^%s*(.-)%s*$")
  if key == nil or key == "" then return nil, false end
  return #key <= LONGEST and OWNERS[sha256(key)] or nil, true
end

function envoy_on_request(handle)
  local headers, offered = handle:headers(), false
  local authorization = headers:get("authorization") or ""
  local scheme, bearer = authorization:match("^%s*(%S+)%s(.*)$")
  if not scheme or scheme:lower() ~= "bearer" then bearer = nil end
  for _, key in ipairs({bearer or "", headers:get("api-key") or "", headers:get("x-api-key") or ""}) do
    local name, present = owner(key)
    offered = offered or present
    if name then
      headers:replace("x-extproc-client", name)
      local team = name:match("^(.*)/")
      if team then headers:replace("x-extproc-team", team) end
      return
    end
  end
  headers:replace("x-extproc-denied", offered and "wrong_key" or "no_key")
end
