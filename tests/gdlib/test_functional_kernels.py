"""The Triton kernel in its interpreter, in a process of its own, against the eager function."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install gradient-decay[triton]",
)

COMPARED = """
import math, torch
from gdlib.functional import gd_cross_entropy
from gdlib.functional.kernels import fused_gd_cross_entropy

torch.manual_seed(0)
CASES = [{"beta": 0.1}, {"beta": torch.rand(5) + 0.01, "temperature": 2.0}, {}]
for parameters in CASES:
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-5), (torch.bfloat16, 2e-2)):
        for classes in (2, 700, 2049):  # many rows, two rows and one row to a program
            logits = (torch.randn(5, classes, dtype=torch.float64) * 4).to(dtype)
            target = torch.randint(0, classes, (5,))
            target[3] = -7
            if classes > 2:
                logits[:, 1] = -math.inf  # a masked class
                target[target == 1] = 0
            for options in ({"reduction": "none"}, {"weight": torch.rand(classes)}):
                found = []
                for function in (fused_gd_cross_entropy, gd_cross_entropy):
                    z = logits.clone().requires_grad_()
                    loss = function(z, target, ignore_index=-7, **parameters, **options)
                    loss.sum().backward()
                    found.append((loss.detach().double(), z.grad.double()))
                where = f"{parameters} {dtype} {classes} {options}"
                for one, other in zip(*found):
                    torch.testing.assert_close(
                        one, other, rtol=tolerance, atol=tolerance,
                        msg=lambda text: f"{where} {text}",
                    )

# 1 - p keeps its digits; nothing overflows
z = torch.tensor([[30.0, 0.0], [0.0, 200.0]], requires_grad=True)
fused_gd_cross_entropy(z, torch.tensor([0, 0]), beta=0.1, reduction="sum").backward()
expected = torch.tensor([[-1e1, 1e1], [0, 0]]) * math.exp(-30) + torch.tensor([[0, 0], [-1.0, 1.0]])
torch.testing.assert_close(z.grad, expected, rtol=1e-5, atol=0)

z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
    check(lambda z: fused_gd_cross_entropy(z, torch.tensor([0, 1, 2, 0]), beta=0.1), z)
# as GradScaler does with float16: the loss is float32 under autocast,
# and small gradients are scaled before they are rounded
z = torch.tensor([[25.0, 0.0]], dtype=torch.float16, requires_grad=True)
with torch.autocast("cpu", torch.float16):
    loss = fused_gd_cross_entropy(z, torch.tensor([0]))
assert loss.dtype == torch.float32
(loss * 2.0**30).backward()
assert z.grad.dtype == torch.float16
expected = torch.tensor([[-1.0, 1.0]], dtype=torch.float64) * math.exp(-25) * 2**30
torch.testing.assert_close(z.grad.double(), expected, rtol=1e-2, atol=0)

beta = torch.full((4,), 0.1)
z = torch.randn(4, 3, requires_grad=True)
loss = fused_gd_cross_entropy(z, torch.tensor([0, 1, 2, 0]), beta=beta)
loss.backward(retain_graph=True)
beta.fill_(5.0)
try:
    loss.backward()
    raise AssertionError("accepted")
except RuntimeError as error:
    assert "modified by an inplace operation" in str(error)

try:
    fused_gd_cross_entropy(z, torch.tensor([0, 1]))
    raise AssertionError("accepted")
except ValueError as error:
    assert "logits [N, C] and class indices [N]" in str(error)
print("equal")
"""


def test_agrees_with_the_eager_function() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMPARED], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "equal\n", done.stderr[-3000:]
