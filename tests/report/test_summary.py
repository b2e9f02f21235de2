import io
from dataclasses import replace

from rich.console import Console

from solkit.core import FailedShape, Verdict
from solkit.report import schema, summary
from solkit.report.overview import named


def page(*reports, width=110, details=False, files=("a.json", "b.json")):
    console = Console(file=io.StringIO(), width=width)
    models = [schema.to_model(report) for report in reports]
    summary.render(named(models, files), console, details=details)
    return console.file.getvalue()


def test_one_report_says_what_it_holds(make):
    text = page(make.report(make.explained(), failed=(FailedShape({"M": 7}, "too small"),)))
    for result in (
        "matmul  examples/matmul.py · native", "NVIDIA H100 80GB HBM3",
        "128 µs    168 µs    168 µs    193 µs",
        "1.50×", "0.55", "correct", "BLOCK_M=128", "1.20× extra traffic: w is read", "grid 1024",
        "168 registers", "modelled 168 µs", "M=7: too small",
    ):  # fmt: skip
        assert result in text, result
    assert "worst first" not in text
    assert "compared" not in text


def test_what_is_not_known_is_a_dash(make):
    text = page(make.reference_alone())
    assert "None" not in text
    assert "not measured" in text


def test_many_shapes_show_the_worst_unless_all_are_asked_for(make):
    shapes = [make.measured(shape={"M": m}) for m in range(4)]
    shapes[2] = make.measured(shape={"M": 2}, measurement=make.measurement(median_ms=0.9))
    short, long = (page(make.report(*shapes), details=details) for details in (False, True))
    assert [f"M={m}  BLOCK_M=128 ─" in short for m in range(4)] == [False, False, True, False]
    assert all(f"M={m}  BLOCK_M=128 ─" in long for m in range(4))


def test_two_reports_are_ranked_and_compared(make):
    quick = make.measured(
        measurement=make.measurement(median_ms=0.15, low_ms=0.149, high_ms=0.151),
        params={"BLOCK_M": 64},
    )
    text = page(make.report(quick), make.report(make.measured()))
    ranked = text[text.index("worst first") : text.index("compared at")]
    assert ranked.index("matmul (b.json)") < ranked.index("matmul (a.json)")
    assert "+64.2 µs" in ranked  # 0.1926 - 0.12839 ms
    compared = text[text.index("compared at") :]
    assert "1.28×  slower" in compared  # 0.1926 / 0.15
    assert "parameters: BLOCK_M=64 → BLOCK_M=128" in compared


def test_a_failure_is_told(make):
    wrong = make.measured(verdict=Verdict.WRONG, score=None, errors=("differs at [3, 5]",))
    text = page(make.report(wrong), replace(make.report(make.measured())))
    assert "differs at [3, 5]" in text
    assert "no time to compare" in text


def test_it_fits_a_narrow_terminal(make):
    text = page(make.report(make.explained()), make.report(make.explained()), width=60)
    assert max(map(len, text.splitlines())) <= 60
