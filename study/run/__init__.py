"""From an experiment to a record: data, model, loss and schedule, training, logits, measures."""

from study.networks import image_stack
from study.run.cost import measure_cost
from study.run.cross_validation import cross_validate, order_of_parts
from study.run.images import small_network
from study.run.page import begin, curves
from study.run.training import load, train_stack

__all__ = [
    "begin",
    "cross_validate",
    "curves",
    "image_stack",
    "load",
    "measure_cost",
    "order_of_parts",
    "small_network",
    "train_stack",
]
