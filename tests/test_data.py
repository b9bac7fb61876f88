"""Data: sizes, splits, normalisation, and the three sources with what can go wrong in each."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gdlib import data
from gdlib.data import Split, decoding
from gdlib.data.sampling import proportional

CLASSES = ["zero", "one", "two"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    """No test reads or writes the user's cache, or the real data folder unless it names it."""
    monkeypatch.setenv("GDLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GDLIB_DATA", str(tmp_path / "data"))
    return tmp_path / "cache"


def pixels(split: str, count: int) -> np.ndarray:
    return np.random.default_rng(len(split)).integers(0, 256, (count, 4, 4), dtype=np.uint8)


def write_parquet(path: Path, images: np.ndarray, labels: list[int], metadata: Any = None) -> None:
    cells = []
    for index, image in enumerate(images):
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, format="PNG")
        cells.append({"bytes": stream.getvalue(), "path": f"{index}.png"})
    table = pa.table(
        {"image": pa.array(cells, pa.struct([("bytes", pa.binary()), ("path", pa.string())])), "label": pa.array(labels, pa.int64())}
    )
    info = {"info": {"features": {"label": {"names": CLASSES, "_type": "ClassLabel"}}}} if metadata is None else metadata
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)} if info else None), path)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A local folder in the layout of the real one: training images in two files, one file to test on, and checksums."""
    root = tmp_path / "data"
    train = pixels("train", 12)
    labels = [index % 3 for index in range(12)]
    write_parquet(root / "mnist" / "train-00000-of-00002.parquet", train[:7], labels[:7])
    write_parquet(root / "mnist" / "train-00001-of-00002.parquet", train[7:], labels[7:])
    write_parquet(root / "mnist" / "test-00000-of-00001.parquet", pixels("test", 5), [2, 1, 0, 1, 2])
    write_checksums(root)
    return root


def write_checksums(root: Path) -> None:
    files = sorted((root / "mnist").iterdir())
    (root / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  ./mnist/{file.name}\n" for file in files))


class TestEmbedded:
    @pytest.mark.parametrize(
        ("name", "train", "test", "classes"),
        [("digits", 1437, 360, 10), ("iris", 120, 30, 3), ("wine", 142, 36, 3), ("breast_cancer", 455, 114, 2)],
    )
    def test_sizes_and_types(self, name, train, test, classes):
        dataset = data.load(name)
        assert (len(dataset.train), len(dataset.test), dataset.classes, dataset.valid) == (train, test, classes, None)
        assert dataset.train.inputs.dtype == torch.float32 and dataset.train.labels.dtype == torch.int64
        assert dataset.source == "embedded" and dataset.copy.startswith("scikit-learn ")
        assert dataset.train.labels.unique().tolist() == list(range(classes))

    def test_the_same_every_time(self):
        first, second = data.load("digits", validation_size=100), data.load("digits", validation_size=100)
        for split in ("train", "valid", "test"):
            assert torch.equal(getattr(first, split).inputs, getattr(second, split).inputs)
            assert torch.equal(getattr(first, split).labels, getattr(second, split).labels)

    def test_flat(self):
        dataset = data.load("digits", validation_size=10).flat()
        assert dataset.train.inputs.shape == (1427, 64) and dataset.valid.inputs.shape == (10, 64) and dataset.features == 64

    def test_needs_no_file(self, own_cache):
        data.load("digits")
        assert not own_cache.exists()


class TestValidationSplit:
    @settings(max_examples=25)
    @given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.integers(0, 10_000), st.data())
    def test_partition_in_proportion(self, labels, seed, drawn):
        size = drawn.draw(st.integers(1, len(labels) - 1))
        whole = Split(torch.arange(len(labels)).float()[:, None], torch.tensor(labels))
        held = torch.from_numpy(proportional(whole.labels.numpy(), size, seed))
        train, valid = (Split(whole.inputs[mask], whole.labels[mask]) for mask in (~held, held))
        assert len(valid) == size
        assert sorted([*train.inputs.flatten().tolist(), *valid.inputs.flatten().tolist()]) == list(range(len(labels)))
        for part in (train, valid):  # inputs and labels stay together
            assert torch.equal(whole.labels[part.inputs.flatten().long()], part.labels)
        for label in set(labels):
            exact = labels.count(label) * size / len(labels)
            assert abs((valid.labels == label).sum().item() - exact) < 1

    def test_seeds_draw_other_samples(self):
        one, other = (data.load("digits", validation_size=100, validation_seed=seed) for seed in (0, 1))
        assert not torch.equal(one.valid.inputs, other.valid.inputs)
        assert torch.equal(one.test.inputs, other.test.inputs)

    @pytest.mark.parametrize("size", [-1, 1437, 5000])
    def test_refused(self, size):
        with pytest.raises(ValueError, match=r"validation_size must lie in \[0, 1437\)"):
            data.load("digits", validation_size=size)


class TestNormalization:
    def test_unit_and_none(self):
        raw, unit = data.load("digits", normalization="none"), data.load("digits")
        torch.testing.assert_close(unit.test.inputs * 16, raw.test.inputs)
        assert (unit.train.inputs.min(), unit.train.inputs.max()) == (0, 1)

    def test_standard_uses_the_training_samples_only(self):
        dataset = data.load("digits", normalization="standard", validation_size=200)
        assert dataset.train.inputs.mean().item() == pytest.approx(0, abs=1e-5)
        assert dataset.train.inputs.std().item() == pytest.approx(1, abs=1e-3)
        raw = data.load("digits", normalization="none", validation_size=200)
        mean, deviation = raw.train.inputs.mean(), raw.train.inputs.std(correction=0)
        torch.testing.assert_close(dataset.test.inputs, (raw.test.inputs - mean) / deviation)
        torch.testing.assert_close(dataset.valid.inputs, (raw.valid.inputs - mean) / deviation)

    def test_a_table_feature_by_feature(self):
        unit, standard = data.load("wine").train.inputs, data.load("wine", normalization="standard").train.inputs
        assert unit.amin(0).tolist() == [0.0] * 13 and unit.amax(0).tolist() == [1.0] * 13
        torch.testing.assert_close(standard.mean(0), torch.zeros(13), rtol=0, atol=1e-5)
        torch.testing.assert_close(standard.std(0, correction=0), torch.ones(13))

    def test_a_constant_feature_stays_finite(self):
        constant = torch.ones(4, 2)
        for normalization in ("unit", "standard", "none"):
            assert torch.isfinite(data.fit_normalizer(constant, normalization)(constant)).all()


class TestLocal:
    def test_pixels_labels_and_names(self, folder):
        dataset = data.load("mnist", normalization="none")
        assert torch.equal(dataset.train.inputs, torch.from_numpy(pixels("train", 12)).float())
        assert torch.equal(dataset.test.inputs, torch.from_numpy(pixels("test", 5)).float())
        assert dataset.train.labels.tolist() == [0, 1, 2] * 4 and dataset.test.labels.tolist() == [2, 1, 0, 1, 2]
        assert dataset.class_names == tuple(CLASSES) and dataset.source == "local"
        sums = [line.split()[0][:16] for line in (folder / "SHA256SUMS").read_text().splitlines()]
        assert dataset.copy == f"sha256 {sums[1]} {sums[2]} {sums[0]}"  # train, train, test

    def test_unit_divides_by_255(self, folder):
        torch.testing.assert_close(data.load("mnist").train.inputs * 255, torch.from_numpy(pixels("train", 12)).float())

    def test_the_folder_can_be_named(self, folder, tmp_path, monkeypatch):
        monkeypatch.setenv("GDLIB_DATA", str(tmp_path / "nothing"))
        assert len(data.load("mnist", folder=folder).train) == 12

    def test_colour_images_have_channels_first(self, folder):
        colour = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
        write_parquet(folder / "mnist" / "test-00000-of-00001.parquet", colour, [0] * 5)
        write_checksums(folder)
        assert torch.equal(data.load("mnist", normalization="none").test.inputs, torch.from_numpy(colour.transpose(0, 3, 1, 2)).float())

    @pytest.mark.parametrize("file", ["train-00001-of-00002.parquet", "test-00000-of-00001.parquet"])
    def test_another_checksum_names_the_file(self, folder, file):
        path = folder / "mnist" / file
        path.write_bytes(path.read_bytes() + b"\0")
        with pytest.raises(ValueError, match=f"{file} is damaged: its SHA-256 is .* copy the file again"):
            data.load("mnist")

    @pytest.mark.parametrize("file", ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "test-00000-of-00001.parquet"])
    def test_a_truncated_file_is_named(self, folder, file):
        (folder / "SHA256SUMS").unlink()
        path = folder / "mnist" / file
        path.write_bytes(path.read_bytes()[:200])
        with pytest.raises(ValueError, match=f"{file} is damaged"):
            data.load("mnist")

    @pytest.mark.parametrize("metadata", [{}, {"info": None}, {"info": {"features": {"other": {}}}}])
    def test_no_class_names(self, folder, metadata):
        (folder / "SHA256SUMS").unlink()
        write_parquet(folder / "mnist" / "train-00000-of-00002.parquet", pixels("train", 7), [0] * 7, metadata)
        with pytest.raises(ValueError, match="train-00000-of-00002.parquet does not name its classes"):
            data.load("mnist")

    def test_an_image_that_is_none(self, folder):
        (folder / "SHA256SUMS").unlink()
        path = folder / "mnist" / "test-00000-of-00001.parquet"
        table = pa.table({"image": [{"bytes": b"no image", "path": ""}], "label": [0]}).replace_schema_metadata(
            pq.read_schema(path).metadata
        )
        pq.write_table(table, path)
        with pytest.raises(ValueError, match="test-00000-of-00001.parquet is damaged or has another layout"):
            data.load("mnist")

    @pytest.mark.parametrize("split", ["train", "test"])
    def test_a_missing_split(self, folder, split):
        for file in (folder / "mnist").glob(f"{split}-*"):
            file.unlink()
        with pytest.raises(FileNotFoundError, match=rf"holds no files {split}-\*.parquet: the data set 'mnist' is incomplete"):
            data.load("mnist")


class TestCache:
    def load_and_count(self, monkeypatch) -> tuple[data.Dataset, int]:
        decoded = []
        original = decoding._batches
        monkeypatch.setattr(decoding, "_batches", lambda *arguments: decoded.append(arguments) or original(*arguments))
        dataset = data.load("mnist", normalization="none")
        monkeypatch.setattr(decoding, "_batches", original)
        return dataset, len(decoded)

    def test_the_second_time_nothing_is_decoded(self, folder, monkeypatch, own_cache):
        first, decoded = self.load_and_count(monkeypatch)
        assert decoded == 2 and len(list(own_cache.iterdir())) == 4
        second, decoded = self.load_and_count(monkeypatch)
        assert decoded == 0
        assert torch.equal(first.train.inputs, second.train.inputs) and torch.equal(first.test.labels, second.test.labels)
        assert first.class_names == second.class_names

    @pytest.mark.parametrize("which", ["images", "labels"])
    @pytest.mark.parametrize("damage", ["half", "empty", "text", "gone"])
    def test_a_damaged_cache_is_made_again(self, folder, monkeypatch, own_cache, which, damage):
        first, _ = self.load_and_count(monkeypatch)
        for file in own_cache.glob(f"*-{which}.npy"):
            if damage == "gone":
                file.unlink()
            else:
                file.write_bytes({"half": file.read_bytes()[:-10], "empty": b"", "text": b"not an array"}[damage])
        again, decoded = self.load_and_count(monkeypatch)
        assert decoded == 2 and torch.equal(first.train.inputs, again.train.inputs) and torch.equal(first.train.labels, again.train.labels)
        assert self.load_and_count(monkeypatch)[1] == 0

    def test_other_files_have_another_cache(self, folder, monkeypatch):
        self.load_and_count(monkeypatch)
        write_parquet(folder / "mnist" / "test-00000-of-00001.parquet", pixels("other", 5), [0] * 5)
        write_checksums(folder)
        changed, decoded = self.load_and_count(monkeypatch)
        assert decoded == 1 and torch.equal(changed.test.inputs, torch.from_numpy(pixels("other", 5)).float())

    def test_a_cache_that_cannot_be_written(self, folder, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("GDLIB_CACHE", str(tmp_path / "file"))
        assert len(data.load("mnist").train) == 12


class TestHub:
    @pytest.fixture
    def hub(self, folder, tmp_path, monkeypatch) -> list[dict[str, Any]]:
        """A hub that hands out what the local folder held."""
        asked: list[dict[str, Any]] = []
        shutil.move(folder / "mnist", tmp_path / "snapshot" / "mnist")
        shutil.rmtree(folder)

        def snapshot_download(repository: str, **options: Any) -> str:
            asked.append({"repository": repository} | options)
            return str(tmp_path / "snapshot")

        monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
        return asked

    def test_is_asked_where_there_is_no_local_folder(self, hub):
        dataset = data.load("mnist", normalization="none")
        assert dataset.source == "hub" and torch.equal(dataset.train.inputs, torch.from_numpy(pixels("train", 12)).float())
        assert hub == [
            {"repository": "ylecun/mnist", "repo_type": "dataset", "allow_patterns": ["mnist/train-*.parquet", "mnist/test-*.parquet"]}
        ]

    def test_is_not_asked_when_the_local_folder_is_wanted(self, hub):
        with pytest.raises(FileNotFoundError, match="'mnist' is nowhere to be found: there is no folder"):
            data.load("mnist", source="local")
        assert hub == []

    def test_an_incomplete_copy_is_not_called_offline(self, hub, tmp_path):
        # an OSError from reading what was fetched was once reported as an unreachable hub
        (tmp_path / "snapshot" / "mnist" / "test-00000-of-00001.parquet").unlink()
        with pytest.raises(FileNotFoundError, match=r"holds no files test-\*.parquet"):
            data.load("mnist")

    @pytest.mark.parametrize("error", [OSError("no route"), RuntimeError("transport")])
    def test_offline_says_what_to_do(self, monkeypatch, error):
        def fail(*arguments: Any, **options: Any) -> str:
            raise error

        monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
        with pytest.raises(
            FileNotFoundError, match="no folder .*; ylecun/mnist could not be fetched .*Set GDLIB_DATA .* 'digits' always works"
        ):
            data.load("mnist")


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"name": "mnits"},
                "unknown data set 'mnits'; valid: breast_cancer, cifar10, cifar10-jpeg, .*, wine",
            ),
            ({"normalization": "minmax"}, "valid: unit, standard, none"),
            ({"source": "cloud"}, "valid: embedded, local, hub"),
        ],
    )
    def test_names_the_valid_ones(self, options, message):
        with pytest.raises(ValueError, match=message):
            data.load(**({"name": "digits"} | options))

    @pytest.mark.parametrize("source", ["local", "hub"])
    def test_embedded_is_nowhere_else(self, source):
        with pytest.raises(FileNotFoundError, match="embedded in scikit-learn"):
            data.load("digits", source=source)


class TestRealMNIST:
    def test_is_the_official_set(self, data_folder, tmp_path):
        dataset = data.load("mnist", normalization="none", folder=data_folder)
        assert (len(dataset.train), len(dataset.test), dataset.train.inputs.shape[1:]) == (60_000, 10_000, (28, 28))
        assert torch.bincount(dataset.train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert torch.bincount(dataset.test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        for split, expected in ((dataset.train, "6bbc9ace898e44ae57da46a324031adb"), (dataset.test, "2646ac647ad5339dbf082846283269ea")):
            header = struct.pack(">4i", 0x803, len(split), 28, 28)  # of the official IDX file
            assert hashlib.md5(header + split.inputs.to(torch.uint8).numpy().tobytes()).hexdigest() == expected
