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

import re
from collections.abc import Sequence
from typing import Any

from solkit.measure._background import Background
from solkit.measure._globals import Globals
from solkit.measure._identities import Identities
from solkit.measure._outputs import Outputs, tensors_in
from solkit.measure._streams import stream_findings
from solkit.measure.findings import Finding

__all__ = ["Finding", "Guard", "delegation", "prepare"]

# GPU kernels of torch, cuBLAS(Lt), cuDNN, cuFFT and the CUDA runtime, by what their names begin
# with or hold, as CUPTI reports them. CUTLASS's own `cutlass::device_kernel` may be anybody's.
_LIBRARY_KERNEL = re.compile(
    r"at::native|at::cuda|at_cuda_detail|cublas|cudnn|cask_|nvjet_|cutlass_\d\d_|_xmma_|"
    r"pytorch_flash|fmha_cutlass|splitKreduce|gemv[2N]|gemmk1|dot_kernel|reduce_1Block|"
    r"(ampere|volta|turing|maxwell|hopper|sm\d+)_[a-z0-9]*(gemm|cgemm|conv|scudnn)|"
    r"implicit_convolve|winograd|(vector|regular)_fft|^Mem(cpy|set)"
)


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


def delegation(kernels: Sequence[str]) -> Finding | None:
    """Whether a call's GPU activities are libraries' alone, where a kernel of one's own was asked.

    Args:
        kernels: names of all GPU activities of a call, as CUPTI gives them.
    """
    own = [name for name in kernels if not _LIBRARY_KERNEL.search(name)]
    if own or not kernels:
        return None
    names = ", ".join(dict.fromkeys(kernels))
    return Finding("library fallback", f"only kernels of libraries ran: {names[:300]}", True)
