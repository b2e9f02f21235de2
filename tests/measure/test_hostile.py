"""The hostile suite: each trick is caught, and no honest look-alike is accused.

The files in ``hostile/`` and ``honest/`` say in their docstrings what they do, for which problem of
``problems/``, and the hostile ones which verdict they must get and which defence catches them. Here
they meet these defences on a CPU, without timing; with ``-m gpu`` they go through
`solkit.measure.measure`. The referee below is what the real one is, in little: it alone knows the
seeds and the expected outputs, and the candidate's process gets inputs and returns outputs.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import multiprocessing
import os
import pickle
import re
import secrets
import sys
import time
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map

from solkit.core import MeasureSettings, Verdict
from solkit.kernelfiles import Workload, load
from solkit.measure import Session, is_available
from solkit.measure.anti_cheating import Finding
from solkit.measure.anti_cheating.cheat_detection import CheatDetector
from solkit.measure.anti_cheating.delegation import Operators, by_operators
from solkit.measure.anti_cheating.source_suspicion import suspicions
from solkit.measure.checking.exact import exact_reference
from solkit.measure.checking.tolerance import Standard

HERE = Path(__file__).parent
LIMIT_S = 300  # only a child that hangs takes so long
MOST_BYTES = 64 << 20
SMALL = {
    "flat_softmax": {"M": 4, "N": 512},
    "product": {"M": 16, "N": 16, "K": 8},
    "loose_product": {"M": 16, "N": 16, "K": 8},
    "histogram": {"M": 64, "N": 4, "groups": 3},
    "linear": {"batch": 4, "features": 16},
}


@dataclass(frozen=True)
class Specimen:
    """A candidate of the suite, with what its docstring says of it."""

    path: Path
    facts: dict[str, str]

    def __str__(self) -> str:
        return self.path.stem

    @property
    def problem(self) -> str:
        return str(HERE / "problems" / f"{self.facts['Problem']}.py")

    @property
    def shape(self) -> dict[str, int]:
        return SMALL.get(self.facts["Problem"], {"M": 8, "N": 32})

    @property
    def verdicts(self) -> set[Verdict]:
        return {Verdict(name) for name in self.facts["Verdict"].split(" or ")}

    @property
    def asks_for_a_kernel(self) -> bool:
        return "Asked for" in self.facts

    @property
    def is_interpreted(self) -> bool:
        return self.asks_for_a_kernel or "interpreter" in self.facts.get("Runs on", "")

    @property
    def runs_on_cpu(self) -> bool:
        return self.facts.get("Runs on") != "cuda"


def specimens(folder: str) -> list[Specimen]:
    results = []
    for path in sorted((HERE / folder).glob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        facts = dict(re.findall(r"^([A-Z][a-z ]+): (.+)$", docstring, re.MULTILINE))
        results.append(Specimen(path, facts))
    return results


HOSTILE, HONEST = specimens("hostile"), specimens("honest")
by_name = pytest.mark.parametrize


def on_cpu(specimens):
    return [pytest.param(s, id=str(s)) for s in specimens if s.runs_on_cpu]


# --------------------------------------------------------------------- the candidate's process


def serve(pipe) -> None:
    """Do as the referee says: take a candidate, or run it on inputs."""
    spoil_the_heap()
    runner = None
    while True:
        request = pickle.loads(pipe.recv_bytes())
        if isinstance(request, Specimen):
            runner = Runner(request)
            answer = {"findings": runner.findings()}
        else:
            answer = runner.run(*request)
        pipe.send_bytes(pickle.dumps(answer))


class Runner:
    """A candidate that was loaded, and the memory that its inputs come in."""

    def __init__(self, specimen: Specimen) -> None:
        if specimen.is_interpreted:
            os.environ["TRITON_INTERPRET"] = "1"
        self.launches = count_launches() if specimen.asks_for_a_kernel else None
        self.findings = CheatDetector().findings
        self.workload = candidate_of(specimen)
        self.arenas: dict[str, list[np.ndarray]] = {}

    def run(self, batch, watch: str, shares: bool):
        """Call it on each of a batch of inputs, one right after the other."""
        outputs = []
        with profiled(watch == "profiled"):
            runs = [placed(self.arenas, self.workload, *inputs) for inputs in batch]
            poison()
            for run in runs:
                returned = run.kernel(*run.args, **run.kwargs)
                outputs.append(results(run, returned))
        looked_at = (returned, inputs_of(runs[-1]), shares)
        return {
            "outputs": outputs,
            "findings": self.findings(*looked_at) if watch == "guard" else (),
            "inputs": [[t.detach().numpy().copy() for t in run.tensors()] for run in runs],
            "launches": None if self.launches is None else len(self.launches),
            "operators": () if self.launches is None else self.operators(batch[0]),
        }

    def operators(self, inputs) -> list[str]:
        """What a call hands to torch."""
        run = placed(self.arenas, self.workload, *inputs)
        with Operators() as operators:
            run.kernel(*run.args, **run.kwargs)
        return list(operators.names)


def candidate_of(specimen: Specimen) -> Workload:
    return load(str(specimen.path), specimen.problem).workload(specimen.shape, {}, "cpu")


def count_launches() -> list[str]:
    """Launches of Triton kernels, which the interpreter runs, from now on."""
    from triton.runtime.interpreter import GridExecutor

    launches: list[str] = []
    launch = GridExecutor.__call__

    def noted(self, *args, **kwargs):
        launch(self, *args, **kwargs)
        launches.append(self.fn.__name__)

    GridExecutor.__call__ = noted
    return launches


def profiled(is_on: bool):
    return torch.autograd.profiler.profile(enabled=is_on)


def placed(arenas, workload, arena, values, args, kwargs) -> Workload:
    """The workload on values at the addresses of an arena, by tensors that nobody has seen yet.

    The values are written past torch, as by another process: no version counter notices.
    """
    if arena not in arenas:
        arenas[arena] = [np.empty_like(value) for value, _, _ in values]
    results = []
    for memory, (value, size, stride) in zip(arenas[arena], values, strict=True):
        memory[...] = value
        results.append(torch.as_strided(torch.from_numpy(memory), size, stride))
    fill = functools.partial(tree_map, lambda leaf: results[leaf.index] if is_slot(leaf) else leaf)
    return replace(workload, args=tuple(fill(args)), kwargs=fill(kwargs))


def spoil_the_heap() -> None:
    """Have malloc fill the memory that it gives out.

    A fork inherits the heap of the test run, where outputs of the reference lie that are free
    again. A candidate that writes half of its output would find the other half there.
    """
    m_perturb, byte = -6, 0xA5  # malloc.h of the GNU C library
    mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)
    mallopt(m_perturb, byte)


def poison() -> None:
    """Leave NaN in the memory that the allocator gives out next."""
    spoilt = [torch.full((n,), torch.nan) for n in (256, 256, 1024, 4096) for _ in range(3)]
    del spoilt


def results(run: Workload, returned) -> list[np.ndarray]:
    """The outputs as they are at once when the call has returned."""
    flat = [leaf for leaf in tree_flatten(returned)[0] if isinstance(leaf, torch.Tensor)]
    written = run.written_arguments()
    outputs = [t for t in flat if not any(t is w for w in written)] + written
    return [output.detach().clone().numpy() for output in outputs]


def inputs_of(run: Workload) -> list[torch.Tensor]:
    written = run.written_arguments()
    return [t for t in run.tensors() if not any(t is w for w in written)]


# -------------------------------------------------------------------------------- the referee


@dataclass(frozen=True)
class Slot:
    """Stands for a tensor among arguments that cross to the candidate's process."""

    index: int


