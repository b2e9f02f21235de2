"""The way through: from a kernel file to a report. The public functions of SolKit.

Nothing here needs torch: what does runs in child processes (`solkit.worker`, `solkit.measure`).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import solkit
from solkit import measure as measuring
from solkit import worker
from solkit.core import (
    Analysis,
    AnalysisStatus,
    Bound,
    Case,
    Comparison,
    ComparisonReport,
    Device,
    Difference,
    FailedShape,
    Fusion,
    KernelFile,
    Part,
    PartBound,
    Report,
    Result,
    Study,
    Value,
    Verdict,
    Work,
)
from solkit.errors import (
    InputError,
    JobDiedError,
    KernelFileError,
    UnknownDeviceError,
    UnsupportedError,
)
from solkit.measure import protocols
from solkit.measure.counting import counted
from solkit.measure.messages import Samples
from solkit.roofline import devices as catalogue
from solkit.roofline import nvml
from solkit.roofline.bound import at_observed_clock
from solkit.roofline.bound import bound as bound_of
from solkit.roofline.calibration import calibrated
from solkit.roofline.gap import gap as gap_of
from solkit.roofline.score import score as score_of
from solkit.roofline.score import time_verdict

if TYPE_CHECKING:
    from solkit.measure.traces import Digests, TraceWriter
    from solkit.roofline.symbolic import SymbolicBound

__all__ = [
    "DEFAULT_DEVICE",
    "analyse",
    "bound",
    "bounds",
    "compare",
    "devices",
    "fusion",
    "load",
    "score",
    "symbolic_bound",
]

DEFAULT_DEVICE = "h100-sxm"
"""The target where none is named and the machine has no GPU."""

_STUDY_LIMIT_S = 180.0
"""For tracing a file's reference and capturing and compiling its candidate, at all shapes."""

_RETRY_LIMIT_S = 30.0
"""For doing it again without the candidate, after it took too long with it."""

_MEASURE_LIMIT_S = 120.0
"""For measuring one shape."""

Shape = Mapping[str, Value]


def devices() -> tuple[Device, ...]:
    """Every GPU of the catalogue, at its catalogued figures."""
    return catalogue.catalogue()


def load(
    path: str | os.PathLike[str], *, reference: str | os.PathLike[str] | None = None
) -> KernelFile:
    """Read a kernel file: what must be computed, and the candidate.

    Args:
        path: the file; native, KernelBench, or a Triton module with a launch description; or a
            problem folder of SOL-ExecBench or FlashInfer-Bench, or a solution for one.
        reference: the file with the reference, where `path` lacks one; a solution's problem.

    Raises:
        KernelFileError: the file cannot be used; names the line and what was expected.
    """
    device = catalogue.find(DEFAULT_DEVICE)
    file, other = _paths(path, reference)
    try:
        found: KernelFile = worker.call("solkit.study:describe", file, other, device)
    except JobDiedError as death:
        raise KernelFileError(f"reading it failed: {death}", file) from death
    return found


def bound(
    source: str | os.PathLike[str] | KernelFile,
    device: str | Device,
    *,
    shape: Shape | None = None,
    precision: str = "tolerance",
    protocol: str = "cold",
    reference: str | os.PathLike[str] | None = None,
) -> Bound:
    """The speed of light of a problem on a device.

    Args:
        source: a kernel file, or its path.
        device: a name from the catalogue, or a device.
        shape: sizes to override; the file's first shape otherwise.
        precision: see `solkit.roofline.precision.Rule`.
        protocol: ``"cold"``, or ``"warm"``: inputs and results lie in L2 where they fit.
        reference: as for `load`.

    Raises:
        InputError: the file, the device, the shape, the precision or the protocol is at fault.
    """
    target = _device(device)
    case = _first(_study(source, reference, target, _one(shape), {}, analysing=False))
    return _bound(case, case.work, target, precision, protocol)


