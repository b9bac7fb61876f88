"""Networks with a leading run axis R: several trainings in one.

Logits are ``[R, N, C]``. Inputs are ``[S, N, ...]``, where S divides R: run r sees the inputs ``r
// (R // S)``. S = 1 shares one batch between all runs, S = R gives each run its own.

Perceptrons keep their R copies in stacked parameters. Other modules are given as R copies:
:class:`VmapStack` computes them at once, :class:`ModuleStack` one after another.
"""

from gdlib.models.perceptron import ACTIVATIONS as ACTIVATIONS
from gdlib.models.perceptron import INITIALIZATIONS as INITIALIZATIONS
from gdlib.models.perceptron import StackedMLP as StackedMLP
from gdlib.models.runs import ModuleStack as ModuleStack
from gdlib.models.runs import RunModel as RunModel
from gdlib.models.runs import VmapStack as VmapStack
