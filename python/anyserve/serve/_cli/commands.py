"""The command line: commands and options are those of Ray Serve's `serve`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence

from .say import Refused, refuse, say

__all__ = ["main"]

APP_DIR = "folder that is put first on the search path: with `.`, main.py is `main`"
ADDRESS = "http://localhost:PORT of a server of this machine; default: port $ANYSERVE_PORT, else 8000"
ENV_FILE = "a YAML file that has a runtime_env"
ENV_JSON = "a runtime_env as JSON"


# --- arguments that several have ---


def key_values(arguments: Sequence[str]) -> Dict[str, str]:
    out: Dict[str, str] = {}
    for arg in arguments:
        key, equals, value = arg.partition("=")
        if not equals or not value or not key:
            refuse("Invalid application argument '%s', must be of the form '<key>=<val>'." % arg)
        out[key] = value
    return out


def runtime_env_of(options: argparse.Namespace) -> Dict[str, Any]:
    """Of --runtime-env, --runtime-env-json and --working-dir, which counts more."""
    from . import yaml_file

    env: Any = {}
    if options.runtime_env is not None and options.runtime_env_json is not None:
        refuse("Only one of --runtime_env and --runtime-env-json can be provided.")
    if options.runtime_env is not None:
        env = yaml_file.load(options.runtime_env).value or {}
    elif options.runtime_env_json is not None:
        try:
            env = json.loads(options.runtime_env_json)
        except ValueError as e:
            refuse("--runtime-env-json is no JSON: %s" % e)
    if not isinstance(env, dict):
        refuse("%s is a mapping, not %r" % (options.runtime_env or "--runtime-env-json", env))
    if options.working_dir is not None:
        env["working_dir"] = options.working_dir
    return env


def _checked_env(options: argparse.Namespace) -> Dict[str, Any]:
    from .._declare.options import check_runtime_env

    env = runtime_env_of(options)
    try:
        return check_runtime_env(env, "runtime_env")
    except (ValueError, TypeError) as e:
        refuse(str(e))


def _folder(path: str) -> None:
    if not os.path.isdir(path):
        refuse("--app-dir %s is no folder" % path)
    sys.path.insert(0, os.path.abspath(path))


# --- commands ---


def run(o: argparse.Namespace) -> None:
    from . import running, which

    which.set_address(o.address)
    _folder(o.app_dir)
    args = key_values(o.arguments)
    env = _checked_env(o)
    if o.reload and not o.blocking:
        refuse("The --non-blocking option conflicts with the --reload option.")
    if os.path.isfile(o.config_or_import_path):
        if args:
            say("Application arguments are ignored when running a config file.")
        if o.reload:
            refuse("--reload follows the code of an import path, not a config file.")
        running.run_config(o.config_or_import_path, blocking=o.blocking)
        return
    watched = str(env.get("working_dir") or o.app_dir)
    running.run_import_path(o.config_or_import_path, args, env, name=o.name, route_prefix=o.route_prefix, blocking=o.blocking,
                            reload=o.reload, watched=watched)  # fmt: skip


def deploy(o: argparse.Namespace) -> None:
    from . import config_file, running, sending, which

    which.set_address(o.address)
    args = key_values(o.arguments)
    env = _checked_env(o)
    if os.path.isfile(o.config_or_import_path):
        say("Deploying from config file: '%s'." % o.config_or_import_path)
        if args:
            refuse("Application arguments cannot be specified for a config file.")
        for option, value in (("runtime_env", env), ("name", o.name)):
            if value:
                say("Passed in %s is ignored when using config file" % option)
        config = config_file.read(o.config_or_import_path)
    else:
        say("Deploying from import path: '%s'." % o.config_or_import_path)
        config = config_file.of_import_path(o.config_or_import_path, o.name, args, env)
    server = which.find()
    running.say_unused(config, True)
    sending.send(server, config)
    say("\nSent deploy request successfully.\n * Use `%s status` to check applications' statuses.\n"
        " * Use `%s config` to see the current application config(s).\n" % (o.prog, o.prog))  # fmt: skip


def status(o: argparse.Namespace) -> None:
    from . import showing, which

    which.set_address(o.address)
    sys.stdout.write(showing.status(o.name))


def config(o: argparse.Namespace) -> None:
    from . import showing, which

    which.set_address(o.address)
    sys.stdout.write(showing.config(o.name))


def build(o: argparse.Namespace) -> None:
    from . import showing

    _folder(o.app_dir)
    grpc = {"port": 9000, "grpc_servicer_functions": o.grpc_servicer_functions, "enable_reflection": o.grpc_enable_reflection}
    text = showing.build(o.import_paths, grpc)
    if o.output_path is None:
        sys.stdout.write(text)
        return
    try:
        with open(o.output_path, "w", encoding="utf-8") as f:
            f.write(text)
    except OSError as e:
        refuse("cannot write %s: %s" % (o.output_path, e.strerror or e))


def shutdown(o: argparse.Namespace) -> None:
    from .. import api
    from .._driver import deploying
    from . import which

    which.set_address(o.address)
    server = which.find_or_none()
    if server is None:
        say("No Serve instance found running on the cluster at %s." % (o.address or "this user's port"))
        return
    if not o.yes:
        sys.stderr.write('This will shut down Serve on the cluster at address "%s" and delete all applications there. '
                         "Do you want to continue? [y/N]: " % server.url)  # fmt: skip
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            refuse("Aborted!")
    deploying.delete_all(server)
    if server.is_detached():
        api.shutdown()
        say("The server has ended.")
    else:
        say("All applications are deleted; the server goes on: `anyserve shutdown` ends it.")


def start(o: argparse.Namespace) -> None:
    from .. import api
    from . import which

    which.set_address(o.address)
    http = {k: v for k, v in (("host", o.http_host), ("port", o.http_port)) if v is not None}
    grpc: Dict[str, Any] = {} if o.grpc_port is None else {"port": o.grpc_port}
    if o.grpc_servicer_functions:
        say("--grpc-servicer-functions has no effect here: grpc_options of a config file, or of serve.start() in a program, name"
            " those of its applications.")  # fmt: skip
    if not o.grpc_enable_reflection:
        grpc["enable_reflection"] = False
    location = None if o.proxy_location == "EveryNode" else o.proxy_location
    try:
        api.start(location, http or None, grpc or None, detached=True)
    except (RuntimeError, ValueError) as e:
        refuse(str(e))


# --- the parser ---


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, "%s: %s\n" % (self.prog, message))


def _env_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--runtime-env", metavar="FILE", help=ENV_FILE)
    p.add_argument("--runtime-env-json", metavar="JSON", help=ENV_JSON)
    p.add_argument("--working-dir", metavar="DIR", help="folder in which replicas run; counts more than that of the runtime_env")


def _target(p: argparse.ArgumentParser) -> None:
    p.add_argument("config_or_import_path", metavar="CONFIG_OR_IMPORT_PATH", help="a YAML file, or module:application")
    p.add_argument("arguments", nargs="*", metavar="KEY=VALUE", help="arguments of a function that builds the application")


def _grpc_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--grpc-servicer-functions", action="append", default=[], metavar="PATH",
                   help="import path of an add_…Servicer_to_server")  # fmt: skip
    p.add_argument("--grpc-enable-reflection", action="store_true", default=True, dest="grpc_enable_reflection",
                   help="reflection knows the services (default)")  # fmt: skip
    p.add_argument("--grpc-disable-reflection", action="store_false", dest="grpc_enable_reflection")


def parser(prog: str) -> argparse.ArgumentParser:
    top = _Parser(prog=prog, description="Runs and manages applications of anyserve.serve.", allow_abbrev=False)
    subs = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)

    def add(name: str, call: Callable[[argparse.Namespace], None], text: str, address: bool = True) -> argparse.ArgumentParser:
        p = subs.add_parser(name, help=text, description=text, allow_abbrev=False)
        p.set_defaults(call=call, prog=prog)
        if address:
            p.add_argument("-a", "--address", help=ADDRESS)
        return p

    p = add("start", start, "Starts a server in the background.")
    p.add_argument("--http-host", help="address to listen on; default 127.0.0.1")
    p.add_argument("--http-port", type=int, help="default: $ANYSERVE_PORT, else 8000")
    p.add_argument("--proxy-location", choices=("Disabled", "HeadOnly", "EveryNode"), default="EveryNode", help="has no effect")
    p.add_argument("--grpc-port", type=int, help="a port for gRPC only; it is served at the HTTP port, too")
    _grpc_options(p)

    p = add("run", run, "Runs an application, or those of a config file, until Ctrl-C.")
    _target(p)
    _env_options(p)
    p.add_argument("-d", "--app-dir", default=".", metavar="DIR", help=APP_DIR)
    p.add_argument("--blocking", action="store_true", default=True, dest="blocking", help="waits for Ctrl-C (default)")
    p.add_argument("--non-blocking", action="store_false", dest="blocking", help="ends when the application is ready")
    p.add_argument("-r", "--reload", action="store_true", help="deploys again when a Python file of the folder changes")
    p.add_argument("--route-prefix", default="/", help="of an import path; default: /")
    p.add_argument("--name", default="default", help="of an import path; default: default")

    p = add("deploy", deploy, "Deploys an application, or those of a config file, on a server that runs.")
    _target(p)
    _env_options(p)
    p.add_argument("--name", help="of an import path; default: default")

    for name, call, text in (("status", status, "Prints the state of all applications."),
                             ("config", config, "Prints the config of the applications that files have deployed.")):  # fmt: skip
        p = add(name, call, text)
        p.add_argument("-n", "--name", help="only this application")

    p = add("shutdown", shutdown, "Deletes all applications, and ends a server that `start` has started.")
    p.add_argument("-y", "--yes", action="store_true", help="does not ask")

    p = add("build", build, "Writes a config file for applications.", address=False)
    p.add_argument("import_paths", nargs="+", metavar="IMPORT_PATH")
    p.add_argument("-d", "--app-dir", default=".", metavar="DIR", help=APP_DIR)
    p.add_argument("-o", "--output-path", metavar="FILE", help="default: stdout")
    _grpc_options(p)
    return top


def _parse(top: argparse.ArgumentParser, argv: Optional[Sequence[str]]) -> argparse.Namespace:
    """KEY=VALUE may stand behind options, too."""
    options, rest = top.parse_known_args(argv)
    wrong = [a for a in rest if a.startswith("-") or not hasattr(options, "arguments")]
    if wrong:
        top.error("unrecognized arguments: %s" % " ".join(wrong))
    if rest:
        options.arguments = [*options.arguments, *rest]
    return options


def main(argv: Optional[List[str]] = None, prog: Optional[str] = None) -> NoReturn:
    """Runs a command and ends the process. argv: without the command's name; default: the process's. prog: how the command is
    called in its texts."""
    options = _parse(parser(prog or "anyserve-serve"), argv)
    code = 0
    try:
        options.call(options)
    except Refused as e:
        say(str(e))
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    sys.exit(code)