def is_slot(leaf) -> bool:
    return isinstance(leaf, Slot)


@dataclass(frozen=True)
class Trial:
    """Inputs, what is right on them, and the defence that they are."""

    defence: str
    arena: str
    workload: Workload
    want: list[torch.Tensor]
    exact: list
    watch: str = ""

    def packed(self):
        """As it crosses to the candidate: numbers alone, with sizes and strides."""
        values = []

        def slot(leaf):
            if not isinstance(leaf, torch.Tensor):
                return leaf
            plain = torch.empty(0, dtype=leaf.dtype).set_(leaf.detach().untyped_storage())
            values.append((plain.numpy(), leaf.shape, leaf.stride()))
            return Slot(len(values) - 1)

        args = tree_map(slot, self.workload.args)
        return self.arena, values, args, tree_map(slot, dict(self.workload.kwargs))


FRESH, TWIN = "fresh values at the same address", "nearly the same values"
SHAPES, KINDS = "held-out shapes", "other distributions"
BURST, TIMED = "calls in a burst are checked", "timed calls are checked"
UNCHANGED = "inputs are checked unchanged"
OWN_PROCESS, RAN = "the candidate has its own process", "kernels that ran"
HANDED = "operators that torch was handed"
SHOWN_BY = {FRESH, TWIN, SHAPES, KINDS, BURST, TIMED, UNCHANGED, OWN_PROCESS, RAN, HANDED}


