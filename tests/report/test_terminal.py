import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from solkit.core import (
    Analysis,
    AnalysisStatus,
    Cause,
    ClockKind,
    Facts,
    Forecast,
    GapFactor,
    InputNeed,
    KernelAnalysis,
    KernelModel,
    Launch,
    OutputBytes,
    Score,
    Term,
    Verdict,
)
from solkit.report import units
from solkit.report.advice import advice_of_rules
from solkit.report.launches import compiled_words
from solkit.report.terminal import render, worst_result

SIZES = {"M": 4096, "N": 4096, "K": 4096, "dtype": "bfloat16"}


def page(report, width=80, details=False, encoding="utf-8", explained=True, **console):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    terminal = Console(file=file, width=width, highlight=False, **console)
    render(report, terminal, details=details, explained=explained)
    file.flush()
    return raw.getvalue().decode(encoding)


def broken(make):
    return make.kernel(
        registers=None, spills=None, shared_bytes=None, occupancy=None, tensor_cores=None,
        error="\x1b[31mout of resource\x1b[0m: shared memory\nline two",
    )  # fmt: skip


def several(make, count):
    results = [
        make.measured(shape=SIZES | {"M": 1024 * n}, score=Score(1.0 + n, None, 1 / n, 0.5))
        for n in range(1, count + 1)
    ]
    return make.report(*results)


def test_where_nothing_was_measured_the_model_is_shown(make):
    def modelled(n):
        gap = make.gap(measured=False, time_ms=0.12839 * n)
        return make.result(shape=SIZES | {"M": 1024 * n}, gap=gap)

    text = page(make.report(modelled(2), modelled(3)), width=100)
    assert re.search(r"shape +SOL +expected +gap +limiter +verdict", text)
    assert re.search(r"M=2048 +128 µs +257 µs +2\.00×", text)
    assert re.search(r"M=3072 +128 µs +385 µs +3\.00×", text)
    largest = max(make.gap().factors, key=lambda factor: factor.factor)
    assert "expected     257 µs by the kernel model" in text
    assert f"gap          2.00× by the model; mostly {largest.name}, " in text


def test_shapes_without_a_model_show_dashes(make):
    text = page(make.report(make.result(), make.result(shape=SIZES | {"M": 1})), width=100)
    assert re.search(r"shape +SOL +measured +gap +score", text)
    assert re.search(r"M=1 +128 µs +- +- +-", text)


def test_the_facts_of_a_measured_kernel(make):
    text = page(make.report())
    for fact in (
        "matmul  examples/matmul.py · native",
        "NVIDIA H100 80GB HBM3  132 SMs · 1980 MHz (maximum clock) · from the catalogue",
        "M=4096 N=4096 K=4096 dtype=bfloat16  BLOCK_M=128",
        "SOL          128 µs, limited by tensor.bf16",
        "measured     192.6 µs (191.9 µs to 193.3 µs), correct",
        "gap          1.50×, 67 % of the speed of light",
        "score        0.55; the reference (205 µs) scores 0.5",
        "128 µs  137 GFLOP at 1070 TFLOP/s ◄",
        "30.0 µs  101 MB at 3.352 TB/s\n",
        "roofline 128 µs · hard 30.0 µs · datasheet 139 µs",
        "matmul_kernel  grid 1024 · 8 warps · 3 stages",
        "168 registers · no spills · 96 KiB shared · tensor cores",
        "occupancy 25 % (limit: shared) · 3.88 waves",
        "cupti, cold L2 (reading a 256 MB buffer)",
        "largest error 0.0625",
        "precision    tolerance: bf16 as bf16",
        "assumed      Inputs come from DRAM once.",
        "next         Neither",
    ):
        assert fact in text


def test_the_modelled_time_and_what_the_gap_is_made_of(make):
    text = " ".join(page(make.report(make.explained())).split())
    for fact in (
        "modelled 168 µs matmul_kernel: tensor.bf16 141 µs, l2 91.2 µs, latency 31.7 µs",
        "made of 1.03× tail: 3.88 waves fill 97 % of their slots",
        "1.20× extra traffic: w is read with 50 % of each sector used",
        "0.99× output in L2",
    ):
        assert fact in text
    assert "made of" not in page(make.report())
    assert "modelled" not in page(make.report())


