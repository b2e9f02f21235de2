"""Inductor's real `CachingAutotuner` around a kernel of its kind."""

from __future__ import annotations

import copy

import triton
import triton.language as tl


@triton.jit
def triton_poi_fused_mul_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out_ptr0 + at, 2 * tl.load(in_ptr0 + at, at < xnumel), at < xnumel)


KERNEL = triton_poi_fused_mul_0


def make_tuner(module, blocks=(1024,), kind="POINTWISE", **meta):
    from torch._inductor.runtime.hints import DeviceProperties

    device = DeviceProperties("cuda", 0, 132, 90, 9, 65536, 2048, 1024, 32)
    configs = [triton.Config({"XBLOCK": n}, num_warps=4, num_stages=1) for n in blocks]
    return module.CachingAutotuner(
        copy.copy(KERNEL),
        {"device": device, "signature": {}, "constants": {}, **meta.pop("triton_meta", {})},
        configs,
        None,
        [],
        False,
        getattr(module.HeuristicType, kind),
        size_hints={"x": 4096},
        inductor_meta={"kernel_name": KERNEL.__name__, **meta},
    )
