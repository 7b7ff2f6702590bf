from numba.core.dispatcher import Dispatcher

from slrlab.experiments.warm_up import compile_kernels
from slrlab.simulation.training import gradient_kernel
from slrlab.theory.erm import prox_kernel


def test_every_kernel_is_compiled():
    compile_kernels()
    for module in (prox_kernel, gradient_kernel):
        entries = {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, Dispatcher)
            and not name.startswith("_")
            and value.py_func.__module__ == module.__name__
        }
        assert entries
        assert [name for name, value in entries.items() if not value.signatures] == []
