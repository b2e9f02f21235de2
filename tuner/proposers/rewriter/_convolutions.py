"""Convolutions of PyTorch, and the launches that they are: products of weights and of pixels.

A pixel of the result is a column, and the channels and taps that it needs are the rows of the right
operand. All blocks are contiguous along their last axis, as tensors of images are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import launch_line
from solkit.tuner.proposers.rewriter._parse import (
    argument_of,
    called_name,
    integer_literal,
    parse_statement,
    parse_statements,
    render_code,
)

__all__ = ["Convolution", "as_convolution", "convolution_function"]

_RANKS = {
    f"{owner}.conv{rank}d": rank
    for owner in ("torch", "torch.nn.functional", "nn.functional", "F")
    for rank in (1, 2, 3)
}
_OPTIONS = {"stride": 1, "padding": 0, "dilation": 1}
"""Arguments behind the bias, with their defaults."""
_LIMIT = 2**31 - 2**16
"""Elements of a tensor, and pixels: their indices, of a last block too, are 32-bit numbers."""
_MOST_BLOCKS = 65535
"""Of a grid's second axis."""
_BLOCKS = {"BLOCK_O": 64, "BLOCK_P": 128, "BLOCK_K": 32}
_HEAD = (
    "offs_p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)",
    "offs_o = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)",
)
_START = (
    "acc = tl.zeros((BLOCK_P, BLOCK_O), dtype=tl.float32)",
    "for k in range(0, K, BLOCK_K):",
)
_LOADS = (
    "w = tl.load(",
    "    w_ptr + offs_o[:, None] * K + offs_k[None, :],",
    "    mask=(offs_o[:, None] < O) & (offs_k[None, :] < K),",
    "    other=0.0,",
    ")",
    "x = tl.load(x_ptr + origin[None, :] + window[:, None], mask=valid, other=0.0)",
)
_BIAS = (
    "bias = tl.load(bias_ptr + offs_o, mask=offs_o < O, other=0.0)",
    "acc += bias[None, :]",
)


@dataclass(frozen=True)
class Convolution:
    """A convolution of one group.

    Attributes:
        call: the expression.
        lhs, rhs: the images and the weights.
        bias: is added to each channel; ``None`` if nothing is.
        rank: axes of an image besides its channels.
        options: code of `_OPTIONS` on each axis.
        conditions: under which they have these axes.
    """

    call: cst.Call
    lhs: cst.BaseExpression
    rhs: cst.BaseExpression
    bias: cst.BaseExpression | None
    rank: int
    options: dict[str, tuple[str, ...]]
    conditions: tuple[str, ...]

    @property
    def is_padded(self) -> bool:
        """True where the result may need elements outside of the images."""
        return set(self.options["padding"]) != {"0"}

    @property
    def sizes(self) -> list[str]:
        """Sizes of the result's images."""
        lhs, rhs = render_code(self.lhs), render_code(self.rhs)
        rows = zip(*(self.options[name] for name in _OPTIONS), strict=True)
        sizes = []
        for axis, (step, padding, dilation) in enumerate(rows, 2):
            window = f"{dilation} * ({rhs}.shape[{axis}] - 1)"
            sizes.append(f"({lhs}.shape[{axis}] + 2 * {padding} - {window} - 1) // {step} + 1")
        return sizes

    @property
    def fits(self) -> list[str]:
        """Conditions under which the launch does what PyTorch does, without an error."""
        lhs, rhs = render_code(self.lhs), render_code(self.rhs)
        listed = ", ".join([f"{lhs}.shape[0]", *self.sizes])
        count = f"{lhs}.shape[0] * {' * '.join(f'({size})' for size in self.sizes)}"
        bias = [] if self.bias is None else [render_code(self.bias)]
        return [
            *self.conditions,
            f"{lhs}.is_contiguous() and {rhs}.is_contiguous()",
            f"{lhs}.shape[1] == {rhs}.shape[1]",
            f"min({listed}) > 0 and max({count}, {lhs}.numel(), {rhs}.numel()) < {_LIMIT}",
            f"{rhs}.shape[0] <= {_MOST_BLOCKS}",
            *(f"{code}.is_contiguous() and {code}.numel() == {rhs}.shape[0]" for code in bias),
        ]

    def statements(self, name: str, function: cst.FunctionDef) -> Iterator[cst.BaseStatement]:
        """Yield a launcher's statements that allocate the result and launch."""
        lhs, rhs = render_code(self.lhs), render_code(self.rhs)
        axes = range(self.rank)
        for axis, size in zip(axes, self.sizes, strict=True):
            yield parse_statement(f"{name}_size_{axis} = {size}")
        outs = [f"{name}_size_{axis}" for axis in axes]
        shape = ", ".join([f"{lhs}.shape[0]", f"{rhs}.shape[0]", *outs])
        yield parse_statement(
            f"{name} = torch.empty(({shape}), dtype={lhs}.dtype, device={lhs}.device)"
        )
        pixels = " * ".join([f"{lhs}.shape[0]", *outs])
        taps = [f"{rhs}.shape[{axis + 2}]" for axis in axes]
        values = [lhs, rhs, *([] if self.bias is None else [render_code(self.bias)]), name]
        values += [pixels, f"{rhs}.shape[0]", " * ".join([f"{lhs}.shape[1]", *taps])]
        for axis in axes:
            values += [f"{lhs}.shape[{axis + 2}]", outs[axis], taps[axis]]
            values += [self.options[word][axis] for word in ("stride", "padding", "dilation")]
        names = [param.name.value for param in function.params.params]
        arguments = dict(zip(names, [*values, *map(str, _BLOCKS.values())], strict=True))
        grid = f"triton.cdiv({pixels}, {_BLOCKS['BLOCK_P']}), "
        grid += f"triton.cdiv({rhs}.shape[0], {_BLOCKS['BLOCK_O']})"
        yield launch_line(
            function.name.value, f"({grid})", arguments, {"num_warps": "8"}, _constants(function)
        )


