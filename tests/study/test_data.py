"""Data: what is embedded, splits, subsets and normalisation.

Files of images and tables have tests of their own.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdlib.models import StackedMLP
from study import data, measures
from study.data.sampling import balanced, long_tailed, proportional
from study.data.sets import Normalizer


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    """Keep the user's cache and the real data folder, unless a test names it, out of all tests."""
    monkeypatch.setenv("GDLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GDLIB_DATA", str(tmp_path / "data"))
    return tmp_path / "cache"


def test_embedded_sets_need_no_file(own_cache, subtests):
    sizes = {
        "digits": (1437, 360, 10),
        "iris": (120, 30, 3),
        "wine": (142, 36, 3),
        "breast_cancer": (455, 114, 2),
    }
    for name, (train, test, classes) in sizes.items():
        with subtests.test(name):
            dataset = data.load(name)
            assert (len(dataset.train), len(dataset.test), dataset.classes, dataset.valid) == (
                train,
                test,
                classes,
                None,
            )
            assert (
                dataset.train.inputs.dtype == torch.float32
                and dataset.train.labels.dtype == torch.int64
            )
            assert dataset.source == "embedded" and dataset.copy.startswith("scikit-learn ")
            assert dataset.train.labels.unique().tolist() == list(range(classes))
    assert not own_cache.exists()


def test_what_is_unknown_or_does_not_go_together_is_refused(subtests):
    for options, message in [
        (
            {"name": "mnits"},
            "unknown data set 'mnits'; valid: breast_cancer, cifar10, cifar100, .*, wine",
        ),
        (
            {"as_bytes": True},
            "'digits' has no images for an image network; take one of cifar10, "
            "cifar100, mnist, svhn, tiny-imagenet",
        ),
        (
            {"normalization": "minmax"},
            "unknown normalization 'minmax'; valid: unit, standard, none, channel",
        ),
        *(
            ({"validation_size": size}, r"validation_size must lie in \[0, 1437\)")
            for size in (-1, 1437, 5000)
        ),
        *(
            (
                {"subset": size},
                r"subset must lie in \[0, 1390\]: 10 classes, the smallest with 139 samples .* got",
            )
            for size in (-1, 1391, 5000)
        ),
        ({"imbalance": 0.5}, r"imbalance must lie in \[1, 139\], .* got 0.5"),
        ({"imbalance": 140}, "got 140"),
        ({"imbalance": float("nan")}, "got nan"),
        (
            {"imbalance": 10, "subset": 100},
            "balanced or has a long tail; got subset=100 and imbalance=10",
        ),
    ]:
        with subtests.test(str(options)), pytest.raises(ValueError, match=message):
            data.load(**({"name": "digits"} | options))


class TestValidationSplit:
    @settings(max_examples=25)
    @given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.data())
    def test_in_proportion(self, labels, drawn):
        size = drawn.draw(st.integers(1, len(labels) - 1))
        held = proportional(np.array(labels), size)
        assert held.sum() == size
        for label in set(labels):
            exact = labels.count(label) * size / len(labels)
            assert abs((np.array(labels)[held] == label).sum() - exact) < 1

    def test_a_partition_and_the_same_every_time(self):
        whole = data.load("digits", normalization="none")
        first, second = (
            data.load("digits", validation_size=100, normalization="none") for _ in range(2)
        )
        for split in ("train", "valid", "test"):
            assert torch.equal(getattr(first, split).inputs, getattr(second, split).inputs)
            assert torch.equal(getattr(first, split).labels, getattr(second, split).labels)
        assert torch.equal(first.test.inputs, whole.test.inputs)

        def samples(
            *splits: data.Split,
        ) -> list[list[float]]:  # with their labels, which stay with them
            return sorted(
                torch.cat(
                    [torch.column_stack([one.inputs.flatten(1), one.labels]) for one in splits]
                ).tolist()
            )

        assert samples(first.train, first.valid) == samples(whole.train)

    def test_the_draw_of_today(self):
        # records are repeated with these samples; another draw must not pass unseen
        labels = np.arange(40) % 3
        assert np.flatnonzero(proportional(labels, 7)).tolist() == [3, 4, 11, 23, 24, 27, 34]


