import importlib
import pkgutil

from numba.core.dispatcher import Dispatcher

import slrlab
from slrlab.experiments.running.warm_up import compile_kernels

# functions that others are built of: they are compiled with them
_PARTS = ("fill_weights", "normmax", "projected", "residual", "token_at")


def test_every_kernel_is_compiled():
    compile_kernels()
    entries = {}
    for module in pkgutil.walk_packages(slrlab.__path__, "slrlab."):
        if module.name.endswith("_kernel") and "heads" not in module.name:
            for name, value in vars(importlib.import_module(module.name)).items():
                own = isinstance(value, Dispatcher) and value.py_func.__module__ == module.name
                if own and not name.startswith("_") and name not in _PARTS:
                    entries[f"{module.name}.{name}"] = value
    assert len({name.rpartition(".")[0] for name in entries}) >= 3
    assert [name for name, value in entries.items() if not value.signatures] == []