def fusion(
    source: str | os.PathLike[str] | KernelFile,
    device: str | Device,
    *,
    groups: str | None = None,
    shape: Shape | None = None,
    precision: str = "tolerance",
    protocol: str = "cold",
    reference: str | os.PathLike[str] | None = None,
) -> Fusion:
    """What fusion is worth: a problem as one kernel, as one kernel an op, and as `groups`.

    Args:
        source: a kernel file, or its path.
        device: a name from the catalogue, or a device.
        groups: kernels in between, as `solkit.roofline.fusion` reads them: ``"0-3,4-7"`` by the
            ops' positions, ``"mm+relu,softmax"`` by their names, ``"L12-18"`` by lines.
        shape: sizes to override; the file's first shape otherwise.
        precision: as for `bound`.
        protocol: as for `bound`.
        reference: as for `load`.

    Raises:
        InputError: as for `bound`, or `groups` is at fault.
    """
    target = _device(device)
    study = _study(source, reference, target, _one(shape), {}, False, groups=groups or "")
    case = _first(study)
    return _fusion(case, _bound(case, case.work, target, precision, protocol), target, precision)


def analyse(
    source: str | os.PathLike[str] | KernelFile,
    device: str | Device,
    *,
    shape: Shape | None = None,
    params: Mapping[str, Value] | None = None,
    reference: str | os.PathLike[str] | None = None,
) -> Analysis:
    """What the candidate launches and what that compiles to for a device, with no GPU.

    Args:
        source: a kernel file, or its path.
        device: a name from the catalogue, or a device.
        shape: sizes to override; the file's first shape otherwise.
        params: the candidate's parameters to override.
        reference: as for `load`.

    Raises:
        InputError: the file, the device, the shape or a parameter is at fault.
    """
    study = _study(source, reference, _device(device), _one(shape), params or {}, analysing=True)
    return _first(study).analysis


def bounds(
    path: str | os.PathLike[str] | KernelFile,
    *,
    device: str | Device | None = None,
    reference: str | os.PathLike[str] | None = None,
    shapes: Sequence[Shape] | None = None,
    precision: str = "tolerance",
    protocol: str = "cold",
    groups: str | None = None,
    time_limit_s: float | None = None,
) -> Report:
    """Bound a kernel file's problem at each shape; its candidate, if any, is not looked at.

    Args:
        path: a kernel file, or its path.
        device: the target; by default the first GPU of this machine, else `DEFAULT_DEVICE`.
        reference: as for `load`.
        shapes: sizes to override, one result each; the file's own shapes otherwise.
        precision: as for `bound`.
        protocol: as for `bound`.
        groups: as for `fusion`.
        time_limit_s: seconds that tracing all shapes may take; 180 by default.

    Raises:
        InputError: as for `fusion`.
    """
    target = _target(device)
    study = _study(path, reference, target, shapes, {}, False, time_limit_s, groups or "")
    results = [_forecast(case, target, precision, protocol) for case in study.cases]
    return Report(_environment(), study.kernel, target, tuple(results), study.failed)


def score(
    path: str | os.PathLike[str] | KernelFile,
    *,
    device: str | Device | None = None,
    reference: str | os.PathLike[str] | None = None,
    shapes: Sequence[Shape] | None = None,
    params: Mapping[str, Value] | None = None,
    precision: str = "tolerance",
    measure: bool | None = None,
    time_limit_s: float | None = None,
    trace: str | os.PathLike[str] | None = None,
    protocol: str = "cold",
    sandbox: bool = False,
    custom_kernel: bool = False,
    ncu: bool = False,
) -> Report:
    """Bound, analyse and, on a GPU, measure a kernel at each shape.

    Every measurement is on disk, as a `solkit.measure.traces.Trace`, before the next one starts.

    Args:
        path: a kernel file, or its path.
        device: the target; by default the first GPU of this machine, else `DEFAULT_DEVICE`.
        reference: as for `load`.
        shapes: sizes to override, one result each; the file's own shapes otherwise.
        params: the candidate's parameters to override.
        precision: as for `bound`.
        measure: ``None`` measures where the target is a GPU of this machine.
        time_limit_s: seconds that one shape's measurement may take, and that reading, tracing
            and compiling for all shapes may take together; 120 and 180 by default.
        trace: the file to append measurements to; `solkit.measure.traces.default_path` by default.
        protocol: how it is timed, by name (`solkit.measure.protocols`): ``"cold"``, ``"warm"``, ...
        sandbox: whether all that runs the kernel's code, but for its problem when measured, runs
            under bubblewrap: docs/measuring.md says what that contains.
        custom_kernel: whether leaving the work to cuBLAS, cuDNN or torch is cheating.
        ncu: whether Nsight Compute counts, after the timing, what each launch does; a note says
            why where it could not.

    Raises:
        InputError: the file, the device, a shape, a parameter, the protocol or `trace` is at fault,
            or `ncu` and `sandbox` are both true: what is counted runs in no sandbox.
        UnsupportedError: what is to be measured on is not here, or there can be no sandbox here.
        TraceError: a measurement could not be written.
    """
    if ncu and sandbox:
        raise InputError("--ncu and --sandbox: what Nsight Compute counts runs outside the sandbox")
    l2 = protocols.find(protocol).l2
    target, environment, chosen = _target(device), _environment(), params or {}
    with _contained(sandbox, [path], reference):
        study = _study(path, reference, target, shapes, chosen, True, time_limit_s, groups="")
    results = [_forecast(case, target, precision, l2) for case in study.cases]
    if _wants_measurement(measure, target, study):
        how = protocol, trace, sandbox, custom_kernel
        with _Bench.opened(target, environment, time_limit_s, *how) as bench:
            for i, case in enumerate(study.cases):
                results[i] = bench.measured(study.kernel, case, chosen, results[i]).result
    if ncu:
        limit_s = _MEASURE_LIMIT_S if time_limit_s is None else time_limit_s
        results = [counted(study.kernel, result, target, limit_s) for result in results]
    return Report(environment, study.kernel, target, tuple(results), study.failed)


