"""Gaps of real kernels: each planted defect is named first, and nothing is invented."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from solkit.adapters import nvrtc
from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, study
from solkit.core import Facts, KernelAnalysis, Launch, Measurement, Occupancy, PricedRoute
from solkit.errors import UnsupportedError
from solkit.report.remedies import IN_CUDA, REMEDIES, advice_on
from solkit.roofline import devices
from solkit.roofline.bound import bound
from solkit.roofline.calibration import calibrated
from solkit.roofline.kernel.causes import CAUSES, cause_of
from solkit.roofline.kernel.gap import FACTORS, decompose_gap, modelled_ms
from solkit.roofline.kernel.launch_view import LaunchView
from solkit.roofline.kernel.model import model_launch_time

HERE = Path(__file__).parents[1]
EXAMPLES = HERE.parents[1] / "examples"
DEFECTS = sorted(path.stem for path in (HERE / "defects").glob("*.py"))
AGAIN = """
    attention_one_stage attention_small_tiles channels_first contiguous_first cuda_histogram_atomics
    cuda_repeated_filter cuda_thread_a_row cuda_wide_struct masked_work spilling strided
    two_pass_attention upcast_copy
""".split()
"""Defects whose first advice is that on another one."""


def studied(path, shape=None):
    """Bound, analysed launches and device of a kernel file at one shape."""
    return _studied(str(path), None if shape is None else tuple(shape.items()))


@functools.cache  # several tests vary one kernel's analysis
def _studied(path, shape):
    device = calibrated(devices.find("h100-sxm"))
    shapes = None if shape is None else (dict(shape),)
    case = study(_analyser(), StudyPlan(path, shapes=shapes)).cases[0]
    return bound(case.work, device, tolerance=case.tolerance), case.analysis.kernels, device


_OPEN = contextlib.ExitStack()


@functools.cache
def _analyser():
    return _OPEN.enter_context(Analyser(calibrated(devices.find("h100-sxm"))))


@pytest.fixture(autouse=True, scope="module")
def closing():
    with _OPEN:
        yield
    _analyser.cache_clear()  # another test of this module may follow one of another


def defect(name):
    """The gap of a kernel with a planted defect; skips CUDA C++ where nothing compiles it."""
    path = HERE / "defects" / f"{name}.py"
    if "load_inline" in path.read_text() and not _compiles_cuda():
        pytest.skip("needs NVRTC and CUDA's headers")
    return taken_apart(path)


@functools.cache
def _compiles_cuda():
    with contextlib.suppress(UnsupportedError):
        return bool(nvrtc.find_toolkit().includes)
    return False


def taken_apart(path, shape=None):
    gap = decompose_gap(*studied(path, shape))
    assert gap is not None
    return gap


def with_facts(kernel, **facts):
    """The same launch with other facts."""
    return replace(kernel, facts=replace(kernel.facts, **facts))


def advice(result):
    """What is advised, what saves most first."""
    causes = [factor for factor in result.factors if factor.cause]
    causes.sort(key=lambda factor: (factor.speedup, factor.factor), reverse=True)
    return [advice_on(factor.cause) for factor in causes]


NOTHING_TO_DO = ("No cause of this is known.", "Nothing in the kernel changes this.")


@pytest.mark.quick(
    "cuda_few_blocks",
    "cuda_transpose_conflicts",
    "lanes_down_rows",
    "many_small_blocks",
    "product_by_torch",
    "short_rows",
    "tiny_grid",
)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in AGAIN else []) for n in DEFECTS]
)
def test_the_first_advice_names_a_planted_defect(name):
    """In its language; every other large factor has a cause, or says that none is known."""
    text = (HERE / "defects" / f"{name}.py").read_text()
    expected = re.match(r'"""Expected: "([^"]+)"', text)
    result = defect(name)
    reported_advice = advice(result)
    assert expected[1] in reported_advice[0]
    product = math.prod(factor.factor for factor in result.factors)
    assert product == pytest.approx(result.time_ms / result.sol_ms)
    for factor in result.factors:
        assert factor.factor < 1.15 or factor.cause or factor.evidence.endswith(NOTHING_TO_DO)
        uses = re.match(r"The bound uses (.*?); the kernel uses (.*?)\.$", factor.evidence)
        assert not uses or uses[1] != uses[2] or factor.factor < 1.05, factor.evidence
    others = r"float4|__\w+|blockIdx|threads of a warp|powf"
    if name.startswith("cuda_"):
        others = r"tl\.|num_warps|num_stages|\bBLOCK\b|program id"
    assert not re.search(others, " ".join(reported_advice))


