import io
from dataclasses import replace

import pytest
from rich.console import Console

from solkit.core import FailedShape, KernelModel, Term
from solkit.report import schema, watch
from solkit.report.sources import Source

LINES = [f"line {i}" for i in range(1, 100)]
TEXT = "\n".join(LINES)


def launched(make, l1_ms, **changes):
    """One shape with one launch, whose modelled time is all L1's."""
    model = KernelModel(l1_ms, (Term("l1", l1_ms, ""),))
    kernel = make.kernel(demand=make.demand(), model=model, **changes)
    return make.result(analysis=replace(make.result().analysis, kernels=(kernel,)))


def saved(make, *results, text=TEXT, **changes):
    """A report of a kernel file that holds this text."""
    report = schema.to_model(make.report(*results, **changes))
    source = Source(path="examples/matmul.py", sha256=text, text=text)
    return report.model_copy(update={"sources": [source]})


def page(before, after, width=100):
    out = io.StringIO()
    watch.render(before, after, Console(file=out, width=width))
    return out.getvalue().splitlines()


def row(lines, start):
    return next(line.split() for line in lines if line.startswith(start))


def test_times_and_facts_that_changed(make):
    before = saved(make, launched(make, 0.2))
    after = saved(make, launched(make, 0.3, num_warps=4, registers=255))
    shown = page(before, after)
    assert "200 µs → 300 µs" in "\n".join(shown)
    assert "1.56× → 2.34×" in "\n".join(shown)  # over the roofline of 128.39 µs
    assert row(shown, "changed") == ["changed", "warps:", "8", "→", "4"]
    assert "            registers: 168 → 255" in shown
    assert not [line for line in shown if "occupancy" in line]


def test_a_save_that_changes_nothing_says_so(make):
    report = saved(make, launched(make, 0.2))
    shown = page(report, saved(make, launched(make, 0.2), text=f"{TEXT}  # the last"))
    assert "changed     nothing but the source" in shown
    assert not [line for line in shown if "→" in line]


def test_the_gpu_judges_a_measured_change(make):
    faster = make.measurement(median_ms=0.15, low_ms=0.149, high_ms=0.151)
    shown = page(saved(make, make.measured()), saved(make, make.measured(measurement=faster)))
    assert "changed     measured: faster" in shown
    assert "193 µs → 150 µs" in "\n".join(shown)


def test_advice_that_was_given_before_is_not_repeated(make):
    before = saved(make, launched(make, 0.2))
    worse = launched(make, 0.2, error="ptxas: out of registers")
    assert not [line for line in page(before, before) if line.startswith("next")]
    assert [line for line in page(before, saved(make, worse)) if line.startswith("next")]


def test_a_change_at_some_shapes_names_them(make):
    small = replace(launched(make, 0.1), shape={"M": 64})
    before = saved(make, launched(make, 0.2), small)
    after = saved(make, launched(make, 0.2, registers=90), small)
    (line,) = (line for line in page(before, after) if "registers" in line)
    assert line.startswith("changed     M=4096")
    assert "M=64" not in line
    assert line.endswith("registers: 168 → 90")


def test_shapes_that_failed_are_named(make):
    before = saved(make, launched(make, 0.2))
    after = saved(make, launched(make, 0.2), failed=(FailedShape({"M": 7}, "M must be even"),))
    assert "M=7: M must be even" in page(before, after)


@pytest.mark.parametrize(
    ("edit", "moved_to"),
    [
        (lambda lines: lines, 77),
        (lambda lines: ["# new", *lines], 78),
        (lambda lines: lines[2:], 75),
        (lambda lines: [*lines[:76], "edited", *lines[77:]], 77),
    ],
)
def test_times_follow_their_lines_through_an_edit(make, edit, moved_to):
    """49 ms go to lines 76, 77 and 86 as 16, 32 and 1, and later, of 98, as 32, 64 and 2."""
    demand = make.demand()
    shift = moved_to - 77
    moved = [
        replace(a, line=f"examples/matmul.py:{int(a.line[-2:]) + shift}") for a in demand.accesses
    ]
    later = make.kernel(
        demand=replace(demand, accesses=tuple(moved)),
        model=KernelModel(98.0, (Term("l1", 98.0, ""),)),
    )
    result = make.result(analysis=replace(make.result().analysis, kernels=(later,)))
    text = "\n".join(edit(LINES))
    shown = page(saved(make, launched(make, 49.0), text=TEXT), saved(make, result, text=text))
    start = shown.index("modelled time by line at M=4096 N=4096 K=4096 dtype=bfloat16")
    code = text.splitlines()[moved_to - 1]
    first, second, third = (line.split() for line in shown[start + 1 : start + 4])
    assert first == f"32.0 ms → 64.0 ms matmul.py:{moved_to} {code}".split()
    assert second[:5] == "16.0 ms → 32.0 ms".split()
    assert third[:5] == "1.00 ms → 2.00 ms".split()


def test_a_line_that_is_new_is_marked(make):
    before = saved(make, launched(make, 49.0), text=TEXT)
    after = saved(make, launched(make, 49.0), text="\n".join([*LINES[:75], *["x"] * 9, *LINES]))
    assert [line for line in page(before, after) if "new → 32.0 ms" in line]


def test_the_first_page_has_times_without_a_past(make):
    out = io.StringIO()
    watch.render_lines(saved(make, launched(make, 49.0)), Console(file=out, width=60))
    assert "32.0 ms  matmul.py:77" in out.getvalue()
    assert "→" not in out.getvalue()