def compare(
    base: str | os.PathLike[str] | KernelFile,
    *candidates: str | os.PathLike[str] | KernelFile,
    device: str | Device | None = None,
    reference: str | os.PathLike[str] | None = None,
    shapes: Sequence[Shape] | None = None,
    base_params: Mapping[str, Value] | None = None,
    params: Mapping[str, Value] | None = None,
    precision: str = "tolerance",
    time_limit_s: float | None = None,
    budget_s: float = 2.0,
    trace: str | os.PathLike[str] | None = None,
    protocol: str = "cold",
    sandbox: bool = False,
    custom_kernel: bool = False,
) -> ComparisonReport:
    """Check candidates and their base, time each, then all of them in turns: which one is faster?

    Every measurement, and then every comparison, is on disk, as a `solkit.measure.traces.Trace`,
    before the next one starts. What makes a ratio and its interval: `solkit.measure.ratios`.

    Args:
        base: the kernel file, or its path, that the others are held against.
        candidates: theirs; one may be the base's, with other parameters.
        device: the target, which has to be a GPU of this machine; by default the first one.
        reference: the file with the reference, for all of them; the base's by default.
        shapes: as for `score`; the base's own by default.
        base_params: the base's parameters to override.
        params: the candidates' parameters to override.
        precision: as for `score`.
        time_limit_s: as for `score`, for each candidate.
        budget_s: seconds that a comparison's turns may take, beyond the least number of them.
        trace: as for `score`.
        protocol: as for `score`.
        sandbox: as for `score`.
        custom_kernel: as for `score`.

    Raises:
        InputError: as for `score`, or there is no candidate.
        UnsupportedError: the target is not in this machine, or there can be no sandbox.
        TraceError: a measurement could not be written.
    """
    l2 = protocols.find(protocol).l2
    target, environment = _target(device), _environment()
    settings = [base_params or {}, *[params or {} for _ in candidates]]
    sources = (base, *candidates)
    with _contained(sandbox, sources, reference):
        studies = _rivals(sources, settings, reference, target, shapes, time_limit_s)
    found: list[Comparison] = []
    how = protocol, trace, sandbox, custom_kernel
    with _Bench.opened(target, environment, time_limit_s, *how) as bench:
        for case in studies[0].cases:
            entries = [
                bench.measured(kernel, same, own, _forecast(same, target, precision, l2))
                for kernel, same, own in _at(case.shape, studies, settings)
            ]
            found += bench.compared(entries, budget_s)
    first, *others = (study.kernel for study in studies)
    failed = tuple(each for study in studies for each in study.failed)
    return ComparisonReport(environment, first, tuple(others), target, tuple(found), failed)