def test_a_factor_that_costs_nothing_is_no_line(make):
    gap = make.gap()
    idle = replace(gap.factors[0], factor=1.004)
    text = page(make.report(make.explained(gap=replace(gap, factors=(idle, *gap.factors[1:])))))
    assert "tail" not in text


def test_bars_are_to_scale(make):
    bars = {
        line.split()[0]: line.count("█") for line in page(make.report()).splitlines() if "█" in line
    }
    assert bars["measured"] == 24  # 80 columns leave so many cells
    assert bars["tensor.bf16"] == 16  # 24 * 0.12839 / 0.1926 = 15.999
    assert bars["dram"] == 3  # 24 * 0.03003 / 0.1926 = 3.74: three cells and six eighths


@pytest.mark.quick("60", "80")
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_every_page_fits_its_width(make, width):
    reports = [make.report(), make.reference_alone(), several(make, 3)]
    partial = Analysis(AnalysisStatus.PARTIAL, (broken(make), make.kernel()), ("A note " * 30,))
    reports.append(make.report(make.result(analysis=partial, errors=("an error " * 30,))))
    for report in reports:
        lines = (page(report, width) + page(report, width, explained=False)).splitlines()
        assert max(len(line) for line in lines) <= width
        assert [line for line in lines if line != line.rstrip()] == []


def test_narrow_pages_keep_the_numbers_and_drop_the_bars(make):
    text = page(make.report(), width=40)
    assert "█" not in text
    assert re.search(r"dram +30\.0 µs +101 MB", text)


