"""Interpolation, and sampling on a grid."""

from __future__ import annotations

from solkit.ops._record import Family, Monotone, Operator, Selects, copied, plain

_RISING = Monotone.RISING
_F = Family.RESAMPLING

OPERATORS: tuple[Operator, ...] = (
    *copied("upsample_nearest1d upsample_nearest2d upsample_nearest3d", _F, cost="free",
            needs="nearest"),
    # a smaller result leaves elements out, and no rule says which
    *copied("_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d", _F,
            cost="free", selects=None),
    *plain("upsample_linear1d upsample_bilinear2d upsample_trilinear3d", _F, cost="linear",
           needs="linear", monotone=_RISING),
    *plain("upsample_bicubic2d", _F, cost="cubic", needs="cubic"),
    *plain("_upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa", _F,
           cost="antialiased"),
    *plain("upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward "
           "upsample_bicubic2d_backward _upsample_bilinear2d_aa_backward "
           "_upsample_bicubic2d_aa_backward _upsample_lanczos2d_aa_backward", _F,
           cost="gradient", zero_at_zero=None),
    *plain("upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward "
           "_upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward "
           "_upsample_nearest_exact3d_backward", _F, cost="gradient", zero_at_zero=None),
    # points outside give zeros; the grid says which elements are sampled
    *plain("grid_sampler_2d grid_sampler_3d cudnn_grid_sampler", _F, cost="grid sample",
           needs="grid sample", makes_zeros=True, selects=Selects.SOME, decides=("grid",)),
    *plain("grid_sampler_2d_backward grid_sampler_3d_backward", _F, cost="grid sample backward",
           needs="grid sample backward", makes_zeros=True, selects=None),
    *plain("affine_grid_generator cudnn_affine_grid_generator", _F, cost="affine grid"),
)  # fmt: skip
"""Records of interpolation."""
