"""``python -m anyserve.worker TARGET``: one replica of one deployment.

Started by ``anyserve run``, which sets ANYSERVE_LINK (the dispatcher's socket), ANYSERVE_TOKEN and
ANYSERVE_REPLICA. Exit codes: 0 drained; 64 wrong usage; 66 file, module or attribute not found; 69
this interpreter cannot run workers; 70 the user's code raised; 77 the dispatcher refused the token; 78
models that cannot be served.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path and sys.path[0] == os.getcwd() and not getattr(sys.flags, "safe_path", False):
    # `python -m` has put the current directory first. Until code/target.py adds it again to load the program, a typing.py
    # or queue.py there must not replace the modules that we need.
    del sys.path[0]

import argparse
import base64
import contextlib
import faulthandler
import json
import signal
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import replica
from .code.copied import use_copy
from .code.deployments import Deployment, describe, files_beside
from .code import policy_code, serve_target
from .code.target import load
from .runtime import breakpoints, spare
from .stop import EX_INTERPRETER, EX_NOTFOUND, EX_RAISED, EX_USAGE, Parser, Stop, stop

MIN_PYTHON = (3, 11)
IDENTITY = ("ANYSERVE_TOKEN", "ANYSERVE_REPLICA")  # variables

if sys.version_info >= MIN_PYTHON:
    # What every worker needs, including numpy and the extension. If one is missing, check_interpreter reports it.
    with contextlib.suppress(ImportError):
        from .runtime import worker_loop as _serve  # noqa: F401


def check_interpreter() -> None:
    """Raises Stop if this Python cannot run workers. Called before anything needs numpy or the extension."""
    who = "%s (Python %d.%d.%d)" % ((sys.executable or "this interpreter",) + sys.version_info[:3])
    advice = "\nChoose another one with `anyserve run --python PATH`."
    if sys.version_info < MIN_PYTHON:
        stop(EX_INTERPRETER, "%s is too old: workers need Python %d.%d or newer.%s"
             % ((who,) + MIN_PYTHON + (advice,)))  # fmt: skip
    try:
        import numpy  # noqa: F401
    except ImportError as e:
        stop(EX_INTERPRETER, "%s cannot import numpy: %s\nInstall it with: %s -m pip install numpy%s"
             % (who, e, sys.executable, advice))  # fmt: skip
    try:
        from . import _native  # noqa: F401
    except ImportError as e:
        stop(EX_INTERPRETER, "%s cannot load AnyServe's extension: %s%s" % (who, e, advice))


def _number(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        n = int(text)
        if not 1 <= n <= most:
            raise argparse.ArgumentTypeError("%d is not 1 to %d" % (n, most))
        return n

    return number


def parse(argv: Optional[List[str]] = None) -> argparse.Namespace:
    p = Parser("python -m anyserve.worker", __doc__)
    p.add_argument("--deployment", help="which of the target's deployments to serve")
    p.add_argument("--application", default="default", help="the application that the target is")
    p.add_argument("--describe", nargs="?", const="json", choices=["json", "lines"],
                   help="print what the target declares; lines: a deployment per line, its name,"
                   " its options if any, and its model:version, separated by tabs; then lines that begin with @")  # fmt: skip
    p.add_argument("--stream-inputs", type=_number(65536), default=16, metavar="N",
                   help="messages of one stream that wait for a handler that takes one")  # fmt: skip
    p.add_argument("--stream-input-bytes", type=_number(1 << 30), default=1 << 20, metavar="N",
                   help="and their bytes; the last message may go over it")  # fmt: skip
    p.add_argument("--working-dir", metavar="DIR",
                   help="where to work; the current folder is a copy of the code, and is what is loaded")  # fmt: skip
    p.add_argument("--code-from", metavar="DIR", default="", help="what it is a copy of, for messages")
    p.add_argument("--source", metavar="PATH", default="",
                   help="the folder that it is a copy of, or the target's file as it was named there")  # fmt: skip
    p.add_argument("--debug-errors", action="store_true", help="send tracebacks to clients")
    return p.parse_args(argv)


MAX_REGISTRATION = 61440  # bytes: AS_CTL_TEXT_MAX
MAX_DESCRIPTION = 4 << 20  # bytes: AS_DECLARED_BYTES_MAX


def registration_lines(deployments: List[Deployment], room: int) -> List[str]:
    """How a replica would register its models, a line for each. What is longer than the server passes on is left out, and
    what is more than `room` bytes in all."""
    from .runtime.worker_loop import registrations

    lines = []
    for d in deployments:
        try:
            frames = registrations(d)
        except (OSError, ValueError):  # the replica that is started next says why
            continue
        for m, frame in zip(d.models, frames):
            line = "\t".join(["@register", d.name, "%s:%s" % (m.name, m.version), base64.b64encode(frame).decode()])
            if 0 < len(frame) <= MAX_REGISTRATION and len(line.encode()) < room:
                lines.append(line)
                room -= len(line.encode()) + 1
    return lines


def as_lines(what: Dict[str, Any], files: List[str], call: Optional[str]) -> str:
    lines = []
    for d in what["deployments"]:
        options = [json.dumps(d["options"])] if d["options"] else []
        models = ["%s:%s" % (m["name"], m["version"]) for m in d["models"]]
        lines.append("\t".join([d["name"]] + options + models))
    args = os.environ.get(serve_target.ARGS)
    lines += ["@args\t" + args] if args else []
    lines += ["@call\t" + call] if call is not None else []
    lines += ["\t".join(["@files", *files])] if files else []
    return "\n".join(lines)


def print_description(target: str, application: str, form: str) -> None:
    """Prints what the target declares. Only the description goes to stdout; what user code prints goes to stderr."""
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)
    replica.enter(replica.ReplicaContext(describing=True))
    deployments = load(target, None, application)
    what = describe(deployments)
    if form == "lines":
        from .example import command_for

        models = [m for d in deployments for m in d.models if not m.opaque]
        call = command_for(models) if models else ""  # handles call deployments without tensors
        text = as_lines(what, files_beside(deployments[0].module), call)
        room = MAX_DESCRIPTION - len(text.encode("utf-8", "surrogateescape")) - 1
        text = "\n".join([text, *registration_lines(deployments, room)])
    else:
        text = json.dumps(what)
    sys.stdout.flush()
    try:
        with os.fdopen(out, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(text + "\n")
    except OSError as e:
        stop(EX_RAISED, "the code has closed a descriptor that it did not open (%d: %s), by os.closerange or the like: "
             "the description cannot be written" % (out, e.strerror))  # fmt: skip


def choose(deployments: List[Deployment], name: Optional[str]) -> Deployment:
    names = ", ".join(d.name for d in deployments)
    if name is None and len(deployments) > 1:
        stop(EX_USAGE, "the target has several deployments, one worker serves one; --deployment is one of: " + names)
    for d in deployments:
        if name is None or d.name == name:
            return d
    stop(EX_NOTFOUND, "the target has no deployment %r; it has: %s" % (name, names))


def given_context(deployment: Optional[str]) -> replica.Given:
    try:
        return replica.read(os.environ, deployment)
    except ValueError as e:
        stop(EX_USAGE, "%s: %s" % (replica.VARIABLE, e))


def prepare(args: argparse.Namespace) -> Tuple[Deployment, replica.Given, Optional[List[Any]], Dict[str, str]]:
    """The deployment to serve, and the replica context; of a warm spare also its handlers, which are made before it is a
    replica; and the variables of IDENTITY, read before the code is loaded, which may clear its environment."""
    givens: List[replica.Given] = []
    identity: Dict[str, str] = {}

    def enter() -> None:
        identity.update({name: os.environ.get(name, "") for name in IDENTITY})
        givens.append(given_context(args.deployment))
        replica.enter(givens[0].context)  # code may ask for it while it is imported

    waiting = spare.Spare(os.environ, enter) if spare.is_spare(os.environ) else None
    if waiting:
        replica.set_waiter(waiting.wait)
    else:
        enter()
    base = policy_code.base_of(args.deployment)
    loaded = load(args.target, base or args.deployment, args.application, base is not None)
    deployment, handlers = choose(loaded, base or args.deployment), None
    if base is not None:
        deployment = policy_code.deployment_of(deployment, args.deployment, givens[0].options)
    if waiting:
        from .runtime.worker_loop import make_handlers

        handlers = make_handlers(deployment)
        waiting.wait()
    given = replica.named(givens[0], deployment.name)
    replica.enter(given.context)
    return deployment, given, handlers, identity


def main(argv: Optional[List[str]] = None) -> int:
    args = parse(argv)
    # The supervisor reads whole lines from a pipe.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if not faulthandler.is_enabled():
        faulthandler.enable()  # a crash prints its stack, from which the server takes the reason
    try:
        check_interpreter()
        breakpoints.prepare()
        if os.environ.get("AS_RAY"):
            from .serve import as_ray

            as_ray.install()
        if args.working_dir is not None:
            use_copy(args.working_dir, args.code_from, args.source, args.target)
        if args.describe:
            from .runtime import describe_guard

            describe_guard.guard()
            print_description(args.target, args.application, args.describe)
            describe_guard.leave(0)
        link = os.environ.get("ANYSERVE_LINK")
        if not link:
            stop(EX_USAGE, "ANYSERVE_LINK is not set: workers are started by `anyserve run`")
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # Until it serves, SIGINT ends it at once, like SIGTERM: no handler sees a KeyboardInterrupt from a signal.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        deployment, given, handlers, identity = prepare(args)
        if os.environ.get("AS_RAY_ACTOR"):
            from .serve.as_ray._host import begin

            begin()
        os.environ.pop("ANYSERVE_TOKEN", None)
        from .runtime.worker_loop import serve

        serve(deployment, given, handlers, link, identity["ANYSERVE_TOKEN"],
              identity["ANYSERVE_REPLICA"], args.debug_errors,
              (args.stream_inputs, args.stream_input_bytes))  # fmt: skip
    except Stop as e:
        print("anyserve: %s" % e, file=sys.stderr)
        if args.describe:
            from .runtime import describe_guard

            describe_guard.leave(e.code)
        return e.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
