"""Replicas of anyserve.serve behind a real server: ranks, configuration, health, the end."""

import os

import numpy as np
from asking import ask

from support import wait

ONE = np.array([1.0])


def replicas(server, name="D"):
    return {r["name"]: r for r in server.status()["replicas"] if r["deployment"] == name}


SHARDS = """
@serve.deployment(num_replicas=4)
class D:
    def __init__(self):
        self.calls = []

    def reconfigure(self, config, rank):
        self.calls.append((config, rank.rank, rank.local_rank, rank.node_rank))

    def __call__(self, x: X) -> X:
        c = serve.get_replica_context()
        config, *last = self.calls[-1]
        return np.array([c.rank.rank, c.world_size, config or 0, *last, len(self.calls), os.getpid()], float)

app = D.bind()
"""


def shards(client, n):
    """What each of n replicas says, by rank."""
    seen = {}

    def all_seen():
        out = ask(client)
        seen[int(out[0])] = out
        return len(seen) == n

    wait.until(all_seen, lambda: seen)
    return seen


def test_four_shards_have_four_ranks_and_are_told_of_them(begin):
    server, client, change = begin(SHARDS)
    seen = shards(client, 4)
    assert {r: out[1] for r, out in seen.items()} == {0: 4, 1: 4, 2: 4, 3: 4}
    for rank, out in seen.items():
        assert out[2:6] == [0, rank, rank, 0] and out[6] == 1  # called at the start, without a user_config
    pids = {r: out[7] for r, out in seen.items()}
    change(user_config=7)
    wait.until(lambda: all(out[2] == 7 for out in shards(client, 4).values()), lambda: shards(client, 4))
    again = shards(client, 4)
    assert {r: out[7] for r, out in again.items()} == pids  # in place
    assert {out[6] for out in again.values()} == {2}
    change(num_replicas=2, user_config=7)
    wait.until(lambda: len(replicas(server)) == 2, lambda: server.status())
    seen = shards(client, 2)
    assert {r: out[1] for r, out in seen.items()} == {0: 2, 1: 2} and {out[7] for out in seen.values()} <= set(pids.values())


def test_a_replica_that_is_replaced_keeps_its_rank(begin):
    server, client, _ = begin(SHARDS)
    pids = {r: int(out[7]) for r, out in shards(client, 4).items()}
    os.kill(pids[2], 9)
    wait.until(lambda: int(shards(client, 4)[2][7]) not in pids.values(), lambda: server.status())
    server.wait_all_ready()


CONFIGURED = """
@serve.deployment(user_config={"threshold": 1})
class D:
    def __init__(self):
        self.seen = []

    async def reconfigure(self, config):
        if config["threshold"] < 0:
            raise ValueError("threshold is negative")
        self.seen.append(config["threshold"])

    async def __call__(self, x: X) -> X:
        return np.array([*self.seen, os.getpid()], float)

app = D.bind()
"""


def test_a_user_config_is_changed_in_place_by_a_file(begin):
    server, client, change = begin(CONFIGURED)
    *seen, pid = ask(client)
    assert seen == [1]
    change(user_config={"threshold": 5})
    wait.until(lambda: ask(client) == [1, 5, pid], lambda: ask(client))
    change(user_config={"threshold": -1})
    server.log.wait("ValueError: threshold is negative")
    assert ask(client) == [1, 5, pid]  # it goes on with what it had
    change(user_config={"threshold": 6})
    wait.until(lambda: ask(client) == [1, 5, 6, pid], lambda: ask(client))


HEALTH = """
@serve.deployment(health_check_period_s=0.1)
class D:
    def check_health(self):
        if os.path.exists("ill") and open("ill").read() == str(os.getpid()):
            raise RuntimeError("the disk is gone")

    def __call__(self, x: X) -> X:
        return np.array([os.getpid()], float)

app = D.bind()
"""


def test_a_replica_whose_health_check_fails_is_replaced(begin, tmp_path):
    server, client, _ = begin(HEALTH.replace('"ill"', repr(str(tmp_path / "ill"))))
    (pid,) = ask(client)
    (tmp_path / "ill").write_text(str(int(pid)))
    server.log.wait("the disk is gone")
    wait.until(lambda: ask(client) != [pid], lambda: server.status())
    server.wait_all_ready()


DRAINED = """
@serve.deployment(graceful_shutdown_wait_loop_s=0)
class D:
    def __init__(self):
        self.log("begin")

    def log(self, what):
        with open("FILE", "a") as f:
            f.write("%s %d\\n" % (what, os.getpid()))

    async def __call__(self, x: X) -> X:
        self.log("call")
        while x[0] and not os.path.exists("OPEN"):
            await asyncio.sleep(0.005)
        self.log("end")
        return np.array([os.getpid()], float)

    async def __del__(self):
        await asyncio.sleep(0)
        self.log("del")

app = D.bind()
"""


def test_a_draining_replica_ends_its_calls_and_then_its_object(begin, tmp_path):
    file, opened = tmp_path / "log", tmp_path / "open"
    source = DRAINED.replace("FILE", str(file)).replace("OPEN", str(opened))
    server, client, change = begin(source, version="1")
    (old,) = server.workers().values()
    call = client.begin("D", {"x": ONE})
    wait.until(lambda: "call" in file.read_text(), lambda: file.read_text())
    change(version="2")
    wait.until(lambda: ask(client, value=0) != [old], lambda: server.status())
    assert f"del {old}" not in file.read_text()
    opened.write_text("")
    (raw,) = call.result().raw_output_contents
    assert np.frombuffer(raw).tolist() == [old]
    wait.until(lambda: f"del {old}" in file.read_text(), lambda: file.read_text())
    said = [line.split()[0] for line in file.read_text().splitlines() if line.endswith(f" {old}")]
    assert said[0] == "begin" and said[-1] == "del" and said.count("call") == said.count("end") > 0
    (new,) = server.workers().values()
    server.stop()
    assert file.read_text().splitlines()[-1] == f"del {new}"
