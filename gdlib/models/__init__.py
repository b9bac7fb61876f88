"""Networks that carry a leading run axis R: several trainings in one.

Logits are ``[R, N, C]``. Inputs are ``[S, N, ...]``, where S divides R: run r sees the inputs ``r
// (R // S)``. S = 1 shares one batch between all runs, S = R gives each run its own, and values
between share a batch between the runs of one seed.

A multilayer perceptron keeps its R copies in stacked parameters; any other module goes through the
same door as a list of R modules. So do the image networks: each is a plain module for one run, and
:func:`image_stack` makes a stack of them.
"""

from gdlib.models.headed import HEADS as HEADS
from gdlib.models.headed import MLP_HEADS as MLP_HEADS
from gdlib.models.headed import Head as Head
from gdlib.models.headed import HeadedMLP as HeadedMLP
from gdlib.models.headed import class_vectors as class_vectors
from gdlib.models.headed import with_heads as with_heads
from gdlib.models.images import IMAGE_NETWORKS as IMAGE_NETWORKS
from gdlib.models.images import STEMS as STEMS
from gdlib.models.images import FastNetwork as FastNetwork
from gdlib.models.images import ImageNetwork as ImageNetwork
from gdlib.models.images import conv13 as conv13
from gdlib.models.images import fast as fast
from gdlib.models.images import image_stack as image_stack
from gdlib.models.images import mobilenet_v1 as mobilenet_v1
from gdlib.models.images import resnet18 as resnet18
from gdlib.models.images import resnet34 as resnet34
from gdlib.models.images import resnet50 as resnet50
from gdlib.models.images import vgg16 as vgg16
from gdlib.models.perceptron import ACTIVATIONS as ACTIVATIONS
from gdlib.models.perceptron import INITIALIZATIONS as INITIALIZATIONS
from gdlib.models.perceptron import StackedMLP as StackedMLP
from gdlib.models.runs import ModuleStack as ModuleStack
from gdlib.models.runs import RunModel as RunModel
