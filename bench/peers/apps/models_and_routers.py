"""multiplexed.py at /, and routed.py for each router in $ROUTERS, names separated by commas, at /ROUTER."""

import os

import routed
from multiplexed import app  # noqa: F401

more = {name: routed.application(name) for name in os.environ["ROUTERS"].split(",") if name}
