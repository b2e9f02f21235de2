"""Further parents of a kernel that has a PyTorch reference: what `torch.compile` would run.

::

    reference ─┬─ Inductor ──────────────────────┐
               ├─ Inductor, other settings ──────┼─► behind the kernel's entry point ─► variants
               └─ best algorithm ─► Inductor ────┘

Each program fits the search's shape. Its file runs it under a condition on all that Inductor
specialised it for, and does what the original did elsewhere. Spare cores compile them while
candidates are measured, in this order: the search keeps GPU seconds for what comes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from solkit.analysis.pool import usable_cores
from solkit.core import Bound, Device, EvolveSettings, KernelFile, Proposal, Value
from solkit.core.proposals import EntryPoint
from solkit.errors import InputError, SolkitError
from solkit.pipeline.best_algorithm import best, planned_reference
from solkit.pipeline.bounding import bound
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.preparing import Preparation
from solkit.processes import jobs
from solkit.processes.jobs import DerivedJobs, Jobs, shared_jobs
from solkit.spans import span

if TYPE_CHECKING:
    from solkit.tuner.proposers.inductor_settings import Choice

COMPILED = "inductor"
"""Proposer of these variants."""
INDUCTORS_IMPORTS = ("torch._inductor.runtime.triton_helpers",)
"""Modules that its programs import besides torch and Triton: 800 of PyTorch's."""
_KIND, _BEST = "compiled reference", "best algorithm"
_INTENT = "What torch.compile would run at this shape; the original's launches run at others."
_WARM_UP = "solkit.analysis.compiled_reference:warm_up"
"""Job that imports Inductor once for all compiles: the import takes as long as most of them."""
_CORES_PER_PROGRAM = 8  # for each that is compiled at a time
_LIMIT_S = 40.0  # the search may wait for the first: most take 5, one that unrolls a loop 300

Written = Future[tuple[str, Proposal] | None]


@dataclass
class CompiledParents:
    """Programs of a kernel's reference.

    Attributes:
        original: what the search starts from.
        prepared: holds files of the search.
        how: the settings.
        notes: why there is none, a sentence.
    """

    original: Original
    prepared: Preparation
    how: EvolveSettings
    notes: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _jobs: Jobs = field(default_factory=lambda: DerivedJobs(shared_jobs(), _WARM_UP))

    def begin(self) -> list[Written]:
        """Begin to compile programs, the reference's own first.

        There are none where the file has no reference, or its text shows no entry point.
        """
        original = self.original
        entry = entry_of(original.variant.source, original.file)
        if entry is None or original.compiled is not None:
            return []
        from solkit.tuner.evolution.evolution_search import EXPECTED
        from solkit.tuner.proposers.inductor_settings import CHOICES

        sm_count = self.prepared.device.sm_count
        choices = [choice for choice in CHOICES if choice.least_sms <= sm_count]
        steps: list[Callable[[], Proposal | None]] = [
            partial(self._program, entry, {}, _KIND, _INTENT),
            *(partial(self._chosen, entry, choice) for choice in choices),
        ]
        steps.insert(EXPECTED, partial(self._best_algorithm, entry))  # the first gain most
        pool = ThreadPoolExecutor(max(usable_cores() // _CORES_PER_PROGRAM, 1), "programs")
        written = [pool.submit(self._written, place, step) for place, step in enumerate(steps)]
        pool.shutdown(wait=False)
        return written

    def close(self) -> None:
        """Give up what is not compiled yet."""
        self._ended.set()
        self._jobs.close()

    def _written(
        self, place: int, step: Callable[[], Proposal | None]
    ) -> tuple[str, Proposal] | None:
        """Return what a step writes; none follows where the reference itself has no program."""
        if self._ended.is_set():
            return None
        try:
            with span("compiling the reference"):
                proposal = step()
        except (SolkitError, OSError) as error:
            if place == 0 and not self._ended.is_set():
                self.notes.append(f"The reference's own program was not tried: {error}")
                self._ended.set()
            return None
        finally:
            if self._ended.is_set():
                self._jobs.close()  # a step may have begun a job since
        return None if proposal is None else (COMPILED, proposal)

    def _program(
        self, entry: EntryPoint, settings: Mapping[str, Any], kind: str, intent: str
    ) -> Proposal | None:
        return self._proposal(self.original.problem, entry, settings, kind, intent)

    @cached_property
    def _bound(self) -> Bound:
        """Bound of the problem at the search's shape."""
        original = self.original
        return bound(original.problem, self.prepared.device, shape=original.shape)

    def _chosen(self, entry: EntryPoint, choice: Choice) -> Proposal | None:
        if choice.has_precision:
            choice = choice.in_precision(self._bound)
        return self._program(entry, choice.settings, choice.kind, choice.intent)

    def _best_algorithm(self, entry: EntryPoint) -> Proposal | None:
        original, problem = self.original, self.original.file.problem
        algorithm = best(original.problem, self.prepared.device, shape=original.shape)
        if not algorithm.code or self._ended.is_set():
            return None
        text = planned_reference(original.problem, problem.format, algorithm)
        if text is None:
            return None
        path = self.prepared.path(text)
        return self._proposal(path, entry, {}, _BEST, f"{algorithm.plan}.")

    def _proposal(
        self,
        path: str | os.PathLike[str],
        entry: EntryPoint,
        settings: Mapping[str, Any],
        kind: str,
        intent: str,
    ) -> Proposal | None:
        """Return a program behind the entry point; ``None`` if its calls are not allowed."""
        original = self.original
        joined, libraries = with_compiled_reference(
            original.variant.source,
            original.params,
            (os.fspath(path), entry, original.shape),
            self.prepared.device,
            settings,
            self._jobs.call,
        )
        if libraries and self.how.custom_kernel:
            return None
        called = f" PyTorch's own kernels do {', '.join(libraries)}." if libraries else ""
        return Proposal(joined, kind, f"{intent}{called}")


def entry_of(source: str, file: KernelFile) -> EntryPoint | None:
    """Return a kernel's entry point; ``None`` if it has no reference, or its text shows none."""
    from solkit.tuner.proposers.rewriter.entry_points import entry_point

    if file.candidate is None or file.problem.reference is None:
        return None
    entry = entry_point(source, file.path, file.candidate.params)
    is_model = file.problem.format == "kernelbench"
    return entry if entry is not None and (entry.init is not None) == is_model else None


def with_compiled_reference(
    source: str,
    params: Mapping[str, Value],
    called: tuple[str, EntryPoint, Mapping[str, Value]],
    device: Device,
    settings: Mapping[str, Any] | None = None,
    call: Callable[..., Any] = jobs.call,
) -> tuple[str, tuple[str, ...]]:
    """Return a kernel file with its reference's program behind its entry point.

    Args:
        source: the kernel file, which does what it did where the program does not fit.
        params: its parameters in use.
        called: the file with the reference, the entry point, and the shape.
        device: for which Inductor compiles.
        settings: of ``torch._inductor.config``, besides its defaults.
        call: runs a job.

    Returns:
        The text, and operators of PyTorch's that the program calls.

    Raises:
        InputError: there is no such program, or the entry point cannot call it.
    """
    from solkit.tuner.proposers.rewriter.entry_points import with_program

    path, entry, shape = called
    text, conditions, libraries = call(
        "solkit.analysis.compiled_reference:write_program",
        path,
        device,
        dict(shape),
        entry,
        dict(settings or {}),
        timeout_s=_LIMIT_S,
    )
    if joined := with_program(source, params, text, conditions):
        return joined, libraries
    raise InputError("a name would stand for two things in one file")