class TestSubset:
    @settings(max_examples=25)
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.data())
    def test_the_same_of_each_class_and_nested(self, labels, drawn):
        labels = np.array([*range(4), *labels])
        largest = 4 * np.bincount(labels).min()
        size = drawn.draw(st.integers(1, int(largest)))
        kept = balanced(labels, size, classes=4)
        counts = np.bincount(labels[kept], minlength=4)
        assert counts.sum() == size and counts.max() - counts.min() <= 1
        smaller = balanced(labels, drawn.draw(st.integers(1, size)), classes=4)
        assert not (smaller & ~kept).any()

    def test_training_samples_that_are_not_held_out(self):
        whole = data.load("digits", validation_size=300, normalization="none")
        for size in (10, 200, 205):
            part = data.load("digits", validation_size=300, subset=size, normalization="none")
            counts = torch.bincount(part.train.labels)
            assert len(part.train) == size and counts.max() - counts.min() <= 1
            assert torch.equal(part.valid.inputs, whole.valid.inputs) and torch.equal(
                part.test.inputs, whole.test.inputs
            )
            found = (part.train.inputs.flatten(1)[:, None] == whole.train.inputs.flatten(1)).all(2)
            assert found.any(1).all()
            assert torch.equal(whole.train.labels[found.int().argmax(1)], part.train.labels)
        assert len(data.load("digits", subset=1390).train) == 1390  # the largest

    def test_a_class_that_is_gone(self):
        with pytest.raises(ValueError, match=r"subset must lie in \[0, 0\]"):
            balanced(np.array([0, 0, 2]), 1, classes=3)


