r"""Random crops and flips, sample by sample, on the device where the images are.

:func:`draw` makes the random numbers on the CPU, from a seed and a step and from nothing else;
:func:`apply` moves pixels, with tensor operations of fixed shapes, so that a recorded CUDA graph
can replay it with new numbers. The same samples are therefore cropped in the same way on every
device, in every stack of runs, and after a resume.

The papers' crop (AG, section IV: 32×32 after padding with 4 pixels on each side, flips with
probability 1/2; He et al. 2016, section 4.2) pads with zeros: black for bytes, the value 0 for
images that were normalised before. Black is usual, so augment bytes and normalise afterwards.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

PADDING = {"none": 0, "flip": 0, "crop-flip": 4, "crop2-flip": 2}
"""The augmentations, and their zeros on each side before the crop, in pixels.

They are 4 in the papers, 2 for small networks and few epochs.

``"flip"`` mirrors a sample left to right with probability 1/2; ``"crop-flip"`` pads with zeros and
crops at random before that.
"""


def draw(name: str, samples: int, *, seed: int, step: int) -> Tensor:
    """Draw the crops and flips of one step.

    They are ``[N, 3]`` on the CPU, with dy and dx from 0 to twice the padding, and 1 for a sample
    that is mirrored.

    The numbers come from a counter-based generator (Philox) under the key (seed, step). The first n
    samples of a step get the same ones whatever the size of the batch, and a sample is mirrored
    under ``"flip"`` exactly if it is under ``"crop-flip"``.
    """
    if name not in PADDING:
        raise ValueError(f"unknown augmentation {name!r}; valid: {', '.join(PADDING)}")
    if min(samples, seed, step) < 0:
        raise ValueError(f"samples, seed and step must be >= 0; got {samples}, {seed} and {step}")
    padding = PADDING[name]
    raw = (
        np.random.Philox(key=np.array([seed, step], dtype=np.uint64))
        .random_raw(3 * samples)
        .reshape(samples, 3)
    )
    choices = np.array([2 * padding + 1, 2 * padding + 1, 2], dtype=np.uint64)
    draws = ((raw >> np.uint64(32)) * choices >> np.uint64(32)).astype(
        np.int64
    )  # the upper half of 64 bits, scaled to the choices
    if name == "none":
        draws[:, 2] = 0
    return torch.from_numpy(draws)


def draw_epoch(
    name: str, samples: int, batch_size: int, seeds: Sequence[int], epoch: int
) -> Tensor:
    """Draw the crops and flips of an epoch, step by step, for each seed, ``[S, N, 3]``.

    Epochs are counted from 1.
    """
    steps = -(-samples // batch_size)
    numbers = range((epoch - 1) * steps, epoch * steps)
    return torch.stack(
        [
            torch.cat([draw(name, batch_size, seed=seed, step=step) for step in numbers])
            for seed in seeds
        ]
    )[:, :samples]


def apply(images: Tensor, draws: Tensor, padding: int = 4) -> Tensor:
    """Pad images ``[..., C, H, W]``, crop them to the size before, and mirror them.

    They are padded with zeros; ``draws`` ``[..., 3]`` say where to crop and what to mirror.

    Nothing is read back from the device, and shapes depend on shapes only, so the call can be part
    of a CUDA graph. For the same reason the numbers are not checked: a crop beyond the padding
    takes the wrong pixels, or is an error of the indexing.

    Example:
        >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
        >>> apply(image, torch.tensor([[0, 1, 0]]), padding=1)[0, 0].tolist()       # one pixel down
        [[0, 0], [1, 2]]
    """
    *batch, channels, height, width = images.shape
    if images.ndim < 4 or list(draws.shape) != [*batch, 3]:
        raise ValueError(
            f"images [..., C, H, W] need draws [..., 3]; got {list(images.shape)} and "
            f"{list(draws.shape)}"
        )
    padded = (
        F.pad(images, (padding, padding, padding, padding)).flatten(0, -4).flatten(2)
    )  # (N, C, pixels of the padded image)
    top, left, mirrored = draws.reshape(-1, 3, 1).unbind(1)  # (N, 1) each
    column = torch.arange(width, device=images.device)
    columns = left + torch.where(mirrored > 0, width - 1 - column, column)  # (N, W)
    rows = top + torch.arange(height, device=images.device)  # (N, H)
    pixels = (rows[:, :, None] * (width + 2 * padding) + columns[:, None, :]).flatten(
        1
    )  # (N, H * W)
    return padded.gather(2, pixels[:, None].expand(-1, channels, -1)).view(images.shape)
