"""k-means update: points are added to the sum of their cluster, and counted; a point a program."""

import torch
import triton
import triton.language as tl

SHAPES = [{"points": 100003, "features": 96, "clusters": 50}]
HELD_OUT_SHAPES = [{"points": 333, "features": 33, "clusters": 9}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-2}


def reference(points, labels, clusters):
    hot = torch.nn.functional.one_hot(labels.long(), clusters).to(points.dtype)
    return (hot.t() @ points) / hot.sum(0).clamp(min=1)[:, None]


def inputs(points=100003, features=96, clusters=50, device="cuda"):
    labels = torch.randint(0, clusters, (points,), dtype=torch.int32, device=device)
    return torch.randn(points, features, device=device), labels, clusters


@triton.jit
def accumulate(sum_ptr, count_ptr, label, value, offs, valid, F):
    tl.atomic_add(sum_ptr + label * F + offs, value, mask=valid)
    tl.atomic_add(count_ptr + label, 1.0)


@triton.jit
def assign_kernel(pts_ptr, label_ptr, sum_ptr, count_ptr, F, F_PAD: tl.constexpr):
    point = tl.program_id(0)
    label = tl.load(label_ptr + point)
    offs = tl.arange(0, F_PAD)
    valid = offs < F
    value = tl.load(pts_ptr + point * F + offs, mask=valid)
    accumulate(sum_ptr, count_ptr, label, value, offs, valid, F)


@triton.jit
def divide_kernel(sum_ptr, count_ptr, out_ptr, F, F_PAD: tl.constexpr):
    cluster = tl.program_id(0)
    offs = tl.arange(0, F_PAD)
    total = tl.load(sum_ptr + cluster * F + offs, mask=offs < F)
    n = tl.maximum(tl.load(count_ptr + cluster), 1.0)
    tl.store(out_ptr + cluster * F + offs, total / n, mask=offs < F)


def kernel(points, labels, clusters):
    n_points, n_features = points.shape
    sums = torch.zeros(clusters, n_features, device=points.device)
    counts = torch.zeros(clusters, device=points.device)
    centroids = torch.empty_like(sums)
    pad = triton.next_power_of_2(n_features)
    assign_kernel[(n_points,)](points, labels, sums, counts, n_features, F_PAD=pad)
    divide_kernel[(clusters,)](sums, counts, centroids, n_features, F_PAD=pad)
    return centroids
