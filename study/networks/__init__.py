"""The networks of the papers: perceptrons and image networks, with the last layers of the losses.

Each image network is a plain module for one run, and :func:`image_stack` makes a stack of them.
"""

from study.networks.headed import MLP_HEADS as MLP_HEADS
from study.networks.headed import HeadedMLP as HeadedMLP
from study.networks.headed import super_symmetric_projection as super_symmetric_projection
from study.networks.headed import super_symmetry_penalty as super_symmetry_penalty
from study.networks.images import IMAGE_NETWORKS as IMAGE_NETWORKS
from study.networks.images import STEMS as STEMS
from study.networks.images import ImageNetwork as ImageNetwork
from study.networks.images import conv13 as conv13
from study.networks.images import fast as fast
from study.networks.images import image_stack as image_stack
from study.networks.images import mobilenet_v1 as mobilenet_v1
from study.networks.images import resnet18 as resnet18
from study.networks.images import resnet34 as resnet34
from study.networks.images import resnet50 as resnet50
from study.networks.images import vgg16 as vgg16
