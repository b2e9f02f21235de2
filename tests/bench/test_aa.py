"""The A/A bench on simulated GPUs: what it runs, writes, counts and says."""

from __future__ import annotations

import ast
import inspect
import json
import math
import random
import re
from statistics import median

import aa
import aa_peers
import pytest
from rich.console import Console

import solkit
from solkit.core import Conditions
from solkit.errors import WorkerError
from solkit.measure.guarded.messages import JudgedTurns, Turns

KERNELS = aa.KERNELS[:1] + aa.KERNELS[-1:]
USUAL_MS = {"scale.py": 0.002, "fp32_matmul.py": 18.0}


class Session:
    """Compares by a simulated GPU: noise, and a gain of whoever is called second in a turn."""

    noise, second, shift, fails = 0.003, 0.0, 0.0, ()
    requests: list = []  # noqa: RUF012

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def compare(self, candidates, shape, *, settings, repeats):
        base, candidate = candidates
        assert base == candidate
        assert 2 * settings.time_limit_s > repeats * settings.turns_s
        name = base.path.rsplit("/", 1)[1]
        Session.requests.append((name, dict(shape), repeats))
        if name in self.fails:
            return JudgedTurns((), ("base: wrong",))
        generator = random.Random(len(Session.requests))
        turns = tuple(self._turns(generator, USUAL_MS[name]) for _ in range(repeats))
        protocol = solkit.core.Protocol("cupti", "cold", "read", 10, 40, 60.0, 0)
        return JudgedTurns(turns, (), protocol)

    def _turns(self, generator, usual_ms):
        orders, times = [], ([], [])
        for _ in range(40):
            order = tuple(generator.sample((0, 1), k=2))
            taken = [0.0, 0.0]
            for place, which in enumerate(order):
                scale = (1 + self.shift * which) * (1 - self.second * place)
                taken[which] = usual_ms * scale * math.exp(generator.gauss(0, self.noise))
            orders.append(order)
            for which in (0, 1):
                times[which].append(taken[which])
        return Turns(tuple(map(tuple, times)), tuple(orders), Conditions(samples=3))


def peers(spread):
    """Others' rows, whose ratios scatter by that much."""

    def by_peers(kernels, pairs, budget_s):
        assert budget_s == 0.25
        generator = random.Random(7)
        rows = []
        for kernel in kernels:
            for number in range(pairs):
                for method, width in zip(("do_bench", "events"), spread, strict=True):
                    first, second = (math.exp(generator.gauss(0, width)) for _ in range(2))
                    rows.append(
                        {
                            "kernel": kernel.name, "number": number, "method": method,
                            "medians_ms": [first, second], "means_ms": [first, 2 * second],
                            "samples": [100, 100], "seconds": 0.25,
                        }
                    )  # fmt: skip
        return rows

    return by_peers


@pytest.fixture
def bench(monkeypatch, tmp_path, capsys):
    """Run the bench on a simulated GPU: exit code, what it printed, what it wrote."""
    monkeypatch.setattr(aa, "is_available", lambda: True)
    monkeypatch.setattr(aa, "Session", Session)
    monkeypatch.setattr(aa, "by_peers", peers((0.02, 0.01)))
    monkeypatch.setattr(aa, "KERNELS", KERNELS)
    monkeypatch.setattr(Session, "requests", [])
    out = tmp_path / "aa.json"

    def bench(*options):
        code = aa.main(["--out", str(out), "--pairs", "20", *options])
        return code, capsys.readouterr().out, json.loads(out.read_text()), out

    return bench


