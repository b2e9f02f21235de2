"""PyTorch's operators in a candidate: launches of their own, with bytes and times by hand."""

from __future__ import annotations

import threading

import pytest
import torch
import triton
import triton.language as tl

from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.kernelfiles import Workload
from solkit.roofline import devices

H100 = devices.find("h100-sxm")
DRAM = 0.92 * 3352e9  # bytes a second: what a stream sustains of 3.352 TB/s
N = 4096


@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, at < n), at < n)


def double(x):
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


@pytest.fixture
def analysed(in_child):
    """The analysis of a function of two matrices on an H100 that nobody calibrated."""

    def run(function, dtype=torch.bfloat16):
        def child():
            def square():
                return torch.randn(N, N, dtype=dtype, device="cuda")

            workload = Workload((square(), square()), {}, None, lambda x, y: function(x, y))
            return analyse(workload, H100, {}, 1)

        result = in_child(child)
        assert result.status is AnalysisStatus.COMPLETE, result
        return result

    return run


def names_and_counts(analysis):
    return [(kernel.launch.name, kernel.launch.count) for kernel in analysis.kernels]


def moved(kernel):
    return kernel.demand.dram_read_bytes, kernel.demand.dram_write_bytes


SQUARE = 2 * N * N  # bytes, in bf16


def test_a_product_before_a_kernel(analysed):
    analysis = analysed(lambda x, w: double(x @ w))
    assert names_and_counts(analysis) == [("aten.mm", 1), ("double_kernel", 1)]
    product = analysis.kernels[0]
    assert product.launch.library
    assert product.launch.line.startswith("test_library.py:")
    assert moved(product) == (2 * SQUARE, SQUARE)
    assert product.demand.operations == {"tensor.bf16": 2 * N**3}
    # 1070.5 TFLOP/s at 1980 MHz: 132 SMs x 4096 FLOP a clock
    seconds = 2 * N**3 / (0.92 * 132 * 4096 * 1980e6)
    terms = {term.name: term.time_ms for term in product.model.terms}
    assert terms["tensor.bf16"] == pytest.approx(1e3 * seconds, rel=1e-3)
    assert product.model.time_ms == pytest.approx(1e3 * seconds + terms["launch"], rel=1e-3)


def test_clones_around_a_kernel(analysed):
    analysis = analysed(lambda x, _: double(x.clone().clone()).clone())
    assert names_and_counts(analysis) == [
        ("aten.clone", 2),  # on one line
        ("double_kernel", 1),
        ("aten.clone", 1),
    ] or names_and_counts(analysis) == [("aten.clone", 3), ("double_kernel", 1)]
    clone = analysis.kernels[0]
    assert moved(clone) == (SQUARE, SQUARE)
    (dram,) = (term for term in clone.model.terms if term.name == "dram")
    assert dram.time_ms == pytest.approx(1e3 * 2 * SQUARE / DRAM, rel=1e-3)


@pytest.mark.parametrize(
    ("function", "times"), [(lambda x: x.t().contiguous(), 16), (lambda x: x.t() + 1, 1)]
)
def test_what_lies_across_a_result_is_read_a_sector_an_element(analysed, function, times):
    turned, plain = analysed(lambda x, _: (function(x), x - 1)).kernels
    assert turned.demand.l2_read_bytes == times * plain.demand.l2_read_bytes  # 32 bytes for 2
    assert (turned.model.terms[0].name == "l1") == (times > 1)  # each in a line of its own
    assert moved(turned) == moved(plain) == (SQUARE, SQUARE)


def test_scalars_are_read_and_written_as_one_element(analysed):
    analysis = analysed(lambda x, _: double(x).sum() / 3)
    total = analysis.kernels[-1]
    assert total.launch.name == "aten.div"
    assert moved(total) == (32, 32)  # a sector each


def test_what_is_repeated_along_a_result_is_read_once(analysed):
    (added,) = analysed(lambda x, y: x + y[0]).kernels
    assert added.demand.l2_read_bytes == SQUARE + SQUARE // N


def test_calls_are_counted(analysed):
    def run(x, _):
        for _ in range(32):
            x = torch.relu(x)
            double(x)
        return x

    assert names_and_counts(analysed(run)) == [("aten.relu", 32), ("double_kernel", 32)]


