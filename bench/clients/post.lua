-- bench/clients/post.lua — what wrk sends and prints:  wrk … -s post.lua URL -- METHOD BODY-FILE [HEADER VALUE]…
-- One request, made once (by wrk, behind init); one JSON object at the end, behind wrk's own report.

function init(args)
    local file = assert(io.open(args[2], "rb"))

    wrk.method = args[1]
    wrk.body = file:read("*a")
    file:close()
    for i = 3, #args, 2 do
        wrk.headers[args[i]] = args[i + 1]
    end
end

function done(summary, latency, requests)
    local e = summary.errors

    io.write(string.format(
        '\n{"total":%d,"seconds":%.6f,"bytes":%d,"p50_us":%.1f,"p90_us":%.1f,"p99_us":%.1f,' ..
        '"failed":%d,"broken":%d}\n',
        summary.requests, summary.duration / 1e6, summary.bytes, latency:percentile(50),
        latency:percentile(90), latency:percentile(99), e.status, e.connect + e.read + e.write + e.timeout))
end
