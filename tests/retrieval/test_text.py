"""Text as a linguistic task: bytes, splits, and the text of an installed package."""

from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from slrlab import SlrlabError
from slrlab.retrieval.text import TextTask, find_text

WORDS = "The relevant token is one of many; attention looks for it. Café – 3 × 3 = 9.\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{number} {WORDS}" for number in range(40)), encoding="utf-8")
    return path


def test_sequences_are_pieces_of_their_part_of_the_text(file):
    content = file.read_bytes()
    border = round(0.9 * len(content))
    for split, part in (("train", content[:border]), ("validation", content[border:])):
        task = TextTask(file, length=20, split=split)
        batch = task.draw(np.random.default_rng(0), 300)
        assert batch.inputs.shape == batch.targets.shape == batch.positions.shape == (300, 20)
        assert (batch.inputs[:, 1:] == batch.targets[:, :-1]).all()
        assert task.features == task.classes == len(set(content))
        known = np.array(sorted(set(content)))
        for tokens, last in zip(batch.inputs, batch.targets[:, -1], strict=True):
            assert bytes(known[[*tokens, last]].tolist()) in part
        word = np.searchsorted(known, list("Café".encode()))
        assert task.decode(word) == "Café"
        assert task.decode(word[:-1]) == "Caf\ufffd"


def test_every_place_is_drawn_and_the_seed_fixes_the_data(file):
    task = TextTask(file, length=20, split="validation")
    rng = [np.random.default_rng(seed) for seed in (0, 0, 1)]
    one, same, other = (task.draw(each, 5000).inputs for each in rng)
    assert (one == same).all()
    assert (one != other).any()
    part = file.read_bytes()[round(0.9 * len(file.read_bytes())) :]
    pieces = {part[at : at + 20] for at in range(len(part) - 20)}
    assert len({row.tobytes() for row in one}) == len(pieces)


def test_the_entropy_is_that_of_frequencies(tmp_path):
    path = tmp_path / "halves.txt"
    path.write_bytes(b"ab" * 500)
    assert TextTask(path).byte_entropy == pytest.approx(np.log(2.0))


def test_another_content_is_another_task(file):
    before = TextTask(file)
    assert before == TextTask(file)
    file.write_text(file.read_text(encoding="utf-8").replace("many", "some"), encoding="utf-8")
    assert before != TextTask(file)
    assert before.digest != TextTask(file).digest


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": 1}, "^length must be"),
        ({"split": "test"}, "^split must be one of train, validation, got test"),
        ({"held_out": 1.0}, "^held_out must be a number between 0 and 1"),
        ({"length": 400, "split": "validation"}, "^path must be a file with more than 400 bytes"),
        ({"path": Path("none.txt")}, "^path must be a file that can be read, got .*none.txt"),
    ],
)
def test_bad_input_is_named(file, given, message):
    with pytest.raises(ValueError, match=message):
        TextTask(**{"path": file} | given)


def test_the_text_of_a_package_is_found_without_an_import(tmp_path, monkeypatch):
    package = tmp_path / "music21"
    text = package / "languageExcerpts" / "trainingData" / "en.txt"
    text.parent.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    about = tmp_path / "music21-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: music21\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SlrlabError, match=r"^the package music21 must have the file music21/lang"):
        find_text("music21")
    text.write_text(WORDS, encoding="utf-8")
    assert find_text("music21").read_text(encoding="utf-8") == WORDS


def test_without_the_package_one_line_names_it(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(SlrlabError, match=r"^this text needs the package music21: pip install"):
        find_text("music21")


def test_a_missing_file_is_named(file):
    assert find_text(file) == find_text(str(file)) == file
    with pytest.raises(ValueError, match=r"^text must be a file that exists, or music21, got none"):
        find_text("none.txt")
