"""Calls of PyTorch around a launch: products, copies, and paths that are not taken."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("libcst")
from rewriting import HEADER, brief, variants

from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.host_paths import with_measured_path
from solkit.tuner.proposers.rewriter.library_products import LibraryProducts
from solkit.tuner.proposers.rewriter.needless_copies import NeedlessCopies
from solkit.tuner.proposers.rewriter.product_fusion import FuseProducts

PRODUCT = """
def reference(x, w, b):
    return torch.relu(torch.addmm(b, x, w))


def inputs(M=40, N=24, K=33, device="cuda"):
    shapes = (M, K), (K, N), (N,)
    return tuple(torch.randn(*shape, device=device) for shape in shapes)


@triton.jit
def relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.maximum(x, 0.0), mask=at < n)


def kernel(x, w, b):
    h = torch.addmm(b, x, w)
    h = h.contiguous()
    y = torch.empty_like(h)
    relu[(triton.cdiv(h.numel(), 256),)](h, y, h.numel(), BLOCK=256)
    return y
"""


def own_products(source):
    plain = canonical_form(HEADER + source).removeprefix(HEADER)
    return variants(LibraryProducts(), plain, M=40, N=24, K=33)


def test_a_product_of_the_launcher_is_a_launch_that_takes_what_follows(is_right):
    (variant,) = own_products(PRODUCT)
    assert "tl.dot(" in variant
    text = parse_kernel(variant)
    fused = next(FuseProducts().variants(text, Facts(brief(PRODUCT))))
    assert len(parse_kernel(fused.source).single) == 1
    assert is_right(fused.source, PRODUCT, M=40, N=24, K=33)


BATCHED = """
def reference(x, w):
    return torch.relu(torch.bmm(x, w.transpose(1, 2)))


def inputs(B=2, M=20, N=24, K=33, device="cuda"):
    return torch.randn(B, M, K, device=device), torch.randn(B, N, K, device=device)


