"""Train a stack of runs, a grid of β and seeds, as one model on tensors in memory.

Each run ends with the weights that it would have alone; :class:`gdlib.models.StackedMLP` says where
this holds bit for bit. Reduced precision, fused updates and recorded steps are off unless asked
for. A single module needs no trainer: a PyTorch loop is ten lines.
"""

from gdlib.train.batches import batch_order as batch_order
from gdlib.train.loop import predict as predict
from gdlib.train.loop import train as train
from gdlib.train.objective import RunLoss as RunLoss
