"""The Triton kernel in its interpreter, in a process of its own, against the eager functions."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed: pip install gdlib[triton]")

COMPARED = """
import math, torch
from gdlib.functional import *
from gdlib.functional.kernels import fused_loss

torch.manual_seed(0)
CASES = [
    (gd_cross_entropy, {"beta": 0.1}), (gd_cross_entropy, {"beta": torch.rand(5) + 0.01, "temperature": 2.0}), (gd_cross_entropy, {}),
    (soft_margin_cross_entropy, {"margin": 0.5}), (focal_cross_entropy, {"gamma": 1.5}),
    (cosface_cross_entropy, {"scale": 20.0, "margin": 0.2}), (arcface_cross_entropy, {"scale": 20.0, "margin": 0.5}),
]
for function, parameters in CASES:
    angular = function in (cosface_cross_entropy, arcface_cross_entropy)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-5), (torch.bfloat16, 2e-2)):
        for classes in (2, 2049):
            logits = torch.randn(5, classes, dtype=torch.float64) * (1 if angular else 4)
            logits = (torch.tanh(logits) if angular else logits).to(dtype)
            target = torch.randint(0, classes, (5,))
            target[3] = -7
            if classes > 2 and not angular:
                logits[:, 1] = -math.inf  # a masked class
                target[target == 1] = 0
            weight = torch.rand(classes)
            for options in ({"reduction": "none"}, {"weight": weight}):
                found = []
                for call in (lambda z, **more: fused_loss(function, z, target, **more), lambda z, **more: function(z, target, **more)):
                    z = logits.clone().requires_grad_()
                    loss = call(z, ignore_index=-7, **parameters, **options)
                    loss.sum().backward()
                    found.append((loss.detach().double(), z.grad.double()))
                where = f"{function.__name__} {dtype} {classes} {options}"
                for one, other in zip(*found):
                    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, msg=lambda text: f"{where} {text}")

z = torch.tensor([[30.0, 0.0], [0.0, 200.0]], requires_grad=True)       # 1 - p keeps its digits; nothing overflows
fused_loss(gd_cross_entropy, z, torch.tensor([0, 0]), beta=0.1, reduction="sum").backward()
expected = torch.tensor([[-1e1, 1e1], [0, 0]]) * math.exp(-30) + torch.tensor([[0, 0], [-1.0, 1.0]])
torch.testing.assert_close(z.grad, expected, rtol=1e-5, atol=0)

z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
for function, parameters in CASES[:1]:
    torch.autograd.gradcheck(lambda z: fused_loss(function, z, torch.tensor([0, 1, 2, 0]), **parameters), z)
    torch.autograd.gradgradcheck(lambda z: fused_loss(function, z, torch.tensor([0, 1, 2, 0]), **parameters), z)
try:
    fused_loss(multi_class_hinge, z, torch.tensor([0, 1, 2, 0]))
except ValueError as error:
    assert "the kernel computes gd_cross_entropy" in str(error)
print("equal")
"""


def test_agrees_with_the_eager_functions() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", COMPARED], env=environment, capture_output=True, text=True)
    assert done.stdout == "equal\n", done.stderr[-3000:]
