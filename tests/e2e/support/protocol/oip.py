"""A client of the Open Inference Protocol: grpcio, and messages made at run time from our .proto file.

The messages live in a descriptor pool of their own, because tritonclient brings others of the same names.
"""

import dataclasses
import functools
import tempfile
from pathlib import Path

import grpc
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from .. import paths

SERVICE = "inference.GRPCInferenceService"
SECONDS = 30
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
             ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
# As grpcio makes a channel: what it gave to a connection that reads GOAWAY, and never wrote, goes to the next one.
TRANSPARENT = [("grpc.enable_retries", 1)]
DTYPES = {"BOOL": "?", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8", "INT8": "i1", "INT16": "i2",
          "INT32": "i4", "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8"}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


@functools.cache
def messages():
    """Name → message class."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "set")
        code = protoc.main(["", f"-I{paths.PROTO.parent}", f"--descriptor_set_out={out}", paths.PROTO.name])
        assert code == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    for f in files:
        pool.AddSerializedFile(f.SerializeToString())
    found = message_factory.GetMessageClassesForFiles([f.name for f in files], pool)
    return {name.removeprefix("inference."): cls for name, cls in found.items()}


def message(type_name, /, **fields):
    return messages()[type_name](**fields)


# --- arrays and tensors ---

def bfloat16():
    import ml_dtypes
    return np.dtype(ml_dtypes.bfloat16)


def datatype_of(array):
    if array.dtype == object:
        return "BYTES"
    return NAMES.get(array.dtype) or "BF16"


def pack_bytes(values):
    return b"".join(len(v).to_bytes(4, "little") + v for v in values)


def unpack_bytes(raw):
    values, at = [], 0
    while at < len(raw):
        n = int.from_bytes(raw[at:at + 4], "little")
        values.append(raw[at + 4:at + 4 + n])
        at += 4 + n
    return values


def raw_of(array):
    return pack_bytes(array.ravel()) if array.dtype == object else array.tobytes()


def array_of(datatype, shape, raw):
    if datatype == "BYTES":
        flat = np.empty(int(np.prod(shape)), object)
        flat[:] = unpack_bytes(raw)
        return flat.reshape(shape)
    return np.frombuffer(raw, bfloat16() if datatype == "BF16" else DTYPES[datatype]).reshape(shape)


def bytes_array(values, shape=None):
    a = np.empty(len(values), object)
    a[:] = values
    return a.reshape(shape if shape is not None else len(values))


def set_parameter(target, key, value):
    kind = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}[type(value)]
    setattr(target[key], kind, value)


def parameters_of(fields):
    return {k: getattr(p, p.WhichOneof("parameter_choice")) for k, p in fields.items()}


def infer_request(model, inputs, version="", id="", parameters=None, outputs=()):
    """A ModelInferRequest with raw contents; `inputs`: name → array."""
    q = message("ModelInferRequest", model_name=model, model_version=version, id=id)
    for name, array in inputs.items():
        array = np.asarray(array)
        q.inputs.add(name=name, datatype=datatype_of(array), shape=array.shape)
        q.raw_input_contents.append(raw_of(array))
    for key, value in (parameters or {}).items():
        set_parameter(q.parameters, key, value)
    for name in outputs:
        q.outputs.add(name=name)
    return q


@dataclasses.dataclass
class Answer:
    message: object

    @property
    def outputs(self):
        """Name → array, in the order of the message."""
        assert len(self.message.outputs) == len(self.message.raw_output_contents)
        return {o.name: array_of(o.datatype, tuple(o.shape), raw)
                for o, raw in zip(self.message.outputs, self.message.raw_output_contents)}

    @property
    def parameters(self):
        return parameters_of(self.message.parameters)

    def __getitem__(self, name):
        return self.outputs[name]


def trailers_of(error):
    return {k: v for k, v in (error.trailing_metadata() or ())}


# --- the client ---

class Client:
    """One connection; closed by the fixture."""

    def __init__(self, address, options=()):
        self.channel = grpc.insecure_channel(address, list({**dict(UNLIMITED), **dict(options)}.items()))
        self._calls = {}

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def method(self, name):
        if name not in self._calls:
            self._calls[name] = self.channel.unary_unary(
                f"/{SERVICE}/{name}", request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=messages()[f"{name}Response"].FromString)
        return self._calls[name]

    def call(self, name, request=None, timeout=SECONDS, **kwargs):
        request = messages()[f"{name}Request"]() if request is None else request
        return self.method(name)(request, timeout=timeout, **kwargs)

    def begin(self, model, inputs, timeout=SECONDS, metadata=None, **fields):
        """A ModelInfer under way: a grpc future."""
        return self.method("ModelInfer").future(infer_request(model, inputs, **fields), timeout=timeout,
                                                metadata=metadata)

    def infer(self, model, inputs, timeout=SECONDS, metadata=None, **fields):
        return Answer(self.call("ModelInfer", infer_request(model, inputs, **fields), timeout, metadata=metadata))

    def raw(self, body, method="ModelInfer", timeout=SECONDS, metadata=None):
        """Any bytes as the request message, the answer's bytes back."""
        call = self.channel.unary_unary(f"/{SERVICE}/{method}", request_serializer=None, response_deserializer=None)
        return call(body, timeout=timeout, metadata=metadata)

    def refused(self, *args, send=None, **kwargs):
        """The RpcError that infer (or `send`) must end in."""
        try:
            answer = (send or self.infer)(*args, **kwargs)
        except grpc.RpcError as error:
            return error
        raise AssertionError(f"was answered: {answer}")
