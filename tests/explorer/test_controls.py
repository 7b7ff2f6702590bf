"""What a user can set: round trips through an address, and what is not accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slrlab.explorer.controls import Controls, read_control
from slrlab.explorer.sidebar import lengths_with

NUMBERS = st.floats(min_value=1e-3, max_value=10.0)


@given(
    st.builds(
        Controls,
        task=st.sampled_from(["spiked", "max"]),
        signal=st.floats(min_value=0.0, max_value=1e4) | st.just(float("inf")),
        length=st.sampled_from(["1", "10", "1000000", "1,2,3", "1:0.2,2:0.8"]),
        noise=NUMBERS,
        activations=st.sampled_from([("softmax",), ("linear", "normalised: exp(x) + x**2")]),
        x=st.sampled_from(["signal", "length"]),
        seed=st.integers(0, 10**9 - 1),
        ridge=st.sampled_from(["best", "given"]),
        m_kk=NUMBERS,
        demand=st.sampled_from(["risk", "hit_rate"]),
        target=st.floats(min_value=1e-3, max_value=0.999),  # a hit rate is below 1
        exact=st.booleans(),
    )
)
def test_an_address_restores_the_controls(controls):
    restored, messages = Controls.from_query(controls.to_query())
    assert messages == []
    assert restored.to_query() == controls.to_query()
    assert restored.make_task() == controls.make_task()
    assert (restored.signal, restored.activations) == (controls.signal, controls.activations)


def test_an_address_without_anything_is_that_of_the_start():
    start = Controls(signal=16.0, length="100")
    assert Controls.from_query({}, start) == (start, [])
    # the defaults are written out, so that they are not taken for the start
    assert Controls.from_query(Controls().to_query(), start) == (Controls(), [])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("task", "soft", "task must be one of"),
        ("signal", "-1", "signal must be a number from 0 to 10000, or inf, got -1"),
        ("signal", "1e5", "signal must be"),
        ("signal", "nan", "signal must be"),
        ("length", "0", "length"),
        ("length", "1000001", "length must be at most 1000000"),
        ("length", "1-5000", "length"),
        ("noise", "11", "noise must be a number from 0 to 10"),
        ("activations", "softmax;", "activation must be a name or an expression"),
        ("activations", "normalised: __import__('os')", "must"),
        ("activations", ";".join("abcdefg"), "must be"),
        ("activations", "", "choose at least one activation"),
        ("seed", "1.5", "seed must be a whole number"),
        ("ridge_k", "-1", "ridge_k must be"),
        ("m_kk", "11", "m_kk must be a number from -10 to 10"),
        ("target", "0", "target must be a number > 0"),
        ("exact", "maybe", "exact must be one of"),
    ],
)
def test_a_value_that_is_not_accepted_is_named_and_replaced(name, text, message):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        read_control(name, text)
    assert message in str(error.value)
    controls, messages = Controls.from_query({name: text, "seed": "7"} | {name: text})
    assert getattr(controls, name) == getattr(Controls, name)
    assert len(messages) == 1
    assert messages[0].startswith(str(error.value))


def test_a_hit_rate_of_one_is_refused_at_the_control():
    asked = {"demand": "hit_rate", "target": "1.2"}
    controls, messages = Controls.from_query(asked)
    assert (controls.demand, controls.target) == ("hit_rate", Controls.target)
    assert messages == [
        "target must be a number between 0 and 1 for a hit rate, got 1.2; target is 0.1 instead"
    ]
    assert Controls.from_query(asked | {"demand": "risk"})[1] == []


def test_a_length_that_is_not_stored_has_its_place_among_the_others():
    shown = lengths_with("7")
    assert shown[shown.index("7") - 1] == "5"
    assert shown[shown.index("7") + 1] == "10"
    assert lengths_with("1,2,3")[-1] == "1,2,3"
    assert lengths_with("10") == sorted(lengths_with("10"), key=int)


def test_at_most_six_activations_and_the_focus_is_one_of_them():
    with pytest.raises(ValueError, match="activations must be at most 6, got 7"):
        read_control("activations", [f"elementwise: {n} + tanh(x)" for n in range(7)])
    assert Controls(activations=("linear",), activation="softmax").focus == "linear"
    assert Controls(activation="erf").focus == "erf"