@functools.cache
def trials_of(problem: str, shape: tuple) -> tuple[tuple[Trial, ...], ...]:
    """Batches of trials of a problem; those of one batch are called one right after the other."""
    loaded = load(problem)
    held_out = [{**dict(shape), **more} for more in loaded.description.problem.held_out_shapes]

    def make(defence, arena, sizes=None, change=None, watch=""):
        torch.manual_seed(secrets.randbits(63))
        workload = loaded.workload(sizes or dict(shape), {}, "cpu")
        return trial(
            workload if change is None else changed(workload, change), defence, arena, watch
        )

    def trial(workload, defence, arena, watch=""):
        safe = changed(workload, torch.clone)
        return Trial(defence, arena, workload, safe.run_reference(), exact_reference(safe), watch)

    usual, fresh = (make(why, "A", watch="guard") for why in ("the usual inputs", FRESH))
    twin = trial(changed(fresh.workload, twin_of), TWIN, "B")
    kinds = [make(KINDS, "A", change=change) for change in DISTRIBUTIONS]
    shapes = [make(SHAPES, f"C{i}", sizes) for i, sizes in enumerate(held_out)]
    burst = tuple(make(BURST, arena, watch="guard") for arena in "ADE")
    timed = make(TIMED, "A", watch="profiled")
    return *((one,) for one in (usual, fresh, twin, *kinds, *shapes)), burst, (timed,)


DISTRIBUTIONS = (
    lambda x: x * 1e3,
    lambda x: x * 1e-6,
    lambda x: -x.abs(),
    torch.zeros_like,
)


def twin_of(x: torch.Tensor) -> torch.Tensor:
    """The same values but for the last row's last one."""
    twin = x.clone()
    twin.view(-1)[-1] += 1
    return twin


def changed(workload: Workload, change) -> Workload:
    """A workload with floating inputs changed, in the same layout."""

    def one(leaf):
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        storage = torch.empty(0, dtype=leaf.dtype).set_(leaf.untyped_storage())
        return torch.as_strided(change(storage.clone()), leaf.shape, leaf.stride())

    args, kwargs = tree_map(one, (workload.args, dict(workload.kwargs)))
    return workload.with_inputs(args, kwargs)


@dataclass(frozen=True)
class Judgement:
    """What became of a specimen, what showed it, and the findings."""

    verdict: Verdict
    defence: str = ""
    findings: tuple[Finding, ...] = ()
    evidence: str = ""


class Candidate:
    """The candidate's process."""

    def __init__(self) -> None:
        self._pipe, self._process = start(serve)

    def ask(self, request):
        self._pipe.send_bytes(pickle.dumps(request))
        return receive(self._pipe)

    def end(self) -> None:
        self._process.kill()
        self._process.join()


