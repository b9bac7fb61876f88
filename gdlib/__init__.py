"""gdlib: softmax losses with probability-dependent gradient decay, and tools to study them.

The loss is ``gdlib.GDCrossEntropyLoss``, a drop-in replacement for ``torch.nn.CrossEntropyLoss``;
as a function it is ``gdlib.functional.gd_cross_entropy``. The rest of the family is in
``gdlib.losses`` and ``gdlib.functional``.
"""

__version__ = "2.0.0"

from gdlib import calibration as calibration
from gdlib import functional as functional
from gdlib import heads as heads
from gdlib import losses as losses
from gdlib import models as models
from gdlib import schedules as schedules
from gdlib import train as train
from gdlib.losses import GDCrossEntropyLoss as GDCrossEntropyLoss
