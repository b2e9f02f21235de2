"""Triton kernels with no GPU: capture the launches, compile them, follow what they access."""
