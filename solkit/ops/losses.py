"""Losses and their gradients. ``operations`` are per element of the input, without the sum.

Labels say which elements of the input matter, where they stand for classes.
"""

from __future__ import annotations

from solkit.ops._record import Family, Operator, Selects, plain

_F = Family.LOSS

OPERATORS: tuple[Operator, ...] = (
    *plain("mse_loss", _F, cost="loss", operations=(2, 0)),
    # difference, comparison and on either side at least one more
    *plain("smooth_l1_loss huber_loss", _F, cost="loss", operations=(3, 0)),
    # t (log x - log(1 - x)) + log(1 - x)
    # the logarithms of s(x) and of 1 - s(x) differ by x, with s the logistic function
    *plain("binary_cross_entropy", _F, cost="loss", operations=(4, 2), inverts="aten.sigmoid"),
    # max(x, 0) - x t + log(1 + exp -|x|)
    *plain("binary_cross_entropy_with_logits", _F, cost="loss", operations=(5, 2)),
    *plain("soft_margin_loss", _F, cost="loss", operations=(2, 2)),  # log(1 + exp(-x t))
    # max(0, margin - x[t] + x)
    *plain("multi_margin_loss", _F, cost="loss", operations=(2, 0), selects=None),
    # how many labels there are is data
    *plain("multilabel_margin_loss_forward", _F, cost="loss", operations=(0, 0), selects=None),
    *plain("mse_loss_backward", _F, cost="loss backward", operations=(2, 0), multiplies=True),
    # difference, clamp, product
    *plain("smooth_l1_loss_backward huber_loss_backward", _F, cost="loss backward",
           operations=(3, 0), multiplies=True),
    *plain("binary_cross_entropy_backward", _F, cost="loss backward", operations=(4, 1),
           multiplies=True),  # g (x - t) / (x - x x)
    *plain("soft_margin_loss_backward", _F, cost="loss backward", operations=(3, 2),
           multiplies=True),
    *plain("multi_margin_loss_backward", _F, cost="loss backward", operations=(2, 0),
           makes_zeros=None, selects=None),
    *plain("multilabel_margin_loss_backward", _F, cost="loss backward", operations=(0, 0),
           makes_zeros=None, selects=None),
    *plain("nll_loss_forward nll_loss2d_forward", _F, cost="nll", needs="nll",
           selects=Selects.SOME, decides=("target",)),
    *plain("nll_loss_nd", _F, cost="nll", selects=Selects.SOME, decides=("target",)),
    *plain("nll_loss_backward nll_loss2d_backward", _F, cost="free", makes_zeros=True,
           zeros="chosen classes", needs="nll backward",
           selects=Selects.SOME, decides=("target",)),
    *plain("_ctc_loss", _F, cost="ctc", needs="ctc", selects=None),
    *plain("_cudnn_ctc_loss", _F, cost="ctc", selects=None),
    *plain("_ctc_loss_backward", _F, cost="ctc", makes_zeros=None, selects=None),
    *plain("_linear_cross_entropy_batch_chunked "
           "_linear_cross_entropy_batch_chunked_no_reduction", _F, namespace="torch_nn",
           cost="linear cross entropy"),
)  # fmt: skip
"""Records of losses."""
