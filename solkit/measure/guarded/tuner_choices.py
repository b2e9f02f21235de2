"""Choices of autotuners that later processes of the same files keep.

An autotuner times its list in each process, seconds of GPU time. What one chose first stays, for
the same text, parameters and key. Choices are a process's own claims, so each counts for its own
file alone, and only from a process that ran nothing else but the file of the problem: no candidate
has a say in what another one launches.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from solkit.core import Value, canonical
from solkit.core.tuned import TunerChoice
from solkit.measure.guarded.messages import Request
from solkit.processes.child import Child

_Choices = dict[tuple[str, str], TunerChoice]  # by autotuner and key


@dataclass
class TunerChoices:
    """Choices by the GPU, the file, its text and parameters; files that processes have run."""

    _known: dict[tuple[str, ...], _Choices] = field(default_factory=dict)
    _ran: weakref.WeakKeyDictionary[Child, set[str]] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def of(self, gpu: str, path: str, params: Mapping[str, Value]) -> tuple[TunerChoice, ...]:
        """Return what a file's autotuners chose first, for each key."""
        return tuple(self._known.get(_name(gpu, path, params), {}).values())

    def note_run(self, children: Sequence[Child], requests: Sequence[Request]) -> None:
        """Note what processes are about to run."""
        for child, request in zip(children, requests, strict=True):
            self._ran.setdefault(child, set()).add(request.path)

    def keep(
        self,
        gpu: str,
        children: Sequence[Child],
        requests: Sequence[Request],
        chosen: Iterable[Sequence[TunerChoice]],
    ) -> None:
        """Keep what autotuners have chosen by now, unless other candidates ran in the process.

        Args:
            gpu: whose choices they are.
            children: the processes.
            requests: of each.
            chosen: by each, as it says; none at all if something failed.
        """
        for child, request, choices in zip(children, requests, chosen):
            own = {request.path, request.reference or request.path}
            if choices and self._ran.get(child, set()) <= own:
                choices_of_file = self._known.setdefault(
                    _name(gpu, request.path, request.params), {}
                )
                for choice in choices:
                    choices_of_file.setdefault((choice.tuner, choice.key), choice)


def _name(gpu: str, path: str, params: Mapping[str, Value]) -> tuple[str, ...]:
    file = Path(path)
    text = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    return gpu, path, text, canonical(params)
