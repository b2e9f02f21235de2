"""The gate of a search at shapes that are large for the GPU's memory."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from solkit.core import (
    Analysis,
    AnalysisStatus,
    Binding,
    Configuration,
    Difference,
    EvolveSettings,
    Facts,
    Final,
    KernelAnalysis,
    Launch,
    MeasureSettings,
    Problem,
    Ratio,
    TensorLayout,
    Variant,
    Verdict,
)
from solkit.errors import InputError, MemoryLimitError
from solkit.measure.memory_needs import least_memory_bytes
from solkit.pipeline.comparing import _measure_alone
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.evolve_selection import Selection
from solkit.pipeline.evolving import _Run
from solkit.pipeline.kernel_evaluator import KernelEvaluator
from solkit.pipeline.practice import Practice
from solkit.roofline.devices import find
from solkit.tuner.evolution.population_archive import Archive

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

    problem = Problem("p", "k.py", "native", "reference", HERE, [HERE], held_out)
    file = SimpleNamespace(problem=problem, candidate=SimpleNamespace(name="kernel"))
    original = Original("k.py", "k.py", file, HERE, {}, Variant("id", ""))
    prepared = SimpleNamespace(analysed=analysed)
    world = KernelEvaluator(prepared, GPU, original, EvolveSettings(), None)
    world.close()
    world.are_same = lambda *_: False
    world.look_at_launches = lambda *_: None
    selection = Selection(world, None, Practice(world, 20.0))
    base = original.configuration
    result = selection._judge_at_gate(judge, base, replace(base, params={"B": 2}))
    return result, selection.notes, timed


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
        _measure_alone(bench, both)


# --------------------------------------------------------- winners that are slower somewhere

SLOWER = Ratio(3.0, 2.9, 3.1, 0.001, 9)
COPY = """
import triton


@triton.jit
def copy(x_ptr, n):
    pass


def kernel(x):
    copy[(8,)](x, x.numel())