def symbolic_bound(
    source: str | os.PathLike[str] | KernelFile,
    names: Sequence[str],
    device: str | Device | None = None,
    *,
    shape: Shape | None = None,
    precision: str = "tolerance",
    reference: str | os.PathLike[str] | None = None,
    time_limit_s: float | None = None,
) -> SymbolicBound:
    """The roofline of a problem as a formula of some of its sizes; inputs start in DRAM.

    Args:
        source: a kernel file, or its path.
        names: the sizes that become symbols.
        device: a name from the catalogue, or a device.
        shape: sizes to override; the file's first shape otherwise.
        precision: as for `bound`.
        reference: as for `load`.
        time_limit_s: for tracing at all the sizes it takes; 180 s by default.

    Raises:
        InputError: the file, the device, a name, the shape or the precision is at fault, or no
            formula could be checked.
    """
    from solkit.roofline import symbolic  # brings sympy

    target = _target(device)
    path, other = _paths(source, reference)
    given = (path, other, target, shape, tuple(names))
    limit_s = _STUDY_LIMIT_S if time_limit_s is None else time_limit_s
    try:
        found = worker.call("solkit.symbolic_study:symbolic_work", *given, timeout_s=limit_s)
    except JobDiedError as death:
        raise KernelFileError(f"making a formula of it failed: {death}", path) from death
    return symbolic.symbolic_bound(found, target, precision)


# ----------------------------------------------------------------------------------- steps


def _device(device: str | Device) -> Device:
    if isinstance(device, Device):
        return device
    if not isinstance(device, str):
        raise InputError(f"device: expected a name such as {DEFAULT_DEVICE!r}, got {device!r}")
    return calibrated(catalogue.find(device))


def _one(shape: Shape | None) -> tuple[Shape, ...] | None:
    return None if shape is None else (shape,)


def _first(study: Study) -> Case:
    """The case of the first shape that was asked for.

    Raises:
        InputError: it is the one that failed.
    """
    for each in study.failed:
        if each.shape == study.kernel.problem.shapes[0]:
            raise InputError(each.error)
    return study.cases[0]


def _bound(case: Case, work: Work, device: Device, precision: str, protocol: str) -> Bound:
    return bound_of(work, device, precision=precision, tolerance=case.tolerance, protocol=protocol)


def _fusion(case: Case, whole: Bound, device: Device, precision: str) -> Fusion:
    def bounded(parts: Sequence[Part]) -> tuple[PartBound, ...]:
        return tuple(
            PartBound(part, _bound(case, part.work, device, precision, whole.protocol))
            for part in parts
        )

    return Fusion(whole.time_ms, bounded(case.unfused), bounded(case.grouped))


def _target(device: str | Device | None) -> Device:
    """The device asked for, taken live where it is the GPU of this machine."""
    try:
        live = nvml.live_devices()
    except UnknownDeviceError:  # a GPU that the catalogue lacks is no obstacle to another target
        if device is None:
            raise
        live = ()
    if device is None and live:
        return calibrated(live[0], nvml.driver_version())
    if device is None:
        note = f"No GPU here and no device named: bounds are for {DEFAULT_DEVICE}."
        default = calibrated(catalogue.find(DEFAULT_DEVICE))
        return replace(default, notes=(*default.notes, note))
    named = _device(device)
    if named.source == "nvml":
        return named
    here = next((gpu for gpu in live if gpu.key == named.key), None)
    return named if here is None else calibrated(here, nvml.driver_version())


def _study(
    source: str | os.PathLike[str] | KernelFile,
    reference: str | os.PathLike[str] | None,
    device: Device,
    shapes: Sequence[Shape] | None,
    params: Mapping[str, Value],
    analysing: bool,
    time_limit_s: float | None = None,
    groups: str | None = None,
) -> Study:
    """The study of all shapes; where one ends or hangs its process, of each on its own."""
    limit_s = _STUDY_LIMIT_S if time_limit_s is None else time_limit_s
    path, reference = _paths(source, reference)
    given = None if shapes is None else tuple(shapes)
    if given == ():
        raise InputError("shapes: expected at least one, or None for the file's own; got none")
    job = _Job(path, reference, device, dict(params), groups)
    try:
        return job.study(given, analysing, limit_s)
    except _DiedError as death:
        limit_s = min(limit_s, _RETRY_LIMIT_S) if death.timed_out else limit_s
        given = given or job.own_shapes(limit_s, death)
        if len(given) == 1:
            raise
        return _one_by_one(job, given, analysing, limit_s, death)


