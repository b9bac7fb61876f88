"""Train a stack of runs, a grid of β and seeds, as one model on tensors in memory.

Each run ends in the weights that it would have alone, bit for bit on a CPU with one thread. Nothing
that changes what is computed is on by default: reduced precision, fused updates and recorded steps
are switches. One module by itself needs no trainer; a loop of PyTorch is ten lines.
"""

from gdlib.train.batches import batch_order as batch_order
from gdlib.train.batches import batch_orders as batch_orders
from gdlib.train.loop import predict as predict
from gdlib.train.loop import train as train
from gdlib.train.objective import RunLoss as RunLoss