@dataclass
class Referee:
    """Judges one specimen."""

    specimen: Specimen
    findings: list[Finding] = field(default_factory=list)

    def outcome(self, warm: Candidate | None = None) -> Judgement:
        """What becomes of it, in a process of its own or in one that ran others before."""
        batches = trials_of(self.specimen.problem, tuple(self.specimen.shape.items()))
        candidate = warm or Candidate()
        try:
            self.note(candidate.ask(self.specimen))
            for batch in batches:
                inputs = [trial.packed() for trial in batch]
                request = inputs, batch[0].watch, shares_memory(batch[0])
                self.judge(batch, candidate.ask(request))
        except CaughtError as caught:
            return replace(caught.outcome, findings=tuple(self.findings))
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            return Judgement(Verdict.CRASHED, OWN_PROCESS, tuple(self.findings), repr(error))
        finally:
            if warm is None:
                candidate.end()
        return Judgement(Verdict.CORRECT, "", tuple(self.findings))

    def note(self, answer) -> None:
        if "error" in answer:
            raise CaughtError(Verdict.CRASHED, "it raised", answer["error"])
        self.findings += answer["findings"]
        for finding in answer["findings"]:
            if finding.is_proof:
                raise CaughtError(Verdict.CHEATING, f"guard: {finding.trick}", finding.evidence)

    def judge(self, batch, answer) -> None:
        self.note(answer)
        for trial, got, after in zip(batch, answer["outputs"], answer["inputs"], strict=True):
            tolerance = trial.workload.tolerance or load_tolerance(self.specimen.problem)
            standard = Standard(trial.want, tolerance, trial.exact)
            errors = standard.judge([torch.from_numpy(g) for g in got]).errors
            if errors:
                raise CaughtError(Verdict.WRONG, trial.defence, errors[0])
            if not unchanged(trial.workload, after):
                raise CaughtError(Verdict.WRONG, UNCHANGED, "an input changed")
        if self.specimen.asks_for_a_kernel and not answer["launches"]:
            raise CaughtError(Verdict.CHEATING, RAN, "no kernel of its own ran")
        handed = by_operators(answer["operators"])
        if handed is not None:
            raise CaughtError(Verdict.CHEATING, HANDED, handed.evidence)


class CaughtError(Exception):
    def __init__(self, verdict, defence, evidence):
        self.outcome = Judgement(verdict, defence, evidence=evidence)
        super().__init__(self.outcome)


@functools.cache
def load_tolerance(problem: str):
    return load(problem).description.problem.tolerance


def shares_memory(trial: Trial) -> bool:
    run = changed(trial.workload, torch.clone)
    owned = {t.untyped_storage().data_ptr() for t in inputs_of(run)}
    return any(t.untyped_storage().data_ptr() in owned for t in run.run_reference())


def unchanged(workload: Workload, after: list[np.ndarray]) -> bool:
    written = workload.written_arguments()
    return all(
        any(before is w for w in written)
        or np.array_equal(before.detach().numpy(), now, equal_nan=before.is_floating_point())
        for before, now in zip(workload.tensors(), after, strict=True)
    )


def start(target, *args):
    """A fork, which has all that was imported here, and nothing that is computed from now on."""
    context = multiprocessing.get_context("fork")
    mine, other = context.Pipe()
    process = context.Process(target=guarded, args=(target, other, *args))
    process.start()
    other.close()
    return mine, process


pytestmark = pytest.mark.usefixtures("prepared_forks")


