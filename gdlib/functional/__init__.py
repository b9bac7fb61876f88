r"""Losses as pure functions of tensors: all the mathematics of the losses is in this folder.

Every function follows the conventions of :func:`torch.nn.functional.cross_entropy`: the class dimension is the second one (the first,
if there is only one), the target holds class indices or class probabilities, and ``reduction`` is the last thing that happens.

Notation: :math:`z` are the logits, :math:`c` is the true class, :math:`p = \mathrm{softmax}(z)`, :math:`\ell = -\log p_c`.
"""

from gdlib.functional.gradient_decay import gd_cross_entropy
from gdlib.functional.linear import linear_gd_cross_entropy
from gdlib.functional.reduction import Reduction as Reduction

__all__ = ["gd_cross_entropy", "linear_gd_cross_entropy"]
