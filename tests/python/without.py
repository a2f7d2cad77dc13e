"""Runs a module like `python -m`, but the modules in ANYSERVE_TEST_WITHOUT cannot be imported."""

import os
import runpy
import sys


class Nothing:
    names = set(os.environ["ANYSERVE_TEST_WITHOUT"].split(","))

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


assert sys.argv[1] == "-m"
sys.meta_path.insert(0, Nothing())
sys.path[0] = os.getcwd()
module, sys.argv = sys.argv[2], sys.argv[2:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