def test_wavefronts_of_a_reduction_across_warps():
    _, (kernel,), _ = studied(HERE / "defects" / "bank_conflicts.py")
    (stores,) = (a for a in kernel.demand.shared if a.kind == "store" and a.line.endswith(":23"))
    steps = 8 * 32 * (2048 // 8)
    # each step, 8 warps leave 4 sums a lane, those of one column side by side: lanes are 4 x 8
    # words apart, all in one bank. 32 requests store what comes of them, with no conflicts.
    assert stores.requests == steps * (8 * 4 + 32)
    assert stores.wavefronts == steps * (8 * 4 * 32 + 32)


def test_bank_conflicts_of_cuda_are_the_users_layout():
    limit, (kernel,), device = studied(HERE / "defects" / "bank_conflicts.py")
    plain = with_facts(kernel, launch=replace(kernel.launch, signature={}))  # as CUDA C++ has it
    first = advice(decompose_gap(limit, (plain,), device))[0]
    assert "Pad the tile's rows by one word" in first
    assert "num_warps" not in first


def test_products_are_advised_in_a_precision_that_the_bound_admits():
    limit, kernels, device = studied(HERE / "defects" / "scalar_product.py")
    one = PricedRoute("fp32", "tf32", error=1e-3, allowed=1e-2, rate=1.0)
    three = PricedRoute("fp32", "tf32 in 3 passes", error=1e-6, allowed=1e-4, rate=1.0)
    coarse = replace(one, allowed=1e-4)

    def advised(*routes):
        return " ".join(advice(decompose_gap(replace(limit, routes=routes), kernels, device)))

    assert "input_precision 'tf32' for fp32" in advised(one, three)
    assert "input_precision 'tf32x3' for fp32" in advised(coarse, three)
    assert "in the inputs' own type." in advised(coarse)


def test_small_blocks_cost_what_their_beginning_outlasts():
    limit, (kernel,), device = studied(HERE / "defects" / "many_small_blocks.py")
    factors = {factor.name: factor for factor in decompose_gap(limit, (kernel,), device).factors}
    begun_ms = 2**19 * 1.19 / 1.98e6
    before = math.prod(f.factor for f in factors.values() if f.name in FACTORS[:7])
    assert before * limit.time_ms < 0.5 * begun_ms
    result = before * factors["dispatch"].factor * limit.time_ms
    assert begun_ms < result < 1.02 * begun_ms


@pytest.mark.quick("softmax-shape0", "bias_gelu-shape3", "cross_entropy-shape4")
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("softmax", {"M": 16384, "N": 4096}),
        ("rmsnorm", {"M": 16384, "N": 4096}),
        ("rmsnorm", {"M": 8192, "N": 8192}),
        ("bias_gelu", {"M": 16384, "N": 4096}),
        ("cross_entropy", {"T": 4096, "V": 128256}),
        ("matmul", {"M": 8192, "N": 8192, "K": 8192}),
    ],
)
def test_nothing_is_advised_where_nothing_is_wrong(name, shape):
    assert advice(taken_apart(EXAMPLES / f"{name}.py", shape)) == []


def test_of_accesses_at_unknown_places_nothing_is_advised():
    limit, (kernel,), device = studied(HERE / "defects" / "uncoalesced.py")
    known_gap = decompose_gap(limit, (kernel,), device)
    assert any("not coalesced" in item for item in advice(known_gap))
    accesses = tuple(replace(access, argument="") for access in kernel.demand.accesses)
    unknown = replace(kernel, demand=replace(kernel.demand, accesses=accesses))
    causes = [factor.cause for factor in decompose_gap(limit, (unknown,), device).factors]
    assert causes[FACTORS.index("extra traffic")] is None


def test_the_kernel_that_takes_longest_is_advised_first():
    limit, (kernel,), device = studied(HERE / "defects" / "uncoalesced.py")
    elsewhere = tuple(replace(access, line="small.py:1") for access in kernel.demand.accesses)
    small = replace(kernel.demand, accesses=elsewhere, dram_read_bytes=1 << 10)
    small = replace(small, l1_wavefronts=1 << 10, l2_read_bytes=1 << 10, dram_write_bytes=0)
    other = with_facts(replace(kernel, demand=small), launch=replace(kernel.launch, name="small"))
    other = replace(other, model=model_launch_time(other, device))
    for order in ((kernel, other), (other, kernel)):
        first = advice(decompose_gap(limit, order, device))[0]
        assert first == advice(decompose_gap(limit, (kernel,), device))[0]


@pytest.mark.slow
def test_tensor_cores_with_one_block_on_an_sm_and_a_last_wave():
    _, (kernel,), device = studied(EXAMPLES / "matmul.py")
    alone = replace(kernel, occupancy=replace(kernel.occupancy, blocks_per_sm=1, limiter="shared"))
    latency = cause_of("latency", 1.5, [LaunchView(alone, device)])
    assert "(1 block on an SM, limited by shared)" in advice_on(latency)
    assert "part-filled wave" in advice_on(cause_of("tail", 1.1, [LaunchView(kernel, device)]))
    assert cause_of("tail", 1.04, [LaunchView(kernel, device)]) is None


