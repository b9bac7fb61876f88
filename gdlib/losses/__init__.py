"""The losses as modules: they keep hyperparameters, options and state, and call a function.

A module takes the arguments of its function in :mod:`gdlib.functional`, except those that come with
each call, in the same order and with the same defaults; only :class:`AdaCosLoss` has its own, since
it computes its scale. Shapes, bounds and sources are in the documentation of the function. A
hyperparameter is a number, a tensor, or a :class:`torch.nn.Parameter`, which gets gradients; the
margin of A- and L-Softmax is a number, their annealing a number or a function. It may be set
between steps, and is checked when it is set. A tensor must be given by keyword: PyTorch's modules
take class weights in first position, so the modules here refuse one there.

As in PyTorch's own losses, a number is not in the ``state_dict`` of a module: create the module
again with it, or give it as a tensor, which is in the ``state_dict`` and is moved by ``.to()``.

Example:
    >>> import torch
    >>> from gdlib.heads import CosineLinear
    >>> head, loss_fn, features = CosineLinear(8, 3), ArcFaceLoss(scale=30.0), torch.ones(5, 8)
    >>> loss = loss_fn(head(features), torch.tensor([0, 1, 2, 0, 1]))
    >>> probabilities = torch.softmax(loss_fn.logits(head(features)), 1)  # without a margin
    >>> probabilities.shape
    torch.Size([5, 3])
"""

from gdlib.losses._base import Loss as Loss
from gdlib.losses.angular import AdaCosLoss as AdaCosLoss
from gdlib.losses.angular import ArcFaceLoss as ArcFaceLoss
from gdlib.losses.angular import ArcGradLoss as ArcGradLoss
from gdlib.losses.angular import CosFaceLoss as CosFaceLoss
from gdlib.losses.angular import LSoftmaxLoss as LSoftmaxLoss
from gdlib.losses.angular import SphereFaceLoss as SphereFaceLoss
from gdlib.losses.distance import CenterLoss as CenterLoss
from gdlib.losses.distance import GaussianMixtureLoss as GaussianMixtureLoss
from gdlib.losses.gradient_decay import GDCrossEntropyLoss as GDCrossEntropyLoss
from gdlib.losses.logits import FocalLoss as FocalLoss
from gdlib.losses.logits import GeneralizedCrossEntropyLoss as GeneralizedCrossEntropyLoss
from gdlib.losses.logits import LargeMarginLoss as LargeMarginLoss
from gdlib.losses.logits import MultiClassHingeLoss as MultiClassHingeLoss
from gdlib.losses.logits import NegativeProbabilityLoss as NegativeProbabilityLoss
from gdlib.losses.logits import Poly1CrossEntropyLoss as Poly1CrossEntropyLoss
from gdlib.losses.logits import SoftMarginLoss as SoftMarginLoss

__all__ = [
    "AdaCosLoss",
    "ArcFaceLoss",
    "ArcGradLoss",
    "CenterLoss",
    "CosFaceLoss",
    "FocalLoss",
    "GDCrossEntropyLoss",
    "GaussianMixtureLoss",
    "GeneralizedCrossEntropyLoss",
    "LSoftmaxLoss",
    "LargeMarginLoss",
    "Loss",
    "MultiClassHingeLoss",
    "NegativeProbabilityLoss",
    "Poly1CrossEntropyLoss",
    "SoftMarginLoss",
    "SphereFaceLoss",
]
