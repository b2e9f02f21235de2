"""Launches of a candidate's CUDA C++, and what they compile to, with no GPU.

`torch.utils.cpp_extension.load_inline` and `load` hand over their sources. A call of one of their
functions is followed on fake tensors, which tells its launches and its result; the device code goes
to NVRTC for the target.
"""

from solkit.analysis.cuda.compiling import compile_launches
from solkit.analysis.cuda.launches import (
    CudaLaunch,
    CudaRecording,
    failing_builds,
    launch_again,
    recording,
)
from solkit.analysis.cuda.pipelines import stages_of
from solkit.analysis.cuda.requests import cuda_requests, read_parameters
from solkit.analysis.cuda.source import Source

__all__ = [
    "CudaLaunch",
    "CudaRecording",
    "Source",
    "compile_launches",
    "cuda_requests",
    "failing_builds",
    "launch_again",
    "read_parameters",
    "recording",
    "stages_of",
]
