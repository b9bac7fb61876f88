"""The training loop: the only one, for a module and for a stack of runs, on a CPU and on a GPU.

It knows no configurations and no data sets: it is handed a model, a loss and data. Nothing that
changes what is computed is on by default: reduced precision, fused updates and replayed steps are
switches.

Example:
    >>> import torch
    >>> from gdlib import GDCrossEntropyLoss
    >>> from gdlib.train import Batches, Optimisation, predict, train
    >>> generator = torch.manual_seed(0)
    >>> inputs = torch.randn(200, 4)
    >>> labels = (inputs.sum(1) > 0).long()
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    >>> history = train(
    ...     model,
    ...     GDCrossEntropyLoss(beta=0.1),
    ...     (inputs, labels),
    ...     epochs=20,
    ...     optimisation=Optimisation(learning_rate=0.1, momentum=0.9),
    ...     batches=Batches(size=20),
    ... )
    >>> bool((predict(model, inputs).argmax(1) == labels).float().mean() > 0.95)
    True
"""

from gdlib.train.betas import BetaSchedule as BetaSchedule
from gdlib.train.loop import predict as predict
from gdlib.train.loop import train as train
from gdlib.train.objective import LossFunction as LossFunction
from gdlib.train.objective import Objective as Objective
from gdlib.train.objective import RunLoss as RunLoss
from gdlib.train.options import LR_SCHEDULES as LR_SCHEDULES
from gdlib.train.options import OPTIMIZERS as OPTIMIZERS
from gdlib.train.options import PRECISIONS as PRECISIONS
from gdlib.train.options import Batches as Batches
from gdlib.train.options import Checkpoint as Checkpoint
from gdlib.train.options import Draws as Draws
from gdlib.train.options import Execution as Execution
from gdlib.train.options import Measure as Measure
from gdlib.train.options import Optimisation as Optimisation
from gdlib.train.options import Order as Order
from gdlib.train.options import Prepare as Prepare
from gdlib.train.order import batch_order as batch_order
from gdlib.train.order import batch_orders as batch_orders
