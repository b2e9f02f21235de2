"""The gate of a search at shapes that are large for the GPU's memory."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from solkit.core import Configuration, Difference, EvolveSettings, Final, Ratio, Variant, Verdict
from solkit.errors import InputError, MemoryLimitError
from solkit.measure.memory_needs import least_memory_bytes
from solkit.pipeline.comparing import _compare_prepared
from solkit.pipeline.evolving import _Run
from solkit.pipeline.kernel_evaluator import KernelEvaluator, Original
from solkit.roofline.devices import find

GPU = replace(find("h200"), memory_bytes=140 * 10**9)
HERE = {"M": 4096, "N": 1024}
FASTER = Ratio(0.5, 0.49, 0.51, 0.001, 9)


def gate(*held_out, free=10**18, bytes_per_element=4):
    """The gate's answer, its notes, and the shapes that both were timed at.

    Inputs have M × N elements, outputs are small; more than `free` bytes of inputs do not fit.
    """
    timed = []

    def analysed(configuration, *_):
        size = configuration.shape["M"] * configuration.shape["N"] * bytes_per_element
        work = SimpleNamespace(dram_read_bytes=size, dram_write_bytes=0)
        return configuration, SimpleNamespace(result=SimpleNamespace(work=work))

    def judge(base, rival):
        timed.append(base.shape)
        size = base.shape["M"] * base.shape["N"] * bytes_per_element
        if base.shape != HERE and size > free:
            raise MemoryLimitError("inputs of 70.0 GB need at least 140.0 GB")
        return Final(rival.params, Difference.FASTER, FASTER, "guarded")

    problem = SimpleNamespace(sizes=HERE, shapes=[HERE], held_out_shapes=held_out)
    file = SimpleNamespace(problem=problem, candidate=SimpleNamespace(name="kernel"))
    original = Original("k.py", "k.py", file, HERE, {}, Variant("id", ""))
    prepared = SimpleNamespace(analysed=analysed)
    world = KernelEvaluator(prepared, GPU, original, EvolveSettings(), None)
    world.close()
    run = _Run(world, original, 20.0, EvolveSettings(), lambda _: None)
    base = original.configuration
    return run._judge_at_gate(judge, base, replace(base, params={"B": 2})), run.notes, timed


def test_a_held_out_shape_that_fits_is_judged_as_it_is():
    result, notes, timed = gate({"M": 8192, "N": 1024})
    assert (result.passed, notes) == (True, [])
    assert timed == [HERE, {"M": 8192, "N": 1024}]


def test_one_that_surely_does_not_fit_is_scaled_down_before_anything_runs():
    result, notes, timed = gate({"M": 1 << 17, "N": 1 << 18})  # 137 GB, twice
    (held,) = result.held_out
    assert held.shape == {"M": 1 << 15, "N": 1 << 16}  # 9 GB: an eighth of the memory is 17.5
    assert timed == [HERE, held.shape]
    assert result.passed
    (note,) = notes
    assert "M=131072, N=262144 does not fit into the GPU's memory" in note
    assert note.endswith("it met M=32768, N=65536 instead.")


def test_one_that_runs_out_of_memory_is_scaled_down():
    result, notes, timed = gate({"M": 1 << 17, "N": 1 << 16}, free=20 * 10**9)
    assert [item["M"] * item["N"] for item in timed[1:]] == [1 << 33, 1 << 31]
    assert (result.passed, len(notes)) == (True, 1)


def test_one_that_cannot_be_scaled_is_left_out_and_that_is_said():
    result, notes, timed = gate({"M": 300, "N": 200}, free=40_000 * 4)
    assert (result.passed, result.held_out, result.single_shape) == (True, (), True)
    assert notes == ["Held out M=300, N=200 does not fit into the GPU's memory: it was left out."]
    assert timed[1:] == [{"M": 300, "N": 200}]


def test_it_is_not_scaled_to_the_shape_of_the_search():
    result, _, timed = gate({"M": 8192, "N": 1024}, free=4 * 4096 * 1024)
    assert timed == [HERE, {"M": 8192, "N": 1024}]
    assert result.held_out == ()


def test_the_memory_of_a_comparison():
    """Inputs twice; outputs: the correct ones, two that are worked with, passed on and judged."""
    assert least_memory_bytes(10, 1) == 25
    assert least_memory_bytes(10, 1, candidates=2) == 26


@pytest.mark.parametrize("place", [0, 1])
def test_a_lack_of_memory_is_the_problems_where_the_base_meets_it(place):
    """A candidate that takes it all is not excused."""
    both = [Configuration(f"{n}.py", "kernel", HERE, {}) for n in range(2)]
    shortage = MemoryLimitError("inputs of 70.0 GB")
    verdicts = [Verdict.NOT_MEASURED if n == place else Verdict.CORRECT for n in range(2)]
    results = [SimpleNamespace(verdict=item, message=str(shortage)) for item in verdicts]
    bench = SimpleNamespace(
        submit=lambda _: None,
        outcomes=lambda: zip(both, results, strict=True),
        error_of=lambda one: shortage if one is both[place] else None,
    )
    with pytest.raises(MemoryLimitError if place == 0 else InputError, match=r"70\.0 GB"):
        list(_compare_prepared(bench, [(one, None) for one in both]))
