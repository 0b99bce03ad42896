-- What wrk sends: wrk -s load.lua URL -- BODY KIND NUMBER CONVERSATION CONVERSATIONS
-- BODY is a template (bodies.py). KIND says what is new in each request: "first": everything, the conversation was
-- never seen; "tenth": the last message, of so many conversations in turn, which are numbered from CONVERSATION on.
-- Each request has a number of its own, the first of them NUMBER + 1.
-- At the end it prints what it found as one line of JSON; times in microseconds.

local pieces, kind, number, heads, at = {}, nil, 0, {}, 0

local function split(text, mark)
  local found, from = {}, 1
  while true do
    local first, last = text:find(mark, from, true)
    if not first then
      found[#found + 1] = text:sub(from)
      return found
    end
    found[#found + 1] = text:sub(from, first - 1)
    from = last + 1
  end
end

local function digits(n)
  return string.format("%08d", n)
end

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  local text = file:read("*a")
  file:close()
  kind, number = arguments[2], tonumber(arguments[3])
  local whole = text:gsub("@conversation@", digits(0)):gsub("@request@", digits(0))
  local head = "POST " .. wrk.path .. " HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: "
    .. #whole .. "\r\n\r\n"
  if kind == "first" then
    pieces = split(head .. text:gsub("@request@", digits(0)), "@conversation@")
  else
    for conversation = 0, tonumber(arguments[5]) - 1 do
      local filled = text:gsub("@conversation@", digits(tonumber(arguments[4]) + conversation))
      heads[#heads + 1] = split(head .. filled, "@request@")
    end
  end
end

function request()
  number = number + 1
  if kind == "first" then
    return table.concat(pieces, digits(number))
  end
  at = at % #heads + 1
  return table.concat(heads[at], digits(number))
end

function done(summary, latency, requests)
  local failed = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "p50": %.1f, "p99": %.1f, "p99_9": %.1f, "failed": %d, "refused": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    failed.connect + failed.read + failed.write + failed.timeout, failed.status))
end
