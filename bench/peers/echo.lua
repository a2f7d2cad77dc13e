-- wrk: a body of args[1] bytes, which must come back. The last line it prints is JSON.
local threads = {}

function setup(thread)
   table.insert(threads, thread)
end

function init(args)
   wrk.method = "POST"
   wrk.body = string.rep("0123456789", math.ceil(tonumber(args[1]) / 10)):sub(1, tonumber(args[1]))
   wrk.headers["Content-Type"] = "application/octet-stream"
   wrong = 0
end

function response(status, headers, body)
   if status ~= 200 or body ~= wrk.body then
      wrong = wrong + 1
   end
end

function done(summary, latency, requests)
   local e, n = summary.errors, 0
   for _, thread in ipairs(threads) do
      n = n + thread:get("wrong")
   end
   io.write(string.format('{"requests": %d, "seconds": %.6f, "p50": %.4f, "p99": %.4f, "wrong": %d, "broken": %d}\n',
      summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000, n,
      e.connect + e.read + e.write + e.timeout))
end
