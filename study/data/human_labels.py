"""Labels of CIFAR-10's training images as people gave them (CIFAR-10N), some of them wrong.

J. Wei, Z. Zhu, H. Cheng, T. Liu, G. Niu, Y. Liu, *Learning with noisy labels revisited: a study
using real-world human annotations*, ICLR 2022. Three people labelled each image: ``aggregate`` is
what most of them said (9 % wrong), ``random1`` what the first one said (17 %), ``worst`` a wrong
one if there is one (40 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from study.data.files import checksum, local_folder
from study.data.images import IMAGES, image_paths

CLEAN = "clean"
"""The labels that the data set comes with."""

LABELS = (CLEAN, "aggregate", "random1", "worst")
"""Whose labels a data set can have; all but the first are CIFAR-10N's."""

DATASET = "cifar10"
"""The data set whose training images people labelled."""

_FOLDER, _FILE = "cifar10n", "labels.parquet"


def human_labels(which: str, folder: Path, clean: Tensor) -> tuple[Tensor, str]:
    """Read the labels of the training images that a folder of Parquet files holds.

    The rows are joined by the path of each image, one to one.

    Args:
        which: one of :data:`LABELS` but the first.
        folder: where the images' files are.
        clean: the labels that come with them ``[N]``; the file must repeat them.

    Returns:
        The labels ``[N]`` in the order of the images, and which copy of the file they are from.

    Raises:
        FileNotFoundError: if there is no such file in the data folder.
        ValueError: if it is damaged, or is about other images; the message names the file.
    """
    file = local_folder() / _FOLDER / _FILE
    if not file.is_file():
        raise FileNotFoundError(
            f"the labels {which!r} need {file}, which is not there: put CIFAR-10N's labels there as"
            " a Parquet file with the columns path, clean, aggregate, random1 and worst"
        )
    digest = checksum(file)
    try:
        rows = pq.read_table(file, columns=["path", CLEAN, which])
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(f"{file} cannot be read as labels: {error}") from error
    images = image_paths(folder, DATASET)
    order = _joined(rows.column("path").to_pylist(), images, file)
    repeated, given = (_numbers(rows, name, file)[order] for name in (CLEAN, which))
    if not np.array_equal(repeated, clean.numpy()):
        count = int((repeated != clean.numpy()).sum())
        raise ValueError(
            f"{file} is about other images: its column 'clean' differs from the labels of {folder}"
            f" in {count} of {len(images)} images"
        )
    return torch.from_numpy(given), f"labels {which} of {_FILE} sha256 {digest[:16]}"


def _joined(listed: Sequence[str], images: Sequence[str], file: Path) -> NDArray[np.int64]:
    """Find for each image its row in the file; both must have the same paths, each once."""
    place = {path: row for row, path in enumerate(listed)}
    if len(place) != len(listed) or len(set(images)) != len(images):
        raise ValueError(f"{file}: a path stands twice in it, or among the images")
    missing = [path for path in images if path not in place]
    if missing or len(listed) != len(images):
        example = f", such as {missing[0]!r}" if missing else ""
        raise ValueError(
            f"{file} has {len(listed)} rows for {len(images)} images, and no row for"
            f" {len(missing)} of them{example}; "
            f"take both from one copy of {IMAGES[DATASET].repository}"
        )
    return np.array([place[path] for path in images])


def _numbers(rows: pa.Table, name: str, file: Path) -> NDArray[np.int64]:
    column = rows.column(name)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise ValueError(f"{file}: the column {name!r} is {column.type}; whole numbers expected")
    numbers = column.to_numpy().astype(np.int64)
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < 10:
        raise ValueError(f"{file}: the column {name!r} has labels outside 0 to 9")
    return numbers
