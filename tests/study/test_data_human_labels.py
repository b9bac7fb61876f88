"""Labels of people: joined to the images by path, one to one, or refused with what is wrong."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from study import data

CLEAN = [0, 1, 2, 3] * 5
PATHS = [f"class{label}/{row}.png" for row, label in enumerate(CLEAN)]


def image(row: int) -> bytes:
    pixels = np.full((8, 8, 3), row, np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def write_images(folder: Path) -> None:
    folder.mkdir()
    names = {"info": {"features": {"label": {"names": ["a", "b", "c", "d"]}}}}
    for split, rows in (("train", range(20)), ("test", range(100, 104))):
        cells = [{"bytes": image(row), "path": PATHS[row % 20]} for row in rows]
        table = pa.table({"img": cells, "label": [CLEAN[row % 20] for row in rows]})
        table = table.replace_schema_metadata({"huggingface": json.dumps(names)})
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet")


def write_labels(folder: Path, **changed: list[object]) -> None:
    """People's labels, in another order than the images; every fourth of ``worst`` is wrong."""
    worst = [(label + 1) % 4 if row % 4 == 0 else label for row, label in enumerate(CLEAN)]
    columns = {"path": PATHS, "clean": CLEAN, "aggregate": CLEAN, "random1": CLEAN, "worst": worst}
    columns |= changed
    folder.mkdir(exist_ok=True)
    table = pa.table({name: values[::-1] for name, values in columns.items()})
    pq.write_table(table, folder / "labels.parquet")


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("GDLIB_DATA", str(tmp_path))
    monkeypatch.setenv("GDLIB_CACHE", str(tmp_path / "cache"))
    write_images(tmp_path / "cifar10")
    return tmp_path


def test_they_are_joined_by_path_and_the_same_images_are_held_out(root):
    write_labels(root / "cifar10n")
    clean = data.load("cifar10", validation_size=4)
    noisy = data.load("cifar10", validation_size=4, labels="worst")
    assert torch.equal(clean.train.inputs, noisy.train.inputs)
    assert torch.equal(clean.valid.inputs, noisy.valid.inputs)
    assert torch.equal(clean.test.labels, noisy.test.labels)
    for split in ("train", "valid"):
        theirs, own = getattr(noisy, split), getattr(clean, split)
        rows = (own.inputs[:, 0, 0, 0] * 255).round().long()
        expected = torch.where(rows % 4 == 0, (own.labels + 1) % 4, own.labels)
        assert torch.equal(theirs.labels, expected)
    share = (noisy.train.labels != clean.train.labels).double().mean()
    assert noisy.wrong_labels == pytest.approx(float(share)) and clean.wrong_labels == 0
    assert noisy.copy.startswith(clean.copy) and "labels worst" in noisy.copy


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"path": [*PATHS[:-1], "elsewhere.png"]}, "no row for 1 of them, such as 'class3/19.png'"),
        ({"path": [*PATHS[:-1], PATHS[0]]}, "a path stands twice"),
        ({"clean": [*CLEAN[:-1], 0]}, "is about other images.*in 1 of 20 images"),
        ({"worst": [None, *CLEAN[1:]]}, "whole numbers expected"),
        ({"worst": [0.5, *map(float, CLEAN[1:])]}, "whole numbers expected"),
        ({"worst": [10, *CLEAN[1:]]}, "labels outside 0 to 9"),
    ],
)
def test_labels_that_do_not_fit_the_images(root, changed, message):
    write_labels(root / "cifar10n", **changed)
    with pytest.raises(ValueError, match=f"labels.parquet.*{message}"):
        data.load("cifar10", labels="worst")


def test_a_file_that_is_missing_or_damaged(root):
    with pytest.raises(FileNotFoundError, match="put CIFAR-10N's labels there"):
        data.load("cifar10", labels="worst")
    write_labels(root / "cifar10n")
    file = root / "cifar10n" / "labels.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cannot be read as labels"):
        data.load("cifar10", labels="worst")


def test_other_data_sets_have_none():
    with pytest.raises(ValueError, match="'digits' has no such labels"):
        data.load("digits", labels="worst")
    with pytest.raises(ValueError, match="valid: clean, aggregate, random1, worst"):
        data.load("digits", labels="best")
