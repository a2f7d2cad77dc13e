"""What tests/chaos/run.py makes of its scenarios: lines, and an exit code that tells of every failure."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

import chaos
from support import paths

pytestmark = pytest.mark.core


@pytest.fixture
def play(monkeypatch, capsys):
    """play(scenario's run or None, *arguments) → (exit code, what was printed) of two scenarios; the other one is ok."""
    spec = importlib.util.spec_from_file_location("chaos_run", paths.ROOT / "tests/chaos/run.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)

    def play(run, *arguments):
        monkeypatch.setattr(program, "SCENARIOS", ("first", "second"))
        monkeypatch.setitem(sys.modules, "scenarios.first", SimpleNamespace(run=run))
        monkeypatch.setitem(sys.modules, "scenarios.second", SimpleNamespace(run=fine))
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        try:
            code = program.main()
        except SystemExit as e:
            code = e.code
        return code, capsys.readouterr()
    return play


def fine(options):
    if options.wants("a part"):
        yield chaos.rig.Result("scenario", "a part", kills=options.count)


def faulty(options):
    result = chaos.rig.Result("scenario", "a part")
    result.fault("too slow")
    yield result


def idle(options):
    result = chaos.rig.Result("scenario", "a part")
    result.add(SimpleNamespace(valid=False, errors=[]))
    yield result


def broken(options):
    yield from fine(options)
    raise RuntimeError("the server is gone")


@pytest.mark.parametrize("run, code, want", [(fine, 0, ["ok", "ok"]), (faulty, 1, ["FAILED", "ok"]), (idle, 1, ["INVALID", "ok"]),
                                             (broken, 1, ["ok", "FAILED", "ok"])])
def test_one_that_fails_is_told_and_keeps_no_other_from_being_played(play, run, code, want):
    got, out = play(run)
    lines = [line for line in out.out.splitlines() if line[:1].isalpha() and not line.startswith("chaos:")]
    assert (got, [line.split()[0] for line in lines]) == (code, want)
    assert ("too slow" in out.out, "the server is gone" in out.err) == (run is faulty, run is broken)


def test_nothing_played_is_no_success(play):
    assert play(fine, "--only", "no such part")[0] == 2
    assert play(fine, "third")[0] == 2


def test_names_and_counts(play):
    code, out = play(faulty, "second", "--count", "7", "--seed", "5")
    assert code == 0 and "kills=7" in out.out and "--seed 5" in out.out
