"""Sets of images: Parquet files in the local folder and on the hub.

What can go wrong with them, and the cache.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from study import data
from study.data import images as loader
from study.data.files import local_folder
from study.data.images import IMAGES

CLASSES = ["zero", "one", "two"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    """Keep the user's cache and the real data folder, unless a test names it, out of all tests."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("GDLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GDLIB_DATA", str(tmp_path / "data"))
    return tmp_path / "cache"


def pixels(split: str, count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(len(split)).integers(
        0, 256, (count, *(shape or (4, 4))), dtype=np.uint8
    )


def encoded(image: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, format=kind)
    return stream.getvalue()


def class_names(label: str = "label", names: Sequence[str] = CLASSES) -> dict[str, Any]:
    return {"info": {"features": {label: {"names": list(names), "_type": "ClassLabel"}}}}


def write_parquet(
    path: Path,
    images: Sequence[np.ndarray | bytes],
    labels: Sequence[Any],
    metadata: Any = None,
    *,
    image: str = "image",
    label: str = "label",
    **others: Sequence[Any],
) -> None:
    """A file of the hub's layout."""
    cells = [
        {
            "bytes": content if isinstance(content, bytes) else encoded(content),
            "path": f"{index}.png",
        }
        for index, content in enumerate(images)
    ]
    columns = {
        image: pa.array(cells, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        label: pa.array(labels),
    }
    info = class_names(label) if metadata is None else metadata
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns | {name: pa.array(values) for name, values in others.items()})
    pq.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps(info)} if info else None), path
    )


@pytest.fixture
def folder(tmp_path) -> Path:
    """A local folder in the layout of the real one.

    Training images in two files, one file to test on.
    """
    return fill(tmp_path / "data")


def fill(root: Path) -> Path:
    shutil.rmtree(root / "mnist", ignore_errors=True)
    train = pixels("train", 12)
    labels = [index % 3 for index in range(12)]
    write_parquet(root / "mnist" / "train-00000-of-00002.parquet", train[:7], labels[:7])
    write_parquet(root / "mnist" / "train-00001-of-00002.parquet", train[7:], labels[7:])
    write_parquet(
        root / "mnist" / "test-00000-of-00001.parquet", pixels("test", 5), [2, 1, 0, 1, 2]
    )
    return root


class TestLocal:
    def test_pixels_labels_and_names(self, folder):
        dataset = data.load("mnist", normalization="none")
        assert torch.equal(dataset.train.inputs, torch.from_numpy(pixels("train", 12)).float())
        assert torch.equal(dataset.test.inputs, torch.from_numpy(pixels("test", 5)).float())
        assert dataset.train.labels.tolist() == [0, 1, 2] * 4
        assert dataset.test.labels.tolist() == [2, 1, 0, 1, 2]
        assert dataset.class_names == tuple(CLASSES) and dataset.source == "local"
        files = [*sorted((folder / "mnist").glob("train-*")), *(folder / "mnist").glob("test-*")]
        sums = [hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files]
        assert dataset.copy == " ".join(["sha256", *sums])
        of_unit = data.load("mnist").train.inputs  # the default
        torch.testing.assert_close(of_unit * 255, dataset.train.inputs)

    def test_a_folder_that_is_not_there_does_not_end_at_the_hub(self, folder, monkeypatch):
        monkeypatch.setattr(
            "huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("the hub was asked")
        )
        wrong = folder / "typo"
        monkeypatch.setenv("GDLIB_DATA", str(wrong))
        message = f"there is no data folder {wrong}: name another one in GDLIB_DATA, or unset it"
        with pytest.raises(FileNotFoundError, match=message):
            data.load("mnist")
        monkeypatch.setenv("GDLIB_DATA", "")
        assert local_folder() == Path(data.__file__).parents[2] / "data"

    @pytest.mark.parametrize("name", ["train-00000-of-00002", "train-00001-of-00002"])
    def test_a_file_that_is_missing(self, folder, name):
        (folder / "mnist" / f"{name}.parquet").unlink()
        with pytest.raises(ValueError, match="are expected: files are missing, or some should not"):
            data.load("mnist")

    @pytest.mark.parametrize(
        "name", ["train-00001-of-00002 (1)", "train-00002-of-00003", "test-00000-of-00001 (copy)"]
    )
    def test_a_file_that_should_not_be_there(self, folder, name):
        shutil.copy(
            folder / "mnist" / "train-00001-of-00002.parquet", folder / "mnist" / f"{name}.parquet"
        )
        with pytest.raises(ValueError, match="are expected: files are missing, or some should not"):
            data.load("mnist")

    @pytest.mark.parametrize("split", ["train", "test"])
    def test_a_split_that_is_missing(self, folder, split):
        for path in (folder / "mnist").glob(f"{split}-*"):
            path.unlink()
        message = rf"holds no files {split}-\*.parquet: the data set 'mnist' is incomplete"
        with pytest.raises(FileNotFoundError, match=message):
            data.load("mnist")

    def test_a_damaged_file_is_named(self, folder):
        path = folder / "mnist" / "train-00001-of-00002.parquet"
        whole = path.read_bytes()
        path.write_bytes(whole[:200])
        with pytest.raises(ValueError, match=f"{path.name} is damaged or has another layout"):
            data.load("mnist")
        write_parquet(path, pixels("train", 5), [0] * 5, {})
        with pytest.raises(ValueError, match=f"{path.name} .* does not name its classes"):
            data.load("mnist")


