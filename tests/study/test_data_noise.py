"""Wrong labels: as many as were asked for, of other classes, nested.

They are the same for every seed of the training.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from study.data import with_label_noise


@given(st.integers(1, 300), st.floats(0, 0.99), st.integers(2, 20))
def test_exactly_so_many_are_wrong(samples, share, classes):
    labels = torch.arange(samples) % classes
    noisy = with_label_noise(labels, share, classes=classes)
    assert int((noisy != labels).sum()) == round(share * samples)
    assert int(noisy.min()) >= 0 and int(noisy.max()) < classes


def test_noise_is_nested_and_leaves_the_rest_alone():
    labels, state = torch.arange(1000) % 7, torch.get_rng_state()
    less, more = (with_label_noise(labels, share, classes=7) for share in (0.2, 0.5))
    wrong = less != labels
    assert torch.equal(less[wrong], more[wrong])
    assert torch.equal(labels, torch.arange(1000) % 7) and torch.equal(torch.get_rng_state(), state)


def test_all_other_classes_are_equally_likely():
    noisy = with_label_noise(torch.full((60_000,), 2), 0.5, classes=4)
    counts = torch.bincount(noisy[noisy != 2], minlength=4)
    assert counts[2] == 0
    assert (
        counts[[0, 1, 3]] - 10_000
    ).abs().max() < 400  # four standard deviations of a binomial count are 326


def test_what_is_no_noise_is_refused(subtests):
    cases = [
        (1.0, 3, r"share must lie in \[0, 1\); got 1.0"),
        (-0.1, 3, "got -0.1"),
        (0.1, 1, "at least two classes; got 1"),
    ]
    for share, classes, message in cases:
        with subtests.test(message), pytest.raises(ValueError, match=message):
            with_label_noise(torch.zeros(3, dtype=torch.long), share, classes=classes)
