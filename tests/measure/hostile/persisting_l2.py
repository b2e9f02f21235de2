"""A window of its stream keeps the inputs in L2 across calls: no flush drives them out.

Trick: L2 persistence
Problem: gated
Verdict: cheating
Defence: guard: L2 persistence
Runs on: cuda
"""

import ctypes

import torch

PERSISTING_L2_LIMIT, ACCESS_POLICY_WINDOW, STREAMING, PERSISTING = 6, 1, 1, 2


class Window(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
        ("rest", ctypes.c_char * 64),
    )


def keep(tensor, stream):
    cuda = ctypes.CDLL("libcuda.so.1")
    size = min(tensor.nbytes, 16 << 20)
    cuda.cuCtxSetLimit(PERSISTING_L2_LIMIT, ctypes.c_size_t(size))
    window = Window(tensor.data_ptr(), size, 1.0, PERSISTING, STREAMING)
    handle = ctypes.c_void_p(stream.cuda_stream)
    cuda.cuStreamSetAttribute(handle, ACCESS_POLICY_WINDOW, ctypes.byref(window))


def kernel(x, w):
    current, mine = torch.cuda.current_stream(), torch.cuda.Stream()
    mine.wait_stream(current)
    keep(x, mine)
    with torch.cuda.stream(mine):
        out = torch.relu(x * w + 0.5)
    current.wait_stream(mine)
    out.record_stream(current)
    return out