def guarded(target, pipe, *args) -> None:
    """What a fork does; ends without exit handlers of the test run's."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w")
    os.closerange(3, pipe.fileno())
    os.closerange(pipe.fileno() + 1, 256)
    try:
        target(pipe, *args)
    except BaseException:
        pipe.send_bytes(pickle.dumps({"error": traceback.format_exc()}))
    finally:
        os._exit(0)


def receive(pipe):
    assert pipe.poll(LIMIT_S), f"no answer within {LIMIT_S} s"
    return pickle.loads(pipe.recv_bytes(MOST_BYTES))


# ---------------------------------------------------------------------------------- the tests


def naive(pipe, specimen: Specimen) -> None:
    """What many do: one process, well-known inputs, one check, and then calls that nobody looks at.

    The tolerance is a lenient one, and memory that held the expected output is free again.
    """
    if specimen.is_interpreted:
        os.environ["TRITON_INTERPRET"] = "1"
    loaded = load(str(specimen.path), specimen.problem)
    torch.manual_seed(42)
    workload = loaded.workload(specimen.shape, {}, "cpu")
    want = [output.clone() for output in workload.run_reference()]
    got = workload.run_kernel()
    if specimen.facts.get("Fools") == "who waits":
        time.sleep(0.2)
    agree = [torch.allclose(g, w.to(g.dtype), 5e-2, 5e-2) for g, w in zip(got, want, strict=True)]
    for _ in range(2):
        workload.run_kernel()
    pipe.send_bytes(pickle.dumps({"accepted": bool(agree) and False not in agree}))


@pytest.mark.slow
def test_there_are_as_many_honest_as_hostile_ones_and_one_for_each_trick():
    assert len(HOSTILE) >= 50
    assert len(HONEST) >= len(HOSTILE)
    assert all({"Trick", "Problem", "Verdict", "Defence"} <= s.facts.keys() for s in HOSTILE)
    assert all({"Looks like", "Problem"} <= s.facts.keys() for s in HONEST)
    assert {s.facts["Trick"] for s in HOSTILE} == {s.facts["Looks like"] for s in HONEST}


@pytest.mark.quick(
    "agreeable_tensor",
    "autocast_for_all",
    "changes_an_input",
    "event_clock",
    "expanded_output",
    "half_precision",
    "lazy_container",
    "lazy_subclass",
    "other_clock_module",
    "python_clock",
    "seen_by_a_mode",
    "short_profile",
    "thread_since_import",
    "writes_nothing",
)
@by_name("specimen", on_cpu(HOSTILE))
def test_hostile(specimen):
    outcome = Referee(specimen).outcome()
    print(outcome)
    assert outcome.verdict in specimen.verdicts
    defence = specimen.facts["Defence"]
    if defence in SHOWN_BY or defence.startswith("guard: "):
        assert outcome.defence == defence


@pytest.mark.quick(
    "blind_to_strides",
    "constant_output",
    "forged_answer",
    "other_clock_module",
    "short_do_bench",
    "writes_nothing",
)
@by_name("specimen", on_cpu(HOSTILE))
def test_hostile_fools_a_naive_check(specimen):
    pipe, process = start(naive, specimen)
    try:
        answer = receive(pipe)
    finally:
        process.kill()
        process.join()
    print(answer)
    whom = specimen.facts.get("Fools", "")
    assert answer.get("accepted") is not whom.startswith("nobody") or whom.startswith("by chance")


@pytest.fixture(scope="module")
def warm():
    candidate = Candidate()
    yield candidate
    candidate.end()


@pytest.mark.quick(
    "asserts_its_own_shapes",
    "empty_then_filled",
    "exit_handler",
    "mode_that_is_left",
    "names_like_builtins",
    "plan_by_pointer",
    "profile_hook_taken_back",
    "split_k",
    "warm_up_calls",
)
@by_name("specimen", on_cpu(HONEST))
def test_honest(specimen, warm):
    outcome = Referee(specimen).outcome(None if specimen.is_interpreted else warm)
    print(outcome)
    assert outcome.verdict is Verdict.CORRECT
    assert not any(finding.is_proof for finding in outcome.findings)


@by_name("specimen", HOSTILE + HONEST, ids=lambda s: f"{s.path.parent.name}-{s.path.stem}")
def test_sources(specimen):
    results = suspicions(specimen.path.read_text(), specimen.path.name)
    print(*results, sep="\n")
    if specimen in HONEST:
        assert not any(finding.is_proof for finding in results)


# --------------------------------------------------------------------------- the real thing


@pytest.fixture(scope="module")
def session():
    with Session() as session:
        yield session


def measured(session, specimen: Specimen):
    outcome = session.measure(
        str(specimen.path),
        {},
        {},
        reference=specimen.problem,
        settings=MeasureSettings(custom_kernel=specimen.asks_for_a_kernel),
    )
    print(outcome)  # what a failing test shows
    return outcome


on_gpu = pytest.mark.skipif(not is_available(), reason="no GPU")


@pytest.mark.gpu
@on_gpu
@by_name("specimen", HOSTILE, ids=str)
def test_hostile_on_a_gpu(session, specimen):
    assert measured(session, specimen).verdict in specimen.verdicts


@pytest.mark.gpu
@on_gpu
@by_name("specimen", HONEST, ids=str)
def test_honest_on_a_gpu(session, specimen):
    outcome = measured(session, specimen)
    assert outcome.verdict is Verdict.CORRECT
    if specimen.asks_for_a_kernel:
        assert len(outcome.measurement.launches) == 1