def test_a_run_that_reaches_every_target(bench, capsys):
    code, text, document, out = bench()
    assert code == 0, text
    assert text.count("reached ") == 4
    assert "MISSED" not in text
    own = [row for row in document["rows"] if row["method"] == "solkit"]
    assert len(own) == 20
    assert Session.requests == [(k.path.rsplit("/", 1)[1], k.shape, 5) for k in KERNELS] * 2
    assert {(row["round"], row["number"]) for row in own} == {
        (r, n) for r in (0, 1) for n in range(5)
    }
    assert all(len(times) == 40 for row in own for times in row["times_ms"])
    assert (document["schema"], document["budget_s"]) == ("solkit.bench.aa/1", 0.25)
    assert aa.main(["--read", str(out)]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"noise": 0.3}, "ratios near 1"),
        ({"shift": 0.03}, "called faster or slower than itself"),
        ({"noise": 0.02}, "95th percentile over that of do_bench"),
        ({"noise": 0.02}, "95th percentile over that of events"),
    ],
)
def test_a_target_that_is_missed(bench, monkeypatch, change, missed):
    for name, value in change.items():
        monkeypatch.setattr(Session, name, value)
    if "percentile" in missed:
        monkeypatch.setattr(aa, "by_peers", peers((0.002, 0.002)))
    code, text, _, _ = bench()
    assert code == 1
    assert any(line.startswith(f"MISSED  {missed}") for line in text.splitlines())


def test_a_kernel_that_fails_costs_the_others_nothing(bench, monkeypatch):
    monkeypatch.setattr(Session, "fails", ("scale.py",))
    code, text, document, _ = bench()
    assert code == 1
    assert "failed kernels: ['scale-64Ki']" in text
    assert {"round": 0, "kernel": "scale-64Ki", "error": "base: wrong"} in document["rows"]
    assert {p.kernel for pairs in aa.pairs_of(document).values() for p in pairs} == {
        "fp32_matmul-7168"
    }


def test_an_error_of_solkits_is_a_row(bench, monkeypatch):
    def compare(*_, **__):
        raise WorkerError("gone")

    monkeypatch.setattr(Session, "compare", compare)
    code, text, document, _ = bench()
    assert code == 1
    assert "nothing was timed; failed: fp32_matmul-7168, scale-64Ki" in text
    errors = [row["error"] for row in document["rows"] if "error" in row]
    assert errors == ["WorkerError: gone"] * 4


