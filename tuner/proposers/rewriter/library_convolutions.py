"""Convolutions of PyTorch as launches: products of pixels and filters.

Rows are the result's pixels, columns its channels, and the axis that is summed is that of channels
and taps. The function is plain, like those of `library_products`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    argument_of,
    called_name,
    parse_statements,
    render_code,
)

_NAMES = {
    f"{module}.conv{axes}d": axes
    for module in ("torch.nn.functional", "nn.functional", "F", "torch")
    for axes in (1, 2, 3)
}
_SETTINGS = (("stride", "1"), ("padding", "0"), ("dilation", "1"))
"""Arguments that have a number for each axis, in the order of the call, and their defaults."""
_GROUPS = 6  # the place of the argument
_PIXELS, _FILTERS, _TAPS = 64, 64, 32


@dataclass(frozen=True)
class Convolution:
    """A convolution of PyTorch in one group.

    Attributes:
        call: the expression.
        lhs: the images.
        rhs: the filters.
        bias: is added to each channel; ``None`` if nothing is.
        settings: of each axis: stride, padding and dilation, as code.
        conditions: of the launcher's parameters, under which all that is so.
    """

    call: cst.Call
    lhs: cst.BaseExpression
    rhs: cst.BaseExpression
    bias: cst.BaseExpression | None
    settings: tuple[tuple[str, ...], ...]
    conditions: tuple[str, ...]

    @property
    def rank(self) -> int:
        """Dimensions of the images and of the filters."""
        return len(self.settings) + 2


def as_convolution(
    node: cst.CSTNode, is_param: Callable[[cst.BaseExpression], bool]
) -> Convolution | None:
    """Return a call as a convolution; ``None`` if it is none, or not all of it is known.

    Args:
        node: of a launcher.
        is_param: whether a condition on an expression can be asked ahead.
    """
    axes = _NAMES.get(called_name(node))
    if not isinstance(node, cst.Call) or axes is None or any(arg.star for arg in node.args):
        return None
    first, second = argument_of(node, 0, "input"), argument_of(node, 1, "weight")
    bias, groups = argument_of(node, 2, "bias"), argument_of(node, _GROUPS, "groups")
    if first is None or second is None:
        return None
    conditions: list[str] = []
    if groups is not None and render_code(groups) != "1":
        if not is_param(groups):
            return None
        conditions.append(f"{render_code(groups)} == 1")
    settings: list[list[str]] = []
    for place, (word, default) in enumerate(_SETTINGS, 3):
        numbers = _by_axis(argument_of(node, place, word), default, axes)
        if numbers is None:
            value = argument_of(node, place, word)
            if value is None or not is_param(value):
                return None
            code = render_code(value)
            is_tuple = isinstance(value, cst.Attribute)  # of a layer, which has one for each axis
            conditions.append(f"isinstance({code}, {'tuple' if is_tuple else 'int'})")
            numbers = [f"{code}[{axis}]" if is_tuple else code for axis in range(axes)]
        settings.append(numbers)
    is_none = isinstance(bias, cst.Name) and bias.value == "None"
    by_axis = tuple(zip(*settings, strict=True))
    added = None if is_none else bias
    return Convolution(node, first, second, added, by_axis, tuple(conditions))


def _by_axis(node: cst.BaseExpression | None, default: str, axes: int) -> list[str] | None:
    """Return the numbers that an argument shows; ``None`` if the text shows none."""
    if node is None:
        return [default] * axes
    if isinstance(node, cst.Integer):
        return [node.value] * axes
    if isinstance(node, (cst.Tuple, cst.List)):
        values = [element.value for element in node.elements]
        plain = all(isinstance(value, cst.Integer) for value in values) and len(values) == axes
        return [render_code(value) for value in values] if plain else None
    return None


def convolution_arguments(
    convolution: Convolution, operands: dict[str, str], name: str
) -> tuple[str, dict[str, str], str]:
    """Return the sizes of a convolution's result, its launch's arguments and its grid, as code.

    Args:
        convolution: of the launcher.
        operands: names of the launcher for ``lhs``, ``rhs`` and ``bias``.
        name: of the result.
    """
    x, w, axes = operands["lhs"], operands["rhs"], range(len(convolution.settings))
    out = [
        f"({x}.shape[{a + 2}] + 2 * {p} - {d} * ({w}.shape[{a + 2}] - 1) - 1) // {s} + 1"
        for a, (s, p, d) in zip(axes, convolution.settings, strict=True)
    ]
    pixels = " * ".join(f"{name}.shape[{a}]" for a in (0, *(a + 2 for a in axes)))
    summed = " * ".join(f"{w}.shape[{a}]" for a in range(1, len(axes) + 2))
    arguments = {"x_ptr": x, "w_ptr": w}
    if "bias" in operands:
        arguments["bias_ptr"] = operands["bias"]
    arguments |= {"y_ptr": name, "M": pixels, "N": f"{w}.shape[0]", "K": summed}
    arguments |= {"stride_xn": f"{x}.stride(0)", "stride_xc": f"{x}.stride(1)"}
    for a in axes:
        arguments |= {f"stride_x{a}": f"{x}.stride({a + 2})", f"IN_{a}": f"{x}.shape[{a + 2}]"}
        arguments[f"OUT_{a}"] = f"{name}.shape[{a + 2}]"
    for a, (s, p, d) in zip(axes, convolution.settings, strict=True):
        arguments |= {f"TAPS_{a}": f"{w}.shape[{a + 2}]", f"STEP_{a}": s}
        arguments |= {f"PAD_{a}": p, f"APART_{a}": d}
    blocks = {"BLOCK_M": _PIXELS, "BLOCK_N": _FILTERS, "BLOCK_K": _TAPS}
    arguments |= {word: str(size) for word, size in blocks.items()}
    grid = f"(triton.cdiv({pixels}, {_PIXELS}), triton.cdiv({w}.shape[0], {_FILTERS}))"
    return f"({x}.shape[0], {w}.shape[0], {', '.join(out)})", arguments, grid


def convolution_function(
    function: str, arguments: dict[str, str], precision: str
) -> cst.FunctionDef:
    """Return the Triton function of a convolution, in the plain form that other rewrites read."""
    axes = sum(name.startswith("IN_") for name in arguments)
    constants = tuple(f"{word}_" for word in ("TAPS", "STEP", "PAD", "APART", "BLOCK"))
    listed = "".join(
        f"    {name}{': tl.constexpr' if name.startswith(constants) else ''},\n"
        for name in arguments
    )
    lines = [*_pixels(axes), *_trip(axes, precision)]
    if "bias_ptr" in arguments:
        lines += ["bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0)"]
        lines += ["acc += bias[None, :]"]
    lines += _END
    body = "".join(f"    {line}\n" for line in lines)
    text = f"\n\n@triton.jit\ndef {function}(\n{listed}):\n{body}"
    return cst.ensure_type(parse_statements(text)[0], cst.FunctionDef)


def _pixels(axes: int) -> Iterator[str]:
    yield "offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)"
    yield "offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)"
    for axis in range(axes):
        yield f"at_{axis} = {_digit('offs_m', 'OUT', axis, axes)} * STEP_{axis} - PAD_{axis}"
    yield f"pixels = {' * '.join(f'OUT_{axis}' for axis in range(axes))}"
    yield "image = (offs_m // pixels).to(tl.int64)"
    yield "pixel = offs_m % pixels"
    yield "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)"


def _trip(axes: int, precision: str) -> Iterator[str]:
    yield "for k in range(0, K, BLOCK_K):"
    yield "    offs_k = k + tl.arange(0, BLOCK_K)"
    inside = ["(offs_m[:, None] < M)", "(offs_k[None, :] < K)"]
    place = ["image[:, None] * stride_xn", "channel[None, :] * stride_xc"]
    for axis in range(axes):
        yield f"    tap_{axis} = {_digit('offs_k', 'TAPS', axis, axes)} * APART_{axis}"
        yield f"    in_{axis} = at_{axis}[:, None] + tap_{axis}[None, :]"
        inside += [f"(in_{axis} >= 0)", f"(in_{axis} < IN_{axis})"]
        place.append(f"in_{axis} * stride_x{axis}")
    taps = " * ".join(f"TAPS_{axis}" for axis in range(axes))
    yield f"    channel = (offs_k // ({taps})).to(tl.int64)"
    yield "    a = tl.load("
    yield f"        x_ptr + {' + '.join(place)},"
    yield f"        mask={' & '.join(inside)},"
    yield "        other=0.0,"
    yield "    )"
    yield "    b = tl.load("
    yield "        w_ptr + offs_n[None, :] * K + offs_k[:, None],"
    yield "        mask=(offs_k[:, None] < K) & (offs_n[None, :] < N),"
    yield "        other=0.0,"
    yield "    )"
    yield f'    acc += tl.dot(a, b, input_precision="{precision}")'


def _digit(number: str, base: str, axis: int, axes: int) -> str:
    """Return a number's place along an axis, where the last one runs fastest."""
    within = [f"{base}_{inner}" for inner in range(axis + 1, axes)]
    code = f"({' * '.join(within)})" if len(within) > 1 else "".join(within)
    return f"{number} // {code} % {base}_{axis}" if code else f"{number} % {base}_{axis}"


_END = (
    "tl.store(",
    "    y_ptr + (image[:, None] * N + offs_n[None, :]) * pixels + pixel[:, None],",
    "    acc.to(y_ptr.dtype.element_ty),",
    "    mask=(offs_m[:, None] < M) & (offs_n[None, :] < N),",
    ")",
)
