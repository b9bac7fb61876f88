"""What the papers leave unsaid, filled in one way: data, network, augmentation, epochs and more.

It is one value, a :class:`Variant`. A module that asks what a variant is reads its fields; nothing
takes its printed name apart.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

FAST = "fast"
"""The network that reaches real accuracy on two CPU cores."""

PERCEPTRON = "mlp"
"""The network of the papers on MNIST and on small tables."""

LINEAR = "linear"
"""The perceptron without a hidden layer."""

NETWORKS: Mapping[str, str] = {PERCEPTRON: "perceptron", LINEAR: "linear model"}
"""The networks that have another name in words."""

DATASETS: Mapping[str, str] = {
    "mnist": "MNIST",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "cifar10-jpeg": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "Tiny-ImageNet",
}
"""What the papers' tables call a data set of :mod:`study.data`."""

ACTIVATIONS: Mapping[str, str] = {"relu": "ReLU", "tanh": "tanh", "sigmoid": "sigmoid"}
"""The activations of the perceptron in words."""

PIXELS: Mapping[str, str] = {
    "unit": "pixels 0 to 1",
    "none": "pixels 0 to 255",
    "standard": "standardised pixels",
}
"""The normalisations of MNIST in words."""

AUGMENTATIONS: Mapping[str, str] = {
    "none": "unaugmented",
    "crop-flip": "crops and flips",
    "crop2-flip": "crops and flips",
}
"""The augmentations in words; how far a crop moves follows from the size of the images."""


@functools.total_ordering
@dataclass(frozen=True)
class Variant:
    """What runs have in common that the papers do not say.

    A field that tells no variants of a claim apart stays empty. Variants are sorted by their names.

    Example:
        >>> few = Variant("cifar10-jpeg", "resnet18", 0.25, "none", images=6000, epochs=20)
        >>> str(few)
        'cifar10-jpeg, resnet18×0.25, unaugmented, 6,000 images, 20 epochs'
        >>> few.short
        'CIFAR-10, 6,000 images, unaugmented'
        >>> tanh = Variant("mnist", "mlp", activation="tanh", normalization="none")
        >>> str(tanh), tanh.short
        ('tanh-none', 'tanh, pixels 0 to 255')
    """

    dataset: str = ""
    network: str = ""
    width: float = 1.0
    augmentation: str = ""
    activation: str = ""
    normalization: str = ""
    optimizer: str = ""
    units: int = 0
    """Of the first hidden layer."""
    imbalance: float = 1.0
    """Size of the first class over that of the last."""
    learning_rate: float = 0.0
    labels: str = ""
    """Whose labels the training images have."""
    images: int = 0
    """Training images, where they are not all."""
    images_at_most: bool = False
    """Whether there are variants with fewer of them inside."""
    epochs: int = 0
    wrong_labels: float = 0.0
    """Share of the training labels."""
    constant_rate: bool = False
    """Whether the learning rate never falls."""
    weight_decay: float = 0.0
    device: str = ""
    batch_size: int = 0

    @property
    def on_fast(self) -> bool:
        """Whether its network is the one of real accuracy."""
        return self.network == FAST

    @property
    def augmented(self) -> bool:
        """Whether its training images are cropped and flipped."""
        return self.augmentation not in ("", "none")

    @property
    def data(self) -> str:
        """What the papers call its data set; empty for others."""
        return DATASETS.get(self.dataset, "")

    def word(self, field: str) -> str:
        """Print one of its fields as a sentence has it; empty where the field says nothing.

        Example:
            >>> tanh = Variant("mnist", "mlp", activation="tanh", normalization="none")
            >>> tanh.word("activation"), tanh.word("normalization"), tanh.word("epochs")
            ('tanh', 'pixels 0 to 255', '')
        """
        value = getattr(self, field)
        if not value:
            return ""
        match field:
            case "dataset":
                return self.data or self.dataset
            case "network":
                return NETWORKS.get(self.network, self.network)
            case "width":
                return f"width {self.width:g}"
            case "augmentation":
                return AUGMENTATIONS.get(self.augmentation, self.augmentation)
            case "activation":
                return ACTIVATIONS[self.activation]
            case "normalization":
                return PIXELS[self.normalization] if self.activation else self.normalization
            case "units":
                return f"{self.units} units"
            case "imbalance":
                return f"sizes {self.imbalance:g} : 1" if self.imbalance != 1 else ""
            case "learning_rate":
                return f"learning rate {self.learning_rate:g}"
            case "labels":
                return f"labels {self.labels}"
            case "images":
                return f"{'up to ' if self.images_at_most else ''}{self.images:,} images"
            case "epochs":
                return f"{self.epochs} epochs"
            case "wrong_labels":
                return f"{100 * self.wrong_labels:g} % wrong labels"
            case "constant_rate":
                return "constant learning rate"
            case "weight_decay":
                return f"weight decay {self.weight_decay:g}"
            case "batch_size":
                return f"batches of {self.batch_size}"
            case "optimizer" | "device":
                return str(value)
        return ""  # whether images are the most is said with their number

    @property
    def parts(self) -> tuple[str, ...]:
        """Its fields in the order of its name."""
        if self.network == LINEAR:
            return (self.word("network"),)
        if self.activation:
            return self.activation, self.normalization
        if self.optimizer:
            trained = f"{self.optimizer} {self.learning_rate:g}"
            said = [self.normalization, trained, self.word("units"), self.word("weight_decay")]
        elif self.device:
            width = "full width" if self.width == 1 else f"×{self.width:g}"
            said = [self.device, width, self.word("batch_size")]
        else:
            training = [self.word(field) for field in ("augmentation", "images", "epochs")]
            said = [self.dataset, self._network, *training, *self._conditions]
        return tuple(filter(None, said))

    @property
    def _network(self) -> str:
        if self.network == PERCEPTRON or self.width == 1:
            return self.word("network")
        return f"{self.network}×{self.width:g}"

    @property
    def _conditions(self) -> list[str]:
        of_sizes = ["imbalance", "learning_rate"] if self.imbalance != 1 else []
        listed = ["wrong_labels", *of_sizes, "labels", "constant_rate"]
        return [self.word(field) for field in listed if self.word(field)]

    @property
    def short(self) -> str:
        """Its name without length, which stands once where a page says what was run.

        The small network has its width, where it is not the usual one. Others are named where they
        have their full width.
        """
        if self.network == LINEAR:
            return str(self)
        if self.activation:
            return f"{self.word('activation')}, {self.word('normalization')}"
        if self.optimizer:
            return self.word("weight_decay") or "no weight decay"
        if not self.data or not self.network:
            return str(self)
        width = self.word("width") if self.on_fast and self.width != 1 else ""
        is_full = not self.on_fast and self.network != PERCEPTRON and self.width == 1
        network = self.word("network") if is_full else ""
        said = [self.data, network, width, self.word("images"), self.word("augmentation")]
        return ", ".join(filter(None, [*said, *self._conditions]))

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Variant):
            return NotImplemented
        return str(self) < str(other)

    def __str__(self) -> str:
        return self._name

    @functools.cached_property
    def _name(self) -> str:
        return ("-" if self.network != LINEAR and self.activation else ", ").join(self.parts)
