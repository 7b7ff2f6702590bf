"""What the tests of the commands share: a call of the command line, and what it prints."""

import re

import pytest
from PIL import Image

from slrlab.cli.main import main


@pytest.fixture
def run(capsys):
    """Return what calls the command line and returns exit code, stdout and stderr."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(item) for item in arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call


@pytest.fixture
def only_progress():
    """Return what says whether stderr holds nothing but lines of progress (of slow machines)."""
    return lambda err: all(re.search(r": \d+ of \d+$", line) for line in err.splitlines())


@pytest.fixture
def written(run, tmp_path, only_progress):
    """Return what runs a command with --csv and --plot; it returns stdout and the CSV file."""

    def call(*arguments):
        table, picture = tmp_path / "all.csv", tmp_path / "all.png"
        code, out, err = run(*arguments, "--csv", table, "--plot", picture)
        assert code == 0
        assert only_progress(err)
        with Image.open(picture) as image:
            assert len(image.convert("L").getcolors(1 << 16)) > 20
        return out, table

    return call
