"""Data sets by name: tensors to train on, to validate on and to test on, and the exact copy they came from.

Three sources, tried in this order and never mixed silently:

1. ``embedded``: scikit-learn's ``digits``, ``iris``, ``wine`` and ``breast_cancer``, which need no file;
2. ``local``: a folder of Parquet files (the environment variable ``GDLIB_DATA``, else ``../shared/data`` beside the project);
3. ``hub``: the same Parquet files from the public hub, through ``huggingface_hub``.

Image files are decoded once and kept as arrays in the folder ``GDLIB_CACHE`` (else ``~/.cache/gdlib``), under the checksums of the files
they came from.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

__all__ = ["NORMALIZATIONS", "Dataset", "Split", "load", "names"]

NORMALIZATIONS = ("unit", "standard", "none")

Normalization = Literal["unit", "standard", "none"]


@dataclass(frozen=True)
class Split:
    """Inputs ``[N, ...]`` and class indices ``[N]`` (int64)."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.labels)

    def flat(self) -> Split:
        """The same split with inputs of shape ``[N, D]``."""
        return replace(self, inputs=self.inputs.flatten(1))


@dataclass(frozen=True)
class Dataset:
    """A data set, ready to train on.

    Attributes:
        name: the name it was asked for.
        train: the samples to train on.
        valid: samples held out of the training set, or None.
        test: the samples to test on.
        class_names: one name for each class.
        source: ``"embedded"``, ``"local"`` or ``"hub"``.
        copy: which exact copy this is: a package version, the checksum of a file, or a revision.
    """

    name: str
    train: Split
    valid: Split | None
    test: Split
    class_names: tuple[str, ...]
    source: str
    copy: str

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def features(self) -> int:
        """The number of values in one input."""
        return self.train.inputs[0].numel()

    def flat(self) -> Dataset:
        """The same data set with inputs of shape ``[N, D]``."""
        valid = self.valid.flat() if self.valid is not None else None
        return replace(self, train=self.train.flat(), valid=valid, test=self.test.flat())


@dataclass(frozen=True)
class _Parquet:
    """Where a set of images lies: in the local folder, and on the hub."""

    folder: str | None
    repository: str | None = None
    config: str = ""
    image: str = "image"
    label: str = "label"
    test_split: str = "test"


_PARQUET = {"mnist": _Parquet(folder="mnist", repository="ylecun/mnist", config="mnist")}

_EMBEDDED = {"digits": "load_digits", "iris": "load_iris", "wine": "load_wine", "breast_cancer": "load_breast_cancer"}

_EMBEDDED_TEST_SHARE = 0.2


def names() -> list[str]:
    """The names that :func:`load` knows."""
    return sorted({*_EMBEDDED, *_PARQUET})


