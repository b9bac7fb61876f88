"""From a name to a data set: sources, held-out samples, subset, normalisation."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from study.data.files import local_folder
from study.data.images import IMAGES, download, load_images
from study.data.sampling import balanced, long_tailed, proportional
from study.data.sets import Dataset, Normalization, Split, fit_normalizer
from study.data.tables import EMBEDDED_TABLES, UCI, Table, embedded_table, table

__all__ = ["load", "names"]

_EMBEDDED = ("digits", *EMBEDDED_TABLES)

_TEST_SHARE = 0.2  # of a set that comes without a test set


def names() -> list[str]:
    """The names that :func:`load` knows."""
    return sorted({*_EMBEDDED, *IMAGES, *UCI})


def load(
    name: str,
    *,
    normalization: Normalization = "unit",
    validation_size: int = 0,
    validation_seed: int = 0,
    subset: int = 0,
    imbalance: float = 1,
    subset_seed: int = 0,
    as_bytes: bool = False,
    source: Literal["embedded", "local", "hub"] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Load a data set by name.

    Sets that come without a test set (scikit-learn's, and the UCI tables) are split 80/20, each class in proportion, with seed 0. The
    validation samples are drawn from the whole training set, so that they are the same for every subset; the subset from what is left.

    Args:
        name: one of :func:`names`.
        normalization: with statistics of the training samples that are kept: ``"unit"`` maps images, or each feature of a table, to [0, 1];
            ``"standard"`` gives mean 0 and standard deviation 1 (over all pixels together, or feature by feature); ``"channel"`` the same
            for each colour; ``"none"`` leaves the numbers as they are.
        validation_size: number of training samples to hold out, each class in proportion.
        validation_seed: seed of that draw.
        subset: number of training samples to keep, the same of each class; 0 keeps all. Subsets of one seed are nested.
        imbalance: size of the first class over that of the last, between which the sizes fall exponentially (a long tail); 1 keeps all.
        subset_seed: seed of the draw of either kind of subset.
        as_bytes: leave images as bytes, and let the data set carry ``normalize``, which makes floats of a batch. Splits that are not drawn
            from are mapped from the cache and not read into memory.
        source: take the data from this source only; by default the first one that has them.
        folder: the local folder, instead of ``GDLIB_DATA``.

    Example:
        >>> digits = load("digits", validation_size=100, subset=500)
        >>> digits.train.inputs.shape, len(digits.valid), len(digits.test), digits.source
        (torch.Size([500, 8, 8]), 100, 360, 'embedded')
    """
    if name not in names():
        raise ValueError(f"unknown data set {name!r}; valid: {', '.join(names())}")
    if as_bytes and name not in IMAGES:
        raise ValueError(f"the data set {name!r} holds no bytes; as_bytes is for {', '.join(sorted(IMAGES))}")
    raw = _load_raw(name, source, folder)
    labels = raw.train.labels.numpy()
    held = proportional(labels, validation_size, validation_seed)
    kept = ~held
    if subset != 0 and imbalance != 1:
        raise ValueError(f"a subset is balanced or has a long tail; got subset={subset} and imbalance={imbalance}")
    if subset != 0 or imbalance != 1:
        (left,) = np.nonzero(kept)
        if subset != 0:
            drawn = balanced(labels[left], subset, subset_seed, raw.classes)
        else:
            drawn = long_tailed(labels[left], imbalance, subset_seed, raw.classes)
        kept[left[~drawn]] = False
    train = raw.train if kept.all() else _samples(raw.train, kept)
    dataset = replace(raw, train=train, valid=_samples(raw.train, held) if validation_size else None)
    normalize = fit_normalizer(train.inputs, normalization)
    if as_bytes:
        return replace(dataset, normalize=normalize)
    return dataset.each(lambda split: replace(split, inputs=normalize(split.inputs)))


def _samples(split: Split, mask: np.ndarray) -> Split:
    index = torch.from_numpy(np.nonzero(mask)[0])
    return Split(split.inputs.index_select(0, index), split.labels[index])


# --- sources ---


def _load_raw(name: str, source: str | None, folder: str | os.PathLike[str] | None) -> Dataset:
    if source not in (None, "embedded", "local", "hub"):
        raise ValueError(f"unknown source {source!r}; valid: embedded, local, hub")
    missing = []
    if name in _EMBEDDED:
        if source in (None, "embedded"):
            whole = embedded_table(name)
            images = replace(whole, features=whole.features.unflatten(1, (8, 8))) if name == "digits" else whole
            return _split_off_a_test_set(images)
        missing.append("it is embedded in scikit-learn, and in no other source")
    elif name in UCI:
        if source in (None, "local"):
            return _split_off_a_test_set(table(name, folder=folder))
        missing.append("it is a CSV file of the local folder, and in no other source")
    else:
        spec = IMAGES[name]
        if source in (None, "local"):
            local = local_folder(folder) / spec.folder
            if local.is_dir():
                return load_images(name, local, spec, "local")
            missing.append(f"there is no folder {local}")
        if source in (None, "hub") and spec.repository is not None:
            try:
                downloaded = download(spec)
            except Exception as error:  # the hub's client and its transport have error types of their own
                missing.append(f"{spec.repository} could not be fetched from the hub ({type(error).__name__})")
            else:
                return load_images(name, downloaded, spec, "hub")
        if source in (None, "hub") and spec.repository is None:
            missing.append("it is not on the hub")
    raise FileNotFoundError(
        f"data set {name!r} is nowhere to be found: {'; '.join(missing)}. Set GDLIB_DATA to a folder that holds it as Parquet files, "
        "or go online once so that it can be fetched from the hub; the embedded data set 'digits' always works"
    )


def _split_off_a_test_set(whole: Table) -> Dataset:
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(np.arange(len(whole)), test_size=_TEST_SHARE, stratify=whole.labels.numpy(), random_state=0)
    return Dataset(
        name=whole.name,
        train=Split(whole.features[train], whole.labels[train]),
        valid=None,
        test=Split(whole.features[test], whole.labels[test]),
        class_names=whole.class_names,
        source=whole.source,
        copy=f"{whole.copy}, stratified 80/20 split with seed 0",
    )