def _contained(
    sandbox: bool,
    sources: Sequence[str | os.PathLike[str] | KernelFile],
    reference: str | os.PathLike[str] | None,
) -> contextlib.AbstractContextManager[None]:
    """Have jobs run in a sandbox that shows these files, in a ``with`` block; or do nothing.

    Raises:
        UnsupportedError: there can be no sandbox here.
    """
    if not sandbox:
        return contextlib.nullcontext()
    files = (file for source in sources for file in _paths(source, reference))
    return worker.sandboxed(*(file for file in files if file is not None))


def _one_by_one(
    job: _Job, shapes: Sequence[Shape], analysing: bool, limit_s: float, death: _DiedError
) -> Study:
    studies: list[Study] = []
    failed: list[FailedShape] = []
    for shape in shapes:
        try:
            studies.append(job.study((shape,), analysing, limit_s))
        except InputError as error:
            failed.append(FailedShape(shape, str(error)))
    if not studies:
        raise death
    cases = tuple(case for study in studies for case in study.cases)
    return Study(studies[0].kernel, cases, tuple(failed))


def _rivals(
    sources: Sequence[str | os.PathLike[str] | KernelFile],
    settings: Sequence[Mapping[str, Value]],
    reference: str | os.PathLike[str] | None,
    target: Device,
    shapes: Sequence[Shape] | None,
    time_limit_s: float | None,
) -> list[Study]:
    """Studies of several candidates, for the first one's problem and at its shapes.

    Raises:
        InputError: there is but one.
        UnsupportedError: they cannot be measured.
    """
    if len(sources) < 2:
        raise InputError("candidates: expected at least one beside the base, got none")
    studies: list[Study] = []
    for source, params in zip(sources, settings, strict=True):
        own = None if _paths(source, None)[0] == reference else reference
        study = _study(source, own, target, shapes, params, True, time_limit_s)
        _wants_measurement(True, target, study)
        if not studies:
            reference = study.kernel.problem.path
            shapes = [case.shape for case in study.cases]
        studies.append(study)
    return studies


def _at(
    shape: Shape, studies: Sequence[Study], settings: Sequence[Mapping[str, Value]]
) -> Iterator[tuple[KernelFile, Case, Mapping[str, Value]]]:
    """Of each study that did not fail at a shape, its file, case and parameters."""
    for study, own in zip(studies, settings, strict=True):
        yield from ((study.kernel, case, own) for case in study.cases if case.shape == shape)


class _DiedError(KernelFileError):
    """A file that ended or hung the process that read or traced it."""

    def __init__(self, death: JobDiedError, path: str) -> None:
        super().__init__(f"reading and tracing it failed: {death}", path)
        self.timed_out = death.timed_out


@dataclass(frozen=True)
class _Job:
    """What to study, but for the shapes."""

    path: str
    reference: str | None
    device: Device
    params: dict[str, Value]
    groups: str | None

    def study(self, shapes: tuple[Shape, ...] | None, analysing: bool, limit_s: float) -> Study:
        """The study; one without an analysis where the candidate ends or hangs its process."""
        try:
            return self._attempt(shapes, analysing, limit_s)
        except JobDiedError as death:
            if not analysing:
                raise _DiedError(death, self.path) from death
            retry_s = min(limit_s, _RETRY_LIMIT_S) if death.timed_out else limit_s
            try:
                without = self._attempt(shapes, False, retry_s)
            except JobDiedError:  # so the candidate was not to blame
                raise _DiedError(death, self.path) from death
            note = f"The candidate could not be run on fake tensors: {death}"
            lost = Analysis(AnalysisStatus.NOT_CAPTURED, notes=(note,))
            return replace(without, cases=tuple(replace(c, analysis=lost) for c in without.cases))

    def own_shapes(self, limit_s: float, death: _DiedError) -> tuple[Shape, ...]:
        """The file's own shapes; `death` again where reading them is what ended the process."""
        where = (self.path, self.reference, self.device)
        try:
            file: KernelFile = worker.call("solkit.study:describe", *where, timeout_s=limit_s)
        except JobDiedError:
            raise death from None
        return file.problem.shapes

    def _attempt(self, shapes: tuple[Shape, ...] | None, analysing: bool, limit_s: float) -> Study:
        jobs = os.cpu_count() or 1
        where = (self.path, self.reference, self.device)
        how = (self.params, analysing, jobs, self.groups)
        found: Study = worker.call("solkit.study:study", *where, shapes, *how, timeout_s=limit_s)
        return found


