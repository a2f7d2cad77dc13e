"""The replica context, the hooks reconfigure and check_health, and options."""

import json
import os
import signal

import numpy as np
import pytest
from fake import HEALTH, RECONFIGURE

PERIOD, TIMEOUT, EXECUTION, REQUEST, DUMP, FAILURES, MAX_QUEUED, IDEMPOTENT, PER_CALLER = range(1, 10)
ANY = 2**64 - 1

CONTEXT = """
import json, os
import numpy as np
from anyserve import AnyServe, Error, get_replica_context
app = AnyServe()
imported = get_replica_context().rank

def said(*values):
    return np.array([json.dumps(values).encode()], object)

@app.model("who")
def who(request):
    c = get_replica_context()
    return said(c.replica, c.deployment, c.application, c.rank, c.world_size, c.local_rank, c.node_rank, c.version,
                imported, c.replica_tag, c.app_name, "ANYSERVE_CONTEXT" in os.environ)

@app.model("forked")
def forked(request):
    r, w = os.pipe()
    if os.fork() == 0:
        try:
            get_replica_context()
            os.write(w, b"there is one")
        except RuntimeError as e:
            os.write(w, str(e).encode())
        os._exit(0)
    os.wait()
    return said(os.read(r, 1000).decode())
"""

HOOKS = CONTEXT + """
class Keeper:
    def __init__(self):
        self.calls, self.health = [], None

    def reconfigure(self, config, rank):
        if config == "bad":
            raise ValueError("no such thing as bad")
        self.calls.append([config, rank, get_replica_context().rank])

    def check_health(self):
        if self.health:
            raise RuntimeError(self.health)

    def __call__(self, request):
        self.health = request.parameters.get("health", self.health)
        return said(*self.calls)

app.model("keeper")(Keeper)
app.deployment(user_config={"a": 1})
"""

ASYNC = HOOKS.replace("    def reconfigure", "    async def reconfigure").replace("    def check", "    async def check") + """
@app.model("coro")
async def coro(request):
    return said("here")
"""
BARE = """
from anyserve import AnyServe
app = AnyServe()
@app.model("m")
def m(x):
    return x
"""


def say(worker, model, **params):
    (value,) = worker.infer(model, params=params).outputs.values()
    return json.loads(value[0])


def context(**fields):
    return {"ANYSERVE_CONTEXT": json.dumps(fields)}


# --- the context ---

def test_context(start):
    worker = start(CONTEXT, env=context(replica="app-3", deployment="app", application="shop", rank=3, world_size=5,
                                        local_rank=1, node_rank=2, version="v7"))
    assert say(worker, "who") == ["app-3", "app", "shop", 3, 5, 1, 2, "v7", 3, "app-3", "shop", False]


def test_context_of_a_server_that_says_nothing(start):
    worker = start(CONTEXT, "app.py", "--deployment", "app")
    assert say(worker, "who") == ["test#0", "app", "default", 0, 1, 0, 0, "", 0, "test#0", "default", False]
    assert say(start(CONTEXT), "who")[1] == "app"  # the only one that it has


def test_a_child_is_no_replica(start):
    (text,) = say(start(CONTEXT), "forked")
    assert "no replica" in text


@pytest.mark.parametrize("text, why", [
    ("{", "ANYSERVE_CONTEXT: "), ("[]", "it is no JSON object"), ('{"rank": -1}', "rank cannot be -1"),
    ('{"rank": true}', "rank cannot be true"), ('{"replica": 1}', "replica cannot be 1"),
    ('{"options": []}', "options cannot be []"), ('{"rnak": 1}', "unknown key 'rnak'"),
])
def test_bad_contexts(start, text, why):
    worker = start(BARE, greet=False, env={"ANYSERVE_CONTEXT": text})
    assert worker.wait() == 64
    assert why in worker.output


# --- reconfigure ---

@pytest.mark.parametrize("source", [HOOKS, ASYNC], ids=["sync", "async"])
def test_reconfigure(start, source):
    worker = start(source, env=context(rank=2, world_size=4))
    assert say(worker, "keeper") == [[{"a": 1}, 2, 2]]
    assert worker.control(RECONFIGURE, '{"user_config": {"a": 2}}') == ("OK", "")
    assert worker.control(RECONFIGURE, '{"rank": 0, "world_size": 3}') == ("OK", "")  # the rank is news to it
    assert worker.control(RECONFIGURE, '{"world_size": 2}') == ("OK", "")  # this is not
    assert say(worker, "keeper") == [[{"a": 1}, 2, 2], [{"a": 2}, 2, 2], [{"a": 2}, 0, 0]]
    assert say(worker, "who")[3:5] == [0, 2]


@pytest.mark.parametrize("source", [HOOKS, ASYNC], ids=["sync", "async"])
def test_the_old_configuration_stays_when_the_new_one_is_refused(start, source):
    worker = start(source)
    status, text = worker.control(RECONFIGURE, '{"user_config": "bad", "rank": 7}')
    assert status == "INTERNAL"
    assert "ValueError: no such thing as bad" in text and "in reconfigure" in text and "former configuration stays" in text
    assert say(worker, "who")[3] == 0
    assert worker.control(RECONFIGURE, '{"rank": 1}') == ("OK", "")
    assert say(worker, "keeper") == [[{"a": 1}, 0, 0], [{"a": 1}, 1, 1]]


