"""Parquet files of compressed images, decoded once into arrays that are mapped into memory."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from study.data.files import cache_folder

__all__ = ["Layout", "decoded"]

_BATCH = 1_000  # images that are decoded at a time
_ABANDONED = 3_600  # seconds since the last write, after which a partial file has nobody who works on it

_log = logging.getLogger("study.data")


@dataclass(frozen=True)
class Layout:
    """Which columns hold images and labels.

    Attributes:
        image: column of struct(bytes, path).
        label: column of int64, whose class names are in the schema's metadata.
        colours: mode of Pillow that every image is converted to; None to take them as they are stored, which must then be all alike.
    """

    image: str = "image"
    label: str = "label"
    colours: str | None = None


def decoded(
    files: Sequence[Path], checksums: Sequence[str], layout: Layout
) -> tuple[NDArray[np.uint8], NDArray[np.int64], tuple[str, ...]]:
    """Images ``[N, H, W]`` or ``[N, C, H, W]`` (bytes), labels ``[N]`` and class names of the files of one split.

    They are decoded batch by batch straight into a file of the cache, under the checksums of the files they come from. The file gets its
    name when it is complete, and every process writes one of its own, so that neither an interruption nor a second process can leave half
    an array behind. Where the cache cannot be written, the arrays are made in memory instead.

    The images are mapped copy-on-write: pages are read when they are touched, and what is written to them never reaches the file.

    Raises:
        ValueError: for a damaged file, or one of another layout; the message names it.
    """
    class_names = _class_names(files, layout)
    cache = cache_folder()
    identity = " ".join(checksums) + ("" if layout == Layout() else f" {layout.image} {layout.label} {layout.colours}")
    key = hashlib.sha256(identity.encode()).hexdigest()[:24]
    arrays = _mapped(cache, key)
    if arrays is None:
        try:
            _write(cache, key, files, layout, len(class_names))
        except OSError as error:  # those of the source files come as ValueError
            _log.warning("the cache %s cannot be written (%s): decoding into memory", cache, error)
        else:
            arrays = _mapped(cache, key)
    images, labels = arrays if arrays is not None else _in_memory(files, layout, len(class_names))
    return images, labels, class_names


# --- the cache ---


def _mapped(cache: Path, key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
    """The arrays of the cache, or None if they are not there or not whole."""
    try:
        images, labels = np.load(cache / f"{key}-images.npy", mmap_mode="c"), np.load(cache / f"{key}-labels.npy")
    except (OSError, ValueError, EOFError):
        return None
    whole = images.ndim in (3, 4) and images.dtype == np.uint8 and labels.dtype == np.int64 and labels.shape == images.shape[:1]
    return (images, labels) if whole else None


def _write(cache: Path, key: str, files: Sequence[Path], layout: Layout, classes: int) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    for partial in cache.glob("*.partial"):
        with suppress(OSError):  # gone already, or another user's
            if time.time() - partial.stat().st_mtime > _ABANDONED:
                partial.unlink()
    samples = _samples(files)
    _log.info("decoding %d images of %s into %s", samples, files[0].parent, cache)
    labels: list[NDArray[np.int64]] = []
    with _complete_or_not_at_all(cache / f"{key}-images.npy") as stream:
        for images, batch_labels in _batches(files, layout, classes):
            if not labels:
                shape = (samples, *images.shape[1:])
                np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
            stream.write(images.tobytes())
            labels.append(batch_labels)
    with _complete_or_not_at_all(cache / f"{key}-labels.npy") as stream:
        np.save(stream, np.concatenate(labels))


@contextmanager
def _complete_or_not_at_all(path: Path) -> Iterator[BinaryIO]:
    """A stream into a file of its own, which takes its name at the end; after an error there is nothing."""
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _in_memory(files: Sequence[Path], layout: Layout, classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    samples, position = _samples(files), 0
    labels = np.empty(samples, dtype=np.int64)
    for batch_images, batch_labels in _batches(files, layout, classes):
        if position == 0:
            images = np.empty((samples, *batch_images.shape[1:]), dtype=np.uint8)
        images[position : position + len(batch_images)] = batch_images
        labels[position : position + len(batch_images)] = batch_labels
        position += len(batch_images)
    return images, labels


# --- the files ---


@contextmanager
def _opened(file: Path, layout: Layout) -> Iterator[pq.ParquetFile]:
    """A Parquet file; whatever goes wrong with it becomes one error that names it."""
    try:
        with pq.ParquetFile(file) as parquet:
            yield parquet
    except Exception as error:
        raise ValueError(
            f"{file} is damaged or has another layout (columns {layout.image!r} and {layout.label!r} expected): {error}"
        ) from error


def _samples(files: Sequence[Path]) -> int:
    return sum(pq.read_metadata(file).num_rows for file in files)


def _class_names(files: Sequence[Path], layout: Layout) -> tuple[str, ...]:
    """The names of the classes, from the metadata that the hub writes into a Parquet file."""
    found: list[tuple[str, ...]] = []
    for file in files:
        with _opened(file, layout) as parquet:
            metadata, rows = parquet.schema_arrow.metadata or {}, parquet.metadata.num_rows
        try:
            found.append(tuple(json.loads(metadata[b"huggingface"])["info"]["features"][layout.label]["names"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{file} does not name its classes in the schema's 'huggingface' metadata (feature {layout.label!r})"
            ) from error
        if found[-1] != found[0]:
            raise ValueError(f"{file} names other classes than {files[0].name}; take all files from one copy")
        if rows == 0:
            raise ValueError(f"{file} holds no samples; copy the file again")
    return found[0]


def _batches(files: Sequence[Path], layout: Layout, classes: int) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Images and labels of all files, in order; the images all of one shape."""
    shape: tuple[int, ...] = ()
    for file in files:
        with _opened(file, layout) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH, columns=[layout.image, layout.label]):
                images, labels = _decode(batch, layout)
                shape = shape or images.shape[1:]
                if images.shape[1:] != shape:
                    raise ValueError(f"images of shape {list(images.shape[1:])} after images of shape {list(shape)}")
                if not 0 <= labels.min() <= labels.max() < classes:
                    raise ValueError(f"labels from {labels.min()} to {labels.max()} for {classes} classes")
                yield images, labels


def _decode(batch: pa.RecordBatch, layout: Layout) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    pixels: list[NDArray[Any]] = []
    for cell in batch.column(layout.image).to_pylist():
        with Image.open(io.BytesIO(cell["bytes"])) as image:
            array = np.asarray(image if layout.colours is None else image.convert(layout.colours))
        pixels.append(array if array.ndim == 2 else array.transpose(2, 0, 1))
    images = np.stack(pixels)
    if images.dtype != np.uint8:
        raise ValueError(f"images of type {images.dtype}; 8 bits for each channel expected")
    return images, np.asarray(batch.column(layout.label).to_pylist(), dtype=np.int64)
