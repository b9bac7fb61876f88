"""Crops and flips: against a slow reference, sample by sample.

Tested is also what the random numbers depend on.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from study.data.augmentation import apply, draw, draw_epoch


def moved(image: np.ndarray, top: int, left: int, flip: int, padding: int) -> np.ndarray:
    """One image, pixel by pixel."""
    channels, height, width = image.shape
    result = np.zeros_like(image)
    for channel in range(channels):
        for row in range(height):
            for column in range(width):
                source_row = row + top - padding
                source_column = (width - 1 - column if flip else column) + left - padding
                if 0 <= source_row < height and 0 <= source_column < width:
                    result[channel, row, column] = image[channel, source_row, source_column]
    return result


def random_images(
    samples: int, channels: int, height: int, width: int, dtype: torch.dtype = torch.uint8
) -> Tensor:
    generator = torch.Generator().manual_seed(samples + height)
    return torch.randint(1, 256, (samples, channels, height, width), generator=generator).to(dtype)


class TestApply:
    @given(
        st.integers(1, 4),
        st.integers(1, 3),
        st.integers(1, 6),
        st.integers(1, 6),
        st.integers(0, 3),
        st.data(),
    )
    def test_against_the_reference(self, samples, channels, height, width, padding, drawn):
        images = random_images(samples, channels, height, width)
        offset = st.integers(0, 2 * padding)
        draws = drawn.draw(
            st.lists(
                st.tuples(offset, offset, st.integers(0, 1)), min_size=samples, max_size=samples
            )
        )
        result = apply(images, torch.tensor(draws), padding)
        for image, (top, left, flip), new in zip(
            images.numpy(), draws, result.numpy(), strict=True
        ):
            np.testing.assert_array_equal(new, moved(image, top, left, flip, padding))

    def test_neither_the_type_nor_the_layout_of_the_memory_matters(self, subtests):
        draws = draw("crop-flip", 5, seed=1, step=1)
        for dtype in (torch.uint8, torch.float32, torch.bfloat16, torch.float64):
            with subtests.test(str(dtype)):
                images = random_images(5, 3, 8, 8, dtype)
                result = apply(images, draws)
                assert result.dtype == dtype and result.is_contiguous()
                assert torch.equal(result.double(), apply(images.double(), draws))
                assert torch.equal(
                    result, apply(images.to(memory_format=torch.channels_last), draws)
                )

    def test_a_crop_stays_in_its_sample(self):
        # with a padding as wide as the image, the corner crops hold nothing of it
        images = random_images(3, 2, 4, 4)
        draws = torch.tensor([[0, 0, 0], [8, 8, 1], [4, 4, 0]])
        result = apply(images, draws, padding=4)
        assert result[:2].count_nonzero() == 0 and torch.equal(result[2], images[2])

    def test_the_batches_of_a_stack_are_each_what_they_are_alone(self):
        images = random_images(12, 3, 6, 5).unflatten(0, (3, 4))
        draws = torch.stack([draw("crop2-flip", 4, seed=seed, step=7) for seed in (5, 0, 9)])
        stacked = apply(images, draws, padding=2)
        for index in range(3):
            assert torch.equal(stacked[index], apply(images[index], draws[index], padding=2))

    def test_shapes(self):
        # on meta tensors any read of a number would fail; a CUDA graph needs the same
        for samples, device in ((0, "cpu"), (2, "meta")):
            images, draws = (
                torch.zeros(samples, 3, 4, 4, device=device),
                torch.zeros(samples, 3, dtype=torch.long, device=device),
            )
            assert apply(images, draws).shape == (samples, 3, 4, 4)
        for shape in ((2, 2), (3, 3)):
            with pytest.raises(ValueError, match=r"need draws \[..., 3\]; got \[2, 3, 4, 4\] and"):
                apply(torch.zeros(2, 3, 4, 4), torch.zeros(shape, dtype=torch.long))


class TestDraw:
    def test_range_and_frequencies(self):
        draws = draw("crop-flip", 90_000, seed=3, step=11)
        assert draws.dtype == torch.int64 and draws.shape == (90_000, 3)
        for column, choices in zip(draws.unbind(1), (9, 9, 2), strict=True):
            counts = torch.bincount(column, minlength=choices)
            assert len(counts) == choices
            expected = 90_000 / choices
            assert (
                (counts - expected) ** 2 / expected
            ).sum() < 30  # chi-squared, p < 0.001 for 8 degrees of freedom
        cells = torch.bincount(
            draws[:, 0] * 18 + draws[:, 1] * 2 + draws[:, 2], minlength=162
        )  # the three are independent
        assert ((cells - 90_000 / 162) ** 2 / (90_000 / 162)).sum() < 230

    @given(st.integers(0, 2**40), st.integers(0, 2**40))
    def test_depends_on_seed_and_step_only(self, seed, step):
        torch.manual_seed(step % 7)
        first = draw("crop-flip", 8, seed=seed, step=step)
        torch.rand(3)
        np.random.default_rng().random(3)
        assert torch.equal(first, draw("crop-flip", 8, seed=seed, step=step))
        for other in ((seed + 1, step), (seed, step + 1), (seed + 2**32, step), (step, seed + 1)):
            if other != (seed, step):
                assert not torch.equal(first, draw("crop-flip", 8, seed=other[0], step=other[1]))

    def test_smaller_batches_and_other_names_share_them(self):
        assert torch.equal(
            draw("crop-flip", 17, seed=0, step=5), draw("crop-flip", 100, seed=0, step=5)[:17]
        )
        both, flip, none = (
            draw(name, 50, seed=2, step=4) for name in ("crop-flip", "flip", "none")
        )
        assert torch.equal(both[:, 2], flip[:, 2]) and flip[:, 2].unique().tolist() == [0, 1]
        assert flip[:, :2].unique().tolist() == [0] and none.unique(dim=0).tolist() == [[0, 0, 0]]

    def test_the_numbers_of_today(self):
        # records are repeated with these; a change of the generator must not pass unseen
        assert draw("crop-flip", 3, seed=1, step=2).tolist() == [[2, 3, 0], [8, 0, 0], [3, 6, 1]]

    def test_refused(self):
        with pytest.raises(ValueError, match="must be >= 0"):
            draw("flip", 2, seed=-1, step=0)
        with pytest.raises(
            ValueError, match="unknown augmentation 'crop'; valid: none, flip, crop-flip"
        ):
            draw("crop", 2, seed=0, step=0)


def test_an_epoch_is_its_steps_one_after_another():
    found = draw_epoch("crop-flip", 7, 3, seeds=[2, 5], epoch=2)  # the steps 3, 4 and 5
    for of_seed, seed in zip(found, (2, 5), strict=True):
        steps = [draw("crop-flip", 3, seed=seed, step=step) for step in (3, 4, 5)]
        assert torch.equal(of_seed, torch.cat(steps)[:7])
