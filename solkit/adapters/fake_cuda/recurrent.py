"""Recurrent layers as one op each; packed sequences as gathers and scatters."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from solkit.adapters.fake_cuda.contents import KnownContents, computing_really, recall_contents
from solkit.adapters.fake_cuda.data_dependent import make_holding
from solkit.adapters.fake_cuda.guesses import locate_sentence, report_earlier_guesses, report_guess
from solkit.errors import UnsupportedError

_LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_ARGUMENTS = (
    "Tensor input, Tensor[] state, Tensor[] weights, "
    "bool bidirectional, bool batch_first, int sequences"
)


def fake_recurrent(own: torch.library.Library, aten: torch.library.Library) -> None:
    """Make recurrent layers call ``solkit::lstm`` and so on, as long as both libraries exist.

    Unrolled, 512 steps are 10,000 ops.
    """
    for kind in _LAYERS:
        own.define(f"{kind}({_ARGUMENTS}) -> Tensor[]")
        own.define(f"{kind}_backward(Tensor[] grads, {_ARGUMENTS}) -> Tensor[]")
        torch.library.register_fake(f"solkit::{kind}", _output_shapes, lib=own)
        torch.library.register_fake(f"solkit::{kind}_backward", _backward_shapes, lib=own)
    for key in ("CUDA", "AutogradCUDA"):
        for kind in _LAYERS:
            aten.impl(f"{kind}.input", functools.partial(_run_layers, kind), key)
            aten.impl(f"{kind}.data", functools.partial(_packed_layer, kind), key)
        aten.impl("_pack_padded_sequence", _pack_sequence, key)
        aten.impl("_pad_packed_sequence", _pad_packed_sequence, key)
    aten.impl("_thnn_fused_gru_cell", _run_gru_cell, "Meta")  # torch has one only for LSTMs


def _run_gru_cell(
    _gates: torch.Tensor, _hidden_gates: torch.Tensor, state: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the new state, and a workspace of 5 values per element (ATen/native/cuda/RNN.cu)."""
    return torch.empty_like(state), state.new_empty((state.shape[0], 5 * state.shape[1]))


# ----------------------------------------------------------------------------------- layers


_Tensors = Sequence[torch.Tensor]


def _output_shapes(
    x: torch.Tensor, state: _Tensors, _weights: _Tensors, bidirectional: bool, *_: Any
) -> list[torch.Tensor]:
    """Return the outputs of all steps, and the last states."""
    width = state[0].shape[-1] * (2 if bidirectional else 1)
    out = x.new_empty((*x.shape[:-1], width))
    return [out, *(last.new_empty(last.shape) for last in state)]


def _backward_shapes(
    _grads: _Tensors, x: torch.Tensor, state: _Tensors, weights: _Tensors, *_: Any
) -> list[torch.Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor in (x, *state, *weights)]


def _run_layers(
    kind: str,
    x: torch.Tensor,
    hx: torch.Tensor | Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    *options: Any,
) -> tuple[torch.Tensor, ...]:
    """``torch.lstm`` and so on: the output and the last states.

    `options` are ``has_biases, num_layers, dropout, train, bidirectional, batch_first``.
    """
    bidirectional, batch_first = options[4:]
    sequences = (hx if isinstance(hx, torch.Tensor) else hx[0]).shape[-2]
    return _run_whole_layer(kind, x, hx, weights, (bidirectional, batch_first, sequences))


def _run_whole_layer(
    kind: str,
    x: torch.Tensor,
    hx: torch.Tensor | Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    options: tuple[bool, bool, int],
) -> tuple[torch.Tensor, ...]:
    """Return a layer as one op: `options` are the last arguments of ``solkit::<kind>``."""
    state = [hx] if isinstance(hx, torch.Tensor) else list(hx)
    outputs: Sequence[torch.Tensor] = _Layer.apply(kind, len(state), options, x, *state, *weights)
    return tuple(outputs)


