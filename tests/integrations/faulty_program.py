"""A program that does what recorders break on: it launches everywhere, and ends as it is told.

It prints sums of its outputs, so that runs with and without SolKit can be compared.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading

import call_kernels
import torch
import triton

ENDS = {
    "returns": lambda: None,
    "raises": lambda: 1 / 0,
    "exits": lambda: sys.exit(7),
    "leaves": lambda: os._exit(5),
    "aborts": os.abort,
    "is_killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def add(n, x=None):
    x = torch.ones(n, device="cuda") if x is None else x
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731 - as launchers have it
    call_kernels.add_kernel[grid](x, x, out, n, BLOCK=128, ADD=True)
    return out


class Tripled(torch.autograd.Function):
    """Launches in autograd's thread, too."""

    @staticmethod
    def forward(_, x):
        return add(x.numel(), x)

    @staticmethod
    def backward(_, gradient):
        return add(gradient.numel(), gradient.contiguous())


def show(name, tensor):
    print(name, float(tensor.sum()), flush=True)


def in_threads():
    outs = []
    threads = [threading.Thread(target=lambda: outs.append(add(2000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show("threads", torch.stack(outs))


def in_autograd():
    x = torch.ones(3000, device="cuda", requires_grad=True)
    Tripled.apply(x).sum().backward()
    show("autograd", x.grad)


def in_graph():
    x = torch.ones(4000, device="cuda")
    add(4000, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = add(4000, x)
    x.fill_(2.0)
    graph.replay()
    show("graph", out)


def with_freed_inputs():
    for _ in range(3):
        total = add(5000).sum()
        gc.collect()
        torch.cuda.empty_cache()
    show("freed", total)
    print("held", torch.cuda.memory_allocated() < 1 << 20, flush=True)


def work():
    show("worker", add(6000))


def in_worker():
    worker = multiprocessing.get_context("spawn").Process(target=work)
    worker.start()
    worker.join()
    print("worker ended with", worker.exitcode, flush=True)


if __name__ == "__main__":
    show("first", add(1000))
    in_threads()
    in_autograd()
    in_graph()
    with_freed_inputs()
    in_worker()
    ENDS[sys.argv[1]]()
