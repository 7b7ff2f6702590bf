"""Lines of equal risk: the library's risk on an interpolated line is the demanded one."""

import pandas as pd
import pytest

from slrlab import MaxSLR, SpikedSLR, hit_rate, minimal_risk
from slrlab.experiments.requirements.iso_lines import iso_lines
from slrlab.experiments.stored import stored_population


@pytest.mark.parametrize("name", ["softmax", "linear", "erf", "softplus"])
def test_lines_of_the_stored_table_meet_the_demand_within_a_line_width(name):
    table = stored_population("spiked")
    table = table[(table["length"] == "10") & (table["activation"] == name)]
    for level in (0.2, 0.55):
        line = iso_lines(table, along="signal", by=["activation"], quantity="risk", level=level)
        # a line of 2 pixels in 300, which show four powers of ten of the risk, is 6 %
        risk = minimal_risk(SpikedSLR(line["signal"].item(), 10), name).risk
        assert risk == pytest.approx(level, rel=0.005)


def test_a_line_of_equal_hit_rate():
    table = stored_population("max")
    line = iso_lines(table, along="signal", by=["length"], quantity="hit_rate", level=0.6)
    at = line[line["length"] == "100"]["signal"].item()
    assert hit_rate(MaxSLR(at, 100)) == pytest.approx(0.6, rel=0.005)


def test_groups_that_never_meet_the_demand_or_always_do_are_left_out():
    table = pd.DataFrame(
        {
            "name": ["never"] * 2 + ["always"] * 2 + ["one"],
            "signal": [1.0, 2.0, 1.0, 2.0, 1.0],
            "risk": [0.9, 0.8, 0.3, 0.2, 0.9],
        }
    )
    assert iso_lines(table, along="signal", by=["name"], quantity="risk", level=0.5).empty


def test_an_unknown_quantity_is_refused():
    with pytest.raises(ValueError, match="quantity must be one of risk, hit_rate"):
        iso_lines(pd.DataFrame(), along="signal", by=[], quantity="loss", level=0.5)