def _constants(function: cst.FunctionDef) -> list[str]:
    return [p.name.value for p in function.params.params if p.annotation is not None]


def as_convolution(node: cst.CSTNode) -> Convolution | None:
    """Return a convolution of PyTorch's; ``None`` if it is another expression."""
    rank = _RANKS.get(called_name(node)) if isinstance(node, cst.Call) else None
    if rank is None or not isinstance(node, cst.Call) or any(arg.star for arg in node.args):
        return None
    lhs, rhs = argument_of(node, 0, "input"), argument_of(node, 1, "weight")
    bias = argument_of(node, 2, "bias")
    options, conditions = dict[str, tuple[str, ...]](), list[str]()
    for place, (word, default) in enumerate(_OPTIONS.items(), 3):
        options[word], condition = _codes(argument_of(node, place, word), default, rank)
        conditions += condition
    groups = argument_of(node, 6, "groups")
    conditions += [] if groups is None else [f"{render_code(groups)} == 1"]
    if not all(options.values()):
        return None
    if lhs is None or rhs is None:
        return None
    is_none = isinstance(bias, cst.Name) and bias.value == "None"
    return Convolution(node, lhs, rhs, None if is_none else bias, rank, options, tuple(conditions))


def _codes(
    argument: cst.BaseExpression | None, default: int, rank: int
) -> tuple[tuple[str, ...], list[str]]:
    """Return an option on each axis, and conditions under which it is that; nothing if unknown."""
    number = default if argument is None else integer_literal(argument)
    if number is not None:
        return (str(number),) * rank, []
    if isinstance(argument, (cst.Tuple, cst.List)):
        numbers = [integer_literal(element.value) for element in argument.elements]
        plain = tuple(str(n) for n in numbers if n is not None)
        return (plain, []) if len(plain) == len(numbers) == rank else ((), [])
    if not isinstance(argument, (cst.Name, cst.Attribute)):
        return (), []
    code = render_code(argument)
    is_tuple = f"isinstance({code}, tuple) and len({code}) == {rank}"
    return tuple(f"{code}[{axis}]" for axis in range(rank)), [is_tuple]


