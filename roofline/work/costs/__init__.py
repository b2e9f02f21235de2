"""The least operations that each ATen op costs.

One file per family of ops, one function per `solkit.ops.Operator.cost`. Counts are those of the
op's definition with every shared subexpression computed once: a softmax needs one exponential
per element and one reciprocal per row. A multiply-add is two operations. What is not listed here
and is not tagged pointwise by torch is reported as unmodelled.

Pipes: half-precision elementwise math is done in fp32 (PyTorch's `opmath`), integers and booleans
on the integer ALUs, and exponentials, logarithms, reciprocals, roots, sines and tangents are one
result each of the special-function unit (MUFU), as in the CUDA C++ Programming Guide's table of
arithmetic instruction throughput.
"""

from solkit.roofline.work.costs import (  # noqa: F401 (importing a family registers its rules)
    attention,
    contractions,
    convolutions,
    distances,
    grouped,
    linalg,
    losses,
    moves,
    norms,
    optimizers,
    pointwise,
    pooling,
    quantized,
    recurrent,
    reductions,
    resampling,
    scatters,
    sparse,
    spectral,
)
from solkit.roofline.work.costs._base import (
    Cost,
    common_dtype,
    contraction_dtype,
    cost_of,
    has_cost,
)
from solkit.roofline.work.costs.attention import attention_pairs

__all__ = ["Cost", "attention_pairs", "common_dtype", "contraction_dtype", "cost_of", "has_cost"]
