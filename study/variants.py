"""What the papers leave unsaid, filled in one way: data, network, augmentation, epochs and more.

It is one value, a :class:`Variant`. A module that asks what a variant is reads its fields; nothing
takes its printed name apart.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FAST = "fast"
"""The network that reaches real accuracy on two CPU cores."""

PERCEPTRON = "mlp"
"""The network of the papers on MNIST and on small tables."""

LINEAR = "linear"
"""The perceptron without a hidden layer."""

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

    @property
    def parts(self) -> tuple[str, ...]:
        """Its fields in words, in the order of its name."""
        if self.network == LINEAR:
            return ("linear model",)
        if self.activation:
            return self.activation, self.normalization
        if self.optimizer:
            return tuple(self._of_tables())
        if self.device:
            width = "full width" if self.width == 1 else f"×{self.width:g}"
            return self.device, width, f"batches of {self.batch_size}"
        return tuple(filter(None, [self.dataset, self._network, *self._images(), *self._rest()]))

    @property
    def words(self) -> tuple[str, ...]:
        """Its fields as a sentence has them, in the order of its name.

        Example:
            >>> Variant("mnist", "mlp", activation="relu", normalization="none").words
            ('ReLU', 'pixels 0 to 255')
        """
        if self.network != LINEAR and self.activation:
            return ACTIVATIONS[self.activation], PIXELS[self.normalization]
        return self.parts

    @property
    def _network(self) -> str:
        if self.network == PERCEPTRON:
            return "perceptron"
        return self.network if self.width == 1 else f"{self.network}×{self.width:g}"

    def _of_tables(self) -> Iterator[str]:
        yield self.normalization
        yield f"{self.optimizer} {self.learning_rate:g}"
        if self.units:
            yield f"{self.units} units"
        if self.weight_decay > 0:
            yield self._decay

    @property
    def _decay(self) -> str:
        return f"weight decay {self.weight_decay:g}"

    def _images(self) -> Iterator[str]:
        if self.augmentation:
            yield AUGMENTATIONS.get(self.augmentation, self.augmentation)
        if self.images:
            yield self._of_images

    @property
    def _of_images(self) -> str:
        return f"{'up to ' if self.images_at_most else ''}{self.images:,} images"

    def _rest(self) -> Iterator[str]:
        if self.epochs:
            yield f"{self.epochs} epochs"
        yield from self._conditions()

    def _conditions(self) -> Iterator[str]:
        if self.wrong_labels > 0:
            yield f"{100 * self.wrong_labels:g} % wrong labels"
        if self.imbalance != 1:
            yield f"sizes {self.imbalance:g} : 1"
            yield f"learning rate {self.learning_rate:g}"
        if self.labels:
            yield f"labels {self.labels}"
        if self.constant_rate:
            yield "constant learning rate"

    @property
    def short(self) -> str:
        """Its name without network and length, which stand once where a page says what was run.

        The small network has its width, where it is not the usual one.
        """
        if self.network == LINEAR:
            return str(self)
        if self.activation:
            return ", ".join(self.words)
        if self.optimizer:
            return self._decay if self.weight_decay > 0 else "no weight decay"
        if not self.data or not self.network:
            return str(self)
        width = [f"width {self.width:g}"] if self.on_fast and self.width != 1 else []
        images = [self._of_images] if self.images else []
        augmentation = [AUGMENTATIONS[self.augmentation]] if self.augmentation else []
        return ", ".join([self.data, *width, *images, *augmentation, *self._conditions()])

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Variant):
            return NotImplemented
        return str(self) < str(other)

    def __str__(self) -> str:
        return self._name

    @functools.cached_property
    def _name(self) -> str:
        return ("-" if self.network != LINEAR and self.activation else ", ").join(self.parts)
