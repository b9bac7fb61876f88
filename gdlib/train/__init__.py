"""The training loop: the only one, for one run and for a stack of runs, on a CPU and on a GPU.

It knows no names, no configurations and no data sets: it is handed a model, a loss, a schedule and
tensors. Nothing that changes what is computed is on by default: reduced precision, fused updates
and replayed steps are switches.
"""

from gdlib.train.loop import LR_SCHEDULES as LR_SCHEDULES
from gdlib.train.loop import OPTIMIZERS as OPTIMIZERS
from gdlib.train.loop import Draws as Draws
from gdlib.train.loop import Measure as Measure
from gdlib.train.loop import Order as Order
from gdlib.train.loop import batch_order as batch_order
from gdlib.train.loop import batch_orders as batch_orders
from gdlib.train.loop import predict as predict
from gdlib.train.loop import train as train
from gdlib.train.step import PRECISIONS as PRECISIONS
from gdlib.train.step import Loss as Loss
from gdlib.train.step import Prepare as Prepare
