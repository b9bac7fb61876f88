"""Sets of images: Parquet files of the hub's layout, in the local folder or on the hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import torch

from study.data.decoding import Layout, decoded
from study.data.files import checksum, listed
from study.data.sets import Dataset, Split

__all__ = ["IMAGES", "Images", "download", "load_images"]


@dataclass(frozen=True)
class Images:
    """The place of a set of images: its folder in the local folder, and its repository and folder on the hub, if any."""

    folder: str
    repository: str | None = None
    config: str = ""
    test_split: str = "test"
    layout: Layout = Layout()


IMAGES = {
    "mnist": Images("mnist", "ylecun/mnist", "mnist", layout=Layout(colours="L")),
    "cifar10": Images("cifar10", "uoft-cs/cifar10", "plain_text", layout=Layout(image="img")),
    "cifar10-jpeg": Images("cifar10-jpeg"),
    "cifar100": Images("cifar100", "uoft-cs/cifar100", "cifar100", layout=Layout(image="img", label="fine_label")),
    "svhn": Images("svhn", "ufldl-stanford/svhn", "cropped_digits"),
    "tiny-imagenet": Images("tiny-imagenet", "zh-plus/tiny-imagenet", "data", test_split="valid"),
}


def download(spec: Images) -> Path:
    """Fetch the files of a set from the hub, or find them in the hub's own cache; returns their folder."""
    from huggingface_hub import snapshot_download

    patterns = [f"{spec.config}/{split}-*.parquet" for split in ("train", spec.test_split)]
    root = snapshot_download(str(spec.repository), repo_type="dataset", allow_patterns=patterns)
    return Path(root) / spec.config


def load_images(name: str, folder: Path, spec: Images, source: str) -> Dataset:
    """Read the data set of a folder that holds its Parquet files: bytes, mapped from the cache where there is one."""
    splits: list[Split] = []
    checksums: list[str] = []
    names: list[tuple[str, ...]] = []
    for split in ("train", spec.test_split):
        files = _shards(name, folder, split)
        sums = [checksum(file) for file in files]
        checksums += sums
        images, labels, class_names = decoded(files, sums, spec.layout)
        splits.append(Split(torch.from_numpy(images), torch.from_numpy(labels)))
        names.append(class_names)
    train, test = splits
    if names[0] != names[1] or train.inputs.shape[1:] != test.inputs.shape[1:]:
        unlike = "different classes" if names[0] != names[1] else f"images of {[list(split.inputs.shape[1:]) for split in splits]}"
        raise ValueError(f"the files of {folder} to train on and to test on hold {unlike}; take all of them from one copy")
    copy = "sha256 " + " ".join(found[:16] for found in checksums)
    return Dataset(name=name, train=train, valid=None, test=test, class_names=names[0], source=source, copy=copy)


def _shards(name: str, folder: Path, split: str) -> list[Path]:
    """List the files of a split, ``split-00000-of-N.parquet`` and so on: all N, none twice, and those of ``SHA256SUMS`` if it names any."""
    files = sorted(folder.glob(f"{split}-*.parquet"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no files {split}-*.parquet: the data set {name!r} is incomplete there")
    present = {file.name for file in files}
    known = {file for file in listed(folder) if re.fullmatch(rf"{split}-.*\.parquet", file)}
    shards = [re.fullmatch(rf"{split}-(\d+)-of-(\d+)(?:-[0-9a-f]+)?\.parquet", file.name) for file in files]
    numbers = [(int(shard[1]), int(shard[2])) for shard in shards if shard]  # a copy has another form of name
    if numbers != [(index, len(files)) for index in range(len(files))] or (known and known != present):
        wanted = sorted(known) or f"{split}-00000-of-N.parquet and so on, N files"
        raise ValueError(f"{folder} holds {sorted(present)} where {wanted} are expected: files are missing, or some should not be there")
    return files
