import math
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from slrlab import MaxSLR, Setting, SpikedSLR, make_activation
from slrlab.figures.points import data_seed
from slrlab.model.activations import Elementwise, ScalarMap

SOFTMAX = make_activation("softmax")
TRAINED = Setting(SpikedSLR(2.0, "2,3,4", 0.3), SOFTMAX, alpha=4.0, ridge_k=0.5, ridge_v=0.8)
OTHER = Elementwise("softmax", phi=ScalarMap(np.tanh, np.ones_like, np.zeros_like))


class Unknown(SpikedSLR):
    name = "unknown-for-test"


def test_what_applies_is_flattened():
    where = {"task": "max", "signal": "inf", "length": "3", "noise": 0.0}
    assert Setting(MaxSLR(math.inf, 3)).to_dict() == where
    assert Setting(MaxSLR(math.inf, 3), alpha=2.0).to_dict() == where | {"alpha": 2.0}
    assert Setting(MaxSLR(math.inf, 3), SOFTMAX).to_dict() == where | {"activation": "softmax"}
    assert list(TRAINED.to_dict().values()) == ["spiked", 2.0, "2,3,4", 0.3, "softmax", 4, 0.5, 0.8]
    assert list(TRAINED.to_dict())[-3:] == ["alpha", "ridge_k", "ridge_v"]


def test_the_text_for_people():
    assert str(TRAINED) == "softmax on spiked (signal 2, length 2,3,4), alpha 4"
    assert str(Setting(MaxSLR(math.inf, 3))) == "max (signal inf, length 3)"


# committed results depend on these numbers
@pytest.mark.parametrize(
    ("setting", "text", "seed"),
    [
        (
            TRAINED,
            "Setting(task='spiked', signal=2.0, length='2,3,4', noise=0.3, activation='softmax', "
            "alpha=4.0, ridge_k=0.5, ridge_v=0.8)",
            44286600,
        ),
        (
            Setting(MaxSLR(math.inf, 3), make_activation("erf"), 0.5, 0.25, 1e-3),
            "Setting(task='max', signal=inf, length=3, noise=0.0, activation='erf', alpha=0.5, "
            "ridge_k=0.25, ridge_v=0.001)",
            98505900,
        ),
    ],
)
def test_the_text_that_seeds_depend_on(setting, text, seed):
    assert repr(setting) == text
    assert data_seed(setting) == seed


def test_different_settings_have_different_texts():
    task = SpikedSLR(2.0, 3)
    several = [
        Setting(task),
        Setting(task, SOFTMAX),
        Setting(task, make_activation("softmax", bias=0.5)),
        Setting(task, OTHER),
        Setting(Unknown(2.0, 3), SOFTMAX),
        Setting(task, SOFTMAX, 2.0),
    ]
    assert len({repr(setting) for setting in several}) == len(several)


def test_equal_settings_are_one():
    twice = [
        Setting(SpikedSLR(2.0, 3), make_activation("elementwise: 1 + tanh(x)")) for _ in range(2)
    ]
    assert len(set(twice)) == 1
    assert replace(TRAINED, activation=OTHER) != TRAINED


@pytest.mark.parametrize("name", ["erf", "softplus", "sparsemax", "normalised: 1 + x**2"])
def test_settings_are_pickled_by_name(name):
    known = Setting(SpikedSLR(2.0, 3), make_activation(name, bias=0.3), 2.0)
    data = pickle.dumps(known)
    assert pickle.loads(data) == known
    # in another process, too
    script = "import pickle, sys; print(repr(pickle.load(sys.stdin.buffer)))"
    child = subprocess.run(
        [sys.executable, "-c", script], input=data, capture_output=True, check=True
    )
    assert child.stdout.decode().strip() == repr(known)


def test_functions_that_no_name_stands_for_are_pickled_as_they_are():
    known = replace(TRAINED, activation=OTHER)
    assert pickle.loads(pickle.dumps(known)) == known
    assert pickle.loads(pickle.dumps(known)) != TRAINED


def test_an_activation_is_asked_for():
    assert TRAINED.activation_at(0.5).bias == 0.5
    with pytest.raises(ValueError, match=r"^setting must have an activation, got spiked"):
        Setting(SpikedSLR(2.0, 3)).activation_at(0.0)
