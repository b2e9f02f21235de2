"""Factorisations, solvers and Fourier transforms.

Of a symmetric or triangular matrix one triangle is read; where no rule of liveness says which, what
an operator needs of its operands is unknown.
"""

from __future__ import annotations

from solkit.ops._record import Family, Operator, plain

_F, _T = Family.LINALG, Family.SPECTRAL

OPERATORS: tuple[Operator, ...] = (
    *plain("linalg_lu_factor_ex linalg_lu _linalg_det _linalg_slogdet", _F, cost="lu", sweeps=1),
    *plain("linalg_inv_ex inverse", _F, cost="inverse", sweeps=1),
    *plain("linalg_cholesky_ex cholesky", _F, cost="cholesky", needs="cholesky", sweeps=1,
           makes_zeros=True),
    *plain("linalg_ldl_factor_ex", _F, cost="cholesky", makes_zeros=None, selects=None),
    *plain("cholesky_inverse", _F, cost="cholesky inverse", selects=None),
    *plain("linalg_eig linalg_eigvals _linalg_eigvals", _F, cost="hessenberg"),
    *plain("linalg_matrix_exp", _F, cost="matrix exponential"),
    *plain("_linalg_solve_ex", _F, cost="solve", sweeps=2),
    *plain("linalg_lu_solve", _F, cost="solve factorised", sweeps=2),
    *plain("cholesky_solve", _F, cost="solve factorised", sweeps=2, selects=None),
    *plain("_cholesky_solve_helper linalg_ldl_solve", _F, cost="solve factorised", selects=None),
    *plain("linalg_solve_triangular", _F, cost="solve triangular", needs="triangular solve",
           sweeps=1),
    *plain("triangular_solve", _F, cost="solve triangular", sweeps=1, selects=None),
    *plain("linalg_qr", _F, cost="qr", makes_zeros=True),
    *plain("geqrf", _F, cost="householder"),
    *plain("linalg_householder_product", _F, cost="householder product", selects=None),
    *plain("ormqr", _F, cost="apply householder", selects=None),
    *plain("_linalg_eigh", _F, cost="eigh", needs="cholesky", selects=None),
    *plain("_linalg_svd", _F, cost="svd"),
    *plain("linalg_lstsq", _F, cost="least squares"),
    *plain("linalg_pinv", _F, cost="pseudoinverse"),
    *plain("_compute_linear_combination", _F, cost="linear combination", multiplies=True),
    *plain("lu_unpack", _F, cost="free", makes_zeros=True, selects=None),
    *plain("_fft_c2c", _T, cost="complex transform"),
    *plain("_fft_r2c", _T, cost="real transform"),
    *plain("_fft_c2r", _T, cost="inverse real transform"),
)  # fmt: skip
"""Records of factorisations, solvers and transforms."""
