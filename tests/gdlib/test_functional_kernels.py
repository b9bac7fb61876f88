"""The Triton kernel: in its interpreter, and compiled for a GPU that need not be there.

The interpreter must be chosen before Triton is imported, and so has a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install gradient-decay[triton]",
)

COMPARED = """
import math, torch
from gdlib.functional import gd_cross_entropy, kernels
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

# a loss near 0 keeps its digits, by both functions and in both kernels
for classes in (2, 20, 1500):
    z = torch.full((4, classes), -math.inf)
    z[:, 1] = 0.0
    z[:, 0] = torch.tensor([3.0, 10.25, 18.0, 40.0])
    expected = torch.log1p(torch.exp(-z[:, 0].double())).float()
    for function in (fused_gd_cross_entropy, gd_cross_entropy):
        for beta in (1.0, torch.ones(4)):
            found = function(z, torch.zeros(4, dtype=torch.long), beta=beta, reduction="none")
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)

# logits as large as a type holds, and masks as small
for classes in (4, 1500):
    z = torch.full((3, classes), torch.finfo(torch.float32).min)
    z[:, :2] = torch.tensor([[3e38, 0.0], [1e30, 1e30], [-3e38, -3e38]])
    z.requires_grad_()
    loss = fused_gd_cross_entropy(z, torch.zeros(3, dtype=torch.long), reduction="none")
    loss.sum().backward()
    torch.testing.assert_close(loss.detach(), torch.tensor([0.0, math.log(2.0), math.log(2.0)]))
    expected = torch.tensor([[0.0, 0.0], [-0.5, 0.5], [-0.5, 0.5]])
    torch.testing.assert_close(z.grad[:, :2], expected)

# what does not count is not read, and has no gradient, whatever comes from above;
# an index that is no class reads no foreign memory
for classes in (7, 1500):
    z = torch.randn(5, classes, requires_grad=True)
    with torch.no_grad():
        z[1] = math.nan
    target = torch.tensor([0, -100, classes, -1, classes - 1])
    batch = kernels.Batch(z, torch.tensor([0, -100, 0, 0, classes - 1]), reduction="none")
    batch.target = target  # as on a GPU, where it is not looked at
    kernel = kernels._Kernel(batch, 0.1, 1.0, -100)
    losses, gradient = kernel(z)
    assert losses.isnan().tolist() == [False, False, True, True, False]
    assert gradient.isnan().all(1).tolist() == [False, False, True, True, False]
    assert not gradient[1].any() and losses[1] == 0
    right = [0, 4]
    expected = gd_cross_entropy(z[right], target[right], beta=0.1, reduction="none")
    torch.testing.assert_close(losses[right], expected)
    expected_gradient = torch.autograd.grad(expected.sum(), z)[0]
    torch.testing.assert_close(gradient[right], expected_gradient[right])
    factor = torch.tensor([[2.0], [math.nan], [1.0], [1.0], [1.0]])
    made = kernel.multiply(gradient.clone(), factor)
    torch.testing.assert_close(made[right], expected_gradient[right] * factor[right])
    assert not made[1].any()
    # nor where a hook keeps what was saved, as an activation checkpoint does
    labels = torch.tensor([0, -100, 2, 1, 2])
    found = []
    for function in (fused_gd_cross_entropy, gd_cross_entropy):
        with torch.autograd.graph.save_on_cpu():
            losses = function(z, labels, beta=0.1, reduction="none")
        found.append(torch.autograd.grad(losses, z, factor[:, 0])[0])
    torch.testing.assert_close(*found)
    assert not found[0][1].any()

# a gradient is multiplied in place, by one number or one for each row, and by a batch of them
of_shape = kernels.Batch.of_shape
for dtype in (torch.float32, torch.bfloat16):
    for shape in ((3, 7), (5, 1500), (70, 1000)):
        ones = torch.ones(shape, dtype=dtype)
        batch = of_shape(shape, ones, torch.zeros(shape[0], dtype=torch.long))
        kernel = kernels._Kernel(batch, 0.1, 1.0, -100)
        by_rows = torch.arange(shape[0]).float().unsqueeze(1)
        for factor in (torch.tensor(3.0), by_rows, ones[:1, :1]):
            made = kernel.multiply(gradient := ones.clone(), factor)
            assert made is gradient and torch.equal(made, (ones * factor).to(dtype))
z = torch.randn(3, 1500, requires_grad=True)
loss = fused_gd_cross_entropy(z, torch.tensor([0, 1, 2]), beta=0.1)
once, twice = (torch.autograd.grad(loss, z, retain_graph=True)[0] for _ in range(2))
assert torch.equal(once, twice)
batch = torch.autograd.grad(loss, z, torch.tensor([1.0, -2.0]), is_grads_batched=True)[0]
torch.testing.assert_close(batch, torch.stack([once, -2 * once]))

# transforms, the compiler and calls without a gradient
target = torch.tensor([0, 1, 2])
expected = torch.func.grad(lambda z: gd_cross_entropy(z, target, beta=0.1))(z.detach())
found = torch.func.grad(lambda z: fused_gd_cross_entropy(z, target, beta=0.1))(z.detach())
torch.testing.assert_close(found, expected)
torch.testing.assert_close(once, expected)
_, tangent = torch.func.jvp(
    lambda z: fused_gd_cross_entropy(z, target, beta=0.1), (z.detach(),), (expected,)
)
torch.testing.assert_close(tangent, expected.square().sum())
with torch.no_grad():
    torch.testing.assert_close(fused_gd_cross_entropy(z, target, beta=0.1), loss.detach())
