"""Solutions of problem folders are searched, and what is found is a solution again."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("libcst")
sys.path.insert(0, str(Path(__file__).parents[1] / "kernelfiles"))
sys.path.insert(0, str(Path(__file__).parents[1] / "measure" / "benches"))
import torch
from folders import flashinfer_set, sol_folder, solution, workload, write_json
from recordings import outcome
from typer.testing import CliRunner

from solkit import kernelfiles
from solkit.cli import app
from solkit.cli.evolve import _problem_files, _write_winner
from solkit.core import (
    Bred,
    Brief,
    Candidate,
    EvolveSettings,
    Finalist,
    KernelFile,
    MeasureSettings,
    Practised,
    Problem,
    Proposal,
    TuneVerdict,
    Variant,
    Verdict,
)
from solkit.datasets import outcomelog
from solkit.datasets.identifiers import kernel_id
from solkit.errors import InputError, ShapeError, UnsupportedError
from solkit.measure.benches import RecordedBench
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.evolving import EvolveParts, evolve
from solkit.pipeline.kernel_evaluator import KernelEvaluator
from solkit.pipeline.practice import Practice
from solkit.pipeline.preparing import Preparation
from solkit.pipeline.solutions import solution_record, text_of_solution
from solkit.roofline.devices import find
from solkit.tuner.proposers.answers import Answer, Reader
from solkit.tuner.proposers.rewriter import Rewriter
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form

SCALE = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x, y, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)

def scaled(x, factor, y):
    kernel[(triton.cdiv(x.numel(), 16),)](x, y, factor, x.numel(), BLOCK=16)
"""
RUN = SCALE.replace("def scaled", "def run")
SIZES = [8, 1024, 2048, 4096, 333, 16, 77, 512, 640, 2, 5]


def folder_of(tmp_path, *sizes):
    return sol_folder(tmp_path / "p", [workload(f"w{size}", M=size) for size in sizes or SIZES])


def record(tmp_path, sources=None, entry="main.py::scaled", name="mine.json", **spec):
    texts = {"main.py": SCALE} if sources is None else sources
    return write_json(tmp_path / name, solution(texts, entry, **spec))


def described(folder, symbol):
    path = str(Path(folder) / "definition.json")
    problem = Problem("scale", path, "sol-execbench", "run", {"M": 8}, ({"M": 8},))
    return KernelFile(problem, Candidate(symbol, "mine", {}))


@pytest.mark.parametrize(("passes", "call"), [(True, "scaled(x, factor, y)"), (False, "return s")])
def test_an_entry_point_of_another_name_gets_a_run_with_the_benchmarks_arguments(
    tmp_path, passes, call
):
    folder = folder_of(tmp_path)
    path = record(tmp_path, destination_passing_style=passes)
    text = text_of_solution(path, described(folder, "scaled"))
    assert text.startswith(SCALE.rstrip())
    assert call in text.splitlines()[-1]
    namespace = {}
    exec(text[text.index("\ndef run") :], {"scaled": lambda *a: a}, namespace)
    passed = (1, 2, 3) if passes else (1, 2)
    assert namespace["run"](*passed) == (None if passes else passed)


def test_a_record_is_written_with_the_new_source_and_is_loaded(tmp_path):
    folder = folder_of(tmp_path)
    written = solution_record(record(tmp_path), RUN)
    (tmp_path / "out.json").write_text(written)
    solution = json.loads(written)
    assert (solution["name"], solution["definition"]) == ("mine-evolved", "scale")
    assert solution["spec"]["entry_point"] == "main.py::run"
    assert solution["sources"] == [{"path": "main.py", "content": RUN}]
    loaded = kernelfiles.load(str(tmp_path / "out.json"), folder)
    assert loaded.description.candidate.name == "run"