def test_all_take_the_new_configuration_or_none(start):
    worker = start(HOOKS + """
calls = []
def reconfigure(config):
    if config == "odd":
        raise ValueError("odd")
    calls.append(config)
@app.model("module")
def module(request):
    return said(*calls)
""")
    status, text = worker.control(RECONFIGURE, '{"user_config": "odd"}')
    assert (status, "reconfigure of app failed" in text) == ("INTERNAL", True)
    assert say(worker, "keeper") == [[{"a": 1}, 0, 0], ["odd", 0, 0], [{"a": 1}, 0, 0]]
    assert say(worker, "module") == [{"a": 1}]


def test_the_servers_configuration_counts(start):
    worker = start(HOOKS, env=context(user_config=[7]))
    assert say(worker, "keeper") == [[[7], 0, 0]]


def test_a_rank_alone_is_told_at_the_start(start):
    worker = start(HOOKS.replace('app.deployment(user_config={"a": 1})', ""), env=context(rank=1))
    assert say(worker, "keeper") == [[None, 1, 1]]


def test_imported_functions_are_no_hooks(start):
    worker = start("from importlib import reload as reconfigure\n" + BARE)
    assert worker.control(RECONFIGURE, '{"user_config": 1}')[0] == "FAILED_PRECONDITION"
    assert worker.control(RECONFIGURE, '{"user_config": null}') == ("OK", "")


@pytest.mark.parametrize("text, why", [
    ("{", "reconfigure: "), ("7", "it is no JSON object"), ('{"rank": "x"}', 'rank cannot be "x"'),
    ('{"deployment": "x"}', "deployment cannot change while a replica runs"), ('{"x": 1}', "unknown key 'x'"),
    ('{"options": {"execution_timeout_s": -1}}', "execution_timeout_s is at least 0, not -1"),
])
def test_bad_questions(start_module, text, why):
    worker = start_module(HOOKS)
    status, answer = worker.control(RECONFIGURE, text)
    assert (status, why in answer) == ("INVALID_ARGUMENT", True), answer
    assert worker.control(9, "")[0] == "UNIMPLEMENTED"


def test_a_question_waits_for_the_handler(start, tmp_path):
    worker = start(HOOKS + """
@app.model("wait")
def wait(path):
    open(path[0] + b".begun", "w").close()
    while not os.path.exists(path[0]):
        pass
    return ()
""")
    path = tmp_path / "go"
    stream = worker.ask("wait", {"path": [str(path).encode()]})
    while not os.path.exists(f"{path}.begun"):
        pass
    asked = worker.begin_control(HEALTH)
    behind = worker.ask("keeper")
    path.touch()
    order = []
    while len(order) < 3:
        kind, flags, s, payload = worker.receive()
        worker._other(kind, flags, s, payload)
        if kind != 18:
            order.append(s)
    assert order == [stream, asked, behind]
    assert worker.control_answer(asked) == ("OK", "")


# --- health ---

@pytest.mark.parametrize("source", [HOOKS, ASYNC], ids=["sync", "async"])
def test_health(start, source):
    worker = start(source)
    assert worker.control(HEALTH) == ("OK", "")
    say(worker, "keeper", health="the GPU is gone")
    assert worker.control(HEALTH) == ("INTERNAL", "check_health of keeper: RuntimeError: the GPU is gone")
    say(worker, "keeper", health="")
    assert worker.control(HEALTH) == ("OK", "")


def test_health_of_code_that_checks_nothing(start):
    assert start(BARE).control(HEALTH) == ("OK", "")


def test_questions_come_one_after_the_other(start):
    worker = start(ASYNC + """
import asyncio
inside = 0
async def check_health():
    global inside
    inside += 1
    assert inside == 1
    await asyncio.sleep(0.01)
    inside -= 1
""")
    asked = [worker.begin_control(HEALTH) for _ in range(5)] + [worker.begin_control(RECONFIGURE, '{"rank": 4}')]
    assert [worker.control_answer(s) for s in asked] == [("OK", "")] * 6


# --- what keeps a replica from starting ---

@pytest.mark.parametrize("more, code, why", [
    ("def reconfigure(c):\n    raise KeyError(c)", 70, "reconfigure of app failed"),
    ("def reconfigure(c): pass\nasync def check_health():\n    1 / 0", 70, "check_health of app failed at the start"),
    ("def reconfigure(a, b, c): pass", 78, "app.reconfigure is called as"),
    ("", 78, "neither its models' classes nor its module has"),
])
def test_bad_starts(start, more, code, why):
    worker = start(BARE + "app.deployment(user_config=1)\n" + more, greet=False)
    assert worker.wait() == code
    assert why in worker.output


# --- options ---

OPTIONS_SET = BARE + """
app.deployment(health_check_period_s=0.5, execution_timeout_s=2, health_check_failure_threshold=2,
               request_timeout_s=0)
"""
NEVER = 0


