"""Launches of a candidate, and what compiling or lowering them says, for an absent GPU too.

Runs in a throw-away child process in which `fake_cuda` and `fake_triton` are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from solkit.adapters.launch_recording import Choice
from solkit.adapters.triton_compiler import Compiled, Specialisation
from solkit.adapters.triton_targets import is_analysed
from solkit.analysis import cuda, library
from solkit.analysis.facts import extension_facts, launch_facts
from solkit.analysis.graphs import seeing_graphs
from solkit.analysis.launch_identity import compiled_identity
from solkit.analysis.output_coverage import outputs_written
from solkit.analysis.triton.capture import Captured, CaptureError, capture
from solkit.analysis.triton.compiling import compile_all
from solkit.analysis.triton.feasible_configs import passed_over
from solkit.analysis.triton.recipes import Recipes
from solkit.analysis.unread_inputs import unread_inputs
from solkit.core import Analysis, AnalysisStatus, Depth, Device, Facts, KernelAnalysis, Value
from solkit.errors import SolkitError
from solkit.kernelfiles import Workload
from solkit.roofline.kernel.evaluate import described
from solkit.roofline.kernel.machines import unvalidated

Candidates = Iterable[tuple[Callable[[], Workload], Mapping[str, Value]]]
_NOTHING = "The candidate launches nothing on the GPU."


@dataclass(frozen=True, eq=False)
class _Run:
    """One call of a candidate on fake tensors.

    Attributes:
        captured: its Triton launches.
        extensions: its launches of CUDA C++.
        whole: whether it ran to its end.
        failure: as in `solkit.core.Analysis`.
    """

    captured: Captured
    extensions: cuda.CudaRecording
    whole: bool
    failure: str = ""

    def reached(self, depth: Depth) -> Depth:
        """Return the depth that the launches reach: all are compiled if any is CUDA C++.

        ptxas, which alone could be saved, takes a small part of the time that CUDA C++ takes:
        docs/decisions/0034-cuda-at-the-lowered-depth.md.
        """
        return Depth.COMPILED if self.extensions.launches else depth


def analyse(
    workload: Workload, device: Device, params: Mapping[str, Value], jobs: int = 1
) -> Analysis:
    """Capture what the candidate launches and compile it for a device; see `analyse_all`.

    Raises:
        ParamsError: no configuration of an autotuned kernel matches `params`.
    """
    (analysis,) = analyse_all([(lambda: workload, params)], device, jobs)
    if isinstance(analysis, SolkitError):
        raise analysis
    return analysis


def analyse_all(
    candidates: Candidates,
    device: Device,
    jobs: int = 1,
    isolated: bool = False,
    progress: Callable[[], None] = lambda: None,
    depth: Depth = Depth.COMPILED,
    limit_s: float | None = None,
) -> list[Analysis | SolkitError]:
    """Capture what candidates launch and compile it for a device, or only lower it.

    What launches CUDA C++ is compiled at the lowered depth too.

    Together they are faster: equal kernels are compiled once, and the machine code of all is read
    at once.

    Args:
        candidates: each makes a workload with fake tensors as inputs; with the parameters that an
            autotuned kernel's configuration must match.
        device: the target, for which the fakes were installed.
        jobs: processes that may compile at once.
        isolated: whether each kernel is compiled in a process of its own, even a single one.
        progress: called now and then.
        depth: compiled or lowered.
        limit_s: seconds that each candidate may run.

    Returns:
        For each an analysis, whose status says how far it got and whose notes say why; or an error,
        such as `ParamsError` if no configuration of an autotuned kernel matches.
    """
    listed = [_Attempt(make, params) for make, params in candidates]
    kernels = _compiled(listed, device, jobs, isolated, progress, depth, limit_s)
    results: list[Analysis | SolkitError] = []
    for attempt in listed:
        run = attempt.run
        if isinstance(run, _Run):
            deep = run.reached(depth)
            analysis = _analysis(run, kernels.compiled[deep], device, deep)
            again = partial(_attempted, attempt, device, limit_s)
            results.append(_with_failed_builds(run, analysis, again, device, depth))
        elif run is not None:
            results.append(run)
        progress()
    return results


def compile_only(
    candidates: Candidates,
    device: Device,
    jobs: int = 1,
    isolated: bool = False,
    progress: Callable[[], None] = lambda: None,
    limit_s: float | None = None,
    every_choice: bool = False,
) -> None:
    """Compile what candidates launch in Triton into its cache: what else `analyse_all` does is not.

    Reading the machine code and following a launch take longer than most compiles. What does not
    compile says so where it is launched. Arguments are as for `analyse_all`; `every_choice` is as
    for `capture`.
    """
    how = jobs, isolated, progress, Depth.COMPILED, limit_s
    listed = [_Attempt(make, params, every_choice=every_choice) for make, params in candidates]
    _compiled(listed, device, *how, is_read=False)


def _compiled(
    listed: Sequence[_Attempt],
    device: Device,
    jobs: int,
    isolated: bool,
    progress: Callable[[], None],
    depth: Depth,
    limit_s: float | None,
    is_read: bool = True,
) -> _Kernels:
    """Run candidates and compile what they launch, until autotuned kernels pass over no more."""
    kernels = _Kernels(device, jobs, isolated, progress, is_read)
    waiting = listed
    while waiting:
        for attempt in waiting:
            attempt.run = _attempted(attempt, device, limit_s)
            progress()
        kernels.compile(
            [attempt.run for attempt in waiting if isinstance(attempt.run, _Run)], depth
        )
        waiting = [attempt for attempt in waiting if attempt.passes_over(kernels, depth)]
    return kernels


def _with_failed_builds(
    run: _Run,
    analysis: Analysis,
    again: Callable[[], _Run | Analysis | SolkitError],
    device: Device,
    depth: Depth,
) -> Analysis:
    """Return what a candidate does if its extensions that do not compile are not built.

    `load_inline` raises an error where it builds, and many candidates then do without. One that
    fails all the same keeps its analysis, which names the compiler's error.
    """
    failed = {k.launch.name: k.error for k in analysis.kernels if k.facts.registers is None}
    sources = [
        (launch.source, launch.host.kernel)
        for launch in run.extensions.launches
        if isinstance(launch.source, cuda.Source)
    ]
    errors = {source: failed.get(kernel) for source, kernel in sources}
    causes = {source: error for source, error in errors.items() if error}
    if not causes:
        return analysis
    with cuda.failing_builds(causes):
        second = again()
    if not isinstance(second, _Run) or not second.whole:
        return analysis
    if not second.captured.launches and not second.captured.library:
        return analysis
    kernels = {id(launch.kernel): launch.kernel for launch in second.captured.launches}
    results = compile_all(list(kernels.values()), device, depth=depth)
    retried = _analysis(second, dict(zip(kernels, results, strict=True)), device, depth)
    notes = [
        f"An extension does not build, and the candidate does without: {e}."
        for e in causes.values()
    ]
    return replace(retried, notes=(*notes, *retried.notes))


@dataclass(eq=False)
class _Attempt:
    """A candidate on its way.

    Attributes:
        make: its workload.
        params: for `capture`.
        skipped: configurations that its autotuned kernels pass over, since they do not run.
        every_choice: as for `capture`.
        run: the latest, or the result without one.
    """

    make: Callable[[], Workload]
    params: Mapping[str, Value]
    skipped: frozenset[Choice] = frozenset()
    every_choice: bool = False
    run: _Run | Analysis | SolkitError | None = None

    def passes_over(self, kernels: _Kernels, depth: Depth) -> bool:
        """Tell whether another run shows what Triton takes instead of failing configurations."""
        if not isinstance(self.run, _Run):
            return False
        launches, compiled = self.run.captured.launches, kernels.compiled[self.run.reached(depth)]
        more = passed_over(launches, compiled) - self.skipped
        self.skipped |= more
        return bool(more)


@dataclass(eq=False)
class _Kernels:
    """Triton kernels of all candidates, compiled once; arguments as for `analyse_all`."""

    device: Device
    jobs: int
    isolated: bool
    progress: Callable[[], None]
    is_read: bool = True  # whether their machine code is
    compiled: dict[Depth, dict[int, Compiled]] = field(default_factory=dict)
    _alive: list[Specialisation] = field(default_factory=list)  # so that identities stay

    def compile(self, runs: Sequence[_Run], depth: Depth) -> None:
        """Compile or lower what runs launch."""
        for deep in dict.fromkeys((depth, Depth.COMPILED)):
            kernels = {
                id(launch.kernel): launch.kernel
                for run in runs
                if run.reached(depth) is deep
                for launch in run.captured.launches
            }
            self._alive += kernels.values()
            results = compile_all(
                list(kernels.values()),
                self.device,
                self.jobs,
                self.isolated,
                progress=self.progress,
                depth=deep,
                is_read=self.is_read,
            )
            self.compiled.setdefault(deep, {}).update(zip(kernels, results, strict=True))


def captured_only(
    recipes: Recipes, params: Mapping[str, Value], device: Device
) -> Analysis | SolkitError:
    """Return what a candidate launches, without a compiler: captured facts.

    Args:
        recipes: of the candidate at a shape.
        params: as for `analyse_all`.
        device: the target.
    """
    run = _recorded(lambda seen: recipes.capture(params, seen))
    if not isinstance(run, _Run):
        return run
    own = [launch.launch for launch in run.extensions.launches if launch.launch is not None]
    launches = [*(launch.launch for launch in run.captured.launches), *own]
    if not launches and not run.captured.library:
        return _without_launches(run)
    facts = [Facts(launch, Depth.CAPTURED) for launch in launches]
    all_facts = library.with_operators(
        facts, run.captured.library, device, Depth.CAPTURED, lambda op_facts: op_facts
    )
    kernels = tuple(map(KernelAnalysis, all_facts))
    seen = run.captured.is_whole and not run.extensions.unseen
    whole = run.whole and seen and len(own) == len(run.extensions.launches)
    status = AnalysisStatus.COMPLETE if whole else AnalysisStatus.PARTIAL
    notes, files = (*run.captured.notes, *run.extensions.remarks), tuple(run.extensions.files)
    return Analysis(status, kernels, notes, run.captured.outputs, files, whole)


def _attempted(
    attempt: _Attempt, device: Device, limit_s: float | None
) -> _Run | Analysis | SolkitError:
    """Return a run, or the result without one."""
    try:
        # what a constructor launches, to warm up, is no part of a run
        with cuda.recording(), seeing_graphs(attempt.params, attempt.skipped):
            workload = attempt.make()
    except SolkitError as error:
        return error
    if workload.kernel is None:
        return Analysis(AnalysisStatus.NO_KERNEL)
    if not is_analysed(device):
        return Analysis(AnalysisStatus.UNSUPPORTED_DEVICE, notes=(_unsupported(device),))
    params, skipped = attempt.params, attempt.skipped
    every = attempt.every_choice
    return _recorded(lambda seen: capture(workload, params, limit_s, seen, skipped, every))


def _recorded(run: Callable[[cuda.CudaRecording], Captured]) -> _Run | SolkitError:
    with cuda.recording() as extensions:
        try:
            return _Run(run(extensions), extensions, True)
        except CaptureError as error:
            note = f"The candidate could not be run on fake tensors: {error}"
            note = str(error) if error.is_unanalysed else note
            captured = Captured((), (note,), "", is_unanalysed=error.is_unanalysed)
            return _Run(captured, extensions, False, error.failure)
        except SolkitError as error:
            return error


def _analysis(
    run: _Run, compiled: Mapping[int, Compiled], device: Device, depth: Depth
) -> Analysis:
    captured, extensions = run.captured, run.extensions
    if not captured.launches and not extensions.launches and not captured.library:
        return _without_launches(run)
    followed = launch_facts(
        captured.launches,
        lambda kernels: [compiled[id(kernel)] for kernel in kernels],
        device,
        depth,
    )
    pairs = [
        (launch, facts) for launch, (facts, _) in zip(captured.launches, followed, strict=True)
    ]
    extended, unknown, binaries = extension_facts(extensions.launches, device)
    followed += extended
    followed = library.with_operators(
        followed, captured.library, device, depth, lambda facts: (facts, 0.0)
    )
    unread = (*_notes([facts for facts, _ in followed]), *_doubts(device))
    notes = tuple(dict.fromkeys((*captured.notes, *unread, *extensions.remarks, *unknown)))
    kernels = tuple(described(facts, device, seconds) for facts, seconds in followed)
    whole = run.whole and captured.is_whole and not unknown and not extensions.unseen
    unfinished = any(compiled[id(launch.kernel)].is_unfinished for launch in captured.launches)
    sound = whole and not unfinished and all(kernel.error is None for kernel in kernels)
    status = AnalysisStatus.COMPLETE if sound else AnalysisStatus.PARTIAL
    files = tuple(extensions.files)
    written = () if extensions.launches else outputs_written(captured.created, pairs)
    shallow = Analysis(status, kernels, notes, captured.outputs, files, whole, run.failure, written)
    if not sound:
        return shallow
    codes = [(launch, facts, compiled[id(launch.kernel)]) for launch, facts in pairs]
    others = [*zip(extensions.launches, binaries, strict=True)]
    unread_storages = {
        n: storage for n, storage in captured.unread.items() if storage not in extensions.merged
    }
    code = "" if extensions.launches else compiled_identity(captured, compiled)
    return replace(shallow, unread=unread_inputs(unread_storages, codes, others), code=code)


def _without_launches(run: _Run) -> Analysis:
    """Return the analysis of a run without a visible launch."""
    captured, extensions = run.captured, run.extensions
    seen = run.whole and captured.is_whole and not extensions.unseen
    remarks = (*captured.notes, *extensions.remarks)
    notes = (_NOTHING, *remarks) if seen else remarks
    is_unanalysed, outputs = captured.is_unanalysed or extensions.unseen, captured.outputs
    status = AnalysisStatus.NOT_ANALYSED if is_unanalysed else AnalysisStatus.NOT_CAPTURED
    unread = tuple(captured.unread) if seen else ()
    return Analysis(status, (), notes, outputs, failure=run.failure, unread=unread)


def _notes(all_facts: Sequence[Facts]) -> tuple[str, ...]:
    """List what could not be read, and what was guessed."""
    unread = [note for facts in all_facts for note in facts.notes]
    guesses = [g for facts in all_facts if facts.requests for g in facts.requests.guesses]
    return (*unread, *guesses)


def _doubts(device: Device) -> tuple[str, ...]:
    """Return what to think of the modelled times, a sentence."""
    why = unvalidated(device)
    return (f"{why[0].upper()}{why[1:]}.",) if why else ()


def _unsupported(device: Device) -> str:
    major, minor = device.compute_capability
    return (
        f"{device.name} has compute capability {major}.{minor}; kernels are analysed from "
        f"8.0 on, so only bounds are given."
    )
