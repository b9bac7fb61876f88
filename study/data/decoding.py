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
from io import BufferedRandom
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from study.data.files import cache_folder

__all__ = ["Layout", "decoded"]

_BATCH = 1_000  # images that are decoded at a time
_ABANDONED = 3_600  # seconds since the last write, after which nobody works on a partial file any more
_MODES = {"L": {"L"}, "RGB": {"RGB", "L", "P", "RGBA", "CMYK"}}  # modes of Pillow with 8 bits that become the colours without loss

_log = logging.getLogger("study.data")


@dataclass(frozen=True)
class Layout:
    """Columns of images and labels, and the colours: ``"L"``, grey; or ``"RGB"``, to which grey, palette and CMYK images are converted."""

    image: str = "image"
    label: str = "label"
    colours: Literal["L", "RGB"] = "RGB"


def decoded(
    files: Sequence[Path], checksums: Sequence[str], layout: Layout
) -> tuple[NDArray[np.uint8], NDArray[np.int64], tuple[str, ...]]:
    """Read images ``[N, H, W]`` or ``[N, C, H, W]`` (bytes), labels ``[N]`` and class names from the files of one split.

    Images are decoded batch by batch into a file of the cache, named after the checksums of the files they come from. It gets its name when
    it is complete, and every process writes one of its own: neither an interruption nor a second process leaves half an array behind. Its
    SHA-256 stands beside it; a file that differs is made again. Where the cache cannot be written, the images are decoded into memory.

    The images are mapped copy-on-write: pages are read when they are touched, and writing to them never reaches the file.
    """
    labels, class_names = _labels(files, layout)
    key = hashlib.sha256(" ".join([*checksums, layout.image, layout.colours]).encode()).hexdigest()[:24]
    cached = cache_folder() / f"{key}-images.npy"
    images = _mapped(cached)
    if images is None:
        try:
            _log.info("decoding %d images of %s into %s", len(labels), files[0].parent, cached.parent)
            _write(cached, files, layout, len(labels))
            images = _mapped(cached)
        except OSError as error:  # errors of the source files come as ValueError
            _log.warning("the cache %s cannot be written (%s): decoding into memory", cached.parent, error)
    return _in_memory(files, layout, len(labels)) if images is None else images, labels, class_names


# --- the cache ---


def _mapped(path: Path) -> NDArray[np.uint8] | None:
    """Map an array of the cache; None if it is not there, or not as it was written."""
    try:
        with path.open("rb") as stream:
            if path.with_suffix(".sha256").read_bytes().decode() != hashlib.file_digest(stream, "sha256").hexdigest():
                raise ValueError("its SHA-256 is another one")
        return np.load(path, mmap_mode="c")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("%s of the cache cannot be used (%s): decoding again", path, error)
        return None


def _write(path: Path, files: Sequence[Path], layout: Layout, samples: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for partial in path.parent.glob("*.partial"):
        with suppress(OSError):  # gone already, or another user's
            if time.time() - partial.stat().st_mtime > _ABANDONED:
                partial.unlink()
    with _complete_or_not_at_all(path) as stream:
        _encode(stream, files, layout, samples)
        stream.seek(0)
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    with _complete_or_not_at_all(path.with_suffix(".sha256")) as stream:
        stream.write(found.encode())


@contextmanager
def _complete_or_not_at_all(path: Path) -> Iterator[BufferedRandom]:
    """A stream into a file of its own, which takes its name at the end; after an error there is nothing."""
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _in_memory(files: Sequence[Path], layout: Layout, samples: int) -> NDArray[np.uint8]:
    stream = io.BytesIO()
    _encode(stream, files, layout, samples)
    stream.seek(0)
    np.lib.format.read_magic(stream)
    shape, _, _ = np.lib.format.read_array_header_1_0(stream)
    return np.frombuffer(stream.getbuffer(), np.uint8, offset=stream.tell()).reshape(shape)  # no second copy


def _encode(stream: BinaryIO, files: Sequence[Path], layout: Layout, samples: int) -> None:
    """Write all images as one array of NumPy's format."""
    for number, images in enumerate(_batches(files, layout)):
        if number == 0:
            shape = (samples, *images.shape[1:])
            np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
        stream.write(images.tobytes())


# --- the files ---


@contextmanager
def _opened(file: Path, layout: Layout) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; any error inside becomes one that names it."""
    try:
        with pq.ParquetFile(file) as parquet:
            yield parquet
    except Exception as error:
        raise ValueError(
            f"{file} is damaged or has another layout (columns {layout.image!r} and {layout.label!r} expected): {error}"
        ) from error


def _labels(files: Sequence[Path], layout: Layout) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read the labels of all files and the class names, which the hub writes into a Parquet file's metadata."""
    labels: list[NDArray[np.int64]] = []
    names: list[tuple[str, ...]] = []
    for file in files:
        with _opened(file, layout) as parquet:
            try:
                names.append(tuple(json.loads(parquet.schema_arrow.metadata[b"huggingface"])["info"]["features"][layout.label]["names"]))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError("it does not name its classes in the schema's 'huggingface' metadata") from error
            if names[-1] != names[0]:
                raise ValueError(f"it names other classes than {files[0].name}; take all files from one copy")
            column = parquet.read(columns=[layout.label]).column(layout.label)
            if not pa.types.is_integer(column.type) or column.null_count:
                raise ValueError(f"labels of type {column.type}, {column.null_count} of them missing; integers expected")
            labels.append(column.to_numpy().astype(np.int64))
            if len(column) == 0:
                raise ValueError("it holds no samples; copy the file again")
            if not 0 <= labels[-1].min() <= labels[-1].max() < len(names[0]):
                raise ValueError(f"labels from {labels[-1].min()} to {labels[-1].max()} for {len(names[0])} classes")
    return np.concatenate(labels), names[0]


def _batches(files: Sequence[Path], layout: Layout) -> Iterator[NDArray[np.uint8]]:
    """Decode the images of all files, in order; all of one shape."""
    shape: tuple[int, ...] = ()
    for file in files:
        with _opened(file, layout) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH, columns=[layout.image]):
                images = np.stack([_pixels(cell["bytes"], layout.colours) for cell in batch.column(layout.image).to_pylist()])
                shape = shape or images.shape[1:]
                if images.shape[1:] != shape:
                    raise ValueError(f"images of shape {list(images.shape[1:])} after images of shape {list(shape)}")
                yield images


def _pixels(content: bytes, colours: str) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(content)) as image:
        if image.mode not in _MODES[colours]:
            raise ValueError(
                f"an image of mode {image.mode!r}; {', '.join(sorted(_MODES[colours]))} expected, with 8 bits for each channel"
            )
        array = np.asarray(image if image.mode == colours else image.convert(colours))
    return array if array.ndim == 2 else array.transpose(2, 0, 1)
