"""Recurrent layers, kept as one op, and fused cells."""

from __future__ import annotations

from solkit.ops._record import Family, Operator, plain

_F = Family.RECURRENT

OPERATORS: tuple[Operator, ...] = (
    *plain("lstm", _F, namespace="solkit", cost="recurrent", needs="recurrent", gates=4),
    *plain("gru", _F, namespace="solkit", cost="recurrent", needs="recurrent", gates=3),
    *plain("rnn_tanh rnn_relu", _F, namespace="solkit", cost="recurrent", needs="recurrent",
           gates=1),
    *plain("lstm_backward gru_backward rnn_tanh_backward rnn_relu_backward", _F,
           namespace="solkit", cost="recurrent backward"),
    *plain("_thnn_fused_lstm_cell", _F, cost="lstm cell"),
    *plain("_thnn_fused_gru_cell", _F, cost="gru cell"),
    *plain("_thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell_backward", _F,
           cost="cell backward"),
    *plain("_cudnn_rnn miopen_rnn", _F, cost="library layer"),
)  # fmt: skip
"""Records of recurrent layers."""
