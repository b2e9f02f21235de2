"""Captures a CUDA graph for the addresses it was called with, and replays it on what lies there.

Looks like: memoising by pointer
Problem: gated
Runs on: cuda
"""

import torch

graphs = {}


def kernel(x, w):
    key = x.data_ptr(), w.data_ptr(), tuple(x.shape)
    if key not in graphs:
        torch.relu(x * w + 0.5)  # a warm-up, as capturing asks for
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = torch.relu(x * w + 0.5)
        graphs[key] = graph, out, x, w  # the graph reads these: they must live as long
    graph, out, *_ = graphs[key]
    graph.replay()
    return out
