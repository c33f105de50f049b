-- Post the bodies of a file, one after another. Arguments: file, kind ("lines" or a size in bytes).
local bodies, position = {}, 0

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  if arguments[2] == "lines" then
    for line in file:lines() do bodies[#bodies + 1] = line end
    wrk.headers["Content-Type"] = "application/json"
  else
    local size = tonumber(arguments[2])
    while true do
      local body = file:read(size)
      if not body then break end
      bodies[#bodies + 1] = body
    end
    wrk.headers["Content-Type"] = "application/octet-stream"
  end
  file:close()
  wrk.method = "POST"
end

function request()
  position = position + 1
  if position > #bodies then position = 1 end
  return wrk.format(nil, nil, nil, bodies[position])
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    "{\"requests\": %d, \"microseconds\": %d, \"refused\": %d, \"broken\": %d}\n",
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
