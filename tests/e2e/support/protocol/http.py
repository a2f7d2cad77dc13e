"""Plain HTTP requests, over HTTP/1.1 and HTTP/2 alike, and bodies of the inference protocol's REST form."""

import dataclasses
import http.client
import json
import socket

import numpy as np

from .. import wait
from . import h2client, oip

JSON_LENGTH = "inference-header-content-length"


class Unix(http.client.HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=wait.SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(wait.SECONDS)
        self.sock.connect(self.path)


@dataclasses.dataclass
class Reply:
    status: int
    headers: dict  # names in lower case
    data: bytes

    def json(self):
        return json.loads(self.data)

    @property
    def error(self):
        """The text of an error; it is all that its body has."""
        assert self.headers["content-type"] == "application/json"
        found = self.json()
        assert list(found) == ["error"], found
        return found["error"]


class Http1:
    def __init__(self, host, port):
        self.conn = http.client.HTTPConnection(host, port, timeout=wait.SECONDS)

    def close(self):
        self.conn.close()

    def request(self, method, path, body=None, headers=()):
        # putrequest: a header may be given twice, and nothing is added
        self.conn.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers:
            self.conn.putheader(name, value)
        if body is not None and "content-length" not in dict(headers):
            self.conn.putheader("content-length", str(len(body)))
        self.conn.endheaders(body)
        got = self.conn.getresponse()
        return Reply(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())


class Http2:
    def __init__(self, host, port):
        self.conn = h2client.H2(host, port)

    def close(self):
        self.conn.sock.close()

    def request(self, method, path, body=None, headers=()):
        headers = [(k.lower(), v) for k, v in headers]
        if body is not None and "content-length" not in dict(headers):
            headers.append(("content-length", str(len(body))))
        got = self.conn.request(method, path, headers, body)
        return Reply(int(got.headers[":status"]), got.headers, got.data)


CLIENTS = {"h1": Http1, "h2": Http2}


# --- tensors ---

def json_of(array):
    """Elements as JSON has them: texts for BYTES."""
    if array.dtype == object:
        return np.vectorize(lambda v: v.decode(), otypes=[object])(array).tolist() if array.size else array.tolist()
    if oip.datatype_of(array) == "BF16" or array.dtype == np.float16:
        return array.astype(np.float32).tolist()
    return array.tolist()


def tensor(name, array, **more):
    return {"name": name, "datatype": oip.datatype_of(array), "shape": list(array.shape), **more}


def infer_json(inputs, **fields):
    """The body of an infer request, all in JSON."""
    return json.dumps({"inputs": [tensor(k, a, data=json_of(a)) for k, a in inputs.items()], **fields}).encode()


def infer_binary(inputs, **fields):
    """(headers, body): inputs as bytes behind the JSON; outputs likewise, unless `fields` ask otherwise."""
    raws = [oip.raw_of(a) for a in inputs.values()]
    head = {"inputs": [tensor(k, a, parameters={"binary_data_size": len(raw)})
                       for (k, a), raw in zip(inputs.items(), raws)],
            "parameters": {"binary_data_output": True}, **fields}
    text = json.dumps(head).encode()
    return [(JSON_LENGTH, str(len(text)))], text + b"".join(raws)


def outputs_of(reply):
    """Name → array of an answer, whichever way each travels."""
    length = int(reply.headers.get(JSON_LENGTH, len(reply.data)))
    found, at = {}, length
    for o in json.loads(reply.data[:length])["outputs"]:
        size = o.get("parameters", {}).get("binary_data_size")
        if size is not None:
            assert "data" not in o
            raw, at = reply.data[at:at + size], at + size
        elif o["datatype"] == "BYTES":
            raw = oip.pack_bytes([v.encode() for v in o["data"]])
        else:
            dtype = oip.bfloat16() if o["datatype"] == "BF16" else oip.DTYPES[o["datatype"]]
            raw = np.array(o["data"], dtype).tobytes()
        found[o["name"]] = oip.array_of(o["datatype"], tuple(o["shape"]), raw)
    assert at == len(reply.data)
    return found