def test_no_colour_in_a_pipe_or_where_none_is_wanted(make, monkeypatch):
    assert "\x1b" not in page(make.report())
    assert "\x1b[" in page(make.report(), force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    coloured = re.compile(r"\x1b\[[\d;]*3\d")
    assert not coloured.search(page(make.report(), force_terminal=True, color_system="standard"))


def test_an_encoding_without_the_symbols(make):
    text = page(make.report(), encoding="ascii")
    assert "SOL          128 us, limited by tensor.bf16" in text
    assert re.search(r"tensor.bf16  #{16} +128 us  137 GFLOP at 1070 TFLOP/s <", text)


def test_not_measured(make):
    text = page(make.report(make.result()))
    assert "next         Nothing was measured" in text
    assert "gap" not in text.split("next")[0]
    assert "timing" not in text


def test_reference_alone(make):
    text = page(make.reference_alone())
    assert "none: the file has only a reference" in text
    assert "launch" not in text


def test_a_launch_that_does_not_compile(make):
    analysis = Analysis(AnalysisStatus.PARTIAL, (broken(make),), ("`.item()` was taken to be 1.",))
    errors = (broken(make).error, "another error")
    text = page(make.report(make.result(analysis=analysis, errors=errors)))
    assert text.count("out of resource") == 1  # said with its launch, not again among the errors
    assert "error        another error" in text
    assert "needs more than the GPU has: out of resource: shared memory" in text
    assert "\x1b" not in text
    assert "not every launch could be analysed" in text
    assert "`.item()` was taken to be 1." in text


def test_wrong_with_errors_and_unmodelled_ops(make):
    result = make.measured(
        verdict=Verdict.WRONG,
        score=None,
        errors=("[bold]12 of 4096[/bold] differ",),
        work=make.work(unmodelled=("aten.sort", "aten.foo")),
    )
    text = page(make.report(result))
    assert "192.6 µs (191.9 µs to 193.3 µs), wrong" in text
    assert "error        [bold]12 of 4096[/bold] differ" in text
    assert "unmodelled   aten.sort, aten.foo" in text


def test_long_errors_are_cut(make):
    error = "\n".join(f"frame {n}" for n in range(40))
    text = page(make.report(make.result(errors=(error,))))
    assert "frame 11\n" in text
    assert "frame 12" not in text
    assert "and 28 more lines" in text


def test_device_notes_and_boost_clock(make):
    device = make.device(clock_kind=ClockKind.BOOST, notes=("ECC is off.",), source="nvml")
    text = page(make.report(device=device))
    assert "(boost clock) · this machine (NVML)" in text
    assert "\nECC is off.\n" in text


def test_other_ceilings_are_shown_where_known(make):
    at = replace(make.bound().at, calibrated_ms=0.15, observed_clock_ms=0.18)
    result = make.measured(
        bound=make.bound(at=at), measurement=make.measurement(sm_clock_mhz=1410.0)
    )
    text = " ".join(page(make.report(result), width=120).split())
    assert "calibrated 150 µs · at 1410 MHz 180 µs" in text


def test_the_real_run_is_held_against_the_analysis(make):
    same = make.measurement(launches=(make.kernel(occupancy=None),))  # a real run has none
    assert "real run" not in page(make.report(make.measured(measurement=same)))
    other = make.measurement(launches=(make.kernel(registers=170),))
    text = " ".join(page(make.report(make.measured(measurement=other))).split())
    assert "matmul_kernel compiled differently in the real run: 170 registers" in text
    more = make.measurement(launches=(make.kernel(), make.kernel(name="second")))
    text = " ".join(page(make.report(make.measured(measurement=more))).split())
    assert "The real run made 2 launches, not the 1 analysed." in text


def test_many_launches_are_counted(make):
    kernels = tuple(make.kernel(name=f"k{n}") for n in range(15))
    result = make.result(analysis=Analysis(AnalysisStatus.COMPLETE, kernels))
    text = page(make.report(result))
    assert "k11" in text
    assert "k12" not in text
    assert "and 3 more, all in --json" in text


# ------------------------------------------------------------------------------ the short page


def timed(make, name, time_ms, **changes):
    model = KernelModel(time_ms, (Term("dram", time_ms, "all of it"),))
    return make.kernel(name=name, model=model, **changes)


def short(report, **how):
    return page(report, explained=False, **how)


def test_the_heaviest_launches_come_first_with_their_share(make):
    kernels = (
        timed(make, "light", 0.01),
        timed(make, "often", 0.03, count=10),
        timed(make, "tiny", 0.002),
        timed(make, "heavy", 0.5),
        timed(make, "middle", 0.1),
    )
    whole = Analysis(AnalysisStatus.COMPLETE, kernels, is_whole=True)
    text = short(make.report(make.result(analysis=whole)), width=120)
    rows = [line.split()[0] for line in text.splitlines() if "mostly dram" in line]
    assert rows == ["heavy", "often", "middle"]
    # 12 of 14 calls; 0.9 of 0.912 ms
    assert "12 of 14 shown, heaviest first: 98.7 % of the modelled time" in text
    assert re.search(r"often \(10 times\)  300 µs", text)


def test_each_advice_says_what_it_would_save(make):
    (result,) = make.report(make.explained()).results
    outcome = {item.text[:40]: item for item in advice_of_rules(result, make.device())}
    again, waits = list(outcome.values())[:2]
    # 192.6 µs of a gap whose factors are 1.2 and 1.1: without one the time is divided by it
    assert (again.speedup, again.saves_ms) == pytest.approx((1.2, 0.1926 * (1 - 1 / 1.2)), rel=1e-3)
    assert (waits.speedup, waits.saves_ms) == pytest.approx((1.1, 0.1926 * (1 - 1 / 1.1)), rel=1e-3)
    assert "saves up to 32.1 µs (1.20×): " in short(make.report(make.explained()))


def test_no_advice_saves_more_than_the_speed_of_light_leaves(make):
    again = Cause("repeated reads", {"place": "a.py:7", "argument": "w", "times": 2.5})
    factors = (GapFactor("extra traffic", 3.0, "", again), GapFactor("output in L2", 0.5, ""))
    gap = make.gap(sol_ms=0.1, time_ms=0.15, factors=factors)
    (first, *_) = advice_of_rules(make.result(gap=gap), make.device())
    assert (first.speedup, first.saves_ms) == pytest.approx((1.5, 0.05))


def test_the_forecast_stands_before_the_model(make):
    gap = make.gap(measured=False, time_ms=0.25678)
    forecast = Forecast(0.19259, 0.16, 0.22, 0.0, False)
    text = short(make.report(make.result(gap=gap, forecast=forecast)), width=100)
    assert (
        "expected     193 µs (160 to 220 µs) by the surrogate; 257 µs by the kernel model" in text
    )
    assert "gap          1.50×, 2.00× by the model; mostly " in text
    doubted = replace(forecast, time_ms=0.25678, abstains=True)
    text = short(make.report(make.result(gap=gap, forecast=doubted)), width=100)
    assert "expected     257 µs by the kernel model; the surrogate does not trust itself" in text
    assert "gap          2.00× by the model" in text


def test_the_short_page_answers_in_some_ten_lines(make):
    gap = make.gap(measured=False, time_ms=0.25678)
    report = make.report(make.result(gap=gap, forecast=Forecast(0.2, 0.16, 0.22, 0.0, False)))
    text = short(report)
    lines = [line for line in text.partition("─\n")[2].splitlines() if line]
    assert 5 <= len(lines) <= 12
    for detail in ("precision", "assumed", "roofline", "█", "registers"):
        assert detail not in text
        assert detail in page(report)
    assert "--explain" in text


def test_the_occupancy_is_what_the_grid_can_fill(make):
    def occupancy_line(blocks):
        kernel = make.kernel(
            grid=(blocks, 1, 1),
            fraction=1.0,
            limiter="warps",
            blocks_per_sm=16,
            waves=blocks / (16 * 132),
        )
        analysis = Analysis(AnalysisStatus.COMPLETE, (kernel,))
        return " ".join(page(make.report(make.result(analysis=analysis)), width=120).split())

    assert "occupancy 6 % (1 block for 132 SMs)" in occupancy_line(1)  # one of sixteen
    assert "occupancy 12 % (limit: the grid, 2 blocks an SM of 16 that fit)" in occupancy_line(200)
    assert "occupancy 100 % (limit: warps) · 1 wave" in occupancy_line(16 * 132)
    assert "0.0" not in occupancy_line(1).split("grid 1")[1].split("next")[0]


def test_resources_that_take_next_to_nothing_have_no_bar(make):
    bound = make.bound()
    tiny = replace(bound.resources[1], name="sfu", time_ms=0.9e-3 * bound.time_ms)
    more = replace(bound, resources=(*bound.resources, tiny))
    text = page(make.report(make.result(bound=more)))
    assert "sfu" not in text.split("bounds")[0]


def test_few_shapes_are_all_shown_after_a_table(make):
    text = page(several(make, 3))
    assert re.search(r"M=2048 +128 µs +193 µs +3\.00× +0\.50 +tensor\.bf16 +correct", text)
    assert len(re.findall("N=4096", text)) == 3  # not in the table: the same in every row
    assert text.count("limited by tensor.bf16") == 3
    assert text.count("Inputs come from DRAM once.") == 1  # the others assume the same


def test_of_many_shapes_the_worst_is_shown(make):
    report = several(make, 5)
    text = page(report)
    assert text.count("limited by tensor.bf16") == 1
    assert "M=5120 N=4096 K=4096 dtype=bfloat16  BLOCK_M=128" in text
    assert "--verbose shows all" in text
    assert page(report, details=True).count("limited by tensor.bf16") == 5


def test_the_worst_failed_or_scores_lowest(make):
    good = make.measured(score=Score(1.2, None, 0.9, 0.8))
    poor = make.measured(score=Score(3.0, None, 0.2, 0.3))
    wrong = make.measured(verdict=Verdict.WRONG, score=None)
    unknown = make.result()
    assert worst_result([good, poor, unknown]) is poor
    assert worst_result([good, poor, wrong]) is wrong
    assert worst_result([unknown, make.result()]) is unknown


def test_a_problem_with_no_sizes_and_no_work(make):
    nothing = make.bound(resources=(), time_ms=0.0, limiter="none")
    text = page(make.report(make.result(shape={}, params={}, bound=nothing)))
    assert "the file's own inputs" in text


@pytest.mark.parametrize(
    ("verdict", "label"),
    [
        (Verdict.CHEATING, "evidence"),
        (Verdict.UNSTABLE, "evidence"),
        (Verdict.CRASHED, "error"),
        (Verdict.CORRECT, "note"),
    ],
)
def test_what_goes_with_a_verdict_is_shown(make, verdict, label):
    text = page(make.report(make.measured(verdict=verdict, errors=("Seen by the referee.",))))
    assert verdict.value in text
    assert f"{label:<12} Seen by the referee." in text


def operator(make, **changes):
    """A clone that PyTorch makes."""
    launch = Launch("aten.clone", (0, 0, 0), 0, 0, library=True, line="matmul.py:31", **changes)
    demand = make.demand(dram_read_bytes=67_100_000, dram_write_bytes=67_100_000)
    facts = Facts(launch)
    return KernelAnalysis(facts, demand=demand, model=make.model())


def test_operators_of_pytorch_are_among_the_launches(make):
    kernels = (operator(make, count=3), make.kernel())
    analysis = Analysis(AnalysisStatus.COMPLETE, kernels, is_whole=True)
    text = page(make.report(make.result(analysis=analysis)), width=100)
    results = (
        "aten.clone  PyTorch's operator · matmul.py:31 · 3 times · 67.1 MB read, 67.1 MB written"
    )
    assert results in text
    assert "The real run" not in text


def test_operators_are_no_difference_from_the_real_run(make):
    measured = make.measured()
    kernels = (operator(make), *measured.measurement.launches)
    analysis = Analysis(AnalysisStatus.COMPLETE, kernels, is_whole=True)
    text = page(make.report(replace(measured, analysis=analysis)), width=100)
    assert "The real run made" not in text


def test_a_part_of_the_launches_is_no_modelled_time_of_all(make):
    analysis = Analysis(AnalysisStatus.PARTIAL, (make.kernel(),))
    gap = make.gap(measured=False)
    text = page(make.report(make.result(analysis=analysis, gap=gap)), width=120)
    assert "for the launches that are known" in text
    assert re.search(r"\bgap +at least \d", text)


def test_bytes_of_all_launches_stand_beside_those_that_are_needed(make):
    kernels = (operator(make, count=2), operator(make))
    analysis = Analysis(AnalysisStatus.COMPLETE, kernels, is_whole=True)
    result = make.result(analysis=analysis)
    text = page(make.report(result), width=120)
    needed = units.amount(result.work.dram_read_bytes, "B")
    assert f"bytes        201 MB read ({needed} needed), 201 MB written" in text


def test_an_output_that_is_written_in_part_comes_first(make):
    written = (OutputBytes(4_000_000, 4_000_000), OutputBytes(4_000_000, 1_000_000))
    analysis = Analysis(AnalysisStatus.COMPLETE, (make.kernel(),), is_whole=True, written=written)
    text = page(make.report(make.result(analysis=analysis)), width=120)
    assert "next         Output 1 is written in part, at most 1.00 MB of 4.00 MB" in text


def test_an_input_that_the_problem_needs_and_nothing_reads_comes_first(make):
    analysis = Analysis(AnalysisStatus.COMPLETE, (make.kernel(),), is_whole=True, unread=(0, 1))
    result = make.result(analysis=analysis)
    work = replace(result.work, needs=(InputNeed(1, "mask", 8_000_000),))  # 0 is not needed
    text = page(make.report(replace(result, work=work)), width=120)
    results = "Nothing that is launched reads mask, of which the reference reads 8.00 MB"
    assert f"next         {results}" in text
    assert text.count("Nothing that is launched") == 1


def test_an_access_outside_of_its_tensor_comes_first_and_once(make):
    kernel = make.kernel(demand=make.demand(), model=make.model())
    first = replace(kernel.demand.accesses[0], outside_bytes=1780, line="k.py:7", argument="x")
    demand = replace(kernel.demand, accesses=(first, *kernel.demand.accesses[1:]))
    analysis = Analysis(AnalysisStatus.COMPLETE, (replace(kernel, demand=demand),) * 2)
    text = page(make.report(make.result(analysis=analysis)), width=120)
    assert "next         k.py:7: this load reaches 1,780 bytes outside of the memory of x" in text
    assert text.count("1,780 bytes") == 1


def test_registers_of_other_kinds_and_scratch_are_named():
    facts = Facts(
        Launch("k", (1, 1, 1), 4, 2), registers=206, spills=0, shared_bytes=0,
        accumulation_registers=64, scalar_registers=32, scratch_bytes=48,
    )  # fmt: skip
    words = compiled_words(KernelAnalysis(facts))
    assert words[0] == "206 registers (64 for accumulation, 32 scalar besides)"
    assert "48 B scratch per thread" in words
