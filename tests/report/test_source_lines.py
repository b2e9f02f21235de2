"""What each source line costs; sums by hand from the reports of conftest."""

from dataclasses import replace

import pytest

from solkit.core import InstructionMix, KernelModel, SharedAccess, Term
from solkit.report import schema, source_lines
from solkit.report.sources import Source


def source(text="\n" * 120, path="examples/matmul.py"):
    return Source(path=path, sha256="0", text=text)


def test_costs_stand_beside_their_lines(make):
    model = schema.to_model(make.report(make.explained()))
    costs = {line.number: line.costs for line in source_lines.lines(source(), model) if line.costs}
    assert set(costs) == {29, 76, 77, 86}
    (reference,), (w,) = costs[29], costs[77]
    assert [(t.resource, t.share) for t in reference.taken] == [("tensor.bf16", 1.0)]
    assert (w.moved[0].argument, w.sector_bytes, w.moved[0].efficiency) == ("w_ptr", 2**30, 0.5)
    assert w.share == pytest.approx(2**25 / (2**24 + 2**25 + 2**20))


def test_instructions_of_a_line(make):
    mix = InstructionMix((), 0, {"/x/examples/matmul.py:81": 40, "/lib/standard.py:81": 7})
    kernels = (make.kernel(instructions=mix), make.kernel(instructions=mix))
    analysis = replace(make.result().analysis, kernels=kernels)
    model = schema.to_model(make.report(make.result(analysis=analysis)))
    (line,) = (line for line in source_lines.lines(source(), model) if line.costs)
    assert (line.number, line.costs[0].instructions, line.is_told) == (81, 80, False)


def test_lines_of_another_file_are_not_mixed_up(make):
    model = schema.to_model(make.report(make.explained()))
    for path in ("examples/softmax.py", "other/matmul.py"):
        assert not [line for line in source_lines.lines(source(path=path), model) if line.costs]


def test_repeated_launches_and_accesses_of_a_line_add_up(make):
    access = make.demand().accesses[0]
    kernel = make.kernel(count=3, demand=make.demand(accesses=(access, access)))
    analysis = replace(make.result().analysis, kernels=(kernel,))
    model = schema.to_model(make.report(make.result(analysis=analysis)))
    (line,) = (line for line in source_lines.lines(source(), model) if line.costs)
    assert line.costs[0].moved[0].sectors == 6 * 2**24


def times_of(make, terms, sources=(), **changes):
    """Modelled times by place of one launch with these terms, in ms."""
    modelled = KernelModel(
        sum(terms.values()), tuple(Term(name, time_ms, "") for name, time_ms in terms.items())
    )
    kernel = make.kernel(**{"demand": make.demand(), "model": modelled, **changes})
    analysis = replace(make.result().analysis, kernels=(kernel,))
    (result,) = schema.to_model(make.report(make.result(analysis=analysis))).results
    return source_lines.modelled_times(result, sources)


def test_cache_time_follows_the_sectors_of_each_line(make):
    times = times_of(make, {"l1": 0.049, "launch": 0.001})  # sectors: 2^24, 2^25 and 2^20
    assert times == {
        "examples/matmul.py:76": pytest.approx(0.016),
        "examples/matmul.py:77": pytest.approx(0.032),
        "examples/matmul.py:86": pytest.approx(0.001),
        "launch": 0.001,
    }


def test_dram_time_follows_the_distinct_bytes_however_often_they_are_requested(make):
    assert times_of(make, {"dram": 0.3}) == {
        f"examples/matmul.py:{line}": pytest.approx(0.1) for line in (76, 77, 86)
    }


def test_latency_belongs_to_loads(make):
    times = times_of(make, {"latency": 0.3})  # as many requests for x as for w
    assert times == {f"examples/matmul.py:{line}": pytest.approx(0.15) for line in (76, 77)}


def test_instructions_and_products_have_their_own_lines(make):
    mix = InstructionMix((), 0, {"/x/matmul.py:3": 30, "/x/matmul.py:4": 10, "/l/other.py:4": 60})
    text = "\n\na = b * c\nacc = tl.dot(x, w, acc)\n"
    times = times_of(
        make, {"tensor.bf16": 0.5, "issue": 0.1}, [source(text)], instructions=mix, demand=None
    )
    assert times == {
        "/x/matmul.py:3": pytest.approx(0.03),
        "/x/matmul.py:4": pytest.approx(0.51),
        "/l/other.py:4": pytest.approx(0.06),
    }


def test_shared_memory_time_follows_the_wavefronts(make):
    loads = SharedAccess("load", "a.py:1", 1000, 3000, 1000)
    stores = SharedAccess("store", "a.py:2", 1000, 1000, 1000)
    times = times_of(make, {"shared": 0.4}, demand=make.demand(shared=(loads, stores)))
    assert times == {"a.py:1": pytest.approx(0.3), "a.py:2": pytest.approx(0.1)}


def test_what_no_line_accounts_for_keeps_its_name(make):
    times = times_of(make, {"tensor.bf16": 0.5, "dispatch": 0.1, "launch": 0.001})
    assert times == pytest.approx({"tensor.bf16": 0.5, "dispatch": 0.1, "launch": 0.001})


def test_hidden_terms_share_what_the_longest_leaves(make):
    """Of 168 µs tensor cores take 141.2 and the launch 1.1; 25.7 go to the other two by length."""
    kernel = make.kernel(count=2, demand=None, model=make.model())
    analysis = replace(make.result().analysis, kernels=(kernel,))
    (result,) = schema.to_model(make.report(make.result(analysis=analysis))).results
    assert source_lines.modelled_times(result, []) == pytest.approx(
        {
            "tensor.bf16": 2 * 0.1412,
            "launch": 2 * 0.0011,
            "l2": 2 * 0.0257 * 0.0912 / 0.1229,
            "latency": 2 * 0.0257 * 0.0317 / 0.1229,
        }
    )


def test_a_line_of_the_page_has_its_modelled_time(make):
    model = schema.to_model(make.report(make.explained()))
    costs = {line.number: line.costs for line in source_lines.lines(source(), model) if line.costs}
    times = source_lines.modelled_times(model.results[0], model.sources)
    assert costs[77][0].time_ms == times["examples/matmul.py:77"] >= costs[76][0].time_ms > 0
