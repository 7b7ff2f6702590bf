"""Run fast tests as other processors would, and with all cores busy: ``make test-portable``.

Rounding differs between processors: numba compiles for the present one, NumPy and OpenBLAS choose
their kernels by it. A setting makes each of the three use an older one. A result that holds on all
of them does not depend on the last bits. Tests of processes, files and messages never do: they run
once more in the last set alone, with all cores busy, where their timing may fail.
"""

import os
import platform
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import numpy as np

SUITE = [
    sys.executable,
    "-m",
    "pytest",
    "-m",
    "not slow and not extra",
    "-n",
    "auto",
    "--dist",
    "worksteal",
]
# all other tests, new ones too, run on every instruction set
WITHOUT_NUMBERS = (
    "tests/cli",
    "tests/experiments/running/test_encoding.py",
    "tests/experiments/running/test_parallel.py",
    "tests/experiments/running/test_runner.py",
    "tests/experiments/running/test_store.py",
    "tests/experiments/test_sweeps.py",
    "tests/figures/test_reproduction.py",
    "tests/test_checks.py",
    "tests/test_machine.py",
    "tests/test_recipes.py",
    "tests/test_types.py",
)
BUSY = "import os; os.nice(5)\nwhile True: pass"


def instruction_sets(machine, features):
    """Return the environment variables of each run, by name.

    ``features`` are the instruction sets beyond its baseline that NumPy has found on the machine.
    """
    wide = [name for name in features if "512" in name or name == "X86_V4"]
    oldest = {"NUMBA_CPU_NAME": "generic", "NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    if machine.lower() not in ("x86_64", "amd64"):
        return {"oldest": oldest}
    sets = {"oldest": oldest | {"OPENBLAS_CORETYPE": "Prescott"}}
    if len(features) > len(wide):  # what is left holds AVX2, which Haswell needs
        no_wide = {"NPY_DISABLE_CPU_FEATURES": " ".join(wide)}
        sets["haswell"] = no_wide | {"OPENBLAS_CORETYPE": "Haswell", "NUMBA_CPU_NAME": "haswell"}
    return sets


@contextmanager
def busy_cores():
    """Keep every core busy with work of lower priority."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            stack.callback(loop.kill)
        yield


def run(name, environment, without=()):
    """Run the fast tests, print one line, and return whether they passed."""
    command = [*SUITE, *(f"--ignore={path}" for path in without)]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    closing = done.stdout.strip().rpartition("\n")[2].strip("= ") or "no tests ran"
    settings = " ".join(f"{key}={value!r}" for key, value in environment.items() if value)
    print(f"{name}: {closing} ({settings})", flush=True)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", flush=True)
    return done.returncode == 0


def main():
    """Run each set, the last one with every core busy."""
    features = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    *first, (name, environment) = instruction_sets(platform.machine(), features).items()
    passed = [run(*each, WITHOUT_NUMBERS) for each in first]
    with busy_cores():
        passed.append(run(f"{name}, busy", environment))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
