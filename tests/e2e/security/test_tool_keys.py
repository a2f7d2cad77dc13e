"""`anyserve infer` and `anyserve bench` send an API key: of --api-key-file, or of the environment."""

import functools
import os
import subprocess

import pytest

from support import paths
from support.tool import bench, infer_json, listening, outputs, run

pytestmark = pytest.mark.core
INPUTS = ["--input", "a=1,2", "--input", "b=10,20"]
WRONG = "as_" + "A" * 43
PROTOCOLS = ["grpc", "http", "http-binary"]
NO_KEY = {k: v for k, v in os.environ.items() if k != "ANYSERVE_API_KEY"}
UNAUTHENTICATED, RESOURCE_EXHAUSTED = 116, 108


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("keys") / "keys"


@pytest.fixture(scope="module")
def key(file):
    done = subprocess.run([paths.BINARY, "keys", "add", "me", "--file", file], capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout.strip()


@pytest.fixture(scope="module")
def key_file(key, tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "key"
    path.write_text(key + "\n")
    return path


@pytest.fixture(scope="module")
def server(serve_module, file, key):
    return serve_module("echo.py", "--api-keys", file)


@pytest.fixture
def tool(server):
    return functools.partial(run, server, env=NO_KEY)


def with_key(value):
    return {**NO_KEY, "ANYSERVE_API_KEY": value}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_infer(tool, key, key_file, protocol):
    args = ["add", *INPUTS, "--protocol", protocol]
    assert outputs(infer_json(tool, *args, "--api-key-file", key_file))["sum"]["data"] == [11, 22]
    assert outputs(infer_json(tool, *args, env=with_key(key)))["sum"]["data"] == [11, 22]
    assert "this server needs an API key" in tool("infer", *args, code=UNAUTHENTICATED).err
    refused = tool("infer", *args, code=UNAUTHENTICATED, env=with_key(WRONG))
    assert "the API key is not valid" in refused.err and WRONG not in refused.out + refused.err


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bench(tool, key, key_file, protocol):
    args = ["add", *INPUTS, "--protocol", protocol, "--requests", 50, "--warmup", "off"]
    assert bench(tool, *args, "--api-key-file", key_file)["ok"] == 50
    result = tool("bench", *args, "--json", env=with_key(key))
    assert '"ok":50' in result.out.replace(" ", "") and key not in result.out + result.err
    assert "this server needs an API key" in tool("bench", *args, code=UNAUTHENTICATED).err


def test_the_file_counts_more_than_the_environment(tool, key_file):
    assert infer_json(tool, "add", *INPUTS, "--api-key-file", key_file, env=with_key(WRONG))
    assert infer_json(tool, "add", *INPUTS, "--api-key-file", key_file, env=with_key("a b"))


def test_the_key_is_not_on_a_command_line(tool, key):
    assert "unknown option" in tool("infer", "add", *INPUTS, "--api-key", key, code=2).err


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_end_of_the_line(tool, key, tmp_path, end):
    path = tmp_path / "key"
    path.write_bytes(key.encode() + end)
    assert infer_json(tool, "add", *INPUTS, "--api-key-file", path)


def test_a_pipe(server, key):
    done = subprocess.run(["bash", "-c", 'exec "$0" infer add --input a=1 --input b=2 --runtime-dir "$1" --api-key-file <(cat)',
                           paths.BINARY, server.runtime], input=key + "\n", capture_output=True, text=True, env=NO_KEY)
    assert done.returncode == 0, done


def sent(tool, *args, env):
    """The head of the request that arrives."""
    heads = []

    def answer(c):
        received = b""
        while b"\r\n\r\n" not in received:
            received += c.recv(65536)
        heads.append(received.decode())
        c.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with listening() as listen:
        tool("infer", "add", "--url", f"127.0.0.1:{listen(answer)}", "--protocol", "http", "--input", "a:INT8=1", *args, code=103,
             env=env, runtime=False)
    return [line for line in heads[0].split("\r\n") if line.split(":")[0].lower() in ("authorization", "x-api-key")]


def test_the_field(tool, key_file, key):
    file = ["--api-key-file", key_file]
    assert sent(tool, *file, env=NO_KEY) == [f"authorization: Bearer {key}"]
    assert sent(tool, env=with_key("x")) == ["authorization: Bearer x"]
    assert sent(tool, env=with_key("")) == sent(tool, env=NO_KEY) == []
    own = ["--metadata", "authorization=Basic eDp5"]
    assert sent(tool, *file, *own, env=NO_KEY) == ["authorization: Basic eDp5", f"x-api-key: {key}"]
    assert sent(tool, "--metadata", "x-api-key=y", env=with_key("x")) == ["x-api-key: y"]
    done = tool("infer", "add", *INPUTS, *file, "--metadata", "x-api-key=y", code=2)
    assert "--api-key-file and --metadata x-api-key=… cannot be used together" in done.err


def test_the_largest_key(tool, tmp_path):
    path = tmp_path / "key"
    for end in "", "\n", "\r\n":
        path.write_text("x" * 1024 + end)
        assert sent(tool, "--api-key-file", path, env=NO_KEY) == ["authorization: Bearer " + "x" * 1024]
        path.write_text("x" * 1025 + end)
        assert "has more than 1024 bytes" in tool("infer", "add", *INPUTS, "--api-key-file", path, code=2).err


@pytest.mark.parametrize("content, text", [
    (b"", "is empty"), (b"\n", "is empty"), (b"\r\n", "is empty"), (b"SECRET\nSECRET\n", "has more than one line"),
    (b"SECRET\n\n", "has more than one line"), (b"\nSECRET", "has more than one line"), (b"SECRET SECRET\n", "no API key has"),
    (b"SECRET\0", "no API key has"), (b"SECRET\r\r\n", "no API key has"), ("SECRETü".encode(), "no API key has"),
    (b"\x7fSECRET", "no API key has"), (b"SECRET" * 100000, "has more than 1024 bytes"),
])
@pytest.mark.parametrize("command", ["infer", "bench"])
def test_files_that_cannot_be_used(tool, tmp_path, content, text, command):
    path = tmp_path / "key"
    path.write_bytes(content)
    done = tool(command, "add", *INPUTS, "--api-key-file", path, code=2)
    assert f"--api-key-file: {path} " in done.err and text in done.err and "SECRET" not in done.out + done.err


def test_files_that_cannot_be_read(tool, tmp_path):
    assert f"--api-key-file: {tmp_path}/no: No such file" in tool("infer", "add", "--api-key-file", tmp_path / "no", code=2).err
    assert f"--api-key-file: {tmp_path}: Is a directory" in tool("infer", "add", "--api-key-file", tmp_path, code=2).err


@pytest.mark.parametrize("value, text", [("a b", "has a byte that no API key has"), ("a\nb", "has more than one line"),
                                         ("ü", "has a byte that no API key has"),
                                         ("x" * 1025, "has more than 1024 bytes")])
def test_a_variable_that_cannot_be_used(tool, value, text):
    err = tool("infer", "add", *INPUTS, code=2, env=with_key(value)).err
    assert "the environment's ANYSERVE_API_KEY " + text in err


def test_too_much_metadata(tool, key_file):
    def most(n):
        return [a for i in range(n) for a in ("--metadata", f"x-{i}=y")]

    n = next(n for n in range(1, 300) if "too many metadata entries" in
             subprocess.run([paths.BINARY, "infer", "add", "--url", "127.0.0.1:1", *INPUTS, *most(n)], capture_output=True,
                            text=True, env=NO_KEY).stderr) - 1
    assert "there is no room for the API key" in tool("infer", "add", *INPUTS, *most(n), "--api-key-file", key_file, code=2).err
    done = tool("infer", "add", *INPUTS, *most(n - 1), "--api-key-file", key_file, code=RESOURCE_EXHAUSTED)
    assert "--max-headers" in done.err  # the server's limit
