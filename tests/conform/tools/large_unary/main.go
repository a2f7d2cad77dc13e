// large_unary: many concurrent large_unary calls of grpc.testing.TestService on one channel.
//
//	large_unary -address HOST:PORT [-calls 1000] [-timeout 60s]
//
// All calls are begun before any is awaited. The channel is one HTTP/2 connection; what the server's
// limit of streams does not let through waits in the client. Prints one line of figures; exit code 1
// if a call failed or had a wrong answer.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// The sizes of the large_unary case.
const requestSize, responseSize = 271828, 314159

func call(ctx context.Context, client testgrpc.TestServiceClient, request *testpb.SimpleRequest) error {
	response, err := client.UnaryCall(ctx, request)
	if err != nil {
		return err
	}
	if n := len(response.GetPayload().GetBody()); n != responseSize {
		return fmt.Errorf("the response has %d bytes, not %d", n, responseSize)
	}
	return nil
}

func main() {
	address := flag.String("address", "", "HOST:PORT of the service")
	calls := flag.Int("calls", 1000, "concurrent calls")
	timeout := flag.Duration("timeout", time.Minute, "for all of it")
	flag.Parse()

	conn, err := grpc.NewClient(*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer conn.Close()
	client := testgrpc.NewTestServiceClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	request := &testpb.SimpleRequest{
		ResponseSize: responseSize,
		Payload:      &testpb.Payload{Body: make([]byte, requestSize)},
	}

	var failed atomic.Int64
	var first atomic.Value
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := 0; i < *calls; i++ {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			if err := call(ctx, client, request); err != nil {
				failed.Add(1)
				first.CompareAndSwap(nil, err.Error())
			}
		}()
	}
	ready.Wait()
	begin := time.Now()
	close(start)
	done.Wait()
	fmt.Printf("calls=%d failed=%d seconds=%.2f\n", *calls, failed.Load(), time.Since(begin).Seconds())
	if failed.Load() > 0 {
		fmt.Fprintln(os.Stderr, "first error:", first.Load())
		os.Exit(1)
	}
}
