"""Tripwires in the candidate's process: what a candidate replaced, left running or returned.

A candidate that runs in the same process can in the end get round any check made there, so nothing
rests on these alone: inputs, expected outputs, comparing and the wall clock are the referee's, in
another process. The guard says *why* a time is not to be believed, in words.

::

    Guard ─┬─ _identities   functions of torch, triton, Python and SolKit: are they the same ones?
           ├─ _streams      streams: is one busy that nobody waits for, or does it keep L2?
           ├─ _background   threads, processes, timers, hooks: what still runs?
           ├─ _globals      precision flags, modes, dispatcher: what holds for everybody now?
           └─ _outputs      what was returned: plain tensors in memory of their own?
"""

from __future__ import annotations

from typing import Any

from solkit.measure._background import Background
from solkit.measure._globals import Globals
from solkit.measure._identities import Identities
from solkit.measure._outputs import Outputs, tensors_in
from solkit.measure._streams import stream_findings
from solkit.measure.findings import Finding

__all__ = ["Finding", "Guard", "prepare"]

_known: Identities | None = None


def prepare() -> None:
    """Look now, in some 0.2 s, at what guards are to find unchanged: here, or in a fork of this."""
    global _known
    _known = Identities()


class Guard:
    """What was true of this process before the candidate came.

    Use `armed` before the candidate is imported, and keep its bound `findings` from then on.
    """

    def __init__(self) -> None:
        self._identities = _known or Identities()
        self._globals = Globals()
        self._outputs = Outputs()
        self._background = Background()

    @classmethod
    def armed(cls) -> Guard:
        """A guard for the candidate that is to be imported next.

        It imports triton where that is installed, and adds an audit hook to the process, which
        stays.
        """
        return cls()

    def findings(
        self, returned: Any = None, inputs: Any = (), shares_memory: bool = False
    ) -> tuple[Finding, ...]:
        """What the candidate has done so far, proofs first.

        To be called after the import, and after calls: before anything waits for the whole device,
        or work on streams that nobody waits for will have ended. It waits for the current stream.

        Args:
            returned: what the call returned, as it was returned.
            inputs: what its outputs must not share memory with: the inputs less the destinations.
            shares_memory: whether the reference's outputs share memory with its inputs or within
                themselves, so that the candidate's may.
        """
        found = [
            *stream_findings(tensors_in(inputs)),
            *self._background.findings(),
            *self._identities.findings(),
            *self._globals.findings(),
            *self._outputs.findings(returned, inputs, shares_memory),
        ]
        return tuple(sorted(dict.fromkeys(found), key=lambda finding: not finding.is_proof))