def test_there_is_advice_on_every_cause():
    assert set(REMEDIES) == set(CAUSES)
    assert set(IN_CUDA) <= set(CAUSES)


@pytest.mark.slow
def test_factors_multiply_to_the_gap():
    terms, kernels, device = studied(EXAMPLES / "causal_attention.py")
    gap = decompose_gap(terms, kernels, device)
    assert gap.time_ms == modelled_ms(kernels, terms)
    assert not gap.measured
    product = math.prod(factor.factor for factor in gap.factors)
    assert product == pytest.approx(gap.time_ms / terms.time_ms)
    names = [factor.name for factor in gap.factors]
    assert names == [name for name in FACTORS if name in names]


@pytest.mark.slow
def test_what_takes_less_than_the_hard_bound_is_not_all_of_the_work():
    terms, (kernel,), device = studied(EXAMPLES / "softmax.py")
    assert all(
        "hard bound" not in factor.evidence
        for factor in decompose_gap(terms, (kernel,), device).factors
    )
    grid = (kernel.launch.grid[0] // 100, 1, 1)
    names = ("l1_wavefronts", "l2_read_bytes", "l2_write_bytes", "dram_read_bytes")
    names += ("dram_write_bytes",)
    less = {name: getattr(kernel.demand, name) // 100 for name in names}
    part = with_facts(kernel, launch=replace(kernel.launch, grid=grid))
    part = replace(part, demand=replace(kernel.demand, operations={}, shared=(), **less))
    part = replace(part, model=model_launch_time(part, device))
    gap = decompose_gap(terms, (part,), device)
    assert gap.time_ms == terms.at.hard_ms > part.model.time_ms
    assert gap.factors[-1].name == "unexplained"
    assert "do only part of the work" in gap.factors[-1].evidence
    loose = replace(terms, at=replace(terms.at, hard_ms=part.model.time_ms / 2))
    gap = decompose_gap(loose, (part,), device)
    assert gap.time_ms == part.model.time_ms < terms.time_ms
    assert gap.factors[-1].evidence.startswith("By the model the launches do less")


def measurement(median_ms, **changes):
    fields = {"kernel_sum_ms": None, "reference_ms": 1.0, "method": "cupti", "max_error": 0.0}
    return Measurement(median_ms, median_ms, median_ms, **(fields | {"samples": 20} | changes))


def test_a_measured_gap_says_what_is_left_unexplained():
    terms, kernels, device = studied(EXAMPLES / "softmax.py")
    expected = modelled_ms(kernels, terms)
    gap = decompose_gap(terms, kernels, device, measurement(2 * expected))
    assert gap.measured
    assert gap.time_ms == 2 * expected
    assert gap.factors[-1].name == "unexplained"
    assert gap.factors[-1].factor == pytest.approx(2.0)
    assert math.prod(f.factor for f in gap.factors) == pytest.approx(2 * expected / terms.time_ms)


def test_time_with_no_kernel_running_is_the_launches():
    terms, kernels, device = studied(EXAMPLES / "softmax.py")
    busy = modelled_ms(kernels, terms)
    gap = decompose_gap(terms, kernels, device, measurement(3 * busy, kernel_sum_ms=busy))
    launch = next(factor for factor in gap.factors if factor.name == "launch")
    assert launch.factor == pytest.approx(3.0, rel=0.05)
    assert "no kernel running" in launch.evidence
    assert "CUDA graph" in advice_on(launch.cause)


def test_a_launch_that_was_not_followed_has_no_gap():
    terms, _, device = studied(EXAMPLES / "softmax.py")
    unknown = KernelAnalysis(
        Facts(Launch("kernel", (1, 1, 1), 4, 3)), Occupancy(1.0, "warps", 16, 0.1, 0.1)
    )
    assert decompose_gap(terms, (unknown,), device) is None
    assert decompose_gap(terms, (), device) is None
    assert modelled_ms((), terms) is None


def recorded():
    """(example, shape, measured ms) of the table in docs/lab/h100.md, the first of each example."""
    table = (HERE.parents[1] / "docs" / "lab" / "h100.md").read_text()
    results = {}
    for name, sizes, ms in re.findall(
        r"^(\w+) +((?:[A-Z]=\d+ )+) *\S+ +[\d.]+ +[\d.]+ +([\d.]+) ", table, re.M
    ):
        shape = {key: int(value) for key, value in re.findall(r"(\w)=(\d+)", sizes)}
        results.setdefault(name, (name, shape, float(ms)))
    return list(results.values())


@pytest.mark.parametrize(("name", "shape", "ms"), recorded())
def test_modelled_times_are_near_those_of_an_h100(name, shape, ms):
    result = taken_apart(EXAMPLES / f"{name}.py", shape)
    assert 1 / 1.3 < result.time_ms / ms < 1.3


def test_the_recorded_table_was_read():
    assert len(recorded()) == 6