@pytest.mark.parametrize(
    ("sources", "entry", "spec", "error", "message"),
    [
        (
            {"k.cu": "void run() {}"},
            "k.cu::run",
            {"languages": ["cuda_cpp"]},
            UnsupportedError,
            r"is a solution in cuda_cpp \(k.cu\): only Triton kernels are rewritten",
        ),
        (
            {"main.py": "def run(x, factor):\n    return x * factor\n"},
            "main.py::run",
            {"languages": ["pytorch"]},
            UnsupportedError,
            "is a solution in pytorch, and has no @triton.jit function: only Triton",
        ),
        (
            {"main.py": RUN, "other.py": ""},
            "main.py::run",
            {},
            InputError,
            r"several source files \(main.py, other.py\)",
        ),
        (
            {"main.py": SCALE + "\ndef run(): ...\n"},
            "main.py::scaled",
            {},
            InputError,
            r"enters at scaled, and its run\(\) is another function",
        ),
        (
            {"main.py": RUN},
            "main.py::run",
            {"destination_passing_style": False},
            InputError,
            r"run\(\) needs 3 arguments, and gets: x, factor$",
        ),
    ],
)
def test_what_is_not_rewritten_says_why(tmp_path, sources, entry, spec, error, message):
    path = record(tmp_path, sources, entry, **spec)
    with pytest.raises(error, match=message):
        text_of_solution(path, described(folder_of(tmp_path), entry.partition("::")[2]))


@pytest.fixture
def read():
    prepared = Preparation(find("h200"), MeasureSettings())

    def read(problem, path, shape=None, **settings):
        return Original.read(prepared, path, problem, shape, EvolveSettings(**settings))

    read.prepared = prepared
    yield read
    prepared.close()


def test_a_search_begins_from_the_records_source_and_holds_other_workloads_out(tmp_path, read):
    folder = folder_of(tmp_path)
    original = read(folder, record(tmp_path), {"M": 333})
    assert original.named == str(tmp_path / "mine.json")
    assert original.file.candidate.name == "run"
    assert original.problem == str(Path(folder) / "definition.json")
    assert original.reference == "import torch\ndef run(x, factor):\n    return x * factor\n"
    held = [shape["M"] for shape in original.others(EvolveSettings())]
    assert len(held) == 8
    assert {min(SIZES), max(SIZES)} < set(held) < set(SIZES) - {333}
    rest = set(SIZES) - {333, *held}
    assert rest <= {shape["M"] for shape in original.practice(EvolveSettings())}


def test_a_data_set_of_several_definitions_is_searched_for_the_one_that_a_record_names(
    tmp_path, read
):
    root = tmp_path / "set"
    flashinfer_set(root, [workload("a", M=8)], name="other")
    path = flashinfer_set(root, [workload("a", M=8)])
    original = read(str(root), record(tmp_path, language="triton"))
    assert original.problem == path


@pytest.mark.parametrize("name", ["k.cu", "folder", "solution"])
@pytest.mark.parametrize("of_set", [False, True])
def test_what_is_neither_json_nor_python_is_no_solution(tmp_path, read, name, of_set):
    folder = flashinfer_set(tmp_path / "set", [workload("a", M=8)]) if of_set else None
    path = tmp_path / name
    path.mkdir() if name == "folder" else path.write_text("int x;")
    with pytest.raises(InputError, match=f"{name}: is not a solution: expected the JSON of one"):
        read(folder or folder_of(tmp_path), str(path))


@pytest.mark.parametrize(
    ("shape", "settings"), [({"N": 3}, {}), (None, {"held_out": [{"M": 8}, {"N": 3}]})]
)
def test_a_size_that_a_problem_lacks_is_refused_before_the_search(tmp_path, read, shape, settings):
    message = r"definition.json has no size 'N' \(given as N=3\); its sizes are: M$"
    with pytest.raises(ShapeError, match=message):
        read(folder_of(tmp_path), record(tmp_path), shape, **settings)


def test_a_recording_is_read_for_every_definition_of_a_data_set(tmp_path):
    folder = Path(folder_of(tmp_path))
    assert _problem_files(str(folder)) == [folder / "definition.json"]
    assert _problem_files(str(folder / "definition.json")) == [folder / "definition.json"]
    root = tmp_path / "set"
    paths = [flashinfer_set(root, [workload("a", M=8)], name=name) for name in ("one", "two")]
    assert _problem_files(str(root)) == [Path(path) for path in paths]
    with pytest.raises(InputError, match=r"has no definition.json, and no definitions in defi"):
        _problem_files(str(tmp_path))


