"""Detection of work left to libraries when a custom kernel was requested.

Three kinds of evidence, each of which sees what another misses:

- the names of the GPU kernels in timed calls, from CUPTI, including those that a thread or an
extension launched;
- the operators that a call hands to torch, from its dispatcher: this works on a CPU, and for
library kernels with unknown names;
- the source (`solkit.measure.anti_cheating.source_suspicion`), which is a hint, not a proof.

Allocating, viewing, copying, casting, reducing and pointwise work by torch is allowed beside a
custom kernel. Contractions, convolutions, attention, normalisations, scans and sorts are not: they
are the task.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.flop_counter import flop_registry

from solkit.adapters.dispatch_modes import DispatchMode
from solkit.measure.anti_cheating import Finding

_TRICK = "library fallback"
_LEAST_SHARE = 0.1  # of a call's GPU time: the least share of its own kernels

# GPU kernels of torch, cuBLAS(Lt), cuDNN, cuFFT and the CUDA runtime, by prefixes and parts of
# their names in CUPTI. CUTLASS's `cutlass::device_kernel` may be a custom kernel.
_LIBRARY_KERNEL = re.compile(
    r"at::native|at::cuda|at_cuda_detail|cublas|cudnn|cask_|nvjet_|cutlass_\d\d_|_xmma_|"
    r"pytorch_flash|fmha_cutlass|splitKreduce|gemv[2N]|gemmk1|dot_kernel|reduce_1Block|"
    r"(ampere|volta|turing|maxwell|hopper|sm\d+)_[a-z0-9]*(gemm|cgemm|conv|scudnn)|"
    r"implicit_convolve|winograd|(vector|regular)_fft|^Mem(cpy|set)"
)

# Beside those that torch counts FLOPs for: by name in `torch.ops.aten`, with or without a `_`.
_COMPUTING = re.compile(
    r"_?(addmv|mv|dot|vdot|addr|addbmm|int_mm|grouped_mm|scaled_grouped_mm|weight_int\w*mm|"
    r"(log_)?softmax|(safe_)?softmax|cudnn_rnn|thnn_fused_\w+|\w*conv(olution)?\w*|"
    r"scaled_dot_product\w*|\w*attention\w*|\w*(batch|layer|group|instance|rms)_norm\w*|"
    r"cumsum|cumprod|cummax|cummin|logcumsumexp|sort|topk|kthvalue|mode|median|histc|bincount|"
    r"fft_\w+|linalg_\w+|cholesky\w*|triangular_solve|cdist_forward|pdist_forward|"
    r"\w*pool[123]?d?\w*|upsample\w*|grid_sampler\w*|embedding_bag|ctc_loss|nll_loss\w*)"
)
# Preparing memory: not part of any task.
_PREPARATION = re.compile(r"^Mem(cpy|set)|FillFunctor")
_COUNTED = {str(operator) for operator in flop_registry}


class Operators(DispatchMode):
    """Lists the torch operators that this thread calls inside a ``with`` block."""

    def __init__(self) -> None:
        self.names: list[str] = []  # such as ``aten.mm``, in the order of their first call
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record an operator, and run it."""
        name = str(func.overloadpacket)
        if name not in self.names:
            self.names.append(name)
        return func(*args, **(kwargs or {}))


def by_operators(operators: Sequence[str]) -> Finding | None:
    """Return a finding from a call's operators, as `Operators` names them."""
    computing = [
        name
        for name in operators
        if name in _COUNTED or _COMPUTING.fullmatch(name.removeprefix("aten."))
    ]
    if not computing:
        return None
    return Finding(_TRICK, f"the call hands its work to torch: {_join_names(computing)}", True)


def by_kernels(kernels_ms: Mapping[str, float]) -> Finding | None:
    """Return a finding from the GPU time of calls by kernel name, from CUPTI."""
    of_libraries = {n: ms for n, ms in kernels_ms.items() if _LIBRARY_KERNEL.search(n)}
    if not of_libraries:
        return None
    names = _join_names(sorted(of_libraries, key=of_libraries.__getitem__, reverse=True))
    if len(of_libraries) == len(kernels_ms):
        return Finding(_TRICK, f"only library kernels ran: {names}", True)
    work_ms = {n: ms for n, ms in kernels_ms.items() if not _PREPARATION.search(n)}
    own_ms = sum(ms for name, ms in work_ms.items() if name not in of_libraries)
    share = own_ms / sum(work_ms.values())
    if share >= _LEAST_SHARE:
        return None
    text = f"its own kernels took {share:.1%} of the GPU time, library kernels the rest: {names}"
    return Finding(_TRICK, text, True)


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names)[:300]