class TestLongTail:
    def test_the_sizes_of_the_usual_benchmark(self, subtests):
        for classes, each, imbalance, total in [
            (10, 5000, 100, 12_406),
            (100, 500, 100, 10_847),
            (10, 5000, 10, 20_431),
        ]:
            with subtests.test(classes=classes, imbalance=imbalance):
                labels = np.random.default_rng(0).permutation(np.repeat(np.arange(classes), each))
                counts = np.bincount(labels[long_tailed(labels, imbalance, classes)])
                assert counts.tolist() == [
                    int(each * (1 / imbalance) ** (c / (classes - 1))) for c in range(classes)
                ]
                assert (counts.sum(), counts[0], counts[-1]) == (total, each, each // imbalance)

    def test_a_longer_tail_is_part_of_a_shorter_one(self):
        labels = np.arange(600) % 5
        short, long = (long_tailed(labels, imbalance, 5) for imbalance in (2, 20))
        assert not (long & ~short).any()
        assert np.bincount(labels[long_tailed(labels, 1, 5)]).tolist() == [120] * 5

    def test_of_what_is_not_held_out(self):
        whole, tailed = (
            data.load("digits", validation_size=100, **options)
            for options in ({}, {"imbalance": 50})
        )
        counts = tailed.train.labels.bincount()
        smallest = int(whole.train.labels.bincount().min())
        assert counts.tolist() == [int(smallest * 50 ** (-c / 9)) for c in range(10)]
        assert torch.equal(tailed.valid.inputs, whole.valid.inputs) and torch.equal(
            tailed.test.labels, whole.test.labels
        )


class TestNormalization:
    def test_unit_and_none(self):
        raw, unit = data.load("digits", normalization="none"), data.load("digits")
        torch.testing.assert_close(unit.test.inputs * 16, raw.test.inputs)
        assert (unit.train.inputs.min(), unit.train.inputs.max()) == (0, 1)

    def test_standard_uses_the_training_samples_that_are_kept(self):
        dataset = data.load("digits", normalization="standard", validation_size=200)
        assert dataset.train.inputs.mean().item() == pytest.approx(0, abs=1e-5)
        assert dataset.train.inputs.std().item() == pytest.approx(1, abs=1e-3)
        raw = data.load("digits", normalization="none", validation_size=200)
        mean, deviation = raw.train.inputs.mean(), raw.train.inputs.std(correction=0)
        torch.testing.assert_close(dataset.test.inputs, (raw.test.inputs - mean) / deviation)
        torch.testing.assert_close(dataset.valid.inputs, (raw.valid.inputs - mean) / deviation)
        assert data.load(
            "digits", subset=50, normalization="standard"
        ).train.inputs.mean().item() == pytest.approx(0, abs=1e-5)

    def test_a_table_feature_by_feature(self):
        unit, standard = (
            data.load("wine").train.inputs,
            data.load("wine", normalization="standard").train.inputs,
        )
        assert unit.amin(0).tolist() == [0.0] * 13 and unit.amax(0).tolist() == [1.0] * 13
        torch.testing.assert_close(standard.mean(0), torch.zeros(13), rtol=0, atol=1e-5)
        torch.testing.assert_close(standard.std(0, correction=0), torch.ones(13))


def exact_moments(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of integers, by fractions."""
    numbers = [int(value) for value in values.flatten()]
    mean = Fraction(sum(numbers), len(numbers))
    return float(mean), float(sum((number - mean) ** 2 for number in numbers) / len(numbers)) ** 0.5


class TestFitNormalizer:
    colour = torch.from_numpy(
        np.random.default_rng(0).integers(0, 256, (7, 3, 4, 5), dtype=np.uint8)
    )

    def test_each_channel(self):
        normalize = data.fit_normalizer(self.colour, "channel")
        assert (
            normalize.shift.shape == normalize.scale.shape == (3, 1, 1)
            and normalize.shift.dtype == torch.float32
        )
        for channel in range(3):
            mean, deviation = exact_moments(self.colour[:, channel].numpy())
            assert normalize.shift[channel].item() == np.float32(mean) and normalize.scale[
                channel
            ].item() == np.float32(deviation)

    def test_all_colours_together(self):
        normalize = data.fit_normalizer(self.colour, "standard")
        mean, deviation = exact_moments(self.colour.numpy())
        assert (normalize.shift.item(), normalize.scale.item()) == (
            np.float32(mean),
            np.float32(deviation),
        )

    def test_grey_images_are_one_channel(self):
        grey = self.colour[:, 0].contiguous()
        mean, deviation = exact_moments(grey.numpy())
        for images in (grey, grey[:, None]):
            normalize = data.fit_normalizer(images, "channel")
            assert (normalize.shift.item(), normalize.scale.item()) == (
                np.float32(mean),
                np.float32(deviation),
            )
            assert normalize(images).shape == images.shape

    def test_floats_too(self):
        for images in (self.colour.float(), self.colour[:, 0].float()):
            normalize, exact = (
                data.fit_normalizer(images, "channel"),
                data.fit_normalizer(images.to(torch.uint8), "channel"),
            )
            torch.testing.assert_close(normalize.shift, exact.shift)
            torch.testing.assert_close(normalize.scale, exact.scale)

    def test_a_batch_is_a_slice_of_the_whole(self, subtests):
        for normalization in data.NORMALIZATIONS:
            with subtests.test(normalization):
                normalize = data.fit_normalizer(self.colour, normalization)
                whole = normalize(self.colour)
                assert whole.dtype == torch.float32
                for batch in (slice(0, 1), slice(2, 5), [6, 0, 3]):
                    assert torch.equal(normalize(self.colour[batch]), whole[batch])

    def test_what_is_constant_stays_finite(self):
        images, table = torch.full((3, 2, 2, 2), 7, dtype=torch.uint8), torch.ones(4, 2)
        assert data.fit_normalizer(images, "channel")(images).count_nonzero() == 0
        for normalization in data.NORMALIZATIONS:
            assert torch.isfinite(data.fit_normalizer(table, normalization)(table)).all()

    def test_the_inputs_stay(self):
        inputs = torch.ones(2, 3)
        Normalizer(torch.tensor(1.0), torch.tensor(2.0))(inputs)
        assert torch.equal(inputs, torch.ones(2, 3))


class TestShapesAndDevices:
    def test_rows_of_numbers(self):
        dataset = data.load("digits", validation_size=10).flat()
        assert dataset.train.inputs.shape == (1427, 64) and dataset.valid.inputs.shape == (10, 64)

    def test_grey_images_get_one_channel(self):
        dataset = data.load("digits", validation_size=10)
        shaped = dataset.with_channels()
        assert shaped.train.inputs.shape == (1427, 1, 8, 8) and shaped.valid.inputs.shape == (
            10,
            1,
            8,
            8,
        )
        assert torch.equal(shaped.test.inputs[:, 0], dataset.test.inputs)
        assert shaped.with_channels().test.inputs.shape == shaped.test.inputs.shape  # twice is once
        with pytest.raises(
            ValueError, match=r"only images .* have channels; got inputs of shape \[120, 4\]"
        ):
            data.load("iris").with_channels()

    def test_all_of_it_can_be_moved(self):
        moved = data.load("digits", validation_size=10).to("meta")
        for split in (moved.train, moved.valid, moved.test):
            assert split.inputs.device.type == split.labels.device.type == "meta"
        normalize = data.fit_normalizer(TestFitNormalizer.colour, "channel").to("meta")
        assert normalize.shift.device.type == normalize.scale.device.type == "meta"


def test_the_draws_of_today():
    # records are repeated with these; another draw must not pass unseen
    labels = np.arange(40) % 3
    assert np.flatnonzero(balanced(labels, 7, classes=3)).tolist() == [2, 4, 11, 23, 24, 27, 34]
    assert np.flatnonzero(long_tailed(labels, 5, classes=3)).tolist() == [
        *(0, 1, 3, 4, 6, 9, 10, 11, 12, 18, 21, 22, 23, 24, 27, 30, 33, 34, 36, 39),
    ]
    noisy = data.with_label_noise(torch.arange(12) % 4, 0.5, classes=4)
    assert noisy.tolist() == [3, 1, 2, 3, 3, 2, 2, 2, 1, 0, 2, 3]
    assert measures.followed_samples(20, 5).tolist() == [4, 5, 7, 13, 19]
    assert data.load("iris").test.labels[:10].tolist() == [0, 1, 0, 2, 0, 1, 2, 0, 0, 1]


def test_the_weights_of_today():
    weights = StackedMLP([3, 2], seeds=[5]).weights[0].flatten().tolist()
    assert weights == pytest.approx(
        [0.381342, -0.43173, 0.470505, 0.36942, 0.485094, -0.44266], abs=1e-6
    )
