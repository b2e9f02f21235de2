"""What stands in the page, read as a browser's parser reads it. Needs no browser."""

import base64
import gzip
import json
import re
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser

import pytest

from solkit.core import (
    Analysis,
    AnalysisStatus,
    Cause,
    Counters,
    Facts,
    FailedShape,
    Forecast,
    KernelAnalysis,
    Launch,
    SharedAccess,
    Verdict,
)
from solkit.report import schema
from solkit.report.html import _plotly
from solkit.report.overview import named
from solkit.report.palette import LIGHT
from solkit.report.sources import Source

pytest.importorskip("jinja2", reason="the pages need solkit[report]")
pytest.importorskip("plotly", reason="the pages need solkit[report]")

from solkit.report import charts
from solkit.report.html import Failure, page

NOW = datetime(2026, 11, 21, 19, tzinfo=timezone.utc)
VOID = {"meta", "link", "br", "input", "img", "hr"}
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{7*7}}"


class Parsed(HTMLParser):
    """Elements in order, the text of each script, and tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.mismatched = [], [], []
        self.scripts, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.mismatched.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif not self.open or self.open[-1] != "style":
            self.text += data

    @property
    def words(self):
        return " ".join(self.text.split())


def parsed(*reports, failures=()):
    """The page of reports that hold no source: what the lines say is looked at apart."""
    models = [schema.to_model(r).model_copy(update={"sources": []}) for r in reports]
    return Parsed(opened(page(named(models), failures=failures, written=NOW)))


def opened(text):
    """The page with every kernel unpacked."""
    packed = r'(</summary>\s*)<script type="application/gzip">([\w+/=]+)</script>'
    return re.sub(packed, lambda match: match[1] + unpacked(match[2]), text)


def unpacked(text):
    return gzip.decompress(base64.b64decode(text)).decode()


def other(make, name, *results):
    report = make.report(*results)
    candidate = replace(report.kernel.candidate, path=f"{name}.py")
    return replace(report, kernel=replace(report.kernel, candidate=candidate))


@pytest.mark.slow
def test_the_page_says_all_that_is_known(make):
    words = parsed(make.report(make.explained())).words
    for text in (
        "matmul", "NVIDIA H100 80GB HBM3", "M=4096 N=4096 K=4096 dtype=bfloat16", "128 µs",
        "168 µs", "193 µs", "191.9 µs to 193.3 µs", "1.50×", "correct", "limited by tensor.bf16",
        "w is read with 50 % of each sector used", "w is read 2.5 times: use larger tiles",
        "1.9 µs a step",
        "4.19 M wavefronts", "largest error 0.0625", "1721 MHz", "triton3.7.1",
        "cupti, cold protocol", "reading a 256 MB buffer", "Inputs come from DRAM once.",
    ):  # fmt: skip
        assert text in words, text


def test_the_page_says_what_is_expected_and_what_advice_saves(make):
    gap = replace(make.explained().gap, sol_ms=0.1, time_ms=0.15, measured=False)
    forecast = Forecast(0.14, 0.13, 0.16, 0.0, False)
    result = replace(make.result(), gap=gap, forecast=forecast)
    words = parsed(make.report(result)).words
    assert "Expected140 µs130 µs to 160 µs, by the surrogate" in words
    assert "Gap (expected)1.09×91.7 % of the speed of light" in words  # 140 µs over 128.39 µs
    assert "As written (modelled)150 µs" in words
    assert "1.09× SOL (expected)" in words
    assert "Saves up to" in words
    doubtful = parsed(make.report(replace(result, forecast=replace(forecast, abstains=True))))
    assert "by the surrogate" not in doubtful.words


@pytest.mark.parametrize("kind", ["measured", "result"])
def test_what_is_not_known_leaves_no_trace(make, kind):
    words = parsed(make.report(getattr(make, kind)())).words
    assert "None" not in words
    assert "factor by factor" not in words
    assert "as written" not in words.lower().replace("as written (modelled)", "")


def test_a_reference_alone_and_failed_shapes(make):
    report = replace(make.reference_alone(), failed=(FailedShape({"M": 7}, "too small"),))
    words = parsed(report).words
    assert "M=7: too small" in words
    assert "None" not in words


def test_errors_of_a_candidate_and_of_a_launch(make):
    broken = make.kernel(
        registers=None, spills=None, shared_bytes=None, occupancy=None, tensor_cores=None,
        error="out of resource: shared memory",
    )  # fmt: skip
    analysis = replace(make.result().analysis, kernels=(broken,))
    result = make.result(
        verdict=Verdict.DOES_NOT_COMPILE, analysis=analysis, errors=("first line\n  second",)
    )
    words = parsed(make.report(result)).words
    assert "out of resource: shared memory" in words
    assert "Error first line second" in words
    unstable = make.measured(verdict=Verdict.UNSTABLE, errors=("somebody else's process",))
    assert "Evidence somebody else's process" in parsed(make.report(unstable)).words


def test_elements_are_closed_and_identifiers_unique(make):
    reports = (make.report(make.explained(), make.result(shape={"M": 1})), other(make, "second"))
    results = parsed(*reports, failures=[Failure("bad.py", "no reference")])
    assert results.mismatched == []
    assert results.open == []
    ids = [attributes["id"] for _, attributes in results.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a["href"][1:] for t, a in results.elements if t == "a" and "href" in a}
    assert links <= set(ids)


def test_nothing_comes_from_elsewhere(make):
    result = parsed(make.report(make.explained()))
    for _, attributes in result.elements:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    (policy,) = (a["content"] for t, a in result.elements if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "unsafe-eval" not in policy


def test_what_a_file_says_is_text(make):
    """A name, an error, a shape, a source line and a factor that try to be HTML or a script."""
    kernel = make.kernel(
        name=NASTY, demand=make.demand(guesses=(NASTY,)), model=make.model(), error=None
    )
    gap = make.gap()
    cause = Cause("launches", {"kernel": NASTY, "count": 2})
    first = replace(gap.factors[0], name=NASTY, evidence=NASTY, cause=cause)
    result = make.explained(
        shape={"M": NASTY},
        params={NASTY: NASTY},
        errors=(NASTY,),
        analysis=replace(make.result().analysis, kernels=(kernel,), notes=(NASTY,)),
        gap=replace(gap, factors=(first, *gap.factors[1:])),
    )
    report = make.report(result, environment={NASTY: NASTY})
    model = schema.to_model(report)
    model = model.model_copy(
        update={
            "sources": [Source(path=NASTY, sha256="0", text=NASTY)],
            "kernel": model.kernel.model_copy(update={"name": NASTY, "path": NASTY}),
        }
    )
    text = page(named([model, model]), failures=[Failure(NASTY, NASTY)], written=NOW)
    results, plain = Parsed(opened(text)), parsed(make.report(make.explained()))
    assert len(results.scripts) == len(plain.scripts) == 3
    assert not [tag for tag, _ in results.elements if tag == "img"]
    assert not [a for _, a in results.elements if any(name.startswith("on") for name in a)]
    assert "{{7*7}}" in results.text
    assert results.mismatched == []
    charts_in_page = json.loads(unpacked(results.scripts[0]))
    hover = charts_in_page["k1-s1-gap"]["data"][0]["hovertext"][1]
    assert "<script" not in hover
    assert "&lt;script&gt;" in hover


def test_an_index_lists_the_worst_by_cost_first_and_links_to_it(make):
    far = make.measured(measurement=make.measurement(median_ms=0.9))
    results = parsed(
        other(make, "near", make.measured()),
        other(make, "far", far),
        other(make, "unmeasured", make.result()),
        failures=[Failure("bad.py", "bad.py:3: no reference")],
    )
    places = [results.words.index(f" {name} ") for name in ("far", "near", "unmeasured")]
    assert places == sorted(places)
    assert "cost = sum over shapes of time × (1 − SOL / time) = time − SOL" in results.words
    assert "1 file could not be reported" in results.words
    assert "bad.py:3: no reference" in results.words
    assert f"+{1e3 * (0.9 - 0.12839):.0f} µs" in results.words


def test_a_hundred_kernels_fit_in_6_mb(make):
    one = schema.to_model(make.report(*[make.explained(shape={"M": m}) for m in range(3)]))
    assert one.sources[0].text
    few, more = (len(page(named([one] * n), written=NOW).encode()) for n in (2, 7))
    item = (more - few) / 5
    assert few + 98 * item < 6e6


def test_nothing_but_failures():
    result = parsed(failures=[Failure("bad.py", "no reference")])
    assert "No kernel could be reported" in result.words
    assert "bad.pyno reference" in result.words


def test_two_runs_are_compared(make):
    quicker = make.measured(
        measurement=make.measurement(median_ms=0.15, low_ms=0.149, high_ms=0.151)
    )
    result = parsed(make.report(), make.report(quicker, environment={"torch": "2.12.0"}))
    assert "Compared" in result.words
    assert "0.78×" in result.words
    assert "faster" in result.words
    assert "torch: 2.13.0 → 2.12.0" in result.words


def test_specs_are_what_plotly_takes(make):
    graph = pytest.importorskip("plotly.graph_objects")
    report = schema.to_model(make.report(make.explained()))
    gap = charts.gap_of(report.results[0])
    for spec in (_plotly.roofline_plot(charts.roofline_of(report)), _plotly.gap_plot(gap)):
        text = re.sub(r"var\(--(\w+)\)", lambda m: LIGHT[m[1]], json.dumps(spec))
        figure = graph.Figure(json.loads(text))  # raises where a name or value is unknown
        assert len(figure.data) == len(spec["data"]) > 0


def test_bars_of_the_gap_end_at_the_time(make):
    gap = charts.gap_of(schema.to_model(make.report(make.explained())).results[0])
    bars = _plotly.gap_plot(gap)["data"][0]
    ends = [base + x for base, x in zip(bars["base"], bars["x"])]
    assert bars["y"][0] == "SOL"
    assert bars["y"][-1] == "measured"
    assert ends[-1] == pytest.approx(1.5)
    assert ends[-2] == pytest.approx(1.5)


def test_what_was_counted_stands_beside_what_was_modelled(make):
    counted = Counters(
        "matmul_kernel", (1024, 1, 1), load_sectors=0, async_sectors=3 * 2**24,
        dram_read_bytes=10 * 2**20, stalls={"long_scoreboard": 3.0, "barrier": 1.0},
        achieved_occupancy=0.21, missing=("tma",),
    )  # fmt: skip
    kernel = make.kernel(demand=make.demand(), model=make.model(), counters=counted)
    analysis = replace(make.result().analysis, kernels=(kernel,))
    words = parsed(make.report(make.result(analysis=analysis))).words
    assert "async copies 50.3 M sectors 50.3 M sectors 1.00×" in words
    assert "the model disagrees" in words  # on DRAM reads: 168 MB, not 10.5 MB
    assert "warps wait for long scoreboard 75 %, barrier 25 %" in words


def test_bank_conflicts_are_told_with_their_line(make):
    loads = SharedAccess("load", "/x/examples/matmul.py:81", 1000, 4000, 4000)
    stores = SharedAccess("store", "/x/examples/matmul.py:82", 1000, 16000, 1000)
    demand = make.demand(shared=(loads, stores), tensor_shared_bytes=2**20, barriers=65.0)
    kernel = make.kernel(demand=demand, model=make.model())
    analysis = replace(make.result().analysis, kernels=(kernel,))
    words = parsed(make.report(make.result(analysis=analysis))).words
    assert "20.0 k wavefronts, and 1.05 MB read by tensor cores" in words
    assert "matmul.py:82: 16 per store, 1 without bank conflicts" in words
    assert "per load" not in words
    assert "barriers65 a block" in words


def test_operators_of_pytorch_are_told_apart(make):
    launch = Launch("aten.clone", (0, 0, 0), 0, 0, library=True, line="matmul.py:31", count=2)
    clone = KernelAnalysis(Facts(launch), demand=make.demand(), model=make.model())
    analysis = Analysis(AnalysisStatus.COMPLETE, (clone, make.kernel()), is_whole=True)
    model = schema.to_model(make.report(make.result(analysis=analysis)))
    text = opened(page(named([model]), written=NOW))
    assert "PyTorch's operator, called at" in text.replace("&#39;", "'")
    assert "aten.clone (2 times)" in text
    assert "aten.clone by PyTorch" in text
