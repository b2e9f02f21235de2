"""Tripwires in the candidate's process: what a candidate replaced, left running or returned.

A candidate can bypass any check in its own process, so no verdict rests on these alone: inputs,
expected outputs, comparisons and the wall clock belong to the referee, in another process. The
guard says in words *why* a time cannot be trusted.

::

    CheatDetector ─┬─ replaced_functions  of torch, triton, Python and SolKit
                   ├─ probes              streams: busy without anyone waiting, or keeping L2?
                   │                      threads, processes, timers, hooks: what still runs?
                   │                      precision flags, modes, dispatcher: changed?
                   └─ output_aliasing     returned values: plain tensors in their own memory?
"""

from __future__ import annotations

from typing import Any

from solkit.measure.anti_cheating import Finding
from solkit.measure.anti_cheating.output_aliasing import Outputs, tensors_in
from solkit.measure.anti_cheating.probes import Background, Globals, stream_findings
from solkit.measure.anti_cheating.replaced_functions import Identities

_known: Identities | None = None


def record_originals() -> None:
    """Record now, in about 0.2 s, what must stay unchanged in this process and its forks."""
    global _known
    _known = Identities()


class CheatDetector:
    """The state of this process before the candidate was imported.

    Construct it before the import, and keep its bound `findings`. It imports triton if installed,
    and adds a permanent audit hook to the process.
    """

    def __init__(self) -> None:
        self._identities = _known or Identities()
        self._globals = Globals()
        self._outputs = Outputs()
        self._background = Background()

    def accept_settings(self) -> None:
        """Take the settings of torch as they are now: SolKit changed them, not the candidate."""
        self._globals = Globals()

    def findings(
        self, returned: Any = None, inputs: Any = (), shares_memory: bool = False
    ) -> tuple[Finding, ...]:
        """Return what the candidate has done so far, proofs first.

        Call it after the import and after calls, before anything synchronises the whole device:
        otherwise unawaited work on other streams has ended. It waits for the current stream.

        Args:
            returned: the call's return value, unchanged.
            inputs: tensors that outputs must not share memory with: the inputs without the
                destinations.
            shares_memory: whether the reference's outputs share memory with its inputs or within
                themselves, so the candidate's may too.
        """
        findings = [
            *stream_findings(tensors_in(inputs)),
            *self._background.findings(),
            *self._identities.findings(),
            *self._globals.findings(),
            *self._outputs.findings(returned, inputs, shares_memory),
        ]
        return tuple(sorted(dict.fromkeys(findings), key=lambda finding: not finding.is_proof))
