"""Build slrlab and try it as others install it: ``make release``.

The wheel and the source archive are each installed into clean environments: with the lowest
versions that pyproject.toml allows on the lowest Python it allows, and with the newest versions on
the newest Python of this machine. The commands run with warnings as errors, and a part of the tests
runs from the unpacked archive. What was built stays in ``dist/``.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMANDS = (("--version",), ("cite",), ("population", "--json"), ("erm", "--help"))
TESTS = ("tests/test_checks.py", "tests/test_paper.py", "tests/cli/test_cite.py", "tests/model")


def lowest_versions(dependencies):
    """Return the constraints that pin each dependency to its lower bound."""
    bounds = [re.fullmatch(r"([\w.-]+)>=([\d.]+)", line) for line in dependencies]
    return [f"{bound[1]}=={bound[2]}" for bound in bounds]


def pythons():
    """Return the interpreters of this machine by their version, such as (3, 11)."""
    folders = [Path(name) for name in os.environ["PATH"].split(os.pathsep)]
    folders += sorted((Path.home() / ".pyenv" / "versions").glob("*/bin"))
    interpreters = {}
    for path in (path for folder in folders for path in sorted(folder.glob("python3.*"))):
        if version := re.fullmatch(r"python3\.(\d+)", path.name):
            works = subprocess.run([path, "--version"], capture_output=True, check=False)
            if works.returncode == 0:  # a shim may lead nowhere
                interpreters.setdefault((3, int(version[1])), path)
    return interpreters


def choose(interpreters, least):
    """Return the interpreter of the lowest version, and the newest version with its interpreter."""
    newer = [item for item in interpreters.items() if item[0] > least]
    if least not in interpreters or not newer:
        lacking = (
            "a newer Python" if least in interpreters else f"Python {'.'.join(map(str, least))}"
        )
        sys.exit(f"{lacking} was not found: a release is tried on the lowest and on a newer one")
    return interpreters[least], max(newer)


def run(*command, **options):
    """Run a command and return what it prints; stop with its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        words = " ".join(map(str, command))
        sys.exit(f"{words} failed with code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def try_out(archive, python, constraints, folder):
    """Install an archive into a clean environment, run the commands, then a part of the tests."""
    run(python, "-m", "venv", folder / "env")
    inside = folder / "env" / "bin"
    pins = folder / "constraints.txt"
    pins.write_text("\n".join(constraints), encoding="utf-8")
    clean = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    options = {"cwd": folder, "env": clean | {"MPLBACKEND": "agg"}}
    pip = (inside / "python", "-m", "pip", "install", "--quiet", "--constraint", pins)
    run(*pip, archive, **options)
    strict = options | {"env": options["env"] | {"PYTHONWARNINGS": "error"}}
    printed = [run(inside / "slrlab", *words, **strict) for words in COMMANDS]
    if printed[0].split()[1] != archive.name.split("-")[1].removesuffix(".tar.gz"):
        sys.exit(f"{archive.name} installs {printed[0]}")
    if archive.suffix == ".whl":
        return "commands run"
    with tarfile.open(archive) as held:
        held.extractall(folder, filter="data")
    run(*pip, f"{archive}[test]", **options)
    source = {"cwd": folder / archive.name.removesuffix(".tar.gz")}
    shown = run(inside / "python", "-m", "pytest", "-m", "not slow", *TESTS, **options | source)
    return f"commands run, {shown.strip().splitlines()[-1]}"


def main():
    """Build the two archives and try both at both ends of what is allowed."""
    least = tuple(map(int, re.findall(r"\d+", PROJECT["requires-python"])))
    low, newest = choose(pythons(), least)
    ends = {
        "lowest versions": (least, low, lowest_versions(PROJECT["dependencies"])),
        "newest versions": (*newest, []),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
        archives = sorted(path for path in folder.iterdir() if path.is_file())
        (ROOT / "dist").mkdir(exist_ok=True)
        for archive in archives:
            (ROOT / "dist" / archive.name).write_bytes(archive.read_bytes())
        for end, (version, python, constraints) in ends.items():
            label = f"{end}, Python {'.'.join(map(str, version))}"
            for archive in archives:
                with tempfile.TemporaryDirectory() as temporary:
                    outcome = try_out(archive, python, constraints, Path(temporary))
                print(f"{label}: {archive.name} installed, {outcome}", flush=True)


if __name__ == "__main__":
    main()
