"""Convolutions."""

from __future__ import annotations

from solkit.ops._record import Family, Operator, plain

OPERATORS: tuple[Operator, ...] = (
    *plain("convolution", Family.CONVOLUTION, cost="convolution", needs="convolution",
           multiplies=True, called=("conv", "conv1d", "conv2d", "conv3d")),
    *plain("_convolution cudnn_convolution", Family.CONVOLUTION, cost="convolution",
           needs="convolution", multiplies=True),
    *plain("conv2d", Family.CONVOLUTION, cost="convolution", multiplies=True),
    *plain("convolution_backward", Family.CONVOLUTION, cost="convolution backward",
           needs="convolution backward", multiplies=True),
)  # fmt: skip
"""Records of convolutions."""