def write_set(
    root: Path, config: str, test_split: str = "test", **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Training and test images, 9 and 4 of them, of 6 by 5 pixels in colour.

    As the loader should give them.
    """
    train, test = pixels("train", 9, 6, 5, 3), pixels("test", 4, 6, 5, 3)
    write_parquet(
        root / config / "train-00000-of-00001-1359597a978bc4fa.parquet",
        list(train),
        [0, 1, 2] * 3,
        **options,
    )
    write_parquet(
        root / config / f"{test_split}-00000-of-00001.parquet", list(test), [0, 1, 2, 0], **options
    )
    return train.transpose(0, 3, 1, 2), test.transpose(0, 3, 1, 2)


class TestColour:
    def test_the_layouts_of_the_hub_and_of_the_local_folder(self, tmp_path, monkeypatch, subtests):
        asked = []

        def snapshot_download(*arguments: Any, **named: Any) -> str:
            asked.append((*arguments, named))
            return str(tmp_path / "snapshot")

        monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
        for name, repository, config, test_split, columns in [
            ("cifar10", "uoft-cs/cifar10", "plain_text", "test", {"image": "img"}),
            (
                "cifar100",
                "uoft-cs/cifar100",
                "cifar100",
                "test",
                {"image": "img", "label": "fine_label"},
            ),
            ("svhn", "ufldl-stanford/svhn", "cropped_digits", "test", {}),
            ("tiny-imagenet", "zh-plus/tiny-imagenet", "data", "valid", {}),
        ]:
            with subtests.test(name):
                train, test = write_set(tmp_path / "snapshot", config, test_split, **columns)
                write_parquet(
                    tmp_path / "snapshot" / config / "extra-00000-of-00001.parquet", [b""], [7]
                )  # SVHN has a third split
                hub = data.load(name, normalization="none")
                patterns = [f"{config}/train-*.parquet", f"{config}/{test_split}-*.parquet"]
                options = {"repo_type": "dataset", "allow_patterns": patterns}
                assert asked == [(repository, options)]
                asked.clear()
                write_set(tmp_path / "data", name, test_split, **columns)
                local = data.load(name, normalization="none")
                assert (hub.source, local.source, asked) == ("hub", "local", [])
                for dataset in (hub, local):
                    assert np.array_equal(dataset.train.inputs, train) and np.array_equal(
                        dataset.test.inputs, test
                    )
                    assert dataset.train.labels.tolist() == [
                        0,
                        1,
                        2,
                    ] * 3 and dataset.test.labels.tolist() == [0, 1, 2, 0]
                    assert dataset.class_names == tuple(CLASSES)

    def test_the_fine_labels_of_cifar100(self, tmp_path):
        for split in ("train", "test"):
            write_parquet(
                tmp_path / "data" / "cifar100" / f"{split}-00000-of-00001.parquet",
                list(pixels(split, 3, 4, 4, 3)),
                [2, 0, 1],
                {
                    "info": {
                        "features": {
                            "fine_label": {"names": CLASSES},
                            "coarse_label": {"names": ["coarse"]},
                        }
                    }
                },
                image="img",
                label="fine_label",
                coarse_label=[0, 0, 0],
            )
        dataset = data.load("cifar100")
        assert dataset.train.labels.tolist() == [2, 0, 1] and dataset.class_names == tuple(CLASSES)

    def test_grey_images_among_coloured_ones(self, tmp_path):
        write_set(tmp_path / "data", "tiny-imagenet", "valid")
        grey, colour = pixels("grey", 2, 6, 5), pixels("train", 9, 6, 5, 3)[:2]
        stream = io.BytesIO()
        Image.fromarray(grey[1]).convert("P").save(
            stream, format="PNG"
        )  # indices into a palette of greys
        mixture = [
            colour[0],
            grey[0],
            encoded(np.array(Image.fromarray(colour[1]).convert("RGBA"))),
            stream.getvalue(),
        ]
        write_parquet(
            tmp_path / "data" / "tiny-imagenet" / "valid-00000-of-00001.parquet",
            mixture,
            [0, 1, 2, 0],
        )
        images = data.load("tiny-imagenet", normalization="none").test.inputs.numpy()
        assert images.shape == (4, 3, 6, 5)
        for found, expected in zip(
            images, (colour[0], grey[0][:, :, None], colour[1], grey[1][:, :, None]), strict=True
        ):
            assert np.array_equal(found, np.broadcast_to(expected, (6, 5, 3)).transpose(2, 0, 1))

    def test_jpeg(self, tmp_path):
        write_set(tmp_path / "data", "svhn")
        files = [encoded(image, "JPEG") for image in pixels("jpeg", 3, 6, 5, 3)]
        write_parquet(tmp_path / "data" / "svhn" / "test-00000-of-00001.parquet", files, [0, 1, 2])
        expected = [np.asarray(Image.open(io.BytesIO(file))).transpose(2, 0, 1) for file in files]
        assert np.array_equal(data.load("svhn", normalization="none").test.inputs, expected)


class TestLayout:
    """Files that can be read, but hold something else."""

    def refused(
        self,
        tmp_path: Path,
        message: str,
        images: Sequence[Any],
        labels: Sequence[int],
        metadata: Any = None,
        **options: Any,
    ):
        write_set(tmp_path / "data", "svhn")
        write_parquet(
            tmp_path / "data" / "svhn" / "test-00000-of-00001.parquet",
            images,
            labels,
            metadata,
            **options,
        )
        with pytest.raises(ValueError, match=message):
            data.load("svhn")

    def test_images_of_two_sizes(self, tmp_path):
        images = [pixels("a", 1, 4, 4, 3)[0], pixels("b", 1, 4, 5, 3)[0]]
        self.refused(tmp_path, "test-00000-of-00001.parquet is damaged .*shape", images, [0, 1])

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([0, -1], "labels beyond its 3 classes"),
            ([0, 3], "labels beyond its 3 classes"),
            ([1.7, 0.0], "labels of type double, 0 of them missing; integers expected"),
            ([1, None], "labels of type .*1 of them missing; integers expected"),
        ],
    )
    def test_labels(self, tmp_path, labels, message):
        self.refused(tmp_path, message, list(pixels("", 2, 6, 5, 3)), labels)

    def test_other_images_or_classes_to_test_on(self, tmp_path):
        message = r"hold images of \[\[3, 6, 5\], \[3, 6, 6\]\]; take all of them from one copy"
        self.refused(tmp_path, message, list(pixels("", 2, 6, 6, 3)), [0, 1])
        message = "to train on and to test on hold different classes"
        other = class_names(names=["one", "zero", "two"])
        self.refused(tmp_path, message, list(pixels("", 2, 4, 4, 3)), [0, 1], other)

    @pytest.mark.parametrize("column", ["image", "label"])
    def test_other_columns(self, tmp_path, column):
        message = "is damaged or has another layout .*'image' and 'label' expected"
        images = list(pixels("", 2, 4, 4, 3))
        self.refused(tmp_path, message, images, [0, 1], class_names(), **{column: "other"})

    @pytest.mark.parametrize(
        ("content", "message"),
        [(b"no image", "cannot identify image file"), (b"", "an image is missing")],
    )
    def test_what_is_no_image(self, tmp_path, content, message):
        self.refused(tmp_path, f"is damaged or has another layout .*{message}", [content], [0])

    def test_a_mode_that_would_lose_something(self, tmp_path):
        sixteen_bits = [np.arange(30, dtype=np.uint16).reshape(6, 5)]
        message = "an image of mode 'I;16'; CMYK, L, P, RGB, RGBA expected"
        self.refused(tmp_path, message, sixteen_bits, [0])

    def test_pillow_starts_no_other_program(self, tmp_path, monkeypatch):
        """An EPS would be handed to Ghostscript."""

        def start(*arguments: Any, **options: Any) -> None:
            raise AssertionError("a program was started")

        monkeypatch.setattr("subprocess.Popen", start)
        stream = io.BytesIO()
        Image.fromarray(pixels("", 1, 6, 5, 3)[0]).save(stream, format="EPS")
        self.refused(tmp_path, "cannot identify image", [stream.getvalue()], [0])


class TestBytes:
    def test_normalised_by_batch_they_are_the_floats(self, folder, subtests):
        write_set(folder, "svhn")
        sets = [
            ("mnist", {"validation_size": 3}),
            ("svhn", {}),
            ("svhn", {"validation_size": 2, "subset": 3}),
        ]
        for (name, options), normalization in itertools.product(sets, data.NORMALIZATIONS):
            with subtests.test(f"{name} {options} {normalization}"):
                floats = data.load(name, normalization=normalization, **options)
                stored = data.load(name, normalization=normalization, as_bytes=True, **options)
                assert (
                    torch.equal(floats.normalize(floats.test.inputs), floats.test.inputs)
                    and floats.train.inputs.dtype == torch.float32
                )
                assert (stored.valid is None) == (floats.valid is None)
                for split in ("train", "test", *(["valid"] if floats.valid else [])):
                    part, whole = getattr(stored, split), getattr(floats, split)
                    assert part.inputs.dtype == torch.uint8 and torch.equal(
                        part.labels, whole.labels
                    )
                    for batch in (slice(0, 1), slice(1, 3), slice(None)):
                        assert torch.equal(
                            stored.normalize(part.inputs[batch]), whole.inputs[batch]
                        )

    def test_shapes_follow(self, folder):
        write_set(folder, "svhn")
        assert data.load("svhn").flat().test.inputs.shape == (4, 90)
        grey = data.load("mnist", normalization="channel", as_bytes=True).with_channels()
        assert grey.normalize(grey.train.inputs).shape == (12, 1, 4, 4)

    def test_what_is_written_stays_in_memory(self, folder):
        first = data.load("mnist", as_bytes=True)
        expected = first.train.inputs.clone()
        first.train.inputs.zero_()
        assert torch.equal(data.load("mnist", as_bytes=True).train.inputs, expected)


class TestCache:
    def load_and_count(self, monkeypatch) -> tuple[data.Dataset, int]:
        decoded = []
        original = loader._batches
        monkeypatch.setattr(
            loader, "_batches", lambda *arguments: decoded.append(arguments) or original(*arguments)
        )
        dataset = data.load("mnist", normalization="none")
        monkeypatch.setattr(loader, "_batches", original)
        return dataset, len(decoded)

    def test_the_second_time_nothing_is_decoded(self, folder, monkeypatch, own_cache):
        first, decoded = self.load_and_count(monkeypatch)
        assert decoded == 2 and len(list(own_cache.iterdir())) == 2
        second, decoded = self.load_and_count(monkeypatch)
        assert decoded == 0
        assert torch.equal(first.train.inputs, second.train.inputs) and torch.equal(
            first.test.labels, second.test.labels
        )
        assert first.class_names == second.class_names

    @pytest.mark.parametrize("damage", ["half", "empty", "text", "gone"])
    def test_a_damaged_cache_is_made_again(self, folder, monkeypatch, own_cache, damage):
        first, _ = self.load_and_count(monkeypatch)
        for file in own_cache.iterdir():
            whole = file.read_bytes()
            file.unlink()
            if damage != "gone":
                damaged = {"half": whole[:-10], "empty": b"", "text": b"\xff no array"}
                file.write_bytes(damaged[damage])
        again, decoded = self.load_and_count(monkeypatch)
        assert decoded == 2 and torch.equal(first.train.inputs, again.train.inputs)
        assert torch.equal(first.train.labels, again.train.labels)
        assert self.load_and_count(monkeypatch)[1] == 0

    def test_other_files_have_another_cache(self, folder, monkeypatch):
        self.load_and_count(monkeypatch)
        write_parquet(folder / "mnist" / "test-00000-of-00001.parquet", pixels("other", 5), [0] * 5)
        changed, decoded = self.load_and_count(monkeypatch)
        assert decoded == 1 and torch.equal(
            changed.test.inputs, torch.from_numpy(pixels("other", 5)).float()
        )

    def test_a_cache_that_cannot_be_written(self, folder, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("GDLIB_CACHE", str(tmp_path / "file"))
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
        assert len(data.load("mnist").train) == 12
        monkeypatch.delenv("GDLIB_CACHE")
        with pytest.raises(RuntimeError, match="set HOME"):  # it is needed for the default alone
            data.load("mnist")

    def interrupted(self, monkeypatch, error: BaseException) -> None:
        """Load with an error after the first images."""
        original, calls = loader._pixels, []

        def fail(*arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) == 3:
                raise error
            return original(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(loader, "_pixels", fail)
            patch.setattr(loader, "_BATCH", 2)
            with pytest.raises(type(error)):
                data.load("mnist")

    def test_an_interruption_leaves_nothing(self, folder, monkeypatch, own_cache):
        self.interrupted(monkeypatch, KeyboardInterrupt())
        assert list(own_cache.iterdir()) == []
        assert torch.equal(
            data.load("mnist", normalization="none").train.inputs,
            torch.from_numpy(pixels("train", 12)).float(),
        )

    def test_what_a_killed_process_left_is_cleared_away(self, folder, monkeypatch, own_cache):
        data.load("mnist")
        file = max(own_cache.glob("*-images.npy"), key=lambda path: path.stat().st_size)
        old, new = (
            own_cache / "of-other-files.npy.old.partial",
            file.with_name(f"{file.name}.new.partial"),
        )
        for partial in (old, new):
            partial.write_bytes(b"half")
        os.utime(old, (0, 0))
        file.unlink()
        data.load("mnist")
        assert (
            file.exists() and not old.exists() and new.exists()
        )  # the new one may belong to somebody who is at work


class TestHub:
    @pytest.fixture
    def hub(self, folder, tmp_path, monkeypatch) -> list[dict[str, Any]]:
        """A hub that hands out what the local folder held."""
        asked: list[dict[str, Any]] = []
        shutil.move(folder / "mnist", tmp_path / "snapshot" / "mnist")

        def snapshot_download(repository: str, **options: Any) -> str:
            asked.append({"repository": repository} | options)
            return str(tmp_path / "snapshot")

        monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
        return asked

    def test_is_asked_where_there_is_no_local_folder(self, hub):
        dataset = data.load("mnist", normalization="none")
        assert dataset.source == "hub" and torch.equal(
            dataset.train.inputs, torch.from_numpy(pixels("train", 12)).float()
        )
        assert hub == [
            {
                "repository": "ylecun/mnist",
                "repo_type": "dataset",
                "allow_patterns": ["mnist/train-*.parquet", "mnist/test-*.parquet"],
            }
        ]

    def test_the_record_names_the_revision(self, hub, tmp_path, monkeypatch):
        fetched = tmp_path / "snapshots" / ("0123456789abcdef" * 3)[:40]
        shutil.copytree(tmp_path / "snapshot", fetched)
        monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(fetched))
        copy = data.load("mnist").copy
        assert copy.startswith("sha256 ") and copy.endswith(f", revision {fetched.name}")

    def test_offline_says_what_to_do(self, monkeypatch):
        for error in (OSError("no route"), RuntimeError("transport")):

            def fail(*arguments: Any, error: Exception = error, **options: Any) -> str:
                raise error

            monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
            message = (
                "no folder .*; ylecun/mnist could not be fetched "
                ".*Set GDLIB_DATA .* 'digits' always works"
            )
            with pytest.raises(FileNotFoundError, match=message):
                data.load("mnist")


class TestRealMNIST:
    def test_is_the_official_set(self, data_folder, monkeypatch):
        monkeypatch.setenv("GDLIB_DATA", str(data_folder))
        dataset = data.load("mnist", normalization="none")
        for split, of_images, of_labels in (
            (dataset.train, "6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624"),
            (dataset.test, "2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"),
        ):
            shape = struct.pack(">4i", 0x803, len(split), 28, 28)  # as the official IDX files begin
            images = shape + split.inputs.to(torch.uint8).numpy().tobytes()
            labels = struct.pack(">2i", 0x801, len(split)) + bytes(split.labels.tolist())
            assert hashlib.md5(images).hexdigest() == of_images
            assert hashlib.md5(labels).hexdigest() == of_labels


class TestRealColour:
    @pytest.mark.parametrize(
        ("name", "sizes", "classes", "side"),
        [
            ("cifar10", (50_000, 10_000), 10, 32),
            ("cifar100", (50_000, 10_000), 100, 32),
            ("tiny-imagenet", (100_000, 10_000), 200, 64),
        ],
    )
    def test_the_first_images_and_all_labels(self, data_folder, name, sizes, classes, side):
        # decoding the whole set takes minutes; the loader's own path is held on the first images,
        # and the labels are read without them
        spec, folder = IMAGES[name], data_folder / name
        if not folder.is_dir():
            pytest.skip(f"real {name} was not tested: the local data folder has no {name}/")
        named = set()
        for split, size in zip(("train", spec.test_split), sizes, strict=True):
            files = sorted(folder.glob(f"{split}-*.parquet"))
            labels, names = loader._labels(files, spec)
            assert np.bincount(labels).tolist() == [size // classes] * classes
            images = next(loader._batches(files, spec))
            assert images.shape == (1_000, 3, side, side)
            assert 60 < images.mean() < 190 and 40 < images.std() < 100
            named.add(names)
        assert len(named) == 1 and len(set(names)) == classes