@triton.jit
def relu(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(x_ptr + at, tl.maximum(x, 0.0), mask=at < n)


def kernel(x, w):
    y = torch.bmm(x, w.transpose(1, 2))
    relu[(triton.cdiv(y.numel(), 256),)](y, y.numel(), BLOCK=256)
    return y
"""


def test_batches_of_products_are_a_launch_too(is_right):
    (variant,) = own_products(BATCHED)
    assert "tl.program_id(2)" in variant
    list(FuseProducts().variants(parse_kernel(variant), Facts(brief(BATCHED))))
    assert is_right(variant, BATCHED, B=2, M=20, N=24, K=33)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.addmm(b, x, w)\n    h", "torch.addmm(b, x, w, beta=2.0)\n    h"),
        ("torch.addmm(b, x, w)\n    h", "torch.addmm(b.sin(), x, w)\n    h"),
        ("torch.addmm(b, x, w)\n    h", "b + x.cos() @ w\n    h"),
        ("torch.addmm(b, x, w)\n    h", "x.mul_(2) + x @ w\n    h"),  # the product is of the double
        ("torch.addmm(b, x, w)\n    h", "torch.exp(x, out=x) + x @ w\n    h"),
        ("    return y\n", "    y.backward()\n    return y\n"),
        ("    h = torch.addmm(b, x, w)\n", "    with torch.autocast('cuda'):\n        h = x @ w\n"),
    ],
)
def test_products_of_which_too_little_is_known_stay(old, new):
    assert PRODUCT.count(old) == 1
    assert not own_products(PRODUCT.replace(old, new))


def test_views_that_do_not_fit_raise_as_with_pytorch():
    viewed = PRODUCT.replace("torch.addmm(b, x, w)", "x @ w.view(-1, 24)")
    (variant,) = own_products(viewed)
    assert "assert x.shape[1] == h_rhs.shape[0]" in variant
    (batched,) = variants(LibraryProducts(), canonical_form(HEADER + BATCHED))
    assert "assert x.shape[2] == y_rhs.shape[1] and x.shape[0] == y_rhs.shape[0] < 65536" in batched


@pytest.mark.parametrize(
    ("ahead", "is_own"),
    [
        ("x.relu().sum()", True),
        ("x.relu_().sum()", False),
        ("torch.nn.functional.relu(x, True).sum()", False),  # in place
        ("b.update(x)", False),
    ],
)
def test_a_product_behind_what_may_write_its_operand_stays(ahead, is_own):
    later = PRODUCT.replace("h = torch.addmm(b, x, w)", f"h = {ahead} + torch.addmm(b, x, w)")
    assert bool(own_products(later)) == is_own


def test_calls_that_differentiate_or_broadcast_do_what_they_did():
    (variant,) = own_products(PRODUCT)
    guard = variant[variant.index("def kernel(") :].split("    h")[0]
    assert "torch.is_grad_enabled() and (x.requires_grad" in guard
    assert "b.numel() == w.shape[1]" in guard
    assert "x.dim() == 2" in guard


MODEL = """
@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def doubled(x):
    if not x.is_cuda:
        return x * 2
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = torch.nn.Linear(n, n)

    def forward(self, x):
        x = self.fc(x)
        return doubled(x)
"""


def test_a_linear_layer_is_a_product_of_its_weight_and_paths_of_the_cpu_are_gone():
    source = canonical_form(HEADER + MODEL)
    function = source[source.index("def kernel(") : source.index("class ModelNew")]
    assert "torch.nn.functional.linear(x, fc.weight, fc.bias)" in function
    assert "is_cuda" not in function


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        self.fc = torch.nn.Linear(n, n)\n", "        self.fc = torch.nn.Tanh()\n"),
        ("(n, n)\n", "(n, n)\n        self.fc.register_forward_hook(print)\n"),
        ("torch.nn.Linear(n, n)\n", "Linear(n, n)\n\n\nclass Linear(torch.nn.Module):\n    pass\n"),
        ("class ModelNew", "from layers import nn\n\n\nclass ModelNew"),
        ("(n, n)\n", "(n, n)\n        self.fc = torch.nn.Tanh()\n"),
    ],
)
def test_layers_that_may_do_more_keep_their_call(old, new):
    assert "functional.linear" not in canonical_form(HEADER + MODEL.replace(old, new))


def test_a_path_that_moves_tensors_to_the_gpu_stays():
    moving = MODEL.replace("return x * 2\n", "x = x.cuda()\n")
    assert "if not" in canonical_form(HEADER + moving)


MODES = """
@triton.jit
def one(x_ptr):
    tl.store(x_ptr, 1.0)


@triton.jit
def two(x_ptr):
    tl.store(x_ptr, 2.0)


def kernel(x, training):
    y = torch.empty_like(x)
    if training:
        one[(1,)](y)
    else:
        two[(1,)](y)
    return y
"""


@pytest.mark.parametrize(
    ("recorded", "guard"), [("one", "not (training)"), ("two", "not (not training)")]
)
def test_the_recorded_branch_remains_and_other_calls_do_as_before(recorded, guard):
    source = with_measured_path(HEADER + MODES, {recorded})
    text = parse_kernel(source)
    assert [launch.function.name for launch in text.single] == [recorded]
    assert f"if {guard}:\n        return call_kernel_otherwise(x, training)" in source


def test_a_branch_on_what_the_launcher_computes_stays():
    computed = MODES.replace("    if training", "    training = bool(x.sum() > 0)\n    if training")
    assert with_measured_path(HEADER + computed, {"one"}) == HEADER + computed


@pytest.mark.parametrize("test", ["x[0] > 0", "x"])
def test_a_branch_on_what_an_earlier_launch_may_write_stays(test):
    written = MODES.replace("    if training", f"    two[(1,)](x)\n    if {test}")
    assert with_measured_path(HEADER + written, {"one", "two"}) == HEADER + written


def test_a_branch_on_sizes_of_what_an_earlier_launch_writes_goes():
    sized = MODES.replace("    if training", "    zero[(1,)](x)\n    if x.shape[0] > 1")
    sized = sized.replace(
        "def one(", "def zero(x_ptr):\n    tl.store(x_ptr, 0.0)\n\n\n@triton.jit\ndef one("
    )
    source = with_measured_path(HEADER + sized, {"one", "zero"})
    assert [launch.function.name for launch in parse_kernel(source).single] == ["zero", "one"]


CLONE = """
def reference(x):
    return torch.relu(x)


def inputs(M=8, N=40, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def relu(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ptrs = x_ptr + at
    x = tl.load(ptrs, mask=at < n)
    tl.store(ptrs, tl.maximum(x, 0.0), mask=at < n)


def kernel(x):
    y = x.clone()
    relu[(triton.cdiv(x.numel(), 256),)](y, x.numel(), BLOCK=256)
    return y
"""
BYTES = 8 * 40 * 4


TURNED = """
def reference(x):
    return torch.relu(x.t())


def inputs(M=8, N=40, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def relu(x_ptr, y_ptr, n, M, sm, sn, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    ptrs = x_ptr + tl.program_id(0) * sm + cols * sn
    for first in range(0, M, BLOCK):
        k = first + cols
        x = tl.load(ptrs, mask=k < M)
        tl.store(y_ptr + tl.program_id(0) * M + k, tl.maximum(x, 0.0), mask=k < M)
        ptrs += BLOCK * sn


def kernel(x):
    t = x.transpose(0, 1).contiguous()
    y = torch.empty(t.shape, device=x.device)
    relu[(t.shape[0],)](t, y, t.numel(), t.shape[1], t.stride(0), t.stride(1), BLOCK=16)
    y = y + 0
    return y
"""


def test_a_launch_reads_a_transposed_tensor_by_its_strides(is_right):
    (variant,) = without_copies(TURNED)
    assert "t = x.transpose(0, 1)\n" in variant
    assert "if not (x.dim() == 2 and x.is_contiguous()):" in variant
    assert is_right(variant, TURNED, M=8, N=40)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("t.stride(1), BLOCK", "1, BLOCK"),
        ("cols * sn", "cols"),
        ("cols * sn", "cols * sn + 1"),
        ("ptrs += BLOCK * sn", "ptrs += BLOCK"),
        ("ptrs += BLOCK * sn", "ptrs = x_ptr + (first + BLOCK + cols) * sn"),  # of the first row
        ("cols * sn", "cols * sn * sm"),
        ("tl.program_id(0) * sm + cols * sn", "(tl.program_id(0) * M + cols) * sn + 0 * sm"),
        ("    ptrs = x_ptr", "    sn = sn + 0\n    ptrs = x_ptr"),
        ("    y = torch", "    assert t.is_contiguous()\n    y = torch"),
        ("    y = torch", "    flat = t.view(-1)\n    y = torch"),
        ("    return y", "    return y, t"),
        ("y = torch.empty(t.shape, device=x.device)", "y = x"),
    ],
)
def test_what_needs_a_transposed_copy_keeps_it(old, new):
    assert old in TURNED
    assert not without_copies(TURNED.replace(old, new))


def without_copies(source, stored=BYTES, returned=BYTES):
    layout = SimpleNamespace(storage_bytes=BYTES, role="output")
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    launch = SimpleNamespace(
        name="relu",
        count=1,
        signature=signature,
        grid=(2, 1, 1),
        constants={},
        arguments={"x_ptr": SimpleNamespace(tensor=layout, value=None)},
    )
    access = SimpleNamespace(argument="x_ptr", kind="store", unique_bytes=stored)
    facts = SimpleNamespace(requests=SimpleNamespace(accesses=(access,)))
    record = SimpleNamespace(launch=launch, facts=facts)
    analysis = SimpleNamespace(own=(record,), outputs="1 output float32[8, 40]")
    work = SimpleNamespace(dram_write_bytes=returned)
    result = SimpleNamespace(gap=None, analysis=analysis, work=work)
    measured = replace(brief(source, M=8, N=40), result=result)  # type: ignore[arg-type]
    text = parse_kernel(HEADER + source)
    return [variant.source for variant in NeedlessCopies().variants(text, Facts(measured))]


def test_a_launch_in_place_reads_what_was_cloned_for_it(is_right):
    (variant,) = without_copies(CLONE)
    assert "y = torch.empty_like(x)" in variant
    assert "if not (x.is_contiguous()):" in variant
    assert is_right(variant, CLONE, M=8, N=40)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return y\n", "    return y, y.sum()\n    y.zero_()\n"),
        ("    relu[", "    x.zero_()\n    relu["),
        ("    tl.store(ptrs", "    if at is not None:\n        tl.store(ptrs"),
        ("mask=at < n)\n\n", "mask=x > 0)\n\n"),
        ("    tl.store(ptrs", "    tl.atomic_add(ptrs, x)\n    tl.store(ptrs"),
        ("    x = tl.load(ptrs", "    tl.store(ptrs, 1.0)\n    x = tl.load(ptrs"),
        ("def kernel(x):\n    y = x.clone()", "def kernel(z):\n    x = z.sin()\n    y = x.clone()"),
        ("x.numel(), BLOCK", "n, BLOCK"),
        ("x.numel(), BLOCK", "x.numel() // 2 * 2, BLOCK"),  # the last one of an odd number stays
        ("mask=at < n)\n\n", "mask=at < n // 8 * 8)\n\n"),
        ("triton.cdiv(x.numel(), 256)", "x.numel() // 256"),
    ],
)
def test_copies_that_something_else_may_need_stay(old, new):
    assert CLONE.count(old) == 1
    changed = CLONE.replace(old, new)
    changed = changed.replace("def kernel(x)", "def kernel(x, n)") if new == "n, BLOCK" else changed
    assert not without_copies(changed)


def test_blocks_and_grids_may_be_rounded_up():
    block = "BLOCK=triton.next_power_of_2(x.numel()))"
    assert without_copies(CLONE.replace("BLOCK=256)", block))
    assert without_copies(CLONE.replace("triton.cdiv(x.numel(), 256)", "(x.numel() + 255) // 256"))


def test_a_clone_that_the_launch_gets_twice_stays():
    """The function may load from the view what it has stored, or what it has not."""
    twice = CLONE.replace("relu(x_ptr, n,", "relu(x_ptr, z_ptr, n,")
    twice = twice.replace("tl.maximum(x, 0.0)", "tl.load(z_ptr + at, mask=at < n)")
    assert without_copies(twice.replace("(y, x.numel()", "(y, x, x.numel()"))
    assert not without_copies(twice.replace("(y, x.numel()", "(y, y.view(-1), x.numel()"))


def test_a_clone_of_which_the_launch_writes_a_part_stays_if_all_is_returned():
    assert not without_copies(CLONE, stored=BYTES // 2)
    assert without_copies(CLONE, stored=BYTES // 2, returned=BYTES // 2)
