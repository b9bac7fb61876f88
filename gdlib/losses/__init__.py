"""The losses as modules: they keep hyperparameters and call :mod:`gdlib.functional`."""

from gdlib.losses.angular import AdaCosLoss, ArcFaceLoss, ArcGradLoss, CosFaceLoss, LSoftmaxLoss, SphereFaceLoss
from gdlib.losses.gradient_decay import GDCrossEntropyLoss
from gdlib.losses.logits import FocalLoss, LargeMarginLoss, ModifiedCrossEntropyLoss, MultiClassHingeLoss, SoftMarginLoss
from gdlib.losses.prototypes import CenterLoss, GaussianMixtureLoss

__all__ = [
    "AdaCosLoss",
    "ArcFaceLoss",
    "ArcGradLoss",
    "CenterLoss",
    "CosFaceLoss",
    "FocalLoss",
    "GDCrossEntropyLoss",
    "GaussianMixtureLoss",
    "LSoftmaxLoss",
    "LargeMarginLoss",
    "ModifiedCrossEntropyLoss",
    "MultiClassHingeLoss",
    "SoftMarginLoss",
    "SphereFaceLoss",
]
