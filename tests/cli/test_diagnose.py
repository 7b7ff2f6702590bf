"""The command diagnose."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from slrlab import SpikedSLR, diagnose_scores


@pytest.fixture
def file(tmp_path):
    keys, locations = SpikedSLR(5.0, 8).sample_scores(np.random.default_rng(0), 200, 8)
    path = tmp_path / "head.npz"
    np.savez(path, scores=keys, locations=locations)
    return path


def test_json_is_that_of_the_function(run, file):
    code, out, _ = run("diagnose", file, "--at", "16,32", "--json")
    with np.load(file) as stored:
        wanted = diagnose_scores(stored["scores"], stored["locations"], at=(16, 32))
    values = json.loads(out)
    assert code == 0
    assert values["signal"] == pytest.approx(wanted.signal, rel=1e-9)
    assert [one["length"] for one in values["predictions"]] == [16, 32]
    assert values["log_sink"] == "-inf"


def test_a_table_and_a_picture(run, file, tmp_path, only_progress):
    picture = tmp_path / "ratio.png"
    code, out, err = run("diagnose", file, "--activation", "linear", "--plot", picture)
    assert code == 0
    assert only_progress(err)
    assert "fitted task" in out
    assert "bayes_context" in out
    with Image.open(picture) as image:
        assert len(image.convert("L").getcolors(1 << 16)) > 20


def npz_bytes():
    stream = io.BytesIO()
    np.savez_compressed(stream, scores=np.arange(4096.0).reshape(64, 64), locations=np.arange(64))
    return stream.getvalue()


def npy_bytes():
    stream = io.BytesIO()
    np.save(stream, np.zeros((64, 3)))
    return stream.getvalue()


TEXT_SCORE = "sequence,score,relevant\n0,1.0,1\n0,high,0\n"
NEEDED = "file must be a .npz file with the arrays scores and locations"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.npz", None, "none.npz, which does not exist"),
        ("head.npz", b"", NEEDED),
        ("head.npz", b"PK\x03\x04 no archive", NEEDED),
        ("head.npz", npz_bytes()[:1500], NEEDED),
        ("head.npz", npz_bytes()[:300] + bytes(40) + npz_bytes()[340:], NEEDED),
        ("head.npz", npy_bytes(), NEEDED),
        ("head.csv", TEXT_SCORE, "score must be a column of numbers (row 1), got high"),
        ("none.npz", None, "file must be a file that ends with .npz, .csv, .parquet"),
        ("head.txt", "1", "file must be a file that ends with .npz, .csv, .parquet"),
        ("head.npz", "no archive", "file must be a .npz file with the arrays scores and locations"),
        ("head.csv", "a,b\n1,2\n", "file must be a table with the columns sequence, score"),
        ("head.csv", "sequence,score,relevant\n0,1.0,2\n", "relevant must be 0 or 1 (sequence 0)"),
        ("head.csv", "sequence,score,relevant\n0,1.0,0\n", "relevant must be 1 for one token"),
    ],
)
def test_bad_files_are_refused_in_one_line(run, tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run("diagnose", path)
    assert (code, out) == (2, "")
    assert message in err
    assert str(path) in err
    assert "Path(" not in err
    assert err.count("\n") == 1


def test_bad_lengths_are_refused(run, file):
    code, _, err = run("diagnose", file, "--at", "1")
    assert code == 2
    assert "--at must be a whole number >= 2, got 1" in err
