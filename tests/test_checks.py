"""Numbers that no computation could be meant by are refused before any work."""

import pytest

from slrlab import SpikedSLR, draw_dataset, local_minima, run_amp, simulate_erm
from slrlab.cli.main import main
from slrlab.experiments.sweeps import Sweep

HUGE = 10**200
TRAINING = ["simulate", "--alpha", "4", "--ridge-k", "1", "--ridge-v", "1", "--dim", "20"]
PASSING = ["amp", "--alpha", "2", "--dim", "20"]


@pytest.mark.parametrize(
    "text", [str(HUGE), "1" * 5000, "1e300", "10000000000"], ids=["200", "5000", "float", "11"]
)
@pytest.mark.parametrize(
    "arguments",
    [
        [*TRAINING, "--seeds"],
        [*TRAINING, "--seeds", "4", "--dim"],
        [*TRAINING, "--test-samples"],
        [*TRAINING, "--max-steps"],
        [*TRAINING, "--compare", "--seeds"],
        [*PASSING, "--seeds"],
        [*PASSING, "--dim"],
        [*PASSING, "--steps"],
        [*PASSING, "--test-samples"],
        ["sweep", "no-such-file.toml", "--workers"],
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-1]}",
)
def test_absurd_counts_on_the_command_line(capsys, arguments, text):
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, text])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"slrlab: {arguments[-1]} must be a whole number ")
    assert said.count("\n") == 1
    assert len(said) < 300


@pytest.mark.parametrize(
    "value", [HUGE, 10**5000, 10**12, 1e300], ids=["200", "5000", "12", "float"]
)
def test_absurd_counts_from_python(value):
    task = SpikedSLR(2.0, 3)
    ridges = {"alpha": 2.0, "ridge_k": 1.0, "ridge_v": 1.0}
    for name in ("dim", "seeds", "test_samples", "max_steps"):
        with pytest.raises(ValueError, match=f"^{name} must be a whole number <= 10+, got "):
            simulate_erm(task, "softmax", **{**ridges, "dim": 10, name: value})
    for name in ("dim", "seeds", "steps", "test_samples"):
        with pytest.raises(ValueError, match=f"^{name} must be a whole number <= 10+, got "):
            run_amp(task, **{"alpha": 2.0, "dim": 10, name: value})
    for name in ("dim", "samples", "threads"):
        with pytest.raises(ValueError, match=f"^{name} must be a whole number <= 10+, got "):
            draw_dataset(task, **{"dim": 10, "samples": 10, name: value})
    with pytest.raises(ValueError, match=r"^starts must be a whole number <= 10+, got "):
        local_minima(task, "softmax", starts=value)
    with pytest.raises(ValueError, match=r"^seeds must be a whole number <= 10+, got "):
        Sweep("erm", settings={"alpha": 2.0, "ridge_k": 1.0, "ridge_v": 1.0}, seeds=value).expand()


def test_a_number_beyond_all_floats():
    with pytest.raises(ValueError, match=r"^signal must be .* got a number of about 401 digits$"):
        SpikedSLR(10**400, 3)


def test_a_sweep_of_too_many_points():
    sweep = Sweep("population", grid={"signal": [1.0] * 2000, "noise": [0.0] * 2000})
    with pytest.raises(ValueError, match=r"^number of points must be a whole number <= 1000000"):
        sweep.expand()