def _paths(
    source: str | os.PathLike[str] | KernelFile, reference: str | os.PathLike[str] | None
) -> tuple[str, str | None]:
    reference = None if reference is None else os.fspath(reference)
    if not isinstance(source, KernelFile):
        return os.fspath(source), reference
    problem, candidate = source.problem, source.candidate
    if candidate is None or candidate.path == problem.path:
        return problem.path, reference
    return candidate.path, problem.path


def _forecast(case: Case, device: Device, precision: str, protocol: str) -> Result:
    """What is known before anything is timed."""
    found = _bound(case, case.work, device, precision, protocol)
    errors = [kernel.error for kernel in case.analysis.kernels if kernel.error is not None]
    return Result(
        shape=case.shape,
        params=case.params,
        verdict=Verdict.DOES_NOT_COMPILE if errors else Verdict.NOT_MEASURED,
        work=case.work,
        bound=found,
        analysis=case.analysis,
        errors=tuple(errors),
        fusion=_fusion(case, found, device, precision) if case.unfused else None,
        gap=gap_of(found, case.analysis.kernels, device),
    )


def _wants_measurement(measure: bool | None, device: Device, study: Study) -> bool:
    here = device.source == "nvml"
    possible = study.kernel.candidate is not None and study.kernel.problem.reference is not None
    if measure and not here:
        raise UnsupportedError(f"cannot measure on {device.name}: it is not in this machine")
    if measure and not possible:
        raise UnsupportedError(
            f"cannot measure {study.kernel.problem.path}: that needs both a reference and a kernel"
        )
    return here and possible and measure is not False


@dataclass(frozen=True)
class _Entry:
    """A candidate that was measured: its file, which version of it, and the result."""

    kernel: KernelFile
    sources: Digests
    result: Result


@dataclass(frozen=True)
class _Bench:
    """Measures on a GPU of this machine, and writes down what it measured before it goes on.

    Attributes:
        limit_s: seconds that measuring one candidate on one shape may take.
        protocol: how it is timed, by name.
        custom_kernel: whether a kernel of its own is asked for.
    """

    session: measuring.Session
    writer: TraceWriter
    device: Device
    environment: Mapping[str, str | None]
    limit_s: float
    protocol: str
    custom_kernel: bool

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls,
        device: Device,
        environment: Mapping[str, str | None],
        time_limit_s: float | None,
        protocol: str,
        trace: str | os.PathLike[str] | None,
        sandbox: bool = False,
        custom_kernel: bool = False,
    ) -> Iterator[_Bench]:
        """One whose processes end with the ``with`` block."""
        from solkit.measure.traces import TraceWriter  # takes time to load

        writer = TraceWriter(None if trace is None else Path(trace))
        limit_s = _MEASURE_LIMIT_S if time_limit_s is None else time_limit_s
        with measuring.Session(gpu=device.uuid, sandbox=sandbox) as session:
            yield cls(session, writer, device, environment, limit_s, protocol, custom_kernel)

    def measured(
        self, kernel: KernelFile, case: Case, params: Mapping[str, Value], forecast: Result
    ) -> _Entry:
        """The forecast with what became of the candidate."""
        from solkit.measure.traces import digests, trace_of

        assert kernel.candidate is not None
        sources = digests(kernel)
        separate = kernel.candidate.path != kernel.problem.path
        outcome = self.session.measure(
            kernel.candidate.path,
            case.shape,
            params,
            reference=kernel.problem.path if separate else None,
            time_limit_s=self.limit_s,
            protocol=self.protocol,
            custom_kernel=self.custom_kernel,
        )
        result = _judged(forecast, outcome, self.device)
        told = result, outcome.samples
        self.writer.append(trace_of(kernel, sources, self.device, self.environment, *told))
        return _Entry(kernel, sources, result)

    def compared(self, entries: Sequence[_Entry], budget_s: float) -> list[Comparison]:
        """Every candidate beside the first one, the base; those that failed are not run again."""
        sound = [n for n, each in enumerate(entries) if not each.result.verdict.is_failure]
        if 0 not in sound:
            outcome = measuring.ComparisonOutcome((), ("The base failed.",))
        elif len(sound) == 1:
            outcome = measuring.ComparisonOutcome((), ("The candidate failed.",))
        else:
            outcome = self._take_turns([entries[n] for n in sound], budget_s)
        places = {number: place for place, number in enumerate(sound)}
        return [
            self._compared(entries[0], entry, outcome, places.get(number))
            for number, entry in enumerate(entries)
            if number > 0
        ]

    def _take_turns(
        self, entries: Sequence[_Entry], budget_s: float
    ) -> measuring.ComparisonOutcome:
        base = entries[0]
        candidates = [
            replace(entry.kernel.candidate, params=entry.result.params)
            for entry in entries
            if entry.kernel.candidate is not None
        ]
        return self.session.compare(
            candidates,
            base.result.shape,
            reference=base.kernel.problem.path,
            time_limit_s=self.limit_s * len(entries),
            protocol=self.protocol,
            budget_s=budget_s,
            custom_kernel=self.custom_kernel,
        )

    def _compared(
        self,
        base: _Entry,
        candidate: _Entry,
        outcome: measuring.ComparisonOutcome,
        place: int | None,
    ) -> Comparison:
        """What an outcome says of the candidate in that place of it, and its trace on disk."""
        from solkit.measure.traces import trace_of_comparison

        found = _comparison(base, candidate, outcome, place)
        told = [_samples(outcome, each) for each in (0, place)]
        kernels, sources = (base.kernel, candidate.kernel), (base.sources, candidate.sources)
        self.writer.append(
            trace_of_comparison(
                kernels, sources, self.device, self.environment, found, (told[0], told[1])
            )
        )
        return found


