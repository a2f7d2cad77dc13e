"""The load client, which is `anyserve bench`: what its requests are, and whether the first answer is right.

    bench/client.py PORT MODEL INPUTS PAYLOAD {last,sum}

makes one call with grpcio and compares every byte of the tensor that must come back: the last input, or the sum of
both. All other answers are compared with a first one by the load client itself (--same-answers).
"""

import struct
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

METHOD = "/inference.GRPCInferenceService/ModelInfer"
FOLDER = tempfile.TemporaryDirectory(prefix="anyserve-bench-tensors-")


def varint(n):
    return bytes([n]) if n < 0x80 else bytes([n & 0x7F | 0x80]) + varint(n >> 7)


def field(number, data):
    return bytes([number << 3 | 2]) + varint(len(data)) + data


@dataclass(frozen=True)
class Call:
    """One ModelInfer with FP32 tensors of `payload` bytes: "x" [1, n], or "a" and "b" [n]."""
    model: str = "echo"
    inputs: tuple = ("x",)
    payload: int = 128

    def shape(self):
        return [1, self.payload // 4] if len(self.inputs) == 1 else [self.payload // 4]

    def arguments(self):
        """Of the command line of `anyserve bench`."""
        shape = ",".join(map(str, self.shape()))
        return [self.model, *(part for name in self.inputs
                              for part in ("--input", f"{name}:FP32:[{shape}]=@raw:{tensor_file(name, self.payload)}"))]

    def message(self):
        """The same request as a protobuf message."""
        shape = b"".join(map(varint, self.shape()))
        tensors = [field(1, name.encode()) + field(2, b"FP32") + field(3, shape) for name in self.inputs]
        return (field(1, self.model.encode()) + b"".join(field(5, t) for t in tensors)
                + b"".join(field(7, tensor(name, self.payload)) for name in self.inputs))

    def answer(self, is_sum):
        """The tensor that must come back."""
        if not is_sum:
            return tensor(self.inputs[-1], self.payload)
        a, b = (struct.unpack(f"{self.payload // 4}f", tensor(name, self.payload)) for name in self.inputs)
        return struct.pack(f"{len(a)}f", *(x + y for x, y in zip(a, b)))


@cache
def tensor(name, size):
    """x: any bytes, without a period of 2^k, so that a shifted or repeated block would show. a, b: small whole numbers,
    so that sums are exact."""
    if name == "x":
        return bytes((i * 131 + (i >> 8)) & 0xFF for i in range(size))
    return struct.pack(f"{size // 4}f", *(i * (1 if name == "a" else 7) % 1000 for i in range(size // 4)))


def tensor_file(name, size):
    path = Path(FOLDER.name) / f"{name}-{size}"
    if not path.exists():
        path.write_bytes(tensor(name, size))
    return path


def command(build, port, call, *arguments):
    """The load client's command line: every answer must be like the first one, the result is JSON."""
    return list(map(str, [build / "src/app/anyserve", "bench", *call.arguments(), "--url", f"127.0.0.1:{port}", "--json",
                          "--same-answers", *arguments]))


def check(port, call, is_sum):
    """Ends with an error if the server's answer is not the right one."""
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.max_receive_message_length", -1)]) as channel:
        got = channel.unary_unary(METHOD)(call.message(), timeout=10)
    if not got.endswith(call.answer(is_sum)):
        sys.exit(f"the tensor that came back is not the right one: {got[:300]}")


if __name__ == "__main__":
    check(sys.argv[1], Call(sys.argv[2], tuple(sys.argv[3].split(",")), int(sys.argv[4])), sys.argv[5] == "sum")