def test_a_problem_alone_asks_for_a_solution(tmp_path, read):
    folder = folder_of(tmp_path)
    with pytest.raises(InputError, match="is a problem alone: name what solves it with --solution"):
        read(folder, folder)


def test_a_winner_leaves_small_inputs_to_the_original_solution(tmp_path, read):
    """Names of the definition tell which argument is which, whatever the function is called."""
    folder = folder_of(tmp_path, 2048, 512, 8)
    original = read(folder, record(tmp_path), {"M": 2048})
    world = KernelEvaluator(read.prepared, find("h200"), original, EvolveSettings(), None)
    world.close()
    practice, source = Practice(world, 20.0), original.variant.source
    variant = Variant("wider", canonical_form(source).replace("16", "512"), original.variant.id)
    trials = (Practised({"M": 512}, Verdict.CORRECT, 0.5),)
    winner = Finalist("wider", {}, 1.0, trials, taken=True)
    bounds = practice._bounds(Bred(variant, params={}), [winner])
    text = practice._joined(Bred(variant, params={}), bounds).source
    assert f"if x.numel() < {512 * 32}:\n        return kernel_before(x, factor, y)" in text
    (tmp_path / "joined.py").write_text(text)
    loaded = kernelfiles.load(str(tmp_path / "joined.py"), folder)
    assert loaded.description.candidate.name == "run"


# ------------------------------------------------------------------------------ proposers


def brief(folder, source=RUN):
    definition = Path(folder, "definition.json")
    reference = json.loads(definition.read_text())["reference"]
    shape = {"M": 2048}
    return Brief(source, "mine.py", find("h200"), shape, reference, definition=str(definition))


def test_rewrites_of_a_solution_are_solutions(tmp_path):
    folder = folder_of(tmp_path, 8, 2048)
    proposals = list(Rewriter(0, checks=False).propose(brief(folder)))
    assert proposals
    (tmp_path / "variant.py").write_text(proposals[0].source)
    candidate = kernelfiles.load(str(tmp_path / "variant.py"), folder).description.candidate
    assert candidate.name == "run"
    assert "BLOCK" in candidate.params
    assert "BLOCK" in candidate.space.values


def test_a_model_is_asked_to_keep_run(tmp_path):
    about = brief(folder_of(tmp_path))
    reader = Reader(about.source, about.reference)
    assert reader.entry == "def run"
    answer = "```python\n{}\n```\nINTENT: wider blocks."
    assert isinstance(reader.read(answer.format(RUN.replace("16", "32"))), Answer)
    assert "entry point" in reader.read(answer.format(SCALE.replace("16", "32"))).why


# ------------------------------------------------------------------------------- searched


class Wider:
    """Proposes the parent in the rewriter's form, with wider blocks."""

    name = "wider"

    def propose(self, brief):
        source = canonical_form(brief.source).replace("16", "512")
        yield Proposal(source, "wider", "Blocks are wider.")


def recorded(folder, times):
    """Outcomes of sources at the first and the last workload."""
    problem = hashlib.sha256(Path(folder, "definition.json").read_bytes()).hexdigest()
    for number, (text, time_ms) in enumerate(times.items()):
        source = hashlib.sha256(text.encode()).hexdigest()
        for size in (2048, 8):
            timed = {"time_ms": time_ms, "low_ms": 0.99 * time_ms, "high_ms": 1.01 * time_ms}
            yield outcome(
                *(2 * number + (size == 8),),
                kernel_id=kernel_id(source, problem, "run"),
                source_sha256=source,
                params={},
                shape={"M": size},
                samples_ms=(time_ms,) * 9,
                **timed,
            )


