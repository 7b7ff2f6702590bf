import json
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slrlab._result import Status
from slrlab.experiments.running.encoding import decode, encode, storable
from slrlab.model.activations import Elementwise, make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR
from slrlab.theory.erm import ErmBranch, ErmTheory

_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: (
        st.lists(part)
        | st.lists(part).map(tuple)
        | st.dictionaries(st.text() | st.integers(), part)
    ),
    max_leaves=20,
)


@given(_PLAIN)
def test_plain_values_come_back_exactly(value):
    decoded = decode(encode(value))
    assert repr(decoded) == repr(value)  # types, order, nan and the last bit of every float


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1.5, math.nan], [math.inf, -0.0]]),
        np.arange(6, dtype=np.int32).reshape(1, 2, 3),
        np.zeros((0, 3)),
        np.array([True, False]),
        np.array(3.0),
        np.arange(12.0).reshape(3, 4)[:, ::2],
        np.array([1.0 + 2.0j]),
    ],
)
def test_arrays_keep_dtype_and_shape(value):
    decoded = decode(encode(value))
    assert isinstance(decoded, np.ndarray)
    assert decoded.dtype == value.dtype
    np.testing.assert_array_equal(decoded, value)
    if decoded.size:
        decoded[...] = 0  # an array of its own


def test_scalars_of_numpy_stay_what_they_are():
    for value in (np.float64(0.1), np.int64(3), np.bool_(True), np.float32(0.1)):
        decoded = decode(encode(value))
        assert type(decoded) is type(value)
        assert decoded == value


def test_tables_come_back():
    frame = pd.DataFrame(
        {
            "alpha": [1.0, math.nan, math.inf],
            "n": [1, 2, 3],
            "stable": [True, False, True],
            "curve": ["softmax", "linear", "ν"],
            "mixed": [1, "two", None],
        }
    )
    for table in (frame, frame.sort_values("n", ascending=False), frame.iloc[:0]):
        pd.testing.assert_frame_equal(decode(encode(table)), table)


def _theory():
    numbers = dict.fromkeys(
        [
            "test_risk",
            "test_risk_error",
            "train_mse",
            "objective",
            "m_k",
            "m_v",
            "q_k",
            "q_v",
            "V_k",
            "V_v",
            "bias",
            "replicon",
            "bistable_fraction",
            "trace_gap",
            "residual",
            "test_risk_low",
            "test_risk_high",
        ],
        0.1,
    )
    branch = ErmBranch(Status.SAMPLED, "informed", 0.5, math.nan, 0.3, 0.4)
    return ErmTheory(
        Status.UNSTABLE,
        **numbers,
        stable=False,
        stiffness="stein",
        branch="informed",
        branches=(branch,),
        samples=4096,
        steps=12,
        setting=Setting(SpikedSLR(2.0, "1,2,3", 0.1), make_activation("erf"), 0.5, 0.1, 0.0),
        errors={"m_k": math.inf},
    )


def test_results_come_back():
    known = _theory()
    decoded = decode(encode([known]))[0]
    assert repr(decoded) == repr(known)
    assert isinstance(decoded, ErmTheory)
    assert decoded.status is Status.UNSTABLE
    assert decoded.setting == known.setting


@pytest.mark.parametrize(
    "setting",
    [
        Setting(SpikedSLR(2.0, 3)),
        Setting(SpikedSLR(2.0, "1:0.25,4:0.75"), make_activation("erf", bias=-0.3)),
        Setting(SpikedSLR(2.0, 3), make_activation("normalised: 1 + x**2"), 2.0, 0.1, 0.2),
    ],
)
def test_settings_come_back_with_their_functions(setting):
    decoded = decode(encode(setting))
    assert decoded == setting


def test_a_setting_whose_names_do_not_stand_for_it_is_not_written():
    other = Setting(SpikedSLR(2.0, 3), Elementwise("softmax"))
    with pytest.raises(TypeError, match="softmax is not registered: it cannot be kept as data"):
        encode(other)


@dataclass
class _Stranger:
    x: float


def test_what_is_no_data_is_not_written():
    for value in (_Stranger(1.0), object(), {1, 2}, lambda: 0, np.array([object()]), print):
        with pytest.raises(TypeError, match="cannot be kept as data"):
            encode([value])
    with pytest.raises(TypeError, match="kind must be a dataclass or an enumeration, got dict"):
        storable(dict)
    with pytest.raises(TypeError, match="kind must have a name of its own, got Status again"):
        storable(dataclass(type("Status", (), {})))


def _array(**other):
    return {"kind": "array", "dtype": "<f8", "shape": [1], "bytes": "AAAAAAAAAAA="} | other


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1, 2",
        '{"kind": "os.system", "fields": {"command": "true"}}',
        '{"kind": "_Stranger", "fields": {"x": 1.0}}',
        '{"kind": "Status", "value": "splendid"}',
        '{"kind": "ErmBranch", "fields": {"branch": "informed"}}',
        '{"kind": "LengthLaw", "fields": {"lengths": [1], "probabilities": [2.0], "label": ""}}',
        '{"kind": "Setting", "fields": {"task": "spiked", "signal": 2.0}}',
        '{"kind": "Setting", "fields": {"task": "os", "signal": 2.0, "length": 3, "noise": 0}}',
        '{"kind": ["tuple"], "items": []}',
        '{"kind": "dict", "items": [[[1], 2]]}',
        '{"kind": "frame", "columns": [], "index": {"kind": "category", "items": []}}',
        json.dumps(_array(dtype="|O8")),
        json.dumps(_array(dtype="O")),
        json.dumps(_array(dtype="<M8[s]")),
        json.dumps(_array(shape=[10**12])),
        json.dumps(_array(shape=[-1])),
        json.dumps(_array(shape=[True])),
        json.dumps(_array(bytes="AAAA")),
        json.dumps(_array(bytes="no base 64 ö")),
        "[" * 100_000,
        "9" * 10_000,
    ],
)
def test_foreign_text_is_refused(text):
    with pytest.raises(ValueError, match=r"^.+$"):
        decode(text)
