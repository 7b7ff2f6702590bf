import math
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from slrlab import Elementwise, ScalarMap, SpikedSLR, gradient_flow
from slrlab.figures.animation import COLOURS, animate_flow, draw_moment
from slrlab.theory.landscape.risk import make_landscape

TASK = SpikedSLR(2.0, 3)
STARTS = [
    ([0.3, 0.5, 0.0, 0.0], [0.1, 0.1, 0.0, 0.1]),
    ([0.2, -0.4, 0.3, 0.0], [0.0, 0.2, 0.0, 0.0]),
]


@pytest.fixture(scope="module")
def flows():
    return [gradient_flow(TASK, "linear", start=start, tolerance=1e-4) for start in STARTS]


def test_a_film_is_small_and_moves(flows, tmp_path):
    seen = []
    path = tmp_path / "new" / "flow.gif"
    written = animate_flow(flows, path, frames=12, points=9, report=lambda *s: seen.append(s))
    assert written == path
    assert path.stat().st_size < 1_000_000
    with Image.open(path) as film:
        assert film.n_frames == 12
        pictures = []
        for number in range(12):
            film.seek(number)
            pictures.append(np.asarray(film.convert("RGB"), dtype=int))
    changes = [np.abs(b - a).sum() for a, b in pairwise(pictures)]
    assert min(changes) > 0
    for colour in COLOURS[:2]:  # both paths have grown in their own colours
        wanted = 255.0 * np.array(to_rgb(colour))
        first, last = ((np.abs(p - wanted).sum(-1) < 40).sum() for p in (pictures[0], pictures[-1]))
        assert last > first + 50
    assert {label for _, _, label in seen} == {"contours of the risk", "drawing frames"}


def test_a_moment_names_its_minima_and_its_time(flows):
    figure = draw_moment(flows, 2.0, points=9)
    left, right = figure.axes[:2]
    assert right.get_title() == "time 2"
    assert any("matched" in text.get_text() for text in left.texts)
    assert left.get_xlabel()
    assert right.get_ylabel()
    end = draw_moment(flows[0], math.inf, points=9).axes[1].get_title()
    assert end.startswith("time ")


def test_a_flow_without_end_is_cut(tmp_path):
    flow = gradient_flow(SpikedSLR(2.0, 10), "linear", start="mismatched", time=5.0)
    assert flow.status == "diverged"
    film = animate_flow(flow, tmp_path / "away.gif", frames=3, points=5)
    assert film.stat().st_size > 1000


class Wide(SpikedSLR):
    name = "wide-for-test"


@pytest.mark.parametrize(("name", "kind"), [("linear", SpikedSLR), ("own-for-test", Wide)])
def test_contours_are_those_of_the_flow_itself(name, kind):
    """An activation may share the name of a built-in one; it and its task may be unregistered."""
    bent = ScalarMap(
        lambda x: 1.0 + np.tanh(x),
        lambda x: np.cosh(x) ** -2.0,
        lambda x: -2.0 * np.tanh(x) * np.cosh(x) ** -2.0,
    )
    task, activation = kind(2.0, 3), Elementwise(name, phi=bent)
    flow = gradient_flow(task, activation, start=STARTS[0], tolerance=1e-4)
    own, given = (
        draw_moment(flow, points=7, landscape=landscape).axes[0]
        for landscape in (None, make_landscape(task, activation))
    )
    assert own.get_title().startswith(f"{name} on {task.name}-SLR")
    levels, expected = (axes.collections[0].levels for axes in (own, given))
    assert levels.tolist() == expected.tolist()


def test_bad_input_is_named(flows, tmp_path):
    for name in ("flow.mp4", "flow"):
        with pytest.raises(ValueError, match=r"animation must be a file name ending in \.gif, got"):
            animate_flow(flows, tmp_path / name)
    with pytest.raises(ValueError, match="flows must be one or more of a single setting"):
        animate_flow([], tmp_path / "flow.gif")
    with pytest.raises(ValueError, match="frames must be a whole number >= 2, got 1"):
        animate_flow(flows, tmp_path / "flow.gif", frames=1)
    assert not list(tmp_path.iterdir())