CASES = {  # by name: a function, and the bytes that its operator reads and writes
    "zeros": (lambda x, _: torch.zeros(N, N, device=x.device), 0, 2 * SQUARE),
    "zero in place": (lambda x, _: x.zero_(), 0, SQUARE),
    "fill": (lambda x, _: torch.full_like(x, 3), 0, SQUARE),
    "convert": (lambda x, _: x.to(torch.float32), SQUARE, 2 * SQUARE),
    "transpose": (lambda x, _: x.t().contiguous(), SQUARE, SQUARE),
    "copy": (lambda x, y: x.copy_(y), SQUARE, SQUARE),
    "add": (lambda x, y: x + y, 2 * SQUARE, SQUARE),
    "one tensor twice": (lambda x, _: x * x, SQUARE, SQUARE),
    "in place": (lambda x, y: x.add_(y), 2 * SQUARE, SQUARE),
    "broadcast": (lambda x, y: x + y[0], SQUARE + 2 * N, SQUARE),
    "sum of rows": (lambda x, _: x.sum(1), SQUARE, 2 * N),
    "softmax": (lambda x, _: torch.softmax(x, 1), SQUARE, SQUARE),
    "random": (lambda x, _: torch.rand_like(x), 0, SQUARE),
    "half of the columns": (lambda x, _: x[:, : N // 2].clone(), SQUARE // 2, SQUARE // 2),
    # every second element is in the same sectors as all
    "every second column": (lambda x, _: x[:, ::2].clone(), SQUARE, SQUARE // 2),
    # 2 bytes of each row lie in a sector of 32
    "one column": (lambda x, _: x[:, 7].clone(), 32 * N, 2 * N),
    "rows of a table": (
        lambda x, _: x[torch.zeros(64, dtype=torch.int64, device="cuda")], 64 * 2 * N + 8 * 64,
        64 * 2 * N,
    ),
    "rows added": (
        lambda x, y: x.index_add_(0, torch.zeros(64, dtype=torch.int64, device="cuda"), y[:64]),
        2 * 64 * 2 * N + 8 * 64, 64 * 2 * N,
    ),
}  # fmt: skip


@pytest.mark.quick("convert", "copy", "random", "every second column")
@pytest.mark.parametrize("name", CASES)
def test_bytes_of_an_operator(analysed, name):
    function, read, written = CASES[name]
    kernel = analysed(function).kernels[-1]
    assert moved(kernel) == (read, written)


def test_a_sort_of_short_lines_copies_them_and_sorts_each_in_a_block(analysed):
    (kernel,) = analysed(lambda x, _: x[:, :208].sort(1)).kernels
    written = N * 208 * (2 + 8)  # keys, and indices of 64 bits
    assert moved(kernel) == (N * 208 * 2, written)  # L2 holds the rest
    # copied and filled in; then read and written in place
    assert kernel.demand.l2_read_bytes == N * 208 * 2 + written
    assert kernel.demand.l2_write_bytes == 2 * written
    # lines have room for 1024 keys; 16 bits are 4 digits; a key is one word, its index two
    rounds = N * 1024 / 32 * 4
    (shared,) = kernel.demand.shared
    assert shared.wavefronts == pytest.approx(rounds * (3 + 27 / 32 + 3 * 4.5))
    assert "shared" in {term.name for term in kernel.model.terms}


def test_a_sort_of_long_lines_goes_through_memory_for_each_byte_of_a_key(analysed):
    (kernel,) = analysed(lambda x, _: x.flatten().sort()).kernels
    result = N * N * (2 + 8)
    assert kernel.demand.l2_write_bytes == 3 * result  # indices filled in, and two bytes
    assert kernel.demand.l2_read_bytes == N * N * 2 + 2 * result
    assert kernel.demand.shared == ()


def test_the_largest_of_a_line_are_no_sort(analysed):
    (kernel,) = analysed(lambda x, _: x.topk(8, 1)).kernels
    assert kernel.demand.shared == ()
    assert kernel.demand.l2_read_bytes == SQUARE


def test_views_and_empty_tensors_launch_nothing(analysed):
    def run(x, _):
        torch.empty(N, N, device=x.device)
        return double(x.view(-1, 1).expand(-1, 1).t()[0].detach())

    assert names_and_counts(analysed(run)) == [("double_kernel", 1)]


def test_what_happens_on_the_host_is_not_counted(analysed):
    def run(x, _):
        torch.arange(1 << 20).sum()
        return double(x)

    assert names_and_counts(analysed(run)) == [("double_kernel", 1)]


@pytest.mark.parametrize(("allowed", "pipe"), [("highest", "fp32"), ("high", "tensor.tf32")])
def test_a_product_in_fp32_runs_where_pytorch_is_told_to(analysed, allowed, pipe):
    def run(x, w):
        torch.set_float32_matmul_precision(allowed)
        return x @ w

    (product,) = analysed(run, torch.float32).kernels
    assert product.demand.operations == {pipe: 2 * N**3}


def test_layers_of_a_model(analysed):
    def run(x, _):
        net = torch.nn.Linear(N, N, device="cuda", dtype=torch.bfloat16)
        return double(torch.nn.functional.gelu(net(x)))

    names = [name for name, _ in names_and_counts(analysed(run))]
    assert names[-3:] == ["aten.addmm", "aten.gelu", "double_kernel"]


def test_attention_is_one_operator(analysed):
    def run(x, y):
        q, k = (t.view(32, 8, 512, -1) for t in (x, y))
        return torch.nn.functional.scaled_dot_product_attention(q, k, k)

    (kernel,) = analysed(run).kernels
    assert kernel.launch.name == "aten.scaled_dot_product_attention"
    assert moved(kernel) == (2 * SQUARE, SQUARE)


def test_attention_multiplies_what_a_mask_leaves_out_but_not_what_is_causal(analysed):
    def products(**options):
        def run(x, y):
            q, k = (t.view(32, 8, 512, -1) for t in (x, y))
            if "attn_mask" in options:
                options["attn_mask"] = torch.ones(512, 512, device="cuda").tril() > 0
            return torch.nn.functional.scaled_dot_product_attention(q, k, k, **options)

        kernel = analysed(run).kernels[-1]
        return kernel.demand.operations["tensor.bf16"]

    whole = products()
    assert products(attn_mask=None) == whole
    assert products(is_causal=True) == pytest.approx(whole / 2, rel=0.01)


def test_custom_ops_show_the_operators_inside(in_child):
    def child():
        @torch.library.custom_op("solkit_test::padded", mutates_args=())
        def padded(x: torch.Tensor) -> torch.Tensor:
            return double(torch.cat([x, x]))

        x = torch.randn(N, device="cuda")
        return analyse(Workload((x,), {}, None, lambda t: padded(t)), H100, {}, 1)

    assert names_and_counts(in_child(child)) == [("aten.cat", 1), ("double_kernel", 1)]


def test_an_operator_without_a_model_counts_its_bytes_and_says_so(in_child):
    def child():
        lib = torch.library.Library("solkit_unknown", "DEF")
        lib.define("twist(Tensor x) -> Tensor")
        torch.library.register_fake("solkit_unknown::twist", torch.empty_like, lib=lib)
        x = torch.randn(N, device="cuda")
        run = torch.ops.solkit_unknown.twist
        return analyse(Workload((x,), {}, None, lambda t: run(t)), H100, {}, 1)

    result = in_child(child)
    assert names_and_counts(result) == [("solkit_unknown.twist", 1)]
    assert moved(result.kernels[0]) == (4 * N, 4 * N)
    assert any("twist: its operations are not modelled" in note for note in result.notes)


def test_what_a_thread_does_is_not_taken_for_nothing(in_child):
    def child():
        def run(x):
            thread = threading.Thread(target=lambda: x.mul_(2))
            thread.start()
            thread.join()
            return double(x)

        x = torch.randn(N, device="cuda")
        return analyse(Workload((x,), {}, None, run), H100, {}, 1)

    result = in_child(child)
    assert (result.status, result.is_whole) == (AnalysisStatus.PARTIAL, False)
    assert names_and_counts(result)[-1] == ("double_kernel", 1)
    assert any("starts a thread: what it launches is not seen" in note for note in result.notes)