def load(
    name: str,
    *,
    normalization: Normalization = "unit",
    validation_size: int = 0,
    validation_seed: int = 0,
    source: Literal["embedded", "local", "hub"] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Dataset:
    r"""Load a data set by name.

    Args:
        name: one of :func:`names`.
        normalization: what is done to the inputs, with statistics of the training samples only. ``"unit"`` divides by the largest
            possible value, so that images lie in [0, 1] (a table of features is mapped to [0, 1] feature by feature); ``"standard"``
            gives mean 0 and standard deviation 1 (over all pixels of all images together; a table feature by feature); ``"none"`` leaves
            the numbers as they are.
        validation_size: number of training samples to hold out, drawn without replacement, the same share of each class as far as whole
            samples allow.
        validation_seed: seed of that draw.
        source: take the data from this source only; by default the first one that has them.
        folder: the local folder, instead of ``GDLIB_DATA``.

    Returns:
        The data set, float32 inputs and int64 labels.

    Raises:
        ValueError: for a name or option that does not exist, or a file that is damaged; the message names the valid ones, or the file.
        FileNotFoundError: for a data set that no source has; the message says what to do.

    Example:
        >>> digits = load("digits", validation_size=100)
        >>> digits.train.inputs.shape, len(digits.valid), len(digits.test), digits.source
        (torch.Size([1337, 8, 8]), 100, 360, 'embedded')
    """
    if name not in names():
        raise ValueError(f"unknown data set {name!r}; valid: {', '.join(names())}")
    if normalization not in NORMALIZATIONS:
        raise ValueError(f"unknown normalization {normalization!r}; valid: {', '.join(NORMALIZATIONS)}")
    raw = _load_raw(name, source, Path(folder) if folder is not None else None)
    train, valid = _hold_out(raw.train, validation_size, validation_seed)
    normalize = _normalizer(train.inputs, normalization)
    return replace(raw, train=normalize(train), valid=normalize(valid) if valid is not None else None, test=normalize(raw.test))


# --- sources ---


def _load_raw(name: str, source: str | None, folder: Path | None) -> Dataset:
    if source not in (None, "embedded", "local", "hub"):
        raise ValueError(f"unknown source {source!r}; valid: embedded, local, hub")
    missing = []
    if name in _EMBEDDED:
        if source in (None, "embedded"):
            return _load_embedded(name)
        missing.append("it is embedded in scikit-learn, and in no other source")
    else:
        spec = _PARQUET[name]
        if source in (None, "local") and spec.folder is not None:
            local = (folder or _local_folder()) / spec.folder
            if local.is_dir():
                return _load_parquet(name, local, spec, "local")
            missing.append(f"there is no folder {local}")
        if source in (None, "hub") and spec.repository is not None:
            try:
                downloaded = _download(spec)
            except Exception as error:  # the hub's client and its transport have error types of their own
                missing.append(f"{spec.repository} could not be fetched from the hub ({type(error).__name__})")
            else:
                return _load_parquet(name, downloaded, spec, "hub")
    raise FileNotFoundError(
        f"data set {name!r} is nowhere to be found: {'; '.join(missing)}. Set GDLIB_DATA to a folder that holds it as Parquet files, "
        "or go online once so that it can be fetched from the hub; the embedded data set 'digits' always works"
    )


def _load_embedded(name: str) -> Dataset:
    import sklearn
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    bunch: Any = getattr(datasets, _EMBEDDED[name])()
    inputs = bunch.images if name == "digits" else bunch.data
    train, test = train_test_split(np.arange(len(bunch.target)), test_size=_EMBEDDED_TEST_SHARE, stratify=bunch.target, random_state=0)
    inputs, labels = torch.from_numpy(inputs).float(), torch.from_numpy(bunch.target).long()
    return Dataset(
        name=name,
        train=Split(inputs[train], labels[train]),
        valid=None,
        test=Split(inputs[test], labels[test]),
        class_names=tuple(str(label) for label in bunch.target_names),
        source="embedded",
        copy=f"scikit-learn {sklearn.__version__}, stratified 80/20 split with seed 0",
    )


def _local_folder() -> Path:
    if "GDLIB_DATA" in os.environ:
        return Path(os.environ["GDLIB_DATA"])
    return Path(__file__).resolve().parents[3] / "shared" / "data"


def _download(spec: _Parquet) -> Path:
    from huggingface_hub import snapshot_download

    root = snapshot_download(str(spec.repository), repo_type="dataset", allow_patterns=[f"{spec.config}/*.parquet"])
    return Path(root) / spec.config


def _load_parquet(name: str, folder: Path, spec: _Parquet, source: str) -> Dataset:
    splits: list[Split] = []
    checksums: list[str] = []
    class_names: tuple[str, ...] = ()
    for split in ("train", spec.test_split):
        files = sorted(folder.glob(f"{split}-*.parquet"))
        if not files:
            raise FileNotFoundError(f"{folder} holds no files {split}-*.parquet: the data set {name!r} is incomplete there")
        sums = [_checksum(file) for file in files]
        checksums += sums
        decoded, class_names = _decoded(files, sums, spec)
        splits.append(decoded)
    return Dataset(
        name=name,
        train=splits[0],
        valid=None,
        test=splits[1],
        class_names=class_names,
        source=source,
        copy="sha256 " + " ".join(checksum[:16] for checksum in checksums),
    )


def _checksum(file: Path) -> str:
    """The SHA-256 of a file, held against the list ``SHA256SUMS`` beside the data where there is one."""
    with file.open("rb") as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    listing = file.parent.parent / "SHA256SUMS"
    if listing.is_file():
        expected = {line.split()[1].lstrip("*./"): line.split()[0] for line in listing.read_text().splitlines() if line.strip()}
        known = expected.get(f"{file.parent.name}/{file.name}")
        if known is not None and known != checksum:
            raise ValueError(f"{file} is damaged: its SHA-256 is {checksum}, but {listing} says {known}; copy the file again")
    return checksum


def _decoded(files: list[Path], checksums: list[str], spec: _Parquet) -> tuple[Split, tuple[str, ...]]:
    """Images ``[N, H, W]`` or ``[N, C, H, W]`` (uint8) and labels, from the cache if they were decoded before."""
    cache = Path(os.environ.get("GDLIB_CACHE", Path.home() / ".cache" / "gdlib"))
    key = hashlib.sha256(" ".join(checksums).encode()).hexdigest()[:24]
    try:
        class_names = _class_names(files[0], spec)
        images, labels = np.load(cache / f"{key}-images.npy", mmap_mode="r"), np.load(cache / f"{key}-labels.npy")
        if len(images) != len(labels):
            raise ValueError("the cached arrays do not belong together")
    except (OSError, ValueError, EOFError):
        images, labels, class_names = _decode(files, spec)
        _save_atomically(cache / f"{key}-images.npy", images)
        _save_atomically(cache / f"{key}-labels.npy", labels)
    return Split(torch.from_numpy(np.array(images)), torch.from_numpy(labels).long()), class_names


def _class_names(file: Path, spec: _Parquet) -> tuple[str, ...]:
    """The names of the classes, from the metadata that the hub writes into a Parquet file."""
    import json

    try:
        metadata = pq.read_schema(file).metadata or {}
    except Exception as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    try:
        return tuple(json.loads(metadata[b"huggingface"])["info"]["features"][spec.label]["names"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} does not name its classes in the schema's 'huggingface' metadata (feature {spec.label!r})") from error


def _decode(files: list[Path], spec: _Parquet) -> tuple[NDArray[np.uint8], NDArray[np.int64], tuple[str, ...]]:
    images: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    for file in files:
        try:
            table = pq.read_table(file, columns=[spec.image, spec.label])
            for cell in table.column(spec.image).to_pylist():
                pixels = np.asarray(Image.open(io.BytesIO(cell["bytes"])))
                images.append(pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1))
            labels += table.column(spec.label).to_pylist()
        except Exception as error:
            raise ValueError(
                f"{file} is damaged or has another layout (columns {spec.image!r} and {spec.label!r} expected): {error}"
            ) from error
    return np.stack(images), np.asarray(labels, dtype=np.int64), _class_names(files[0], spec)


def _save_atomically(path: Path, array: NDArray[Any]) -> None:
    """Keep a decoded array; a cache that cannot be written is not an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        with partial.open("wb") as stream:
            np.save(stream, array)
        partial.replace(path)
    except OSError:
        return


# --- validation split and normalisation ---


def _hold_out(train: Split, size: int, seed: int) -> tuple[Split, Split | None]:
    """Split off ``size`` samples, each class in proportion."""
    if not 0 <= size < len(train):
        raise ValueError(f"validation_size must lie in [0, {len(train)}), the number of training samples; got {size}")
    if size == 0:
        return train, None
    generator = np.random.default_rng(seed)
    labels = train.labels.numpy()
    order = generator.permutation(len(labels))
    counts = np.bincount(labels)
    exact = counts * (size / len(labels))
    quota = np.floor(exact).astype(int)
    quota[np.argsort(quota - exact, kind="stable")[: size - quota.sum()]] += 1  # largest remainders get the samples that are left over
    held = np.concatenate([order[labels[order] == label][:number] for label, number in enumerate(quota)])
    mask = torch.zeros(len(labels), dtype=torch.bool)
    mask[torch.from_numpy(held)] = True
    return Split(train.inputs[~mask], train.labels[~mask]), Split(train.inputs[mask], train.labels[mask])


def _normalizer(inputs: Tensor, normalization: Normalization) -> Callable[[Split], Split]:
    table = inputs.ndim == 2
    values = inputs.float()
    if normalization == "none":
        shift, scale = torch.tensor(0.0), torch.tensor(1.0)
    elif normalization == "standard":
        shift = values.mean(0) if table else values.mean()
        scale = values.std(0, correction=0) if table else values.std(correction=0)
    elif table:
        shift, scale = values.amin(0), values.amax(0) - values.amin(0)
    else:
        shift, scale = torch.tensor(0.0), torch.tensor(255.0 if inputs.dtype == torch.uint8 else 16.0)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return lambda split: replace(split, inputs=(split.inputs.float() - shift) / scale)