def test_what_was_timed_is_on_disk_when_the_rest_is_cut_off(bench, monkeypatch, tmp_path):
    def cut_off(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(aa, "by_peers", cut_off)
    with pytest.raises(KeyboardInterrupt):
        bench()
    document = json.loads((tmp_path / "aa.json").read_text())
    assert len(document["rows"]) == 10
    assert aa.show(document, Console()) in (0, 1)


def test_only_some_kernels(bench):
    _, _, document, _ = bench("--only", "fp32_matmul-7168")
    assert {row["kernel"] for row in document["rows"]} == {"fp32_matmul-7168"}
    assert len([row for row in document["rows"] if row["method"] == "solkit"]) == 20


def test_no_gpu(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(aa, "is_available", lambda: False)
    assert aa.main(["--out", str(tmp_path / "aa.json")]) == 2
    assert "no GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["--out", "a", "--read", "b"], ["--out", "a", "--pairs", "0"]]
)
def test_options_that_make_no_sense(arguments):
    with pytest.raises(SystemExit):
        aa.main(arguments)


# ------------------------------------------------------------------------------------ figures


def pairs(*values, is_short=False):
    return [aa.Pair("k", is_short, value) for value in values]


def test_the_percentile_is_that_of_19_in_20():
    assert aa.percentile_95(range(1, 21)) == 19
    assert aa.percentile_95(range(1, 201)) == 190
    assert aa.percentile_95([3.0]) == 3.0


def test_short_kernels_have_more_room():
    assert [p.is_near for p in pairs(1.0069, 0.9931, 1.0071, 0.9929)] == [True, True, False, False]
    assert [p.is_near for p in pairs(1.019, 0.981, 1.021, is_short=True)] == [True, True, False]


def test_distances_are_alike_either_way():
    up, down = pairs(1.25, 0.8)
    assert up.distance == pytest.approx(down.distance) == pytest.approx(math.log(1.25))


def test_claims_are_counted_with_and_without_the_widening():
    from solkit.core import Ratio

    def shown(low, high):
        return aa.Pair("k", False, 1.0, Ratio(1.0, low, high, 0.01, 20))

    some = [shown(0.98, 1.02), shown(1.001, 1.05), shown(0.995, 1.05), shown(0.9, 0.99)]
    assert aa.claims(some) == 0.5
    assert aa.claims_of_intervals_alone(some) == 0.75  # the third is 1.005 to 1.04 without it


def test_the_bias_by_place_is_found(bench, monkeypatch):
    monkeypatch.setattr(Session, "second", 0.02)
    code, text, document, _ = bench()
    assert code == 0, text  # it averages out over turns
    assert median(p.ratio for p in aa.later(document)) == pytest.approx(0.98, rel=1e-3)
    assert re.search(r"second in a turn over first: -(1\.9|2\.0)\d+%", text)


def test_whether_a_kernel_is_short_is_told_by_its_own_times(bench):
    pairs = aa.pairs_of(bench()[2])
    assert {(p.kernel, p.is_short) for p in pairs["do_bench"]} == {
        ("scale-64Ki", True),
        ("fp32_matmul-7168", False),
    }
    assert median(p.ratio for p in pairs["events, means"]) == pytest.approx(2, rel=0.1)


# ------------------------------------------------------------------------------------- kernels


def test_there_are_20_kernels_of_sizes_that_their_files_have():
    assert len({kernel.name for kernel in aa.KERNELS}) == len(aa.KERNELS) == 20
    for kernel in aa.KERNELS:
        tree = ast.parse((aa.ROOT / kernel.path).read_text())
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {"kernel", "reference", "inputs"} <= set(functions)
        assert set(kernel.shape) <= {argument.arg for argument in functions["inputs"].args.args}


# --------------------------------------------------------------------------------------- peers


def test_do_bench_is_asked_for_all_times_in_its_usual_manner(monkeypatch):
    from triton import testing

    known_parameters = inspect.signature(testing.do_bench).parameters
    requests = {}

    def do_bench(call, **options):
        assert set(options) <= set(known_parameters)
        requests.update(options)
        return [call()]

    monkeypatch.setattr(testing, "do_bench", do_bench)
    assert aa_peers.do_bench(lambda: 3.0, 125.0) == [3.0]
    assert requests == {"warmup": 25.0, "rep": 100.0, "return_mode": "all"}
    assert (known_parameters["warmup"].default, known_parameters["rep"].default) == (25, 100)


class Event:
    """A clock that moves on with each call."""

    now = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Event.now

    def elapsed_time(self, other):
        return other.at - self.at


def test_events_time_each_call_for_as_long_as_do_bench_would(monkeypatch):
    monkeypatch.setattr("torch.cuda.Event", Event)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr(Event, "now", 0.0)

    def call():
        Event.now += 0.5

    assert aa_peers.events(call, 125.0) == [0.5] * 200
    assert Event.now == 0.5 * (1 + 5 + 50 + 200)


def test_rows_of_others(monkeypatch):
    ran = []
    monkeypatch.setattr(aa_peers, "_call", lambda path, shape: lambda: ran.append((path, shape)))
    monkeypatch.setattr("torch.cuda.empty_cache", lambda: None)

    def method(call, budget_ms):
        assert budget_ms == 125.0
        call()
        return [1.0, 2.0, 6.0]

    def broken(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(aa_peers, "METHODS", {"one": method, "two": method})
    rows = aa_peers.time_pairs([("k", "k.py", {"N": 1})], 3, 0.25)
    assert [(row["number"], row["method"]) for row in rows] == [
        (number, method) for number in range(3) for method in ("one", "two")
    ]
    assert rows[0]["medians_ms"] == [2.0, 2.0]
    assert rows[0]["means_ms"] == [3.0, 3.0]
    assert len(ran) == 12
    monkeypatch.setattr(aa_peers, "_call", broken)
    rows = aa_peers.time_pairs([("k", "k.py", {}), ("l", "l.py", {})], 3, 0.25)
    assert [row["error"] for row in rows] == ["RuntimeError: no"] * 2


@pytest.mark.slow
def test_the_process_of_the_others_starts_and_answers():
    """For real, but with nothing to time: no GPU is needed for that."""
    absent = aa.Kernel("absent", "bench/absent.py", {})
    (row,) = aa.by_peers((absent,), 1, 0.25)
    assert row["kernel"] == "absent"
    assert "absent.py" in row["error"]
