"""The training loop: the only one, for one run and for a stack of runs, on a CPU and on a GPU.

It knows no names, no configurations and no data sets: it is handed a model, a loss, a schedule and tensors. Nothing that changes what is
computed is on by default: reduced precision, fused updates and replayed steps are switches.
"""

from gdlib.train.loop import LR_SCHEDULES, OPTIMIZERS, Draws, Measure, Order, batch_order, batch_orders, predict, train
from gdlib.train.step import PRECISIONS, Loss, Prepare

__all__ = [
    "LR_SCHEDULES",
    "OPTIMIZERS",
    "PRECISIONS",
    "Draws",
    "Loss",
    "Measure",
    "Order",
    "Prepare",
    "batch_order",
    "batch_orders",
    "predict",
    "train",
]
