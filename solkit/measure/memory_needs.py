"""Device memory that a measurement takes at the least.

The referee holds the inputs and what it compares; each candidate has inputs and outputs of its own
(`solkit.measure.guarded`).
"""

from __future__ import annotations

_INPUTS_HELD, _OUTPUTS_HELD = 2, 5
"""Copies at least: the inputs and what the candidate gets of them; the correct outputs, the
candidate's, what it worked with, what it passes on, and what is judged."""


def least_memory_bytes(inputs_bytes: int, outputs_bytes: int, candidates: int = 1) -> int:
    """Return bytes of device memory without which nothing can be measured.

    What the reference and the kernels work with comes on top.

    Args:
        inputs_bytes: of one set of inputs, which candidates share.
        outputs_bytes: of one set of outputs.
        candidates: how many are timed in turns; each keeps its last outputs.
    """
    outputs = _OUTPUTS_HELD + candidates - 1
    return _INPUTS_HELD * inputs_bytes + outputs * outputs_bytes
