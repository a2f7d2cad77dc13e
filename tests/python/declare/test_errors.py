"""Exceptions of handlers: the text for the client, the log, and the worker that goes on."""

import numpy as np
import pytest
from fake import STATUS, Refused

APP = """
from anyserve import AnyServe, Error
import numpy as np

app = AnyServe()


@app.model("raise")
def fails(what):
    exec(what[0].decode())
    return np.zeros(1)


@app.model("raise_async")
async def fails_async(what):
    exec(what[0].decode())
    return np.zeros(1)


@app.model("raise_eager", eager=True)
async def fails_eager(what):
    exec(what[0].decode())
    return np.zeros(1)


@app.model("raise_thread", threads=2)
def fails_thread(what):
    exec(what[0].decode())
    return np.zeros(1)
"""
MODELS = ["raise", "raise_async", "raise_eager", "raise_thread"]


@pytest.fixture(scope="module")
def worker(start_module):
    return start_module(APP)


def run(worker, model, code):
    return worker.infer(model, {"what": [code.encode()]})


@pytest.mark.parametrize("model", MODELS)
def test_an_exception_is_internal_and_goes_to_the_log(worker, model):
    with pytest.raises(Refused) as e:
        run(worker, model, "secret = 17; raise ValueError('bad weather')")
    assert e.value.code == "INTERNAL" and e.value.flags == 2
    assert e.value.message == f"model {model!r} raised ValueError: bad weather"
    worker.wait_output("Traceback", "bad weather")
    run(worker, model, "pass")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("code", STATUS[1:])
def test_an_error_has_its_own_status(worker, model, code):
    with pytest.raises(Refused) as e:
        run(worker, model, f"raise Error({code!r}, 'because')")
    assert (e.value.code, e.value.message) == (code, "because")


def test_an_error_of_ones_own_is_not_logged(worker):
    before = len(worker.output)
    with pytest.raises(Refused):
        run(worker, "raise", "raise Error('NOT_FOUND', 'unique-text')")
    assert "unique-text" not in worker.output[before:]


@pytest.mark.parametrize("message", ["", "ü", "a\nb", "a\0b", "x" * 20000])
def test_messages_of_any_kind(worker, message):
    with pytest.raises(Refused) as e:
        run(worker, "raise", f"raise Error('ABORTED', {message!r})")
    assert message.startswith(e.value.message) and len(e.value.message) == min(len(message), 16000)


def test_messages_that_are_no_text(worker):
    with pytest.raises(Refused, match=r"INTERNAL.*\?"):
        run(worker, "raise", "raise ValueError('\\ud800')")


def test_an_unprintable_exception(worker):
    code = "class Bad(Exception):\n    def __str__(self): raise RuntimeError('no')\nraise Bad()"
    with pytest.raises(Refused, match="INTERNAL"):
        run(worker, "raise", code)
    run(worker, "raise", "pass")


@pytest.mark.parametrize("model", MODELS)
def test_a_handler_that_cancels_itself(worker, model):
    with pytest.raises(Refused, match="CANCELLED"):
        run(worker, model, "import asyncio; raise asyncio.CancelledError()")
    run(worker, model, "pass")


def test_type_errors_of_the_handler_are_its_own(worker):
    with pytest.raises(Refused, match="INTERNAL: model 'raise' raised TypeError"):
        run(worker, "raise", "len(3)")


def test_debug_errors_sends_the_traceback(start):
    worker = start(APP, "app.py", "--debug-errors")
    with pytest.raises(Refused) as e:
        run(worker, "raise", "raise ValueError('bad weather')")
    assert "Traceback" in e.value.message and "bad weather" in e.value.message


def test_the_log_arrives_line_by_line(start):
    worker = start("""
        from anyserve import AnyServe
        import numpy as np
        app = AnyServe()
        @app.model("m")
        def m(request):
            print("printed at once")
            return np.zeros(1)
        """)
    worker.infer("m")
    worker.wait_output("printed at once")
