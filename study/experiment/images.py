"""Pages whose small run is a perceptron on ``digits``, and whose large one the small network."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from study.data.images import IMAGES
from study.experiment.train import IMBALANCE, Train
from study.experiment.types import Betas, Epochs, Seeds, Warmups
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
