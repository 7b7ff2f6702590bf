import subprocess
import sys

# in a process of its own: other tests compile kernels, too
_SCRIPT = """
import importlib
import pkgutil

from numba.core.dispatcher import Dispatcher

import slrlab
from slrlab.experiments.running.warm_up import compile_kernels

# functions that others are built of: they are compiled with them
_PARTS = ("fill_weights", "normmax", "projected", "residual", "token_at")

compile_kernels()
for module in pkgutil.walk_packages(slrlab.__path__, "slrlab."):
    if module.name.endswith("_kernel") and "heads" not in module.name:
        for name, value in vars(importlib.import_module(module.name)).items():
            own = isinstance(value, Dispatcher) and value.py_func.__module__ == module.name
            if own and not name.startswith("_") and name not in _PARTS:
                print(bool(value.signatures), f"{module.name}.{name}")
"""


def test_every_kernel_is_compiled():
    run = [sys.executable, "-W", "error", "-c", _SCRIPT]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len({line.rpartition(".")[0] for line in lines}) >= 3
    assert [line for line in lines if not line.startswith("True ")] == []
