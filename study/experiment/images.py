"""Pages whose small run is a perceptron on ``digits``, and whose large one the small network."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from study.data.images import IMAGES
from study.experiment.train import IMBALANCE, Train
from study.experiment.types import Betas, Epochs, LearningRate, Loss, OneOf, Seeds, Warmups
from study.losses import NotNegative

_OFFERED = {"dataset", "betas", "loss", "seeds", "epochs", "learning_rate"}
_RECIPE: Mapping[str, Any] = {
    "normalization": "channel",
    "weight_decay": 5e-4,
    "lr_schedule": "one-cycle",
    "train_every": 0,
}
_OF_IMAGES: Mapping[str, Any] = {
    "model": "fast",
    "augmentation": "crop2-flip",
    "validation_size": 5000,
    "precision": "bfloat16",
    "channels_last": True,
}


class _SmallNetwork(Train):
    """A perceptron on ``digits``; on a set of colour images the small image network.

    What follows from the data set is filled in, so that a record says what was trained.
    """

    betas: Betas = (5.0, 1.0, 0.1)
    warmups: Warmups = ()
    seeds: Seeds = (0, 1, 2)

    @model_validator(mode="before")
    @classmethod
    def _of_the_data(cls, values: dict[str, Any]) -> dict[str, Any]:
        dataset = values.get("dataset")
        images = isinstance(dataset, str) and dataset in IMAGES
        return {**_RECIPE, **(_OF_IMAGES if images else {}), **values}


class WrongLabels(_SmallNetwork):
    """Wrong labels of the training samples: the page ``wrong-labels``."""

    notebook: ClassVar[str] = "wrong-labels"
    fixed: ClassVar[frozenset[str]] = frozenset(Train.model_fields) - {
        *_OFFERED,
        *("labels", "label_noise"),
    }

    label_noise: Annotated[
        NotNegative, Field(lt=1, description="share of the training samples that get a wrong label")
    ] = 0.4
    epochs: Epochs = 40


class LongTailed(_SmallNetwork):
    """Classes of unequal size: the page ``long-tailed``."""

    notebook: ClassVar[str] = "long-tailed"
    fixed: ClassVar[frozenset[str]] = frozenset(Train.model_fields) - {*_OFFERED, "imbalance"}

    imbalance: Annotated[float, Field(ge=1, le=1e6, description=IMBALANCE)] = 20.0
    betas: Betas = (1.0, 0.1)
    seeds: Seeds = (0, 1, 2, 3, 4)
    epochs: Epochs = 24


_ADAM: Mapping[str, Any] = {"optimizer": "adam", "weight_decay": 5e-4, "classifier_bias": False}
_ONE_CYCLE: Mapping[str, Any] = {
    "normalization": "channel",
    "lr_schedule": "one-cycle",
    "channels_last": True,
}
_RECIPES: Mapping[str, Mapping[str, Any]] = {
    "mlp": _ADAM,
    "fast": {**_ONE_CYCLE, "validation_size": 5000, "weight_decay": 5e-4},
    "resnet18": {**_ADAM, **_ONE_CYCLE, "batch_size": 256},
    "resnet34": {**_ADAM, **_ONE_CYCLE, "batch_size": 128},
}


class AngularImages(Train):
    """ArcGrad and its rivals, one a job: the page ``angular-images``.

    The rest of a training follows from its network.
    """

    notebook: ClassVar[str] = "angular-images"
    fixed: ClassVar[frozenset[str]] = frozenset(Train.model_fields) - {
        *("dataset", "subset", "augmentation", "model", "loss", "seeds"),
        *("epochs", "learning_rate", "device"),
    }

    model: Annotated[
        str, OneOf(tuple(_RECIPES)), Field(description="a perceptron, or an image network")
    ] = "mlp"
    loss: Annotated[
        Loss,
        Field(
            description="softmax, or a loss with its numbers: center 0.02, m-softmax 0.5, "
            "arcface 20 0.1, adacos or arcgrad 10"
        ),
    ] = "arcgrad 10"
    betas: Betas = (1.0,)
    warmups: Warmups = ()
    epochs: Epochs = 12
    learning_rate: LearningRate = 0.01

    @model_validator(mode="before")
    @classmethod
    def _what_follows(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Fill in what the page does not ask for."""
        model, dataset = values.get("model", "mlp"), values.get("dataset", "digits")
        on_gpu = values.get("device", "cpu") != "cpu"
        paper = str(model).startswith("resnet")
        follows = {
            **_RECIPES.get(str(model), {}),
            "precision": "bfloat16" if on_gpu and model != "mlp" else "float32",
            "fused": on_gpu,
            "angles": True,
            "train_every": 0,
            "scale": "smoke" if dataset == "digits" else "paper" if paper else "reduced",
        }
        return follows | values
