"""Sets of images: Parquet files of the hub's layout, in the local folder or on the hub.

They are decoded once into arrays that are mapped.
"""

import hashlib
import io
import json
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image

from study.data.files import checksum
from study.data.sets import Dataset, Split
from study.files import whole

_BATCH = 1_000  # images that are decoded at a time
_ABANDONED = (
    3_600  # seconds since the last write, after which nobody works on a partial file any more
)
_MODES = {
    "L": {"L"},
    "RGB": {"RGB", "L", "P", "RGBA", "CMYK"},
}  # modes of Pillow with 8 bits that can become the colours

_FORMATS = ("PNG", "JPEG")  # Pillow starts other programs for some of those that it knows
_COMMIT = re.compile("[0-9a-f]{40}")

_log = logging.getLogger("study.data")


@dataclass(frozen=True)
class Images:
    """A set of images: its repository and folder on the hub, its second split, and its columns.

    The colours are ``"L"``, grey; or ``"RGB"``, to which grey, palette and CMYK images are
    converted. The newest commit of the repository is taken; the results say which one that was,
    with the checksums of its files.
    """

    repository: str
    config: str
    test_split: str = "test"
    image: str = "image"
    label: str = "label"
    colours: str = "RGB"


IMAGES = {
    "mnist": Images("ylecun/mnist", "mnist", colours="L"),
    "cifar10": Images("uoft-cs/cifar10", "plain_text", image="img"),
    "cifar100": Images("uoft-cs/cifar100", "cifar100", image="img", label="fine_label"),
    "svhn": Images("ufldl-stanford/svhn", "cropped_digits"),
    "tiny-imagenet": Images("zh-plus/tiny-imagenet", "data", test_split="valid"),
}


def download(spec: Images) -> Path:
    """Fetch the files of a set from the hub, or find them in the hub's own cache.

    Returns their folder.
    """
    from huggingface_hub import snapshot_download

    patterns = [f"{spec.config}/{split}-*.parquet" for split in ("train", spec.test_split)]
    snapshot = snapshot_download(spec.repository, repo_type="dataset", allow_patterns=patterns)
    return Path(snapshot) / spec.config


def load_images(name: str, folder: Path, source: str) -> Dataset:
    """Read the data set of a folder that holds its Parquet files.

    Bytes, mapped from the cache where there is one.
    """
    spec = IMAGES[name]
    files = [_shards(name, folder, split) for split in ("train", spec.test_split)]
    sums = [[checksum(file) for file in part] for part in files]
    (train, classes), (test, others) = (
        _decoded(part, of_part, spec) for part, of_part in zip(files, sums, strict=True)
    )
    shapes = [list(part.inputs.shape[1:]) for part in (train, test)]
    if classes != others or shapes[0] != shapes[1]:
        unlike = f"images of {shapes}" if classes == others else "different classes"
        raise ValueError(
            f"the files of {folder} to train on and to test on hold {unlike}; take all of them "
            f"from one copy"
        )
    copy = "sha256 " + " ".join(one[:16] for part in sums for one in part)
    if source == "hub" and _COMMIT.fullmatch(revision := folder.parent.name):
        copy += f", revision {revision}"  # of the hub's cache: snapshots/<commit>/<folder>
    return Dataset(name, train, None, test, classes, source, copy)


def _cache() -> Path:
    """Return the folder of decoded images."""
    if named := os.environ.get("GDLIB_CACHE"):
        return Path(named)
    try:
        return Path.home() / ".cache" / "gdlib"
    except RuntimeError as error:  # neither HOME nor an entry of this user, as in some containers
        raise RuntimeError(
            "decoded images are kept in the home of this user, who has none: set HOME, or set "
            "GDLIB_CACHE to a folder for them"
        ) from error


def image_paths(folder: Path, name: str) -> list[str]:
    """List the paths that the training images of a folder had before they were packed, in order."""
    spec = IMAGES[name]
    paths: list[str] = []
    for file in _shards(name, folder, "train"):
        with _opened(file, spec) as parquet:
            column = parquet.read(columns=[f"{spec.image}.path"]).column(spec.image)
            paths += [row["path"] for row in column.to_pylist()]
    return paths


def _shards(name: str, folder: Path, split: str) -> list[Path]:
    """List the files of a split, ``split-00000-of-N.parquet`` and so on.

    All N, and none twice.
    """
    files = sorted(folder.glob(f"{split}-*.parquet"))
    if not files:
        raise FileNotFoundError(
            f"{folder} holds no files {split}-*.parquet: the data set {name!r} is incomplete there"
        )
    shards = [
        re.fullmatch(rf"{split}-(\d+)-of-(\d+)(?:-[0-9a-f]+)?\.parquet", file.name)
        for file in files
    ]
    numbers = [
        (int(shard[1]), int(shard[2])) for shard in shards if shard
    ]  # a copy has another form of name
    if numbers != [(index, len(files)) for index in range(len(files))]:
        raise ValueError(
            f"{folder} holds {[file.name for file in files]} where {split}-00000-of-N.parquet and "
            "so on, N files, are expected: files are missing, or some should not be there"
        )
    return files


