"""`torch.istft` without a look at its windows, whose data a fake tensor lacks."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

_torch_istft = torch.istft


def inverse_short_time_fourier(
    input: torch.Tensor,  # noqa: A002 - torch's name
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """`torch.istft` step by step: inverse transforms, windows, and the sum of what overlaps."""
    if not isinstance(input, FakeTensor):
        options = (hop_length, win_length, window, center, normalized, onesided, length)
        return _torch_istft(input, n_fft, *options, return_complex)
    width = win_length or n_fft
    hop = hop_length or width // 4
    if window is None:
        window = torch.ones(width, device=input.device)
    before = (n_fft - width) // 2
    window = torch.nn.functional.pad(window, (before, n_fft - width - before))
    spectrum = (input if input.dim() == 3 else input[None]).transpose(1, 2)
    scaling = "ortho" if normalized else None
    if return_complex or onesided is False:
        frames = torch.fft.ifft(spectrum, n_fft, norm=scaling)
        frames = frames if return_complex else frames.real
    else:
        frames = torch.fft.irfft(spectrum, n_fft, norm=scaling)
    count = frames.shape[1]
    total = n_fft + hop * (count - 1)
    signal = _overlapped(frames * window, total, hop)
    envelope = _overlapped((window * window).expand(1, count, n_fft), total, hop)
    start = n_fft // 2 if center else 0
    end = total - start if length is None else start + length
    result = signal[:, start:end] / envelope[:, start:end]
    return result if input.dim() == 3 else result[0]


def _overlapped(frames: torch.Tensor, total: int, hop: int) -> torch.Tensor:
    """Return the sum of frames that start `hop` elements after one another."""
    size = frames.shape[-1]
    shape = [frames.shape[0], total]
    return torch.ops.aten.unfold_backward(frames, shape, 1, size, hop)  # type: ignore[no-any-return]
