"""Networks that carry a leading run axis R: several trainings in one.

Logits are ``[R, N, C]``. Inputs are ``[S, N, ...]``, where S divides R: run r sees the inputs ``r // (R // S)``. S = 1 shares one batch
between all runs, S = R gives each run its own, and values between share a batch between the runs of one seed.

A multilayer perceptron keeps its R copies in stacked parameters; any other module goes through the same door as a list of R modules.
"""

from gdlib.models.perceptron import ACTIVATIONS, INITIALIZATIONS, StackedMLP, mlp
from gdlib.models.runs import ModuleStack, RunModel

__all__ = ["ACTIVATIONS", "INITIALIZATIONS", "ModuleStack", "RunModel", "StackedMLP", "mlp"]
