r"""Losses as pure functions of tensors: all the mathematics of the losses is in this folder.

Every function follows the conventions of :func:`torch.nn.functional.cross_entropy`: the class dimension is the second one (the first,
if there is only one), the target holds class indices or class probabilities, and ``reduction`` is the last thing that happens.

Notation: :math:`z` are the logits, :math:`c` is the true class, :math:`p = \mathrm{softmax}(z)`, :math:`\ell = -\log p_c`.
"""

from gdlib.functional.cosine import (
    adacos_cross_entropy,
    adacos_fixed_scale,
    adacos_scale,
    arccos,
    arcface_cross_entropy,
    arcgrad_cross_entropy,
    arcgrad_gap,
    arcgrad_scale,
    cosface_cross_entropy,
    l_softmax_cross_entropy,
    sphereface_cross_entropy,
)
from gdlib.functional.distance import center_loss, center_update, gaussian_mixture_cross_entropy
from gdlib.functional.gradient_decay import gd_cross_entropy
from gdlib.functional.linear import linear_gd_cross_entropy
from gdlib.functional.logits import (
    focal_cross_entropy,
    large_margin_cross_entropy,
    margin_bias,
    modified_cross_entropy,
    multi_class_hinge,
    soft_margin_cross_entropy,
    super_symmetric_projection,
    super_symmetry_penalty,
)
from gdlib.functional.options import Reduction as Reduction

__all__ = [
    "adacos_cross_entropy",
    "adacos_fixed_scale",
    "adacos_scale",
    "arccos",
    "arcface_cross_entropy",
    "arcgrad_cross_entropy",
    "arcgrad_gap",
    "arcgrad_scale",
    "center_loss",
    "center_update",
    "cosface_cross_entropy",
    "focal_cross_entropy",
    "gaussian_mixture_cross_entropy",
    "gd_cross_entropy",
    "l_softmax_cross_entropy",
    "large_margin_cross_entropy",
    "linear_gd_cross_entropy",
    "margin_bias",
    "modified_cross_entropy",
    "multi_class_hinge",
    "soft_margin_cross_entropy",
    "sphereface_cross_entropy",
    "super_symmetric_projection",
    "super_symmetry_penalty",
]