"""


def searched_gate(slow_from, *held_out, wrong_at=0, wrong=("2,",)):
    """The gate of a winner that is slower from a size on, unless the original runs there.

    The fastest is also slower at shapes that have a number ``k``, which no tensor shows. Returns
    the gate, the shapes that were judged, and the source of what was judged last.
    """
    judged, sources = [], {"k.py": COPY}

    def analysed(configuration, *_):
        size = configuration.shape["M"]
        layout = TensorLayout("fp32", 4, (size,), (1,))
        launch = Launch("copy", (1, 1, 1), 4, 3, arguments={"x_ptr": Binding("", tensor=layout)})
        analysis = Analysis(AnalysisStatus.COMPLETE, (KernelAnalysis(Facts(launch)),))
        work = SimpleNamespace(dram_read_bytes=4 * size, dram_write_bytes=0, needs=())
        return configuration, SimpleNamespace(
            result=SimpleNamespace(work=work, analysis=analysis, bound=None)
        )

    def judge(_device, _limits, base, rival):
        size, text = base.shape["M"], sources[rival.path]
        judged.append((size, text))
        guard = re.search(r"if (x\.numel\(\).*):\n", text)
        is_own = guard is None or not eval(guard[1].replace("x.numel()", str(size)))
        if size == wrong_at and is_own and any(f"[({blocks})]" in text for blocks in wrong):
            return Final(rival.params, Difference.NOT_COMPARED, None, "guarded", ("Wrong.",))
        if not is_own:
            same = Ratio(1.0, 0.99, 1.01, 0.001, 9)
            return Final(rival.params, Difference.NOT_SHOWN, same, "guarded")
        slow = size >= slow_from or ("k" in base.shape and "[(2,)]" in text)
        ratio = SLOWER if slow else FASTER
        return Final(
            rival.params, Difference.SLOWER if slow else Difference.FASTER, ratio, "guarded"
        )

    def path(variant):
        sources[variant.id] = variant.source
        return variant.id

    problem = Problem("p", "k.py", "native", "reference", {}, ({"M": 1000},), tuple(held_out))
    file = SimpleNamespace(problem=problem, candidate=SimpleNamespace(name="kernel"))
    original = Original("k.py", "k.py", file, {"M": 1000}, {}, Variant("first", COPY))
    world = KernelEvaluator(
        SimpleNamespace(analysed=analysed), GPU, original, EvolveSettings(), None
    )
    world.close()
    world.path, world.are_same = path, lambda *_: False
    world.look_at_launches = lambda *_: None
    world.inputs_of = lambda configuration: {"x": ((configuration.shape["M"],), (1,))}
    archive = Archive(original.variant)
    archive.add(Variant("second", COPY.replace("8,", "2,"), "first", "retile"))
    archive.note("second", verdict=Verdict.CORRECT, time_ms=1.0, gap=2.0)
    for name, blocks, time_ms in (("third", "3,", 2.0), ("fourth", "4,", 3.0), ("late", "5,", 4.0)):
        archive.add(Variant(name, COPY.replace("8,", blocks), "first", "retile"))
        archive.note(name, verdict=Verdict.CORRECT, time_ms=time_ms, gap=2.0)
    archive.note("first", time_ms=9.0)
    breeding = SimpleNamespace(archive=archive, tell=lambda _: None, first_ms=9.0)
    selection = Selection(world, breeding, Practice(world, 20.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("solkit.pipeline.evolve_selection.guarded_final", judge)
        result = selection.gate(None, MeasureSettings())
    return result, [size for size, _ in judged], judged[-1][1]


def test_a_winner_leaves_a_held_out_shape_at_which_it_is_slower_to_the_original():
    result, sizes, source = searched_gate(2000, {"M": 900}, {"M": 4000})
    assert result.passed
    assert sizes == [1000, 900, 4000, 1000, 900, 4000]  # the new file meets all of them
    assert "if x.numel() != 1000:" in source
    assert [held.ratio.value for held in result.held_out] == [1.0, 1.0]


def test_each_shape_that_a_gate_shows_slower_is_left_to_the_original():
    result, sizes, source = searched_gate(2000, {"M": 3000}, {"M": 4000})
    assert result.passed
    assert sizes == [1000, 3000, 4000] * 2
    assert "!= 1000" in source


def test_a_winner_that_is_wrong_somewhere_gives_way_to_the_next_finalist():
    result, sizes, source = searched_gate(9000, {"M": 900}, {"M": 4000}, wrong_at=4000)
    assert result.passed
    assert sizes == [1000, 900, 4000, 1000, 900, 4000]
    assert "copy[(3,)]" in source
    assert "if x.numel() < 1000:" in source


def test_one_that_is_slower_where_no_size_tells_gives_way_to_the_next_finalist():
    result, sizes, source = searched_gate(9000, {"M": 900}, {"M": 1000, "k": 3})
    assert result.passed
    assert sizes == [1000, 900, 1000] * 2
    assert "copy[(3,)]" in source


def test_three_finalists_meet_the_original_at_the_most():
    wrong = ["2,", "3,", "4,", "5,"]
    result, sizes, _ = searched_gate(9000, {"M": 4000}, wrong_at=4000, wrong=wrong)
    assert not result.passed
    assert sizes == [1000, 4000] * 3


def test_a_winner_that_is_not_faster_at_all_is_not_taken():
    result, sizes, _ = searched_gate(500, {"M": 4000})
    assert not result.passed
    assert sizes == [1000]


def judged_where_same(same_at, at, *, original_at=(), ratio=1.04):
    """Fate of a winner at a held-out shape, and the shapes at which something is timed.

    At some shapes its file launches the same, or says that it leaves them to the original.
    """
    timed = []

    def judge(base, _rival):
        timed.append(base.shape["M"])
        interval = Ratio(ratio, ratio - 0.01, ratio + 0.01, 0.001, 60)
        return Final({}, Difference.SLOWER, interval, "guarded", ())

    world = SimpleNamespace(
        original=SimpleNamespace(whole_shape={"M": 1000}),
        holds=lambda *_: True,
        may_fit=lambda shape, _: shape["M"] < 5000,
        are_same=lambda base, rival: base.shape == rival.shape == same_at,
    )
    base = Configuration("k.py", "kernel", {"M": 1000})
    breeding = SimpleNamespace(archive=SimpleNamespace(best=None))
    practice = SimpleNamespace(leaves_to_original=lambda _, shape: shape in original_at)
    selection = Selection(world, breeding, practice)
    return selection._judge_held_out(judge, base, replace(base, path="w.py"), at), timed


def test_a_winner_that_makes_the_originals_launches_is_not_timed():
    held, timed = judged_where_same({"M": 7}, {"M": 7})
    assert held.passed
    assert held.ratio is None
    assert held.difference is Difference.NOT_SHOWN
    assert "the original's" in held.why
    assert timed == []


def test_one_that_makes_others_is_timed_in_three_sets_and_slower():
    held, timed = judged_where_same({"M": 8}, {"M": 7})
    assert not held.passed
    assert timed == [7, 7]  # two of three sets have decided
    assert "Of 2 sets of processes 2 say slower" in held.why


@pytest.mark.parametrize(("ratio", "passed"), [(1.04, True), (1.3, False)])
def test_what_a_file_leaves_to_the_original_may_differ_by_noise(ratio, passed):
    held, timed = judged_where_same({"M": 8}, {"M": 7}, original_at=[{"M": 7}], ratio=ratio)
    assert held.passed is passed
    assert timed == [7, 7]


def test_the_originals_launches_need_no_room_on_the_gpu():
    held, timed = judged_where_same({"M": 9000}, {"M": 9000})
    assert held.passed
    assert timed == []


@pytest.mark.slow
@pytest.mark.parametrize(("time_ms", "is_planned"), [(0.5, True), (1e-4, False)])
def test_a_time_under_the_roofline_is_compared_with_the_best_algorithm(
    tmp_path, time_ms, is_planned
):
    (path := tmp_path / "k.py").write_text(
        "import torch\n"
        'SHAPES = [{"m": 4096}]\n'
        "def reference(x, w):\n    return (x @ w).sum(1)\n"
        'def inputs(m=4096, device="cuda"):\n'
        "    return torch.randn(m, m, device=device), torch.randn(m, m, device=device)\n"
    )
    original = SimpleNamespace(problem=str(path), shape={"m": 4096}, configuration=None)
    world = SimpleNamespace(device=GPU, how=EvolveSettings(), original=original)
    run = _Run(world, 20.0, lambda _: None)
    planned_ms = run._planned_ms(time_ms)
    if is_planned:  # x and w are read once, 134 MB at 4.917 TB/s
        assert planned_ms == pytest.approx(2 * 4 * 4096**2 / 4.917e9, rel=0.02)
        assert "from which gaps are counted" in run.notes[0]
    else:
        assert planned_ms is None
        assert "there is no gap" in run.notes[0]
