// bench/baselines/grpc_cpp_echo.cc — an echo on gRPC C++'s asynchronous generic service.  grpc_cpp_echo PORT
//
// The fastest server that gRPC C++ offers: no generated code, no protobuf, the bytes that came in
// go out again. One thread drives one completion queue. What is customary for speed is done: calls
// are asked for ahead, their memory is reused, and message, status and trailers leave in one
// operation. Channel arguments were tried (optimization target, minimal stack, no BDP probe): none
// made a difference that could be measured.
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace
{

// As many as the benchmark ever has in flight. 16 to 128 are equally fast; 1024 cost a quarter, for
// each call's memory is then cold when its turn comes.
constexpr int calls_ahead = 128;

struct Service {
    grpc::AsyncGenericService generic;
    std::unique_ptr<grpc::ServerCompletionQueue> queue;
};

// One call after another in the same memory: asked for, then read, then answered.
class Call
{
  public:
    explicit Call(Service &s) : service(s)
    {
        ask();
    }

    // The next step; `ok` is false when the client is gone.
    void step(bool ok)
    {
        switch (state) {
        case State::asked:
            if (!ok)
                return; // the server ends
            state = State::reading;
            stream->Read(&message, this);
            break;
        case State::reading:
            state = State::answering;
            if (ok)
                stream->WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK, this);
            else
                stream->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no message"),
                               this);
            break;
        case State::answering:
            ask();
            break;
        }
    }

  private:
    enum class State { asked, reading, answering };

    void ask()
    {
        state = State::asked;
        message.Clear();
        stream.reset();
        context.emplace();
        stream.emplace(&*context);
        service.generic.RequestCall(&*context, &*stream, service.queue.get(), service.queue.get(),
                                    this);
    }

    Service &service;
    State state = State::asked;
    grpc::ByteBuffer message;
    std::optional<grpc::GenericServerContext> context;
    std::optional<grpc::GenericServerAsyncReaderWriter> stream;
};

} // namespace

int main(int argc, char **argv)
{
    Service service;
    grpc::ServerBuilder builder;
    int port = 0;

    std::signal(SIGTERM, [](int) { std::_Exit(0); });
    builder.AddListeningPort(std::string("127.0.0.1:") + (argc > 1 ? argv[1] : "0"),
                             grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterAsyncGenericService(&service.generic);
    service.queue = builder.AddCompletionQueue();

    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server || !port) {
        std::fprintf(stderr, "grpc_cpp_echo: cannot listen\n");
        return 1;
    }
    std::printf("port %d\n", port);
    std::fflush(stdout);

    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < calls_ahead; i++)
        calls.push_back(std::make_unique<Call>(service));

    void *tag = nullptr;
    bool ok = false;
    while (service.queue->Next(&tag, &ok))
        static_cast<Call *>(tag)->step(ok);
    return 0;
}
