"""A kernel whose launch is timed by ``apply_programs.py --overhead``."""

import triton
import triton.language as tl


@triton.jit
def fill_kernel(out, n, BLOCK: tl.constexpr):
    """Fill with ones."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 1.0, mask=at < n)
