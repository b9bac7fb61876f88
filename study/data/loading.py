"""From a name to a data set: sources, held-out samples, subset, normalisation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from study.data.files import local_folder
from study.data.human_labels import CLEAN, DATASET, LABELS, human_labels
from study.data.images import IMAGES, download, load_images
from study.data.sampling import balanced, long_tailed, proportional
from study.data.sets import Dataset, Split, fit_normalizer
from study.data.tables import EMBEDDED_TABLES, UCI, Table, embedded_table, table

_TEST_SHARE = 0.2  # of a set that comes without a test set


def names() -> list[str]:
    """List the names that :func:`load` knows."""
    return sorted({"digits", *EMBEDDED_TABLES, *IMAGES, *UCI})


def load(
    name: str,
    *,
    normalization: str = "unit",
    validation_size: int = 0,
    subset: int = 0,
    imbalance: float = 1,
    labels: str = CLEAN,
    as_bytes: bool = False,
) -> Dataset:
    """Load a data set by name.

    Sets that come without a test set (scikit-learn's, and the UCI tables) are split 80/20, each
    class in proportion. The validation samples are drawn from the whole training set, so that they
    are the same for every subset; the subset from what is left. All draws have seed 0.

    Args:
        name: one of :func:`names`.
        normalization: with statistics of the training samples that are kept: ``"unit"`` maps
            images, or each feature of a table, to [0, 1]; ``"standard"`` gives mean 0 and standard
            deviation 1 (over all pixels together, or feature by feature); ``"channel"`` the same
            for each colour, or feature; ``"none"`` leaves the numbers as they are.
        validation_size: number of training samples to hold out, each class in proportion.
        subset: number of training samples to keep, the same of each class; 0 keeps all. A smaller
            subset is part of a larger one.
        imbalance: size of the first class over that of the last, between which the sizes fall
            exponentially (a long tail); 1 keeps all.
        labels: whose labels the training and validation samples have, one of
            :data:`study.data.LABELS`; which samples are held out does not depend on it.
        as_bytes: leave images as bytes, and let the data set carry ``normalize``, which makes
            floats of a batch. Splits that are not drawn from are mapped from the cache and not read
            into memory.

    Example:
        >>> digits = load("digits", validation_size=100, subset=500)
        >>> digits.train.inputs.shape, len(digits.valid), len(digits.test), digits.source
        (torch.Size([500, 8, 8]), 100, 360, 'embedded')
    """
    if name not in names():
        raise ValueError(f"unknown data set {name!r}; valid: {', '.join(names())}")
    if as_bytes and name not in IMAGES:
        raise ValueError(
            f"the data set {name!r} has no images for an image network; take one of "
            f"{', '.join(sorted(IMAGES))}"
        )
    if subset != 0 and imbalance != 1:
        raise ValueError(
            f"a subset is balanced or has a long tail; got subset={subset} and "
            f"imbalance={imbalance}"
        )
    raw = read(name)
    clean = raw.train.labels.numpy()
    held = proportional(clean, validation_size)
    kept = ~held
    if subset != 0:
        kept[kept] = balanced(clean[kept], subset, raw.classes)
    elif imbalance != 1:
        kept[kept] = long_tailed(clean[kept], imbalance, raw.classes)
    if labels != CLEAN:
        raw = _as_people_labelled(raw, labels, kept)
    train = raw.train if kept.all() else raw.train[torch.from_numpy(kept)]
    valid = raw.train[torch.from_numpy(held)] if validation_size else None
    dataset = replace(raw, train=train, valid=valid, normalization=normalization)
    normalize = fit_normalizer(train.inputs, normalization)
    return replace(dataset, normalize=normalize) if as_bytes else dataset.with_inputs(normalize)


def read(name: str) -> Dataset:
    """Read a data set from the first source that has it, as it lies there."""
    if name == "digits":
        rows = embedded_table(name)
        return _split_off_a_test_set(replace(rows, features=rows.features.unflatten(1, (8, 8))))
    if name not in IMAGES:
        return _split_off_a_test_set(table(name))
    return load_images(name, *_folder(name))


def _folder(name: str) -> tuple[Path, str]:
    """Find the folder of a set of images, and where it is: the local folder, or the hub's cache."""
    local, repository = local_folder() / name, IMAGES[name].repository
    if local.is_dir():
        return local, "local"
    try:
        return download(IMAGES[name]), "hub"
    except Exception as error:  # the hub's client and its transport have errors of their own
        raise FileNotFoundError(
            f"data set {name!r} is nowhere to be found: there is no folder {local}; {repository} "
            f"could not be fetched from the hub ({type(error).__name__}). Set GDLIB_DATA to a "
            "folder that holds it as Parquet files, or go online once so that it can be fetched "
            "from the hub; the embedded data set 'digits' always works"
        ) from None


def _as_people_labelled(raw: Dataset, labels: str, kept: NDArray[np.bool_]) -> Dataset:
    """Give the training samples the labels of people; the share of wrong ones is of those kept."""
    if labels not in LABELS:
        raise ValueError(f"unknown labels {labels!r}; valid: {', '.join(LABELS)}")
    if raw.name != DATASET:
        raise ValueError(
            f"labels={labels!r} are for the data set {DATASET!r}, whose images people labelled;"
            f" {raw.name!r} has no such labels"
        )
    folder = _folder(raw.name)[0]
    given, copy = human_labels(labels, folder, raw.train.labels)
    wrong = float((given != raw.train.labels)[torch.from_numpy(kept)].double().mean())
    train = Split(raw.train.inputs, given)
    return replace(raw, train=train, copy=f"{raw.copy}, {copy}", wrong_labels=wrong)


def _split_off_a_test_set(whole: Table) -> Dataset:
    from sklearn.model_selection import train_test_split

    rows = Split(whole.features, whole.labels)
    train, test = train_test_split(
        torch.arange(len(rows)), test_size=_TEST_SHARE, stratify=whole.labels, random_state=0
    )
    copy = f"{whole.copy}, stratified 80/20 split with seed 0"
    return Dataset(whole.name, rows[train], None, rows[test], whole.class_names, whole.source, copy)