def test_options(start):
    worker = start(OPTIONS_SET)
    assert worker.options == {PERIOD: 500_000_000, EXECUTION: 2_000_000_000, REQUEST: NEVER, FAILURES: 2,
                              DUMP: signal.SIGVTALRM}


def test_the_servers_options_count(start):
    worker = start(OPTIONS_SET, env=context(options={"execution_timeout_s": 0, "health_check_timeout_s": 1}))
    assert worker.options[EXECUTION] == NEVER
    assert worker.options[TIMEOUT] == 1_000_000_000
    assert worker.options[PERIOD] == 500_000_000


def test_options_change(start):
    worker = start(OPTIONS_SET)
    assert worker.control(RECONFIGURE, '{"options": {"execution_timeout_s": 0.25}}') == ("OK", "")
    assert worker.options[EXECUTION] == 250_000_000
    assert worker.options[FAILURES] == 2


BOUNDS = """
import threading
import numpy as np
from anyserve import AnyServe
app = AnyServe()
app.deployment(max_ongoing_requests=3, max_queued_requests=7, idempotent=True)
go = threading.Event()

@app.model("wide", threads=8)
def wide(x):
    go.wait()
    return x

@app.model("narrow", max_ongoing_requests=1)
def narrow(x):
    go.set()
    return x
"""


def test_bounds_that_code_sets(start):
    worker = start(BOUNDS)
    assert worker.slots == 3
    assert (worker.options[MAX_QUEUED], worker.options[IDEMPOTENT]) == (7, 1)
    # what the models declare is registered as it is: the options take its place
    assert worker.models["wide", "1"].budget == 8 and not worker.models["wide", "1"].idempotent
    worker = start(BARE)
    assert worker.slots == 1 and {MAX_QUEUED, IDEMPOTENT, PER_CALLER}.isdisjoint(worker.options)


def test_a_queue_limit_for_each_caller(start):
    worker = start(BARE + "app.deployment(max_queued_requests_per_caller=True)\n")
    assert worker.options[PER_CALLER] == 1
    worker = start(BARE + "app.deployment(max_queued_requests_per_caller=False)\n")
    assert PER_CALLER not in worker.options


@pytest.mark.parametrize("said, queued, idempotent", [
    ({"max_queued_requests": -1, "idempotent": False}, ANY, 0), ({"max_queued_requests": 1}, 1, 1),
])
def test_bounds_that_the_server_says(start, said, queued, idempotent):
    worker = start(BOUNDS, env=context(options=said))
    assert (worker.slots, worker.options[MAX_QUEUED], worker.options[IDEMPOTENT]) == (3, queued, idempotent)


def test_slots_change_while_requests_execute(start):
    """More than the code declares, then fewer than execute: these go on, and nothing starts beside them."""
    worker = start(BOUNDS)
    x = {"x": np.ones(1)}
    assert worker.control(RECONFIGURE, '{"options": {"max_ongoing_requests": 9}}') == ("OK", "")
    assert worker.slots == 9
    wide = [worker.ask("wide", x) for _ in range(2)]
    assert worker.control(RECONFIGURE, '{"options": {"max_ongoing_requests": 1}}') == ("OK", "")
    assert worker.slots == 1
    assert worker.options[MAX_QUEUED] == 7  # the others stay
    narrow = worker.ask("narrow", x)  # it would let them go
    assert worker.control(HEALTH) == ("OK", "")
    assert not worker.answers
    assert worker.control(RECONFIGURE, '{"options": {"max_ongoing_requests": 3}}') == ("OK", "")
    for stream in [narrow, *wide]:
        assert [list(v) for v in worker.answer(stream).outputs.values()] == [[1.0]]


@pytest.mark.parametrize("options, why", [
    ({"max_ongoing_requests": 0}, "is at least 1, not 0"), ({"max_ongoing_requests": 65536}, "is at most 65535"),
    ({"max_queued_requests": 0}, "is not allowed to be 0"), ({"max_queued_requests": -2}, "is at least -1, not -2"),
    ({"idempotent": 1}, "is True or False, not 1"),
])
def test_bad_bounds_change_nothing(start_module, options, why):
    worker = start_module(BOUNDS)
    status, text = worker.control(RECONFIGURE, json.dumps({"options": {"max_ongoing_requests": 2, **options}}))
    assert (status, why in text) == ("INVALID_ARGUMENT", True), text
    assert worker.slots == 3


def test_a_signal_of_the_users_is_not_taken(start):
    worker = start("import signal\nsignal.signal(signal.SIGVTALRM, lambda *a: None)\n" + OPTIONS_SET)
    assert DUMP not in worker.options


def test_stacks_are_printed_on_the_signal(start, tmp_path):
    worker = start(BARE + """
@app.model("stuck")
def stuck(path):
    import time
    open(path[0], "w").close()
    time.sleep(1e9)
""")
    worker.ask("stuck", {"path": [str(tmp_path / "begun").encode()]})
    while not os.path.exists(tmp_path / "begun"):
        pass
    os.kill(worker.process.pid, worker.options[DUMP])
    worker.wait_output("in stuck")
