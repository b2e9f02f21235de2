"""Tensors that are made from nothing: filled, counted or left as they are.

Whether a filled tensor holds zeros is said by the number, so `makes_zeros` is unknown.
"""

from __future__ import annotations

from typing import Any

from solkit.ops._record import Family, Operator, plain

_C, _F = Family.CREATION, Family.FILL
_FREE: dict[str, Any] = {"cost": "free"}
_SHAPE: dict[str, Any] = {"cost": "free", "reads_shape": True}
_UNDEFINED: dict[str, Any] = {"cost": "free", "launches": False}

OPERATORS: tuple[Operator, ...] = (
    *plain("zeros", _F, **_FREE, zeros="filled", makes_zeros=True),
    *plain("zeros_like new_zeros", _F, **_SHAPE, zeros="filled", makes_zeros=True),
    *plain("zero", _F, **_FREE, zeros="filled", makes_zeros=True, overwrites=True,
           writes="in place"),
    *plain("_efficientzerotensor", _C, **_FREE, makes_zeros=True),
    *plain("_new_zeros_with_same_feature_meta", _C, **_FREE, makes_zeros=True),
    *plain("ones", _F, **_FREE),
    *plain("ones_like new_ones", _F, **_SHAPE),
    *plain("full", _F, **_FREE, zeros="filled", makes_zeros=None),
    *plain("full_like new_full", _F, **_SHAPE, zeros="filled", makes_zeros=None),
    *plain("fill", _F, **_FREE, zeros="filled", makes_zeros=None, zero_at_zero=True,
           overwrites=True,
           writes="in place"),
    *plain("scalar_tensor", _C, **_FREE, makes_zeros=None),
    *plain("eye", _C, **_FREE, makes_zeros=True),
    *plain("empty empty_permuted empty_strided empty_quantized _empty_affine_quantized "
           "_empty_per_channel_affine_quantized", _C, **_UNDEFINED),
    *plain("empty_like new_empty new_empty_strided", _C, **_UNDEFINED, reads_shape=True),
    *plain("arange range linspace logspace", _C, **_FREE),
    *plain("tril_indices triu_indices", _C, **_FREE),
    *plain("bartlett_window blackman_window hamming_window hann_window kaiser_window", _C,
           **_FREE),
    *plain("fft_fftfreq fft_rfftfreq", _C, **_FREE),
)  # fmt: skip
"""Records of what makes tensors."""
