"""The fifths of the samples for the figure with a slider of the epochs."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from study import figures


def followed(beta: float, *confidence: float) -> pd.DataFrame:
    """A run of thirteen epochs, in which a fifth has the same confidence after every one."""
    fifths = {f"group_confidence_{place}": value for place, value in enumerate(confidence)}
    return pd.DataFrame({"beta": beta, "epoch": range(14), **fifths})


def test_the_slider_has_the_mean_over_the_seeds_of_every_fifth() -> None:
    table = pd.concat(
        [
            followed(1.0, 0.1, 0.2, 0.3, 0.4, 0.5),
            followed(1.0, 0.3, 0.4, 0.5, 0.6, 0.7),
            followed(0.1, 0.2, 0.2, 0.2, 0.2, 0.2),
        ]
    )
    (text,) = re.findall(r"<script[^>]*>(.*)</script>", figures.fifths(table).data)
    found = json.loads(text)
    assert found["epochs"] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]
    assert found["betas"] == [1.0, 0.1]
    one, small = found["confidence"]
    assert [values[0] for values in one] == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6])
    assert {len(values) for values in one} == {11}
    assert {value for values in small for value in values} == {0.2}
