"""libanyserve-worker as a user has it: installed, found by pkg-config, linked by C and C++, loaded through FFI; and
the worker of examples/c-worker at a real server, killed, drained, and left alone by it."""

import concurrent.futures
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys

import grpc
import numpy as np
import pytest

from support import paths, ports, wait
from support.load import Load
from support.process import procs
from support.process.server import Log
from support.protocol import oip

pytestmark = pytest.mark.core

# A program that loads a sanitized library is sanitized itself.
SANITIZE = [f"-fsanitize={paths.SANITIZERS}"] if paths.SANITIZED else []
plain = pytest.mark.skipif(paths.SANITIZED, reason="a plain program does not load a sanitized library")

EXAMPLE = paths.ROOT / "examples/c-worker"
HEADERS = paths.ROOT / "include/anyserve"
OPTIONS = ("--worker-grace", "20s", "--ping-interval", "200ms")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The environment of a user who installed it below a folder; LIB is where the library lies."""
    root = tmp_path_factory.mktemp("install")
    meson = shutil.which("meson") or os.path.join(os.path.dirname(sys.executable), "meson")
    subprocess.run([meson, "install", "-C", paths.BUILD, "--no-rebuild", "--quiet", "--destdir", root], check=True)
    (found,) = root.rglob("anyserve-worker.pc")
    return {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(root), "PKG_CONFIG_PATH": str(found.parent),
            "LD_LIBRARY_PATH": str(found.parent.parent), "LIB": str(found.parent.parent)}


@pytest.fixture(scope="module")
def program(installed, tmp_path_factory):
    """The example, built by its own Makefile; `caller` lies beside it."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    flags = " ".join(["-std=c99 -pedantic -O1 -Wall -Wextra -Werror", *SANITIZE])
    subprocess.run(["make", "-s", "-C", folder, f"CFLAGS={flags}"], env=installed, check=True)
    return folder / "worker"


# --- the library ---

def declared():
    text = "".join((HEADERS / name).read_text() for name in ("types.h", "worker.h", "calls.h", "http.h", "policy.h", "websocket.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return set(re.findall(r"^[\w \*]*?\b\*?(as_\w+)\(", text, re.M))


def test_what_is_declared_is_exported_and_nothing_else(installed):
    library = os.path.join(installed["LIB"], "libanyserve-worker.so.0")
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in lines.splitlines() if " T " in line}
    assert exported == declared()
    assert len(exported) > 50


def test_the_static_one_defines_nothing_else_either(installed):
    library = os.path.join(installed["LIB"], "libanyserve-worker.a")
    lines = subprocess.run(["nm", "--extern-only", "--defined-only", library], check=True, capture_output=True,
                           text=True).stdout
    assert {line.split()[-1] for line in lines.splitlines() if re.match(r"[0-9a-f]+ ", line)} == declared()


@plain
def test_it_needs_the_c_library_only(installed):
    library = os.path.join(installed["LIB"], "libanyserve-worker.so.0")
    text = subprocess.run(["objdump", "-p", library], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"NEEDED\s+(\S+)", text))
    assert needed <= {"libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert re.search(r"SONAME\s+libanyserve-worker.so.0$", text, re.M)


@pytest.mark.parametrize("compiler, suffix, options", [
    ("cc", "c", ["-std=c99", "-pedantic"]), ("c++", "cc", ["-std=c++11", "-pedantic"])])
@pytest.mark.parametrize("static", [False, True])
def test_a_program_compiles_links_and_runs(installed, tmp_path, compiler, suffix, options, static):
    source = tmp_path / f"program.{suffix}"
    source.write_text("""
        #include <anyserve/worker.h>
        #include <string.h>
        int main(void)
        {
            struct as_worker_conf conf;
            struct as_worker *w;
            int err;

            memset(&conf, 0, sizeof(conf));
            conf.size = sizeof(conf);
            conf.path = "/nowhere/link.sock";
            err = as_worker_new(&w, &conf);
            if (err)
                return 1;
            err = as_worker_connect(w, 1000000);
            as_worker_free(w);
            return err == AS_EUNAVAILABLE ? 0 : 2;
        }""")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "anyserve-worker"], env=installed, check=True,
                           capture_output=True, text=True).stdout.split()
    if static:
        flags = [f for f in flags if f.startswith("-I")] + [installed["LIB"] + "/libanyserve-worker.a", "-pthread"]
    subprocess.run([compiler, *options, *SANITIZE, "-Wall", "-Wextra", "-Werror", source, "-o", tmp_path / "program", *flags],
                   env=installed, check=True)
    assert subprocess.run([tmp_path / "program"], env=installed).returncode == 0