def _decoded(
    files: Sequence[Path], checksums: Sequence[str], spec: Images
) -> tuple[Split, tuple[str, ...]]:
    """Read the files of one split.

    Images ``[N, H, W]`` or ``[N, C, H, W]`` (bytes) with their labels, and the names of the
    classes.

    Images are decoded batch by batch into a file of the cache, named after the checksums of the
    files they come from. It gets its name when it is complete, and every process writes one of its
    own: neither an interruption nor a second process leaves half an array behind. Where the cache
    cannot be written, the images are decoded into memory.

    The images are mapped copy-on-write: pages are read when they are touched, and writing to them
    never reaches the file.
    """
    labels, class_names = _labels(files, spec)
    key = hashlib.sha256(" ".join([*checksums, spec.image, spec.colours]).encode()).hexdigest()[:24]
    cached = _cache() / f"{key}-images.npy"
    images = _mapped(cached)
    if images is None:
        try:
            _log.info(
                "decoding %d images of %s into %s", len(labels), files[0].parent, cached.parent
            )
            _write(cached, files, spec, len(labels))
            images = _mapped(cached)
        except OSError as error:  # errors of the source files come as ValueError
            _log.warning(
                "the cache %s cannot be written (%s): decoding into memory", cached.parent, error
            )
    images = np.concatenate(list(_batches(files, spec))) if images is None else images
    return Split(torch.from_numpy(images), torch.from_numpy(labels)), class_names


def _mapped(path: Path) -> NDArray[np.uint8] | None:
    """Map an array of the cache; None if it is not there, or is no whole array."""
    try:
        return np.load(path, mmap_mode="c")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError) as error:
        _log.warning("%s of the cache cannot be used (%s): decoding again", path, error)
        return None


def _write(path: Path, files: Sequence[Path], spec: Images, samples: int) -> None:
    """Write all images as one array of NumPy's format."""
    for partial in path.parent.glob("*.partial"):
        with suppress(OSError):  # gone already, or another user's
            if time.time() - partial.stat().st_mtime > _ABANDONED:
                partial.unlink()
    with whole(path) as stream:
        for images in _batches(files, spec):
            if stream.tell() == 0:
                shape = (samples, *images.shape[1:])
                np.lib.format.write_array_header_1_0(
                    stream, {"descr": "|u1", "fortran_order": False, "shape": shape}
                )
            stream.write(images.tobytes())


@contextmanager
def _opened(file: Path, spec: Images) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; any error inside becomes one that names it."""
    try:
        with pq.ParquetFile(file) as parquet:
            yield parquet
    except Exception as error:
        columns = f"columns {spec.image!r} and {spec.label!r}"
        raise ValueError(
            f"{file} is damaged or has another layout ({columns} expected): {error}"
        ) from error


def _labels(files: Sequence[Path], spec: Images) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read the labels of all files and the class names.

    The hub writes the names into a Parquet file's metadata.
    """
    labels: list[NDArray[np.int64]] = []
    names: list[tuple[str, ...]] = []
    for file in files:
        with _opened(file, spec) as parquet:
            try:
                names.append(
                    tuple(
                        json.loads(parquet.schema_arrow.metadata[b"huggingface"])["info"][
                            "features"
                        ][spec.label]["names"]
                    )
                )
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    "it does not name its classes in the schema's 'huggingface' metadata"
                ) from error
            if names[-1] != names[0]:
                raise ValueError(
                    f"it names other classes than {files[0].name}; take all files from one copy"
                )
            column = parquet.read(columns=[spec.label]).column(spec.label)
            if not pa.types.is_integer(column.type) or column.null_count:
                raise ValueError(
                    f"labels of type {column.type}, {column.null_count} of them missing; integers "
                    f"expected"
                )
            labels.append(column.to_numpy().astype(np.int64))
            if len(column) and not 0 <= labels[-1].min() <= labels[-1].max() < len(names[0]):
                raise ValueError(f"labels beyond its {len(names[0])} classes")
    return np.concatenate(labels), names[0]


def _batches(files: Sequence[Path], spec: Images) -> Iterator[NDArray[np.uint8]]:
    """Decode the images of all files, in order; all of one shape."""
    shape: tuple[int, ...] = ()
    for file in files:
        with _opened(file, spec) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH, columns=[spec.image]):
                images = np.stack(
                    [
                        _pixels(cell and cell["bytes"], spec.colours)
                        for cell in batch.column(spec.image).to_pylist()
                    ]
                )
                shape = shape or images.shape[1:]
                if images.shape[1:] != shape:
                    raise ValueError(
                        f"images of shape {list(images.shape[1:])} after images of shape "
                        f"{list(shape)}"
                    )
                yield images


def _pixels(content: bytes | None, colours: str) -> NDArray[np.uint8]:
    if not content:
        raise ValueError("an image is missing; copy the file again")
    with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
        if image.mode not in _MODES[colours]:
            expected = ", ".join(sorted(_MODES[colours]))
            raise ValueError(
                f"an image of mode {image.mode!r}; {expected} expected, with 8 bits for each "
                f"channel"
            )
        array = np.asarray(image if image.mode == colours else image.convert(colours))
    return array if array.ndim == 2 else array.transpose(2, 0, 1)
