"""The house itself: layers, documentation, the built wheel."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import slrlab

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def test_imports_run_one_way():
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_public_names_exist_and_are_documented():
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for name in slrlab.__all__:
        assert getattr(slrlab, name).__doc__, name
        assert name in reference, name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_on_the_pages_runs_and_prints_what_they_say(page, tmp_path):
    """A text block right after a python block is what the python block prints."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```)?", text, re.S | re.M)
    if not blocks:
        return
    script = "import contextlib, io\n"
    for code, printed in blocks:
        script += (
            f"_out = io.StringIO()\nwith contextlib.redirect_stdout(_out):\n    exec({code!r})\n"
        )
        if printed:
            script += f"assert _out.getvalue() == {printed!r}, _out.getvalue()\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_documentation_builds_strictly_and_needs_no_network(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pages = [path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html")]
    assert any("<math" in page for page in pages)
    for page in pages:
        loaded = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=[\"']?(https?:[^\"' >]*)", page)
        assert [url for url in loaded if "canonical" not in url] == []


@pytest.mark.slow
def test_the_wheel_installs_in_a_clean_environment(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert "slrlab/py.typed" in zipfile.ZipFile(wheel).namelist()
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    subprocess.run(install, check=True, capture_output=True)
    for arguments in (["--help"], ["population", "--json"]):
        command = [tmp_path / "env" / "bin" / "slrlab", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert '"risk"' in done.stdout
