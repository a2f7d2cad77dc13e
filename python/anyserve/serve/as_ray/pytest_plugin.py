"""A plugin of pytest: with `--as-ray`, `import ray` in tests and conftest files means AnyServe.

    pytest --as-ray

Where the package is not installed, `-p anyserve.serve.as_ray.pytest_plugin` loads it.
"""

from typing import Any

import pytest


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--as-ray", action="store_true", help="`import ray` means AnyServe (docs/guide/as-ray.md)")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any, parser: Any, args: Any) -> None:
    """Before the first conftest file, which may import ray."""
    if early_config.known_args_namespace.as_ray:
        from anyserve.serve import as_ray

        as_ray.install()
