// A worker of the simple protocol in Go; docs/guide/workers.md explains it.
//
//	go generate && go build -o worker .          (needs protoc; makes the package oip)
//	./worker MANAGEMENT SOCKET
//
// MANAGEMENT is the server's management.sock, or HOST:PORT with the token in ANYSERVE_TOKEN. SOCKET is ours, below the
// server's --worker-socket-dir.
package main

//go:generate go build -o oip/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go
//go:generate protoc -I ../../../proto --plugin=oip/protoc-gen-go --go_out=oip --go_opt=paths=source_relative --go_opt=Mopen_inference.proto=anyserve/examples/workers/go/oip open_inference.proto

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"anyserve/examples/workers/go/oip"
	"google.golang.org/protobuf/proto"
)

type object = map[string]any

// What the caller did wrong.
type inputError string

func (e inputError) Error() string { return string(e) }

var (
	models    = []string{"echo", "add"}
	signature = object{
		"inputs":  []object{floats("a"), floats("b")},
		"outputs": []object{floats("sum")},
	}
)

func floats(name string) object {
	return object{"name": name, "datatype": "FP32", "shape": []int{-1}}
}

// --- the model ---

func infer(request *oip.ModelInferRequest, answer *oip.ModelInferResponse) error {
	output := func(name, datatype string, shape []int64, data []byte) {
		answer.Outputs = append(answer.Outputs,
			&oip.ModelInferResponse_InferOutputTensor{Name: name, Datatype: datatype, Shape: shape})
		answer.RawOutputContents = append(answer.RawOutputContents, data)
	}
	inputs := map[string][]byte{}
	for i, tensor := range request.Inputs {
		inputs[tensor.Name] = request.RawInputContents[i]
		if request.ModelName == "echo" {
			output(tensor.Name, tensor.Datatype, tensor.Shape, inputs[tensor.Name])
		}
	}
	if request.ModelName == "echo" {
		return nil
	}
	a, b := inputs["a"], inputs["b"]
	if len(a) != len(b) {
		return inputError("a and b have different lengths")
	}
	sum := make([]byte, len(a))
	for i := 0; i < len(a); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(a[i:])) + math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
		binary.LittleEndian.PutUint32(sum[i:], math.Float32bits(x))
	}
	output("sum", "FP32", []int64{int64(len(a) / 4)}, sum)
	return nil
}

// An error is an answer without outputs that says what went wrong.
func refuse(answer *oip.ModelInferResponse, err error) {
	code := "INTERNAL"
	if errors.As(err, new(inputError)) {
		code = "INVALID_ARGUMENT"
	}
	text := func(s string) *oip.InferParameter {
		return &oip.InferParameter{ParameterChoice: &oip.InferParameter_StringParam{StringParam: s}}
	}
	answer.Outputs, answer.RawOutputContents = nil, nil
	answer.Parameters = map[string]*oip.InferParameter{
		"anyserve_error": text(code), "anyserve_error_message": text(err.Error())}
}

// --- the protocol ---

// One request on a connection, and its answer.
func exchange(connection net.Conn) error {
	var length uint32
	if err := binary.Read(connection, binary.BigEndian, &length); err != nil {
		return err
	}
	data := make([]byte, length, length+4)
	if _, err := io.ReadFull(connection, data); err != nil {
		return err
	}
	var request oip.ModelInferRequest
	if err := proto.Unmarshal(data, &request); err != nil {
		return err
	}
	answer := &oip.ModelInferResponse{ModelName: request.ModelName, Id: request.Id} // the id: always
	if err := infer(&request, answer); err != nil {
		refuse(answer, err)
	}
	frame, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 4), answer)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	_, err = connection.Write(frame)
	return err
}

// Until the server closes the connection, which may be in the middle of a request.
func serve(connection net.Conn) {
	defer connection.Close()
	for {
		if err := exchange(connection); err != nil {
			if err != io.EOF {
				log.Print(err)
			}
			return
		}
	}
}

// --- coming and going ---

type management struct {
	client *http.Client
	url    string
}

func newManagement(where string) *management {
	if !strings.HasPrefix(where, "/") {
		return &management{&http.Client{}, "http://" + where}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", where)
	}
	return &management{&http.Client{Transport: &http.Transport{DialContext: dial}}, "http://localhost"}
}

func (m *management) call(rpc string, body object) (object, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest("POST", m.url+"/anyserve.WorkerManagement/"+rpc, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("ANYSERVE_TOKEN"))
	response, err := m.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := object{}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %v", rpc, answer["error"])
	}
	return answer, nil
}

func (m *management) register(worker, socket string) (beat time.Duration, err error) {
	for _, name := range models {
		offer := object{"worker_id": worker, "worker_address": "unix://" + socket, "model_name": name,
			"options": object{"max_ongoing_requests": 4, "idempotent": true}}
		if name == "add" {
			offer["signature"] = signature
		}
		answer, err := m.call("RegisterModel", offer)
		if err != nil {
			return 0, err
		}
		interval, _ := answer["heartbeatIntervalMs"].(float64)
		beat = time.Duration(interval) * time.Millisecond
	}
	if beat == 0 {
		beat = 5 * time.Second
	}
	log.Print("registered")
	return beat, nil
}

// Registers, says that we live, and registers again when the server does not know us (any more).
func (m *management) stay(worker, socket string, stop <-chan os.Signal) {
	known, beat := false, time.Second
	for {
		var err error
		if !known {
			beat, err = m.register(worker, socket)
		}
		pause := time.Second // the server is away, or says no
		if err == nil {
			var answer object
			answer, err = m.call("Heartbeat", object{"worker_id": worker})
			known = err == nil && answer["healthy"] == true
			if known {
				pause = beat
			} else if err == nil {
				pause = 100 * time.Millisecond
			}
		}
		if err != nil {
			log.Print(err)
		}
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: worker MANAGEMENT SOCKET")
	}
	socket := os.Args[2]
	worker := strings.TrimSuffix(filepath.Base(socket), filepath.Ext(socket))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)

	os.Remove(socket) // of a predecessor that was killed
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	var connections sync.WaitGroup
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() { defer connections.Done(); serve(connection) }()
		}
	}()

	m := newManagement(os.Args[1])
	m.stay(worker, socket, stop)
	for _, name := range models {
		if _, err := m.call("UnregisterModel", object{"worker_id": worker, "model_name": name}); err != nil {
			log.Print(err)
		}
	}
	listener.Close()
	connections.Wait() // what is under way is finished; then the server closes its connections
}
