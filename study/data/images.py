"""Sets of images: Parquet files of the hub's layout, in the local folder or on the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from study.data.decoding import Layout, decoded
from study.data.files import checksum
from study.data.sets import Dataset, Split

__all__ = ["IMAGES", "Images", "download", "load_images"]


@dataclass(frozen=True)
class Images:
    """Where a set of images lies: in the local folder, and on the hub.

    Attributes:
        folder: name of its folder in the local folder.
        repository: name of its repository on the hub; None for a set that is not there.
        config: folder of the repository that holds the files.
        test_split: which files are tested on.
        layout: names of the columns, and the colours.
    """

    folder: str
    repository: str | None = None
    config: str = ""
    test_split: str = "test"
    layout: Layout = Layout(colours="RGB")


IMAGES = {
    "mnist": Images("mnist", "ylecun/mnist", "mnist", layout=Layout()),
    "cifar10": Images("cifar10", "uoft-cs/cifar10", "plain_text", layout=Layout(image="img", colours="RGB")),
    "cifar10-jpeg": Images("cifar10-jpeg"),
    "cifar100": Images("cifar100", "uoft-cs/cifar100", "cifar100", layout=Layout(image="img", label="fine_label", colours="RGB")),
    "svhn": Images("svhn", "ufldl-stanford/svhn", "cropped_digits"),
    "tiny-imagenet": Images("tiny-imagenet", "zh-plus/tiny-imagenet", "data", test_split="valid"),
}


def download(spec: Images) -> Path:
    """Fetch the files of a set from the hub (or find them in the hub's own cache); the folder where they lie."""
    from huggingface_hub import snapshot_download

    patterns = [f"{spec.config}/{split}-*.parquet" for split in ("train", spec.test_split)]
    root = snapshot_download(str(spec.repository), repo_type="dataset", allow_patterns=patterns)
    return Path(root) / spec.config


def load_images(name: str, folder: Path, spec: Images, source: str) -> Dataset:
    """The data set of a folder that holds its Parquet files: bytes, mapped from the cache where there is one.

    Raises:
        FileNotFoundError: for a folder without the files of a split.
        ValueError: for a damaged file, or one of another layout; the message names it.
    """
    splits: list[Split] = []
    checksums: list[str] = []
    names: list[tuple[str, ...]] = []
    for split in ("train", spec.test_split):
        files = sorted(folder.glob(f"{split}-*.parquet"))
        if not files:
            raise FileNotFoundError(f"{folder} holds no files {split}-*.parquet: the data set {name!r} is incomplete there")
        sums = [checksum(file) for file in files]
        checksums += sums
        images, labels, class_names = decoded(files, sums, spec.layout)
        splits.append(Split(torch.from_numpy(images), torch.from_numpy(labels)))
        names.append(class_names)
    if names[0] != names[1]:
        raise ValueError(f"the files of {folder} to train on and to test on name different classes; take all of them from one copy")
    copy = "sha256 " + " ".join(found[:16] for found in checksums)
    return Dataset(name=name, train=splits[0], valid=None, test=splits[1], class_names=names[0], source=source, copy=copy)
