"""From an experiment to a record: data, model, loss and schedule, training, logits, measures."""

from study.networks import HeadedMLP, image_stack
from study.run.cross_validation import cross_validate, of_folds, order_of_parts
from study.run.images import small_network
from study.run.page import begin, curves, last_layer, named_loss
from study.run.training import load, train_stack

__all__ = [
    "HeadedMLP",
    "begin",
    "cross_validate",
    "curves",
    "image_stack",
    "last_layer",
    "load",
    "named_loss",
    "of_folds",
    "order_of_parts",
    "small_network",
    "train_stack",
]