def convolution_function(name: str, of: Convolution, precision: str) -> cst.FunctionDef:
    """Return the Triton function of a convolution.

    Args:
        name: of the function.
        of: what it computes.
        precision: of fp32 products, in Triton's words.
    """
    axes = range(of.rank)
    bias = [] if of.bias is None else ["bias_ptr"]
    params = ["x_ptr", "w_ptr", *bias, "y_ptr", "P", "O", "K"]
    for axis in axes:
        params += [f"size_{axis}", f"out_{axis}"]
        words = ("taps", "step", "padding", "dilation")
        params += [f"{word}_{axis}: tl.constexpr" for word in words]
    params += [f"{block}: tl.constexpr" for block in _BLOCKS]
    lines = list(_index_lines("pixel", "out", of.rank, "at"))
    inner = [*_index_lines("offs_k", "taps", of.rank, "tap"), *_coordinates(of)]
    inner += [*_LOADS, f'acc += tl.dot(tl.trans(x), tl.trans(w), input_precision="{precision}")']
    whole = " * ".join(f"out_{axis}" for axis in axes)
    window = " * ".join(f"taps_{axis}" for axis in axes)
    head = [*_HEAD, f"image = offs_p // ({whole})", f"pixel = offs_p % ({whole})"]
    first = [f"at_{axis} * step_{axis} - padding_{axis}" for axis in axes]
    lines += [f"origin = {_flat(f'image.to(tl.int64) * (K // ({window}))', first)}", *_START]
    loop = ["offs_k = k + tl.arange(0, BLOCK_K)", f"channel = offs_k // ({window})", *inner]
    text = [f"    {line}" for line in (*head, *lines)]
    text += [f"        {line}" for line in loop]
    text += [f"    {line}" for line in (*(_BIAS if bias else ()), *_store_lines(whole))]
    listed = "".join(f"    {param},\n" for param in params)
    code = f"\n\n@triton.jit\ndef {name}(\n{listed}):\n" + "\n".join(text) + "\n"
    return cst.ensure_type(parse_statements(code)[0], cst.FunctionDef)


def _index_lines(flat: str, sizes: str, rank: int, name: str) -> Iterator[str]:
    """Yield the indices that a flat one stands for, the last axis fastest."""
    for axis in range(rank):
        behind = [f"{sizes}_{other}" for other in range(axis + 1, rank)]
        code = f"{flat} // ({' * '.join(behind)})" if behind else flat
        is_first = axis == 0 and name == "at"
        yield f"{name}_{axis} = {code}" + ("" if is_first else f" % {sizes}_{axis}")


def _flat(start: str, indices: Sequence[str]) -> str:
    """Return the place in images of an index on each axis."""
    for axis, index in enumerate(indices):
        start = f"({start}) * size_{axis} + {index}"
    return start


def _coordinates(of: Convolution) -> Iterator[str]:
    """Yield where in an image a trip's taps are, and which elements there are."""
    taps = [f"tap_{axis} * dilation_{axis}" for axis in range(of.rank)]
    yield f"window = {_flat('channel', taps)}"
    mask = "(offs_k[:, None] < K) & (offs_p[None, :] < P)"
    for axis, tap in enumerate(taps if of.is_padded else ()):
        yield f"row_{axis} = (at_{axis} * step_{axis} - padding_{axis})[None, :] + ({tap})[:, None]"
        within = f"(row_{axis} >= 0) & (row_{axis} < size_{axis})"
        mask += f" & ((padding_{axis} == 0) | ({within}))"
    yield f"valid = {mask}"


def _store_lines(whole: str) -> Iterator[str]:
    yield f"image_y = image.to(tl.int64) * O * ({whole}) + pixel"
    yield f"channels = offs_o.to(tl.int64) * ({whole})"
    yield "mask = (offs_o[:, None] < O) & (offs_p[None, :] < P)"
    yield "result = tl.trans(acc)"
    yield (
        "tl.store(y_ptr + channels[:, None] + image_y[None, :], "
        "result.to(y_ptr.dtype.element_ty), mask=mask)"
    )
