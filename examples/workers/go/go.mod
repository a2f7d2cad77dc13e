module anyserve/examples/workers/go

go 1.21

require google.golang.org/protobuf v1.34.2
