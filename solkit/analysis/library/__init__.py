"""PyTorch operators inside a candidate: each a launch of a kernel that a library brings.

``watching`` records them while a candidate runs on fake tensors, ``touched`` says which bytes each
reads and writes, and ``facts`` makes `solkit.core.Facts` of them. Nothing is fused: an operator is
one launch, although some libraries need several for it (a sort, a convolution by FFT).
"""

from solkit.analysis.library.facts import library_facts, with_operators
from solkit.analysis.library.operator_recorder import (
    LibraryLaunch,
    LibraryOp,
    LibraryRecording,
    innermost_recording,
    recording,
    recording_operators,
    repeating,
)

__all__ = [
    "LibraryLaunch",
    "LibraryOp",
    "LibraryRecording",
    "innermost_recording",
    "library_facts",
    "recording",
    "recording_operators",
    "repeating",
    "with_operators",
]
