"""A product of matrices as a template of Inductor's: its operator, its lowering and its text.

Inductor's own templates compute no operand of a batch, keep narrow products narrow, and sum a
reduction in one go. The text here is in the plain form that rewrites read.
"""

# mypy: disable-error-code="no-untyped-call"
# (Inductor's inside is untyped)

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._inductor.ir import BaseView, FixedLayout, Pointwise, StorageBox
from torch._inductor.lowering import register_lowering
from torch._inductor.select_algorithm import SymbolicGridFn, TritonTemplate, realize_inputs
from torch._inductor.virtualized import V

PROCESSORS = 132
"""Streaming multiprocessors of an H100 SXM and an H200: their data sheets."""
_library = torch.library.Library("solkit_inductor_products", "DEF")
_library.define("product(Tensor a, Tensor b, ScalarType dtype, str precision, int parts) -> Tensor")


def _product_shape(
    a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype, _: str, parts: int
) -> torch.Tensor:
    outer = (parts,) if parts > 1 else ()
    return a.new_empty((*outer, *a.shape[:-1], b.shape[-1]), dtype=dtype)


torch.library.register_fake("solkit_inductor_products::product", _product_shape, lib=_library)
product = torch.ops.solkit_inductor_products.product.default
"""Product of matrices or of batches of them, in a dtype; of more parts than one, each apart."""


@register_lowering(product, type_promotion_kind=None)
def _lower_product(a: Any, b: Any, dtype: torch.dtype, precision: str, parts: int) -> Any:
    """Return the product as a template, whose operands may be computed where they are loaded."""
    operands, turned = zip(*(_operand(factor) for factor in (a, b)), strict=True)
    *batch, rows, depth = (int(size) for size in operands[0].get_size())
    columns = int(operands[1].get_size()[-1])
    outer = [parts] if parts > 1 else batch
    template = _template(
        parts,
        bool(batch),
        turned,
        (rows % _MOST > 0, columns % _MOST > 0, depth % (parts * _MOST_DEPTH) > 0),
        precision if a.get_dtype() is torch.float32 else "",
        depth,
    )
    layout = FixedLayout(a.get_device(), dtype, [*outer, rows, columns])
    choices: list[Any] = []
    config = _first_config(math.prod(outer), rows, columns, a.get_dtype().itemsize)
    template.maybe_append_choice(choices, input_nodes=tuple(operands), layout=layout, **config)
    return choices[0].output_node()


def _operand(factor: Any) -> tuple[Any, bool]:
    """Return a factor in memory, or one that the product computes where it is loaded; if turned.

    That is done where no more bytes are read so. Inductor asks as well that no step is in fp32, as
    all arithmetic on 16 bits is, and that nothing turns the axes between.
    """
    producer = factor.data
    while isinstance(producer, (BaseView, StorageBox)):
        producer = producer.data
    if not isinstance(producer, Pointwise):
        return realize_inputs(factor), False
    names = {dependency.name for dependency in producer.get_reads()}
    if sum(_bytes(V.graph.get_buffer(name)) for name in names) > _MORE_BYTES * _bytes(factor):
        return realize_inputs(factor), False
    computed = Pointwise.create(
        device=factor.get_device(),
        dtype=factor.get_dtype(),
        inner_fn=factor.make_loader(),
        ranges=factor.get_size(),
    )
    computed.realize()
    computed.freeze_layout()  # a product reads its operands as they are, else none is fused
    operand = realize_inputs(computed)
    buffer = V.graph.get_buffer(operand.get_name())
    V.graph.invoke_quant_ops.add(buffer.get_operation_name())
    return operand, _is_turned(buffer)


_MORE_BYTES = 1.1
"""Bytes that are read for an operand, such as its scales, over its own: Inductor's limit."""


def _bytes(buffer: Any) -> int:
    return math.prod(map(int, buffer.get_size())) * int(buffer.get_dtype().itemsize)


