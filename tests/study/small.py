"""The setting that most tests train: constants alone, one seed, ten epochs."""

from __future__ import annotations

from functools import partial

from study.settings import Train

experiment = partial(Train, warmups=(), seeds=(0,), epochs=10)
