"""Pickled code: what a program that calls `serve.run` uploads, and how a worker loads its deployment from it.

A line of JSON, then the pickles. `format`, `python` (major and minor version) and `cloudpickle` say who may read it; each of
`deployments` says where its pickle is, of the tuple (func_or_class, init_args, init_kwargs). Pickles run code when they are
loaded, so only workers load them, and each loads that of its own deployment.
"""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO, Dict, List, Optional

from ..stop import EX_DECLARATION, EX_INTERPRETER, EX_NOTFOUND, EX_RAISED, FAULTS, Stop, stop
from .copied import user_traceback
from .deployments import Deployment, of_serve
from .serve_code import ServeCode

PREFIX = "pickle:"  # of a target: pickle:PATH
FORMAT = 1
MAX_HEADER = 16 << 20  # bytes of the line of JSON


def is_pickled(target: str) -> bool:
    return target.startswith(PREFIX)


def python_version() -> str:
    return "%d.%d" % sys.version_info[:2]


def _cloudpickle_version() -> str:
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError as e:
        stop(EX_INTERPRETER, "%s cannot import cloudpickle, by which the program has pickled its code: %s\n"
             "Install it with: %s -m pip install cloudpickle" % (sys.executable, e, sys.executable))  # fmt: skip
    version: str = cloudpickle.__version__
    return version


def _check(header: Dict[str, Any]) -> None:
    """Raises Stop unless this interpreter can load what the program's has pickled."""
    if header.get("format") != FORMAT:
        stop(EX_INTERPRETER, "the pickled code has format %r; this AnyServe reads format %d: program and workers must have"
             " the same AnyServe" % (header.get("format"), FORMAT))  # fmt: skip
    theirs = header["python"]
    if theirs != python_version():
        stop(EX_INTERPRETER, "the program that calls serve.run is run by Python %s, and its replicas by Python %s (%s): code"
             " that is pickled by one cannot be loaded by the other.\nRun both by the same version; the application's key"
             " `python` names the interpreter of its replicas." % (theirs, python_version(), sys.executable))  # fmt: skip
    ours = _cloudpickle_version()
    if ours.partition(".")[0] != str(header["cloudpickle"]).partition(".")[0]:
        stop(EX_INTERPRETER, "the program that calls serve.run has cloudpickle %s, and %s has %s: install the same version in"
             " both" % (header["cloudpickle"], sys.executable, ours))  # fmt: skip


def _read_header(f: BinaryIO, path: str) -> Dict[str, Any]:
    line = f.readline(MAX_HEADER)
    try:
        header = json.loads(line)
        if not line.endswith(b"\n") or not isinstance(header, dict) or not isinstance(header["deployments"], dict):
            raise ValueError("it has no line of JSON at its beginning")
    except (ValueError, KeyError) as e:
        stop(EX_NOTFOUND, "%s is no pickled code: %s" % (path, e))
    _check(header)
    return dict(header, start=f.tell())


def _load_pickle(f: BinaryIO, header: Dict[str, Any], name: str, place: Dict[str, int]) -> Any:
    import pickle

    f.seek(header["start"] + place["at"])
    data = f.read(place["size"])
    if len(data) != place["size"]:
        stop(EX_NOTFOUND, "the pickled code of deployment %r is cut" % name)
    try:
        return pickle.loads(data)
    except Stop:
        raise
    except FAULTS as e:
        advice = ""
        if isinstance(e, ImportError):
            advice = ("\n\nA module that the program has imported is not found here. Replicas search the program's sys.path;"
                      "\nruntime_env={\"py_modules\": [...]} adds folders.")  # fmt: skip
        stop(EX_RAISED, "deployment %r cannot be unpickled:\n\n%s%s" % (name, user_traceback(e), advice))


def _load(f: BinaryIO, header: Dict[str, Any], name: str, policies: bool) -> Deployment:
    entry = header["deployments"][name]
    func_or_class, args, kwargs = _load_pickle(f, header, name, entry)
    theirs = _load_pickle(f, header, name, entry["policies"]) if policies and "policies" in entry else (None, None)
    return of_serve(ServeCode(header.get("application", "default"), name, func_or_class, args, kwargs, bool(entry["ingress"]),
                              entry["options"], theirs))  # fmt: skip


def load(target: str, only: Optional[str], policies: bool = False) -> List[Deployment]:
    """The deployments of a target "pickle:PATH", or `only` the one of that name. Constructs nothing. Raises Stop.

    policies: also their routers and scaling policies."""
    path = target[len(PREFIX) :]
    try:
        with open(path, "rb") as f:
            header = _read_header(f, path)
            names = list(header["deployments"])
            if only is not None and only not in names:
                stop(EX_NOTFOUND, "the pickled code has no deployment %r; it has: %s" % (only, ", ".join(names)))
            if not names:
                stop(EX_DECLARATION, "the pickled code has no deployment")
            return [_load(f, header, name, policies) for name in names if only in (None, name)]
    except OSError as e:
        stop(EX_NOTFOUND, "the pickled code %s cannot be read: %s" % (path, e.strerror))
