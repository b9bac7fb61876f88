"""Networks that carry a leading run axis R: several trainings in one.

Logits are ``[R, N, C]``. Inputs are ``[S, N, ...]``, where S divides R: run r sees the inputs ``r // (R // S)``. S = 1 shares one batch
between all runs, S = R gives each run its own, and values between share a batch between the runs of one seed.

A multilayer perceptron keeps its R copies in stacked parameters; any other module goes through the same door as a list of R modules. So do
the image networks: each is a plain module for one run, and :func:`image_stack` makes a stack of them.
"""

from gdlib.models.headed import HEADS, MLP_HEADS, Head, HeadedMLP, class_vectors, with_heads
from gdlib.models.images import (
    IMAGE_NETWORKS,
    STEMS,
    FastNetwork,
    ImageNetwork,
    fast,
    image_stack,
    mobilenet_v1,
    resnet18,
    resnet34,
    resnet50,
    vgg16,
)
from gdlib.models.perceptron import ACTIVATIONS, INITIALIZATIONS, StackedMLP, mlp
from gdlib.models.runs import ModuleStack, RunModel

__all__ = [
    "ACTIVATIONS",
    "HEADS",
    "IMAGE_NETWORKS",
    "INITIALIZATIONS",
    "MLP_HEADS",
    "STEMS",
    "FastNetwork",
    "Head",
    "HeadedMLP",
    "ImageNetwork",
    "ModuleStack",
    "RunModel",
    "StackedMLP",
    "class_vectors",
    "fast",
    "image_stack",
    "mlp",
    "mobilenet_v1",
    "resnet18",
    "resnet34",
    "resnet50",
    "vgg16",
    "with_heads",
]
