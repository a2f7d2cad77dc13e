//go:build tools

package tools

import (
	_ "github.com/bojand/ghz/cmd/ghz"
	_ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
	_ "github.com/summerwind/h2spec/cmd/h2spec"
	_ "google.golang.org/grpc/interop/client"
)
