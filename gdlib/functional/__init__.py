r"""Losses as pure functions of tensors: all the mathematics of the losses is in this folder.

Every function follows the conventions of :func:`torch.nn.functional.cross_entropy`: the class
dimension is the second one (the first, if there is only one), the target holds class indices or
class probabilities, and ``reduction`` comes last. Types, shapes, options and errors are common to
all functions and described once, at :func:`gd_cross_entropy`; each function describes its own
arguments. A tensor for a hyperparameter in third position must be given by keyword: PyTorch has
class weights there.

Notation: :math:`z` are the logits, :math:`c` is the true class, :math:`p = \mathrm{softmax}(z)`,
:math:`\ell = -\log p_c`.
"""

from gdlib.functional._arguments import Reduction as Reduction
from gdlib.functional.angular import adacos_cross_entropy as adacos_cross_entropy
from gdlib.functional.angular import adacos_scale as adacos_scale
from gdlib.functional.angular import arccos as arccos
from gdlib.functional.angular import arcface_cross_entropy as arcface_cross_entropy
from gdlib.functional.angular import arcgrad_cross_entropy as arcgrad_cross_entropy
from gdlib.functional.angular import arcgrad_scale as arcgrad_scale
from gdlib.functional.angular import cosface_cross_entropy as cosface_cross_entropy
from gdlib.functional.angular import l_softmax_cross_entropy as l_softmax_cross_entropy
from gdlib.functional.angular import sphereface_cross_entropy as sphereface_cross_entropy
from gdlib.functional.distance import center_loss as center_loss
from gdlib.functional.distance import (
    gaussian_mixture_cross_entropy as gaussian_mixture_cross_entropy,
)
from gdlib.functional.gradient_decay import gd_cross_entropy as gd_cross_entropy
from gdlib.functional.linear import linear_gd_cross_entropy as linear_gd_cross_entropy
from gdlib.functional.logits import Divergence as Divergence
from gdlib.functional.logits import focal_cross_entropy as focal_cross_entropy
from gdlib.functional.logits import large_margin_cross_entropy as large_margin_cross_entropy
from gdlib.functional.logits import multi_class_hinge as multi_class_hinge
from gdlib.functional.logits import soft_margin_cross_entropy as soft_margin_cross_entropy
from gdlib.functional.probability import gd_from_nll as gd_from_nll
from gdlib.functional.probability import generalized_cross_entropy as generalized_cross_entropy
from gdlib.functional.probability import negative_probability as negative_probability
from gdlib.functional.probability import poly1_cross_entropy as poly1_cross_entropy