@pytest.mark.quick("json-py")
@pytest.mark.parametrize(("form", "out"), [("py", "py"), ("json", "json"), ("json", "py")])
def test_the_winner_of_a_search_is_written_as_a_solution(tmp_path, form, out):
    folder = folder_of(tmp_path, 2048, 8)
    text = RUN if form == "py" else text_of_solution(record(tmp_path), described(folder, "scaled"))
    path = tmp_path / f"mine.{form}"
    if form == "py":
        path.write_text(text)
    (wider,) = Wider().propose(SimpleNamespace(source=text))
    rows = list(recorded(folder, {text: 1.0, wider.source: 0.5}))
    how = EvolveSettings(stop_at=2.0, depth="captured")
    evolved = evolve(
        *(path,),
        gpu_seconds=1e6,
        reference=folder,
        bench=RecordedBench(rows),
        settings=how,
        parts=EvolveParts([Wider()]),
    )
    assert (evolved.verdict, evolved.kernel) == (TuneVerdict.FASTER, str(path))
    assert [held.shape for held in evolved.gate.held_out] == [{"M": 8}]
    written = tmp_path / f"out.{out}"
    _write_winner(evolved, str(path), str(written))
    loaded = kernelfiles.load(str(written), folder)
    assert loaded.description.candidate.name == "run"
    if out == "json":
        assert json.loads(written.read_text())["sources"][0]["content"] == wider.source


def test_nothing_is_written_of_a_record_that_is_kept(tmp_path):
    folder = folder_of(tmp_path, 2048, 8)
    path = record(tmp_path)
    text = text_of_solution(path, described(folder, "scaled"))
    bench = RecordedBench(list(recorded(folder, {text: 1.0})))
    how = EvolveSettings(stop_at=2.0, depth="captured")
    evolved = evolve(path, reference=folder, bench=bench, settings=how, parts=EvolveParts([]))
    assert evolved.verdict is TuneVerdict.KEEP
    assert _write_winner(evolved, path, str(tmp_path / "out.json")).out is None
    assert not (tmp_path / "out.json").exists()


# ------------------------------------------------------------------------------- on a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("form", ["py", "json"])
def test_what_is_found_for_a_solution_is_one_that_is_right_and_faster(tmp_path, form):
    folder = folder_of(tmp_path, 1 << 17, 1 << 16, 333)
    path = str(tmp_path / "mine.py") if form == "py" else record(tmp_path)
    if form == "py":
        Path(path).write_text(RUN)
    out = tmp_path / f"out.{form}"
    command = ["evolve", folder, "--solution", path, "--gpu-seconds", "6", "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert out.exists(), result.output
    shapes = ["--shape", f"M={1 << 17}", "--shape", "M=333"]
    after, before = (
        CliRunner().invoke(app, ["score", folder, "--solution", s, *shapes, "--json", "-"])
        for s in (str(out), path)
    )
    assert after.exit_code == before.exit_code == 0, after.output + before.output
    reports = [json.loads(side.stdout)["results"] for side in (after, before)]
    assert all(one["verdict"] == "correct" for report in reports for one in report)
    first = [report[0]["measurement"]["median_ms"] for report in reports]
    assert first[0] < 0.8 * first[1]


TUNED = (
    RUN.replace(
        "@triton.jit",
        """@triton.autotune([triton.Config({"BLOCK": b}) for b in (16, 32, 2048)], key=[])
@triton.jit""",
    )
    .replace("triton.cdiv(x.numel(), 16),)]", 'triton.cdiv(x.numel(), m["BLOCK"]),)]')
    .replace("kernel[(", "kernel[lambda m: (")
    .replace(", BLOCK=16)", ")")
)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_an_autotuned_solution_is_tuned_by_the_benchmarks_check(tmp_path):
    folder = folder_of(tmp_path, 1 << 17, 333)
    path, log = tmp_path / "mine.py", tmp_path / "log.jsonl"
    path.write_text(TUNED)
    options = ["--gpu-seconds", "4", "--stop-at", "2", "--no-prior", "--log", str(log)]
    result = CliRunner().invoke(app, ["tune", folder, "--solution", str(path), *options])
    assert result.exit_code == 0, result.output
    rows = [row for row in outcomelog.read(log).rows if row.params]
    assert {row.verdict for row in rows} == {Verdict.CORRECT}, result.output
    times = {row.params["BLOCK"]: row.time_ms for row in rows}
    assert times.keys() == {16, 32, 2048}
    assert times[16] > 1.5 * times[2048]  # in one handful, each with its own blocks
