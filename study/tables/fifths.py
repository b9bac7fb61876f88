"""The recorded fifths of the samples, for the figure with a slider of the epochs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from IPython.display import HTML

_EPOCHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)


def slider(table: pd.DataFrame) -> HTML:
    """Give the mean confidence of each fifth to ``book/_static/fifths.js``.

    Args:
        table: runs of one variant, with ``schedule`` (constant β alone), ``curve_epoch`` and
            ``group_confidence``, from the hardest fifth to the easiest.
    """
    epochs = list(table["curve_epoch"].iloc[0])
    shown = [epoch for epoch in _EPOCHS if epoch in epochs]
    places = [epochs.index(epoch) for epoch in shown]
    confidence = {
        str(beta): np.mean(np.array(runs["group_confidence"].tolist()), axis=0)[:, places]
        for beta, runs in table.groupby("schedule", sort=False)
    }
    content = {
        "epochs": shown,
        "betas": [float(beta) for beta in confidence],
        "confidence": [values.round(3).tolist() for values in confidence.values()],
    }
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return HTML(
        '<div class="fifths">A slider over the epochs stands here where scripts run.'
        f'<script type="application/json">{text}</script></div>'
    )