@plain
def test_through_ffi(installed, serve, connect):
    """ctypes knows no header: handles, plain structs, callbacks."""
    lib = ctypes.CDLL(os.path.join(installed["LIB"], "libanyserve-worker.so.0"))
    lib.as_worker_call_input.restype = lib.as_worker_call_output.restype = ctypes.c_void_p

    class Str(ctypes.Structure):
        _fields_ = [("p", ctypes.c_char_p), ("n", ctypes.c_size_t)]

    class Tensor(ctypes.Structure):
        _fields_ = [("name", Str), ("dtype", ctypes.c_int), ("ndim", ctypes.c_uint32),
                    ("shape", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p), ("nbytes", ctypes.c_size_t)]

    Handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    class Conf(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("path", ctypes.c_char_p), ("runtime_dir", ctypes.c_char_p),
                    ("port", ctypes.c_uint32), ("rest", ctypes.c_char_p * 20)]

    class Model(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("version", ctypes.c_char_p),
                    ("platform", ctypes.c_char_p), ("max_ongoing", ctypes.c_uint32), ("flags", ctypes.c_bool * 5),
                    ("n_inputs", ctypes.c_uint32), ("n_outputs", ctypes.c_uint32), ("specs", ctypes.c_void_p * 2),
                    ("max_batch", ctypes.c_uint32), ("max_wait", ctypes.c_uint64), ("ragged", ctypes.c_bool),
                    ("n_preferred", ctypes.c_uint32), ("preferred", ctypes.c_uint32 * 16), ("handler", Handler),
                    ("ctx", ctypes.c_void_p)]

    @Handler
    def double(call, ctx):
        x = Tensor.from_address(lib.as_worker_call_input(ctypes.c_void_p(call), b"x"))
        to = lib.as_worker_call_output(ctypes.c_void_p(call), b"y", x.dtype, x.ndim, x.shape)
        values = np.ctypeslib.as_array((ctypes.c_float * (x.nbytes // 4)).from_address(x.data))
        np.ctypeslib.as_array((ctypes.c_float * (x.nbytes // 4)).from_address(to))[:] = 2 * values
        return 0

    server = serve(None, *OPTIONS)
    conf = Conf(size=ctypes.sizeof(Conf), runtime_dir=server.runtime.encode(), port=server.port)
    model = Model(size=ctypes.sizeof(Model), name=b"double", handler=double)
    w = ctypes.c_void_p()
    assert lib.as_worker_new(ctypes.byref(w), ctypes.byref(conf)) == 0
    assert lib.as_worker_add(w, ctypes.byref(model)) == 0
    pool = concurrent.futures.ThreadPoolExecutor(1)  # its thread is the runner
    run = pool.submit(lib.as_worker_run, w)
    wait.until(lambda: server.workers(), "the worker does not join")
    answer = connect(server).infer("double", {"x": np.array([1, 2.5], np.float32)})
    assert answer["y"].tolist() == [2, 5]
    lib.as_worker_stop(w)
    assert run.result(wait.SECONDS) == 0
    pool.submit(lib.as_worker_free, w).result(wait.SECONDS)


# --- the example at a real server ---

class Example:
    """One process of examples/c-worker."""

    def __init__(self, program, installed, server):
        self.process = subprocess.Popen([program, str(server.port), server.runtime], env=installed,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.log = Log(self.process.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.join()

    def end(self, signum):
        self.process.send_signal(signum)
        return self.process.wait(wait.SECONDS)


@pytest.fixture
def server(serve):
    return serve(None, *OPTIONS)


@pytest.fixture
def example(program, installed, server):
    def start():
        return Example(program, installed, server)
    return start


def scale(client, n):
    x = np.arange(n % 7 + 1, dtype=np.float32)
    assert np.array_equal(client.infer("scale", {"x": x}, parameters={"factor": 3})["y"], 3 * x)


def joined(server, n):
    wait.until(lambda: len(server.workers()) == n, lambda: f"not {n}: {server.workers()}")


def test_it_answers_and_refuses(server, client, example):
    with example() as worker:
        joined(server, 1)
        assert server.deployment("scale:1")["ready"] == 1
        scale(client, 6)
        large = np.arange(300_000, dtype=np.float32)
        assert np.array_equal(client.infer("scale", {"x": large})["y"], 2 * large)
        error = client.refused("scale", {"x": large[:3]}, parameters={"factor": "no"})
        assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT,
                                                   "factor must be a number that is not 0")
        assert client.refused("scale", {"z": large[:3]}).code() == grpc.StatusCode.INVALID_ARGUMENT
        assert worker.end(signal.SIGTERM) == 0


@plain
def test_one_that_calls_python(program, installed, serve, connect, tmp_path):
    """caller.c of the example, with the deployment in Python that it calls."""
    server = serve(program.parent / "deployment.yaml", "--state-dir", tmp_path / "state", verb="start",
                   env={"LD_LIBRARY_PATH": installed["LIB"]}, cwd=program.parent)
    client = connect(server)
    for text, words in (b"to be or not to be", 6), (b"", 0), (b"word " * 50_000, 50_000):
        assert client.infer("count", {"text": oip.bytes_array([text])})["words"].tolist() == [words]


def test_killed_under_load_and_started_again(server, example):
    with example():
        joined(server, 1)
        with Load(server.address, scale, 4) as load:
            first = example()
            for _ in range(3):
                joined(server, 2)
                load.wait_more(100)
                procs.kill(first.process.pid)
                first.__exit__()
                load.wait_more(100)
                first = example()
            joined(server, 2)
            load.wait_more(100)
            first.__exit__()
    assert set(load.outcomes) == {"OK"}, load.outcomes


def test_it_comes_back_when_the_dispatcher_was_killed(server, example, connect):
    with example() as worker:
        joined(server, 1)
        pid = server.dispatcher
        procs.kill(pid)
        worker.log.wait("the link is lost")
        wait.until(lambda: os.path.exists(server.link_path()) and server.dispatcher != pid, "no new dispatcher")
        joined(server, 1)
        scale(connect(server), 3)


def test_sigterm_drains(server, example):
    with example() as stays:
        joined(server, 1)
        with Load(server.address, scale, 4) as load:
            with example() as leaves:
                joined(server, 2)
                load.wait_more(100)
                assert leaves.end(signal.SIGTERM) == 0
                leaves.log.wait("drained")
            load.wait_more(100)
        assert stays.process.poll() is None
    assert set(load.outcomes) == {"OK"}, load.outcomes


def test_it_waits_for_a_server_that_comes_later(program, installed, serve, connect):
    """A new server has a new token; whoever looks at each connect finds it."""
    server = serve(None, *OPTIONS, "--port", ports.free())  # nobody takes it in between
    with Example(program, installed, server) as worker:
        joined(server, 1)
        server.expect_error("event=supervisor_gone")
        server.kill()
        server.exit_code = -9  # it leaves nothing to be checked
        worker.log.wait("the link is lost")
        os.makedirs(server.folder)
        again = serve(None, *OPTIONS, "--port", server.port, "--runtime-dir", server.runtime, wait_ready=False)
        again.runtime = server.runtime
        again.wait_ready()
        joined(again, 1)
        scale(connect(again), 2)


def test_two_of_them_are_replicas_of_one_deployment(server, example):
    with example(), example():
        joined(server, 2)
        assert server.deployment("scale:1")["ready"] == 2
