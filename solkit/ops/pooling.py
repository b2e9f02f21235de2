"""Pools over windows, and their gradients."""

from __future__ import annotations

from typing import Any

from solkit.ops._record import Family, Monotone, Operator, Reduction, Selects, plain

_RISING = Monotone.RISING
_F = Family.POOL
_LARGEST: dict[str, Any] = {"monotone": _RISING, "keeps_minus_inf": True,
                            "selects": Selects.AFTER_LARGEST}  # fmt: skip
_MEAN: dict[str, Any] = {"monotone": _RISING, "keeps_minus_inf": True,
                         "reduces": Reduction.WINDOW_MEAN}  # fmt: skip
_SPREAD: dict[str, Any] = {"zero_at_zero": None, "makes_zeros": True}


def _of_axes(axes: int) -> tuple[Operator, ...]:
    """Pools over so many axes."""
    sliding = f"max_pool{axes}d" if axes == 1 else f"max_pool{axes}d_with_indices"
    return (
        *plain(sliding, _F, axes=axes, cost="pool", needs="pool", **_LARGEST),
        *plain(
            f"quantized_max_pool{axes}d",
            _F,
            axes=axes,
            cost="pool",
            **{**_LARGEST, "selects": None},
        ),
        *plain(f"avg_pool{axes}d", _F, axes=axes, cost="mean pool", needs="pool", **_MEAN),
        *plain(f"adaptive_avg_pool{axes}d", _F, axes=axes, cost="adaptive mean pool", **_MEAN),
    )


def _of_many_axes(axes: int) -> tuple[Operator, ...]:
    """Pools that there are over two and three axes alone."""
    dims = f"{axes}d"
    return (
        *plain(f"max_pool{dims}", _F, axes=axes, cost="pool",
               **{**_LARGEST, "selects": None}),
        *plain(f"_adaptive_avg_pool{dims}", _F, axes=axes, cost="adaptive mean pool",
               needs="batch and channel", **_MEAN),
        *plain(f"adaptive_max_pool{dims}", _F, axes=axes, cost="adaptive pool",
               needs="batch and channel", **_LARGEST),
        *plain(f"fractional_max_pool{dims}", _F, axes=axes, cost="fractional pool",
               **{**_LARGEST, "selects": None}),
        *plain(f"avg_pool{dims}_backward _adaptive_avg_pool{dims}_backward", _F,
               cost="mean pool backward"),
        *plain(f"max_pool{dims}_with_indices_backward adaptive_max_pool{dims}_backward "
               f"fractional_max_pool{dims}_backward", _F, cost="gradient", **_SPREAD),
        *plain(f"max_unpool{dims}", _F, cost="free", **_SPREAD, selects=None),
    )  # fmt: skip


OPERATORS: tuple[Operator, ...] = (
    *(record for axes in (1, 2, 3) for record in _of_axes(axes)),
    *(record for axes in (2, 3) for record in _of_many_axes(axes)),
    *plain("max_pool2d_backward", _F, cost="gradient", **_SPREAD),
    *plain("adaptive_avg_pool3d_backward", _F, cost="mean pool backward"),
)
"""Records of pools."""
