"""Calls between deployments, and from a driver: real workers, the real dispatcher."""

import asyncio
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from support import wait


def test_nested_calls(handle):
    assert handle.remote("x").result() == "x"
    assert handle.sync.remote("y").result() == "y"
    assert handle.in_thread.remote("z").result() == "z"


def test_many_at_once(handle):
    responses = [handle.remote(i) for i in range(300)]
    assert [r.result() for r in responses] == list(range(300))
    assert handle.gather.remote(300).result() == list(range(300))


@pytest.mark.parametrize("size", [1 << 20, 64 << 20])
def test_arrays(handle, size):
    array = np.ones(size, "u1")
    assert handle.method.remote("look", array).result() == ("|u1", (size,), False, 1.0)
    got = handle.method.remote("ones", size).result()
    assert got.shape == (size,) and not got.flags.writeable and got[-1] == 1


def test_a_response_is_an_argument(handle, back):
    assert handle.pass_on.remote(1 << 20).result() == ("|u1", (1 << 20,), False, 1.0)
    first = back.ones.remote(1000)
    second, third = back.look.remote(first), back.look.remote(array=first)
    assert second.result() == third.result() == ("|u1", (1000,), False, 1.0)
    chain = back.remote(5)
    for _ in range(20):
        chain = back.remote(chain)
    assert chain.result() == 5


def test_exceptions_through_two_hops(handle):
    with pytest.raises(ValueError, match="why") as e:
        handle.method.remote("fail", "why").result()
    assert type(e.value.cause) is ValueError and str(e.value).rstrip().endswith("ValueError: why")
    with pytest.raises(Exception, match="'nope' that does not exist"):
        handle.nope.remote().result()


def test_an_argument_that_failed(back):
    with pytest.raises(ValueError, match="why"):
        back.remote(back.fail.remote("why")).result()


def test_streams(handle, back):
    assert list(back.count.options(stream=True).remote(1000)) == list(range(1000))
    assert handle.items.remote(500).result() == list(range(500))
    assert handle.items.remote(500, "count_sync").result() == list(range(500))
    assert list(handle.relay.options(stream=True).remote(500)) == list(range(500))
    assert list(handle.relay_sync.options(stream=True).remote(500)) == list(range(500))

    async def read():
        return [i async for i in handle.relay.options(stream=True).remote(100)]

    assert asyncio.run(read()) == list(range(100))


def logged(back, text):
    return wait.until(lambda: text in back.get_log.remote().result(), text)


def test_cancel_by_the_driver_reaches_the_second_hop(handle, back):
    response = handle.method.remote("forever", "a")
    logged(back, "begun a")
    response.cancel()
    with pytest.raises(Exception, match="was cancelled"):
        response.result()
    logged(back, "ended a")


def test_cancel_of_a_child_and_a_stream_that_is_left(handle, back):
    assert "was cancelled" in handle.cancel_child.remote("b").result()
    logged(back, "ended b")
    handle.leave_stream.remote("c").result()
    logged(back, "ended c")
    stream = back.stream_forever.options(stream=True).remote("d")
    assert next(stream) == 0
    stream.cancel()
    logged(back, "ended d")


def test_a_timeout_does_not_cancel(handle, back):
    response = handle.method.remote("forever", "e")
    with pytest.raises(TimeoutError):
        response.result(timeout_s=0.01)
    logged(back, "begun e")
    assert "ended e" not in back.get_log.remote().result()
    response.cancel()
    logged(back, "ended e")


def test_result_on_the_loop_of_a_replica(handle):
    assert "asyncio" in handle.sync_on_loop.remote().result()


def test_calls_that_nobody_awaits(handle, back):
    handle.background.remote(200).result()
    for i in range(1000):
        back.remote(i)
    assert back.remote("after").result() == "after"


def test_threads_and_event_loops_of_a_driver(handle):
    got = {}

    def sync(i):
        got[i] = [handle.remote((i, k)).result() for k in range(20)]

    def loop(i):
        async def main():
            return await asyncio.gather(*[handle.remote((i, k)) for k in range(20)])

        got[i] = asyncio.run(main())

    threads = [threading.Thread(target=sync if i % 2 else loop, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == {i: [(i, k) for k in range(20)] for i in range(8)}


def test_awaiting_twice_and_callbacks(handle):
    async def main():
        response = handle.remote(1)
        return await asyncio.gather(response, response), await response

    assert asyncio.run(main()) == ([1, 1], 1)


def test_a_loop_that_is_closed_while_a_call_runs(handle, back):
    async def main():
        task = asyncio.ensure_future(handle.method.remote("forever", "f"))
        await asyncio.sleep(0)
        return task

    asyncio.run(main())
    logged(back, "begun f")
    assert handle.remote("still").result() == "still"


def test_a_fork_makes_a_link_of_its_own(handle):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, repr(handle.remote("child").result(timeout_s=30)).encode())
        except BaseException as e:
            os.write(write, repr(e).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    assert os.read(read, 1000) == b"'child'"
    os.close(read)
    assert handle.remote("parent").result() == "parent"


def test_another_program_calls(api, handle):
    program = ("from anyserve import serve\n"
               "h = serve.get_app_handle('chain')\n"
               "print(h.remote(7).result(timeout_s=30))\n"
               "import threading\n"
               "threading.Thread(target=lambda: print(h.remote(8).result(timeout_s=30))).start()\n")  # fmt: skip
    p = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (p.returncode, p.stdout.split(), p.stderr) == (0, ["7", "8"], "")


def test_calls_of_a_constructor_go_over_a_link_of_a_driver(api):
    import serve_chain

    handle = api.run(serve_chain.early, name="early", route_prefix=None)
    assert tuple(handle.remote().result()) == ("early", "thread")
    api.delete("early")


def test_a_deployment_that_does_not_exist(api, handle):
    serve_handle = api.handle.DeploymentHandle("Nobody", "chain")
    with pytest.raises(Exception, match="Nobody"):
        serve_handle.remote().result(timeout_s=30)


def test_a_replica_that_is_killed(api, handle, back):
    """What waits for it fails, and later calls reach the one that replaces it."""
    pid = back.pid.remote().result()
    response = handle.method.remote("forever", "g")
    logged(back, "begun g")
    os.kill(pid, 9)
    with pytest.raises(Exception):
        response.result(timeout_s=30)
    assert handle.remote("again").result(timeout_s=30) == "again"
    assert back.pid.remote().result(timeout_s=30) != pid