def _comparison(
    base: _Entry, candidate: _Entry, outcome: measuring.ComparisonOutcome, place: int | None
) -> Comparison:
    from solkit.measure import ratios  # with numpy: takes time to load

    pair = candidate.kernel, base.result, candidate.result
    if place is None or not outcome.turns:
        errors = outcome.errors or ("The candidate failed.",)
        return Comparison(*pair, Difference.NOT_COMPARED, errors=errors)
    (turns,), protocol = outcome.turns, outcome.protocol
    assert protocol is not None
    base_ms, candidate_ms = turns.times_ms[0], turns.times_ms[place]
    ratio = ratios.ratio_of(base_ms, candidate_ms, protocol.method)
    return Comparison(
        *pair,
        Difference.UNSTABLE if turns.unstable else ratios.difference(ratio),
        ratio,
        median(base_ms),
        median(candidate_ms),
        protocol,
        turns.unstable + turns.notes,
    )


def _samples(outcome: measuring.ComparisonOutcome, place: int | None) -> Samples:
    """The times of the candidate in that place, as a trace has them."""
    if place is None or not outcome.turns:
        return Samples()
    (turns,) = outcome.turns
    return Samples(candidate_ms=turns.times_ms[place], conditions=turns.conditions)


def _judged(result: Result, outcome: measuring.Outcome, device: Device) -> Result:
    """The result with what became of the candidate, and with what follows from its time."""
    result = replace(
        result,
        verdict=outcome.verdict,
        protocol=outcome.protocol,
        measurement=outcome.measurement,
        errors=outcome.errors,
    )
    timed = outcome.measurement
    if timed is None or outcome.verdict is not Verdict.CORRECT:
        return result
    bound = result.bound
    if timed.sm_clock_mhz is not None:
        bound = at_observed_clock(bound, device, timed.sm_clock_mhz)
    return replace(
        result,
        bound=bound,
        verdict=time_verdict(bound, device, timed.median_ms),
        score=score_of(bound, timed.median_ms, timed.reference_ms),
        gap=gap_of(bound, result.analysis.kernels, device, timed),
    )


def _environment() -> dict[str, str | None]:
    versions: dict[str, str | None] = {
        "solkit": solkit.__version__,
        "python": platform.python_version(),
    }
    for package in ("torch", "triton"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    versions["driver"] = nvml.driver_version()
    versions["platform"] = platform.platform()
    return versions
