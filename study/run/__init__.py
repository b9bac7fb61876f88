"""What the pages of experiments share: a job with its file of results, images, folds."""

from study.networks import HeadedMLP, image_stack
from study.run.folds import of_folds, order_of_parts
from study.run.images import batches, outputs, small_network
from study.run.page import begin, curves, decision, last_layer, named_loss

__all__ = [
    "HeadedMLP",
    "batches",
    "begin",
    "curves",
    "decision",
    "image_stack",
    "last_layer",
    "named_loss",
    "of_folds",
    "order_of_parts",
    "outputs",
    "small_network",
]
