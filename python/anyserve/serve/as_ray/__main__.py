"""``python -m anyserve.serve.as_ray PROGRAM``: runs a program, or a module by ``-m MODULE``, in which `ray` means AnyServe."""

import os
import sys

USAGE = """Usage: python -m anyserve.serve.as_ray PROGRAM [ARGS]
       python -m anyserve.serve.as_ray -m MODULE [ARGS]
       python -m anyserve.serve.as_ray serve COMMAND [ARGS]

Runs a program in which `import ray` and `from ray import serve` mean AnyServe (docs/guide/as-ray.md);
or the command `serve` of such programs."""


def main() -> None:
    from . import install
    from ._program import run_module, run_program

    args = sys.argv[1:]
    if args and args[0] in ("-h", "--help"):
        print(USAGE)
        return
    if not args or args[0].startswith("-") and (args[0] != "-m" or len(args) < 2):
        print(USAGE, file=sys.stderr)
        sys.exit(64)
    install()
    if args[0] == "serve" and not os.path.exists("serve"):
        from .._cli import main as serve

        serve(args[1:], prog="serve")
    elif args[0] == "-m":
        run_module(args[1], args[2:])
    else:
        run_program(args[0], args[1:])


if __name__ == "__main__":
    main()