_MOST_SUMMED = 512
"""Products that tensor cores sum in a row: they truncate, and three passes are to be exact."""
_MOST, _MOST_DEPTH = 256, 128
"""Largest blocks: what they divide needs no mask."""


def _first_config(outer: int, rows: int, columns: int, itemsize: int) -> dict[str, int]:
    """Return block sizes, warps and stages to begin with: the largest that occupy the GPU."""
    block_m, block_n = (
        min(max(16, 1 << (size - 1).bit_length()), most)
        for size, most in ((rows, 128), (columns, 256 if itemsize == 2 else 128))
    )
    least_m = block_m if rows <= block_m else 32  # all rows: the other operand is read once
    while outer * -(-rows // block_m) * -(-columns // block_n) < PROCESSORS:
        if block_n > 32 and (block_n >= block_m or block_m == least_m):
            block_n //= 2
        elif block_m > least_m:
            block_m //= 2
        else:
            break
    elements = block_m * block_n
    return {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": (128 if elements > 64 * 64 else 256) // itemsize,
        "GROUP_M": 8,
        "num_warps": 8 if elements >= 128 * 128 else 4,
        "num_stages": 3,
    }


@cache
def _template(
    parts: int,
    is_batched: bool,
    turned: tuple[bool, bool],
    masked: tuple[bool, bool, bool],
    precision: str,
    length: int,
) -> TritonTemplate:
    """Return the template of products of matrices, or of batches of matrices.

    Args:
        parts: of the reduction, summed apart.
        is_batched: whether there is a batch.
        turned: whether neighbours along the first axis of each operand are nearer in memory.
        masked: whether rows, columns and the reduction need masks.
        precision: of fp32 in Triton's words; empty for narrow operands.
        length: of the reduction.
    """
    has_outer = parts > 1 or is_batched
    outer, batch = ('"outer", ' if has else "" for has in (has_outer, is_batched))
    start, end = ("outer * PART", "end") if parts > 1 else ("0", "K")
    row, column, depth = masked
    text = _HEAD + (_OUTER if has_outer else "")
    if parts > 1:
        whole = f"{parts * _MOST_DEPTH}"
        text += f"    PART: tl.constexpr = (K + {whole} - 1) // {whole} * {_MOST_DEPTH}\n"
        text += "    end = min(outer * PART + PART, K)\n"
    option = f', input_precision="{precision}"' if precision else ""
    is_nested = precision == "tf32x3" and length > _MOST_SUMMED
    margin = "    " * (3 if is_nested else 2)
    operands = (
        _Operand("A", "row", "M", 0, turned[0], row, end if depth else ""),
        _Operand("B", "column", "N", 1, turned[1], column, end if depth else ""),
    )
    body = "".join(operand.load(batch, margin) for operand in operands)
    factors = ", ".join(operand.factor for operand in operands)
    body += f"acc += tl.dot({factors}{option})\n"
    if is_nested:
        last = f"min(first + {_MOST_SUMMED}, {end})"
        body = body.replace("acc +=", "part +=")
        text += _TILE + f"    for first in range({start}, {end}, {_MOST_SUMMED}):\n"
        text += "        part = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)\n"
        text += f"        for start in range(first, {last}, BLOCK_K):\n"
        text += textwrap.indent(body, margin) + "        acc += part\n"
    else:
        text += _TILE + f"    for start in range({start}, {end}, BLOCK_K):\n"
        text += textwrap.indent(body, margin)
    text += _STORE.replace("OUTER", outer)
    name = f"solkit_product_{len(TritonTemplate.all_templates)}"
    return TritonTemplate(name=name, grid=_outer_grid if has_outer else _plain_grid, source=text)


@dataclass(frozen=True)
class _Operand:
    """An operand in a template's text.

    Attributes:
        name: ``"A"`` or ``"B"``.
        outer, size: its other axis than the reduction, and that axis's letter.
        place: of that axis.
        is_turned: whether a block is loaded with its axes swapped, so that threads lie along the
            first one; Triton sees that by itself where loads are contiguous.
        is_masked: whether that axis is.
        end: of the reduction, where that needs a mask.
    """

    name: str
    outer: str
    size: str
    place: int
    is_turned: bool
    is_masked: bool
    end: str

    @property
    def factor(self) -> str:
        """The operand as it is multiplied."""
        return f"tl.trans({self.name.lower()})" if self.is_turned else self.name.lower()

    def load(self, batch: str, margin: str) -> str:
        """Return the lines that load it, to be indented by a margin."""
        low, is_first = self.name.lower(), (self.place == 0) is not self.is_turned
        axes, blocks = [f"{low}_depth", f"{low}_{self.outer}"], ["BLOCK_K", f"BLOCK_{self.size}"]
        across, along = ("[:, None]", "[None, :]")[:: 1 if is_first else -1]
        text = f"{axes[0]} = start + tl.arange(0, BLOCK_K){along}.to(INDEX_DTYPE)\n"
        text += f"{axes[1]} = {self.outer}s{across}\n"
        terms = [f"({axes[0]} < {self.end})"] if self.end else []
        terms += [f"({axes[1]} < {self.size})"] if self.is_masked else []
        text += f"{low}_mask = {' & '.join(terms)}\n" if terms else ""
        listed = ", ".join(f'"{axis}"' for axis in axes[:: -1 if self.place == 0 else 1])
        shape = tuple(blocks[:: -1 if is_first else 1])
        mask = f'"{low}_mask"' if terms else "None"
        call = f'load_input("{self.name}", "{low}", ({batch}{listed}), mask={mask}, '
        return f"{text}{{{{{call}indent_width={len(margin)}, index_shape={shape!r})}}}}\n"


def _is_turned(buffer: Any) -> bool:
    """Tell whether an operand is computed of what is nearer in memory along its first axis.

    That is asked of what it reads most of, over the whole axes: indices of packed elements repeat.
    """
    sizes = [int(size) for size in buffer.get_size()]
    reads = buffer.get_read_writes().reads
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    read = max(
        reads, key=lambda dependency: _bytes(V.graph.get_buffer(dependency.name)), default=None
    )
    if read is None or 1 in sizes[-2:] or len(read.var_names) != len(axes):
        return False
    origin = dict.fromkeys(read.var_names, 0)
    first, last = (
        (read.index.subs({**origin, variable: size - 1}) - read.index.subs(origin)) / (size - 1)
        for variable, size in zip(read.var_names[-2:], sizes[-2:], strict=True)
    )
    return bool(0 < first < last)


@SymbolicGridFn
def _plain_grid(rows: Any, columns: Any, meta: Any, *, cdiv: Any) -> Any:
    return cdiv(rows, meta["BLOCK_M"]) * cdiv(columns, meta["BLOCK_N"]), 1, 1


@SymbolicGridFn
def _outer_grid(outer: Any, rows: Any, columns: Any, meta: Any, *, cdiv: Any) -> Any:
    return cdiv(rows, meta["BLOCK_M"]) * cdiv(columns, meta["BLOCK_N"]), outer, 1


_HEAD = """\
{{def_kernel("A", "B")}}
    M = {{size("A", -2)}}
    N = {{size("B", -1)}}
    K = {{size("A", -1)}}
    pid = tl.program_id(0).to(INDEX_DTYPE)
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * blocks_n)
    group_size = min(blocks_m - group * GROUP_M, GROUP_M)
    pid_m = group * GROUP_M + pid % (GROUP_M * blocks_n) % group_size
    pid_n = pid % (GROUP_M * blocks_n) // group_size
"""
_OUTER = """\
    outer = tl.program_id(1).to(INDEX_DTYPE)
"""
_TILE = """\
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
"""
_STORE = """\
    row = rows[:, None]
    column = columns[None, :]
    mask = (row < M) & (column < N)
    {{store_output((OUTER"row", "column"), "acc", "mask", val_shape=("BLOCK_M", "BLOCK_N"))}}
"""


def plain_text(function: str) -> str:
    """Return a template's function without names that only stand for others.

    What an operand is computed of is 0 where it is masked: Inductor's proof that the operand is 0
    there takes that for granted. Its hints for the cache are for loads outside of a product.
    """
    function = function.replace("    INDEX_DTYPE : tl.constexpr = tl.int32\n", "")
    is_narrow = "INDEX_DTYPE :" not in function
    if is_narrow:
        function = function.replace(".to(INDEX_DTYPE)", "")
    function = re.sub(r"tl\.full\(\[\], (\d+), dtype=INDEX_DTYPE\)", r"\1", function)
    for name, parameter in re.findall(r"^    ([AB]) = (arg_[AB])$", function, re.MULTILINE):
        function = function.replace(f"    {name} = {parameter}\n", "")
        function = re.sub(rf"\b{name}\b", parameter, function)
    function = re.sub(r", eviction_policy='\w+'", "", function)
    function = re.sub(r", ([ab]_mask)\)(?=$|\.to\()", r", \1, other=0.0)", function, flags=re.M)
    function = re.sub(r"\n\n+", "\n", function)
    return _unpacked(function) if is_narrow else function


_LOADED = re.compile(
    r"^( +)(tmp\d+) = tl\.load\((\w+) \+ \(tl\.broadcast_to\((.+), \[(\w+), (\w+)\]\)\), "
    r"(None|[ab]_mask, other=0\.0)\)(.*)$",
    re.MULTILINE,
)


def _unpacked(function: str) -> str:
    """Return a product that loads once what several elements of an operand are computed of.

    Such are words that elements are packed in, and scales of groups or of whole rows. Their index
    takes a step after a power of two of elements along the reduction, or none.
    """
    sizes = set[int]()

    def load(match: re.Match[str]) -> str:
        margin, name, pointer, index, first, last, mask, rest = match.groups()
        depth = f"{'a' if 'BLOCK_M' in (first, last) else 'b'}_depth"
        names = set(re.findall(r"[A-Za-z_]\w*", index))
        steps = {int(step) for step in re.findall(rf"\({depth} // (\d+)\)", index)} or {0}
        others = re.sub(rf"\({depth} // \d+\)", "", index)
        is_masked = bool(re.search(rf"{mask[:6]} = .*{depth}", function))
        is_known = names <= {depth, "a_row", "b_column", "outer"} and depth not in others
        step = steps.pop()
        if steps or not is_known or step & (step - 1) or is_masked or "BLOCK_K" not in match[0]:
            return match[0]
        is_last = last == "BLOCK_K"
        count = f"PACKS_{step}" if step else "1"
        loaded = (first, count) if is_last else (count, last)
        lines = [f"{pointer} + (tl.broadcast_to(INDEX, [{', '.join(loaded)}]))"]
        if not step:
            value = f"tl.broadcast_to({name}, [{first}, {last}])"
            lines = [f"{name} = tl.load({lines[0].replace('INDEX', index)}, {mask})"]
        else:
            sizes.add(step)
            packs = f"{depth.replace('depth', 'packs')}_{step}"
            across = "[None, :]" if is_last else "[:, None]"
            whole = (first, count, f"BLOCK_K // {count}") if is_last else None
            whole = whole or (count, f"BLOCK_K // {count}", last)
            wide = f"{name}[:, :, None]" if is_last else f"{name}[:, None, :]"
            value = f"tl.broadcast_to({wide}, [{', '.join(whole)}]).reshape([{first}, {last}])"
            index = re.sub(rf"\({depth} // \d+\)", packs, index)
            lines = [
                f"{packs} = start // {step} + tl.arange(0, {count}){across}",
                f"{name} = tl.load({lines[0].replace('INDEX', index)}, {mask})",
            ]
        return "\n".join(f"{margin}{line}" for line in [*lines, f"{name} = {value}{rest}"])

    function = _LOADED.sub(load, function)
    counts = (f"    PACKS_{n}: tl.constexpr = max(BLOCK_K // {n}, 1)\n" for n in sorted(sizes))
    return re.sub(r"^    K = .*\n", lambda match: match[0] + "".join(counts), function, flags=re.M)
