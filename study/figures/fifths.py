"""The recorded fifths of the samples, for the figure with a slider of the epochs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from IPython.display import HTML

_EPOCHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)
_FIFTHS = [f"group_confidence_{fifth}" for fifth in range(5)]  # from the hardest to the easiest


def fifths(curves: pd.DataFrame) -> HTML:
    """Give the mean confidence of each fifth to ``book/_static/fifths.js``.

    Args:
        curves: a row for each run and epoch of one variant, with ``beta``, ``epoch`` and
            ``group_confidence_0`` (the hardest fifth) to ``group_confidence_4``.
    """
    shown = curves[curves["epoch"].isin(_EPOCHS)]
    means = shown.groupby(["beta", "epoch"], sort=False)[_FIFTHS].mean()
    betas = list(dict.fromkeys(shown["beta"]))
    content = {
        "epochs": [int(epoch) for epoch in dict.fromkeys(shown["epoch"])],
        "betas": [float(beta) for beta in betas],
        "confidence": [means.loc[beta].to_numpy().T.round(3).tolist() for beta in betas],
    }
    from IPython.display import HTML  # a machine that only trains has no IPython

    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return HTML(
        '<div class="fifths">With JavaScript enabled, a slider over the epochs appears here.'
        f'<script type="application/json">{text}</script></div>'
    )