def _packed_layer(
    kind: str,
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    hx: torch.Tensor | Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    *options: Any,
) -> tuple[torch.Tensor, ...]:
    """Packed sequences cost as much as one sequence of the same steps, except for the first steps.

    `options` are ``has_biases, num_layers, dropout, train, bidirectional``.
    """
    states = [hx] if isinstance(hx, torch.Tensor) else list(hx)
    one = [state[:, :1] for state in states]
    state = one[0] if isinstance(hx, torch.Tensor) else one
    fact = recall_contents(batch_sizes)
    sequences = int(fact.value[0]) if fact is not None else states[0].shape[1]
    out, *last = _run_whole_layer(
        kind, data.unsqueeze(1), state, weights, (options[4], False, sequences)
    )
    return (out.squeeze(1), *(end.expand_as(state) for end, state in zip(last, states)))


class _Layer(torch.autograd.Function):
    """A layer with a gradient that is one op too."""

    @staticmethod
    def forward(ctx: Any, kind: str, states: int, options: Any, x: Any, *tensors: Any) -> Any:
        """Call ``solkit::<kind>`` with the input, the states and the weights."""
        ctx.kind, ctx.states, ctx.options = kind, states, options
        ctx.save_for_backward(x, *tensors)
        op = getattr(torch.ops.solkit, kind)
        return tuple(op(x, tensors[:states], tensors[states:], *options))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradients of the input, the states and the weights."""
        x, *tensors = ctx.saved_tensors
        op = getattr(torch.ops.solkit, f"{ctx.kind}_backward")
        gradients = op(list(grads), x, tensors[: ctx.states], tensors[ctx.states :], *ctx.options)
        return (None, None, None, *gradients)


# ------------------------------------------------------------------------------------ packed


def _pack_sequence(
    padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """``_pack_padded_sequence``: for each step, the sequences that reach it, longest first."""
    count, steps = padded.shape[:2] if batch_first else padded.shape[:2][::-1]
    fact = recall_contents(lengths)
    if fact is None:
        sentence = f"the sequences were guessed to be all of full length, {steps}"
        report_guess(sentence)
        with computing_really():
            full = torch.full((count,), steps, dtype=torch.int64, device="cpu")
        fact = KnownContents(full, (locate_sentence(sentence),))
    report_earlier_guesses(*fact.guesses)
    with computing_really():
        ends = fact.value
        sizes = (ends[None, :] > torch.arange(int(ends.max()), device="cpu")[:, None]).sum(1)
    sizes_known = replace(fact, value=sizes)
    step, sequence = _packed_places(padded, sizes_known)
    data = padded[(sequence, step) if batch_first else (step, sequence)]
    return data, make_holding(lengths, sizes_known)


def _pad_packed_sequence(
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_first: bool,
    padding_value: float,
    total_length: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``_pad_packed_sequence``, the inverse of `_pack_sequence`."""
    fact = recall_contents(batch_sizes)
    if fact is None:
        raise UnsupportedError("a packed sequence of unknown lengths is padded")
    with computing_really():
        sizes = fact.value
        count, steps = int(sizes[0]), max(len(sizes), total_length)
        ends = (sizes[None, :] > torch.arange(count, device="cpu")[:, None]).sum(1)
    step, sequence = _packed_places(data, fact)
    outer = (count, steps) if batch_first else (steps, count)
    padded = data.new_full((*outer, *data.shape[1:]), padding_value)
    padded = padded.index_put((sequence, step) if batch_first else (step, sequence), data)
    return padded, make_holding(batch_sizes, replace(fact, value=ends))


def _packed_places(like: torch.Tensor, sizes: KnownContents) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the step and the sequence of each packed row."""
    with computing_really():
        step = torch.arange(len(sizes.value), device="cpu").repeat_interleave(sizes.value)
        starts = sizes.value.cumsum(0) - sizes.value
        sequence = torch.arange(len(step), device="cpu") - starts[step]
    return make_holding(like, replace(sizes, value=step)), make_holding(
        like, replace(sizes, value=sequence)
    )