empty = torch.empty(0, 1500, requires_grad=True)
loss = fused_gd_cross_entropy(empty, torch.empty(0, dtype=torch.long), reduction="sum")
loss.backward()
assert loss == 0 and empty.grad.shape == (0, 1500)
print("equal")
"""


def test_agrees_with_the_eager_function() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMPARED], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "equal\n", done.stderr[-3000:]


# -- compiled for an H100, on any machine ----------------------------------------------------------

TYPES = {2: "bf16", 4: "fp32", 8: "fp64"}
ALIGNED = {"z", "target", "used", "divisor", "inverse", "log_beta", "loss", "gradient", "factor"}
ALIGNED |= {"numel"}  # 16 divides the number of logits


def compiled(kernel: Any, types: dict[str, str], constants: dict[str, Any], warps: int) -> Any:
    """Compile for tensors that start at multiples of 16 bytes, as those of PyTorch do."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    signature = {name: types.get(name, "constexpr") for name in names}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in ALIGNED & set(types)}
    given = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, given, aligned)
    target = GPUTarget("cuda", 90, 32)
    return triton.compile(source, target=target, options={"num_warps": warps})


def types_and_constants(kind: str, classes: int) -> tuple[dict[str, str], dict[str, Any]]:
    import triton.language as tl

    wide = "*fp64" if kind == "fp64" else "*fp32"
    types = dict.fromkeys(("used", "divisor", "inverse", "log_beta", "loss"), wide)
    types |= dict.fromkeys(("inverse_stride", "beta_stride", "ignore_index"), "i32")
    types |= {
        "z": f"*{kind}",
        "target": "*i64",
        "gradient": "*fp32" if kind == "fp16" else f"*{kind}",
    }
    return types, {"classes": classes, "wide": tl.float64 if kind == "fp64" else tl.float32}


def many(kind: str, classes: int) -> tuple[Any, int]:
    """Compile the kernel for rows of many classes; say how many logits a thread has at a time."""
    from gdlib.functional import kernels

    types, constants = types_and_constants(kind, classes)
    itemsize = next((size for size, name in TYPES.items() if name == kind), 2)
    block, warps = kernels._block(classes, itemsize)
    made = compiled(kernels._many_classes, types, constants | {"block": block}, warps)
    return made, block // (32 * warps)


def few(kind: str, classes: int) -> Any:
    import triton

    from gdlib.functional import kernels

    types, constants = types_and_constants(kind, classes)
    block = triton.next_power_of_2(classes)
    constants |= {"block": block, "packed": kernels._PACKED // block}
    return compiled(kernels._few_classes, types | {"samples": "i32"}, constants, 4)


def multiply(kind: str, span: int) -> Any:
    import triton.language as tl

    from gdlib.functional import kernels

    types = {"gradient": f"*{kind}", "factor": f"*{kind}", "stride": "i32", "numel": "i64"}
    wide = tl.float64 if kind == "fp64" else tl.float32
    return compiled(kernels._multiply, types, {"span": span, "wide": wide, "block": 4096}, 8)


def loops(sass: str) -> list[list[str]]:
    """The machine instructions of each loop, by its jump backwards."""
    places: dict[str, int] = {}
    found, lines = [], list[str]()
    for line in sass.splitlines():
        if label := re.match(r"\s*(\.?L\w+):", line):
            places[label[1]] = len(lines)
            continue
        if not re.match(r"\s*(\S+:){4}", line):
            continue
        lines.append(line)
        if (jump := re.search(r"BRA\S*.*?(\.?L_?\w+)", line)) and jump[1] in places:
            found.append(lines[places[jump[1]] :])
    return [one for one in found if len(one) > 1]  # a kernel ends with a jump to itself


WIDE = re.compile(r"ld\.global\S*evict_(last|first)\S*\.v[248]\.b(32|64)")
NARROW = re.compile(r"ld\.global\S*evict_\S*hint\.b(16|32|64)")


@pytest.mark.parametrize("kind", ["bf16", "fp16", "fp32", "fp64"])
@pytest.mark.parametrize("classes", [1024, 32_000, 131_072])
def test_both_passes_read_sixteen_bytes_at_a_time(kind: str, classes: int) -> None:
    made, _ = many(kind, classes)
    ptx = made.asm["ptx"]
    assert {found[1] for found in WIDE.finditer(ptx)} == {"last", "first"}
    assert not NARROW.search(ptx)
    assert re.search(r"st\.global\.cs\S*\.v[248]\.b(32|64)", ptx)
    assert ".local" not in ptx  # nothing is spilled


@pytest.mark.parametrize(("kind", "limit"), [("bf16", 24.0), ("fp32", 26.5)])
def test_few_instructions_for_a_logit_and_no_thread_waits_for_another(
    kind: str, limit: float
) -> None:
    made, logits = many(kind, 32_000)
    # of these, two for a logit in each loop belong to the block of the true class alone
    both = loops(made.asm["sass"])
    assert len(both) == 2
    assert sum(len(one) for one in both) / logits < limit
    assert not [line for one in both for line in one if re.search(r"\b(BAR|SHFL)\b", line)]


def test_every_variant_compiles() -> None:
    for kind in ("bf16", "fp16", "fp32", "fp64"):
        for classes in (1, 10, 1000, 1023):
            assert "st.global.cs" in few(kind, classes).asm["ptx"]
        assert re.search(r"ld\.global\.v[24]\.b(32|64)", multiply(kind, 2**16).asm["ptx"])
    many("bf16", 50_257)
