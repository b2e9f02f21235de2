"""Triton functions of attention, written for what is proven of it, and their parameters."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from solkit.adapters.inductor_program._axes import Dims, is_repeated
from solkit.adapters.inductor_program._score_text import (
    ScoreText,
    TensorText,
    Value,
    offset_text,
    scaled_term,
)

LOW = 2048.0
"""Rests of numbers in fp16 are at most as much smaller than these."""
_LOG2_E = 1.4426950408889634
_LARGE = 1e37
"""Numbers so large are as good as infinite once they are multiplied: the least fp32 is filled in
for what is masked, and where all is masked, keys have equal weights."""
_SHARED_BYTES = 227 << 10
"""A block's most on Hopper: CUDA C++ Programming Guide, compute capability 9.0."""
_FEW_PROGRAMS = 264
"""With fewer, keys are split: twice the multiprocessors of an H200."""
_LEAST_SHARE = 64
"""Keys of a program that shares them with others."""
_FEW_ROWS = 64
"""Rows of several heads that share keys are one block, if a head has no more."""
_LEAST = 16  # of what tl.dot takes
_WASTE = 0.85  # a depth that fills as much of a power of two is one part


@dataclass(frozen=True)
class Band:
    """Keys that a query takes: from `low` to `high` places behind its own.

    Attributes:
        low, high: ``None`` where nothing ends there.
    """

    low: int | None = None
    high: int | None = None

    def both(self, other: Band) -> Band:
        """Return the keys that both take."""
        lows = [band.low for band in (self, other) if band.low is not None]
        highs = [band.high for band in (self, other) if band.high is not None]
        return Band(max(lows, default=None), min(highs, default=None))


@dataclass(frozen=True)
class Taken:
    """A tensor of a product.

    Attributes:
        tensor: itself.
        dims: its axes as a batch, queries or keys, and columns.
    """

    tensor: TensorText
    dims: Dims


@dataclass(frozen=True)
class Written:
    """The tensor that holds the result, contiguous.

    Attributes:
        dims: its axes, as parts of the axes 0, 1 and 2: a batch, queries and columns of values.
        shape: its sizes.
        dtype: of an element.
    """

    dims: Dims
    shape: tuple[int, ...]
    dtype: torch.dtype

    def offset(self, names: tuple[str, str, str], sizes: tuple[int, int, int]) -> str:
        """Return the offset of an element as a text."""
        terms, stride = [], 1
        for atom in reversed([atom for group in self.dims for atom in group]):
            assert atom.axis is not None
            text = names[atom.axis]
            text = text if atom.step == 1 else f"{text} // {atom.step}"
            text = text if atom.step * atom.size == sizes[atom.axis] else f"{text} % {atom.size}"
            terms.append(scaled_term(text, str(stride)))
            stride *= atom.size
        return " + ".join(reversed(terms)) or "0"


@dataclass(frozen=True)
class Split:
    """Rest of an operand of fp32 that is rounded to fp16, in units of its rows.

    Attributes:
        low: the rest, `LOW` times as large.
        unit: the number by which a row was divided; its axes as a batch and queries or keys.
    """

    low: Taken
    unit: Taken


@dataclass(frozen=True)
class Reach:
    """The first and the last key that a mask keeps, which the program finds out.

    Attributes:
        first, last: tensors that hold them.
        dims: their axes as a batch and queries.
    """

    first: TensorText
    last: TensorText
    dims: Dims


@dataclass(frozen=True)
class AttentionText:
    """Attention whose text can be written.

    Attributes:
        query, key, value: its operands.
        result: what it writes.
        sizes: of the batch, queries and keys.
        shared: neighbours in the batch that take the same keys.
        scores: what is done with a product of queries and keys, with the value at the end.
        scale: numbers by which the scores, and the result are multiplied.
        band: keys that a query takes.
        dtype: of the operands in products.
        precisions: of both products in fp32.
        empty: the result of a query without keys.
        reaches: of masks.
        splits: of queries and keys, if they are split.
    """

    query: Taken
    key: Taken
    value: Taken
    result: Written
    sizes: tuple[int, int, int]
    shared: int
    scores: ScoreText
    end: Value
    scale: tuple[float, float]
    band: Band
    dtype: torch.dtype
    precisions: tuple[str, str]
    empty: float
    reaches: tuple[Reach, ...] = ()
    splits: tuple[Split, ...] = ()

    @property
    def tensors(self) -> tuple[TensorText, ...]:
        """The tensors that it reads."""
        ends = (tensor for reach in self.reaches for tensor in (reach.first, reach.last))
        return *(taken.tensor for taken in self.taken()), *self.scores.sides, *ends

    def taken(self) -> tuple[Taken, ...]:
        """Return the tensors of products, and those that they were split in."""
        splits = (taken for split in self.splits for taken in (split.low, split.unit))
        return self.query, self.key, self.value, *splits

    @property
    def packs(self) -> int:
        """Neighbours in the batch that are rows of one block."""
        return rows_packed(self.sizes[1], self.shared)

    @property
    def rows(self) -> int:
        """Rows that share keys."""
        return self.packs * self.sizes[1]

    @property
    def is_split(self) -> bool:
        """Tell whether several programs share the keys of a row."""
        blocks = -(-self.rows // 64)
        is_long = self.sizes[2] >= 2 * _LEAST_SHARE
        return is_long and blocks * (self.sizes[0] // self.packs) < _FEW_PROGRAMS

    @property
    def tile_bytes(self) -> int:
        """Bytes of a score in tensors beside the scores that differ by query and key."""
        sizes = [
            side.node.meta["val"].dtype.itemsize
            for side, places in self.scores.places.items()
            if {1, 2} <= places
        ]
        return sum(sizes)

    @property
    def factors(self) -> tuple[float, float]:
        """Factor of scores that makes their exponentials powers of 2, ahead of and behind shifts.

        It is 1 in one of both: ahead it costs no instruction, behind nothing overflows.
        """
        factor = self.scale[0] * _LOG2_E
        return (1.0, factor) if self.scores.largest >= _LARGE else (factor, 1.0)

    @property
    def has_constant_range(self) -> bool:
        """Tell whether all blocks go over all keys."""
        return self.band == Band() and not self.reaches and not self.is_split

    @property
    def depths(self) -> tuple[int, int]:
        """Columns of keys, and of values."""
        return _size(self.key.dims[2]), _size(self.value.dims[2])

    def strides(self) -> list[list[int]]:
        """Return the axes of each tensor of which the kernel takes a stride."""
        written = "\n".join((*self.scores.before, *self.scores.lines))
        sides = [
            [axis for axis in range(side.node.meta["val"].dim()) if side.stride(axis) in written]
            for side in self.scores.sides
        ]
        ends = [_axes_of(reach.dims) for reach in self.reaches for _ in range(2)]
        return [*(_axes_of(taken.dims) for taken in self.taken()), *sides, *ends]


def rows_packed(queries: int, shared: int) -> int:
    """Return how many neighbours in the batch that share keys are rows of one block."""
    return shared if queries < _FEW_ROWS else 1


def _axes_of(dims: Dims) -> list[int]:
    return sorted({atom.axis for group in dims for atom in group if atom.axis is not None})


def _size(group: Sequence[object]) -> int:
    return math.prod(atom.size for atom in group)  # type: ignore[attr-defined]


def _power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _parts(size: int) -> list[tuple[int, int]]:
    """Return the first columns and widths of the powers of two that a depth is made of."""
    whole = max(_LEAST, _power(size))
    if size >= _WASTE * whole or size <= _LEAST:
        return [(0, whole)]
    parts, first = [], 0
    while size - first > _LEAST:
        width = 1 << (size - first).bit_length() - 1
        if size - first >= _WASTE * 2 * width:
            width *= 2
        parts.append((first, width))
        first += width
    return [*parts, (first, _LEAST)] if first < size else parts


# ---------------------------------------------------------------------------------- the text


@dataclass(frozen=True)
class AttentionKernel:
    """Triton functions of attention, next to `ProgramKernel`.

    Attributes:
        name: of the function.
        text: what it computes.
        suffix: of its parameters' names in the launcher.
    """

    name: str
    text: AttentionText
    suffix: str = field(default="")
    helpers: str = ""

    def named(self, source: str, helpers: str, suffix: str) -> AttentionKernel:
        """Return it with other names of its parameters in the launcher."""
        assert (source, helpers) == (self.source, "")
        return replace(self, suffix=suffix)

    @property
    def tuned(self) -> tuple[str, ...]:
        """Parameters that may be tuned."""
        return tuple(self.defaults)

    @property
    def choices(self) -> tuple[Mapping[str, int], ...]:
        """The configuration that is the default."""
        return (self.defaults,)

    @property
    def defaults(self) -> Mapping[str, int]:
        """Configuration to begin with: the best for most of what was timed on an H200."""
        rows, keys = self.text.rows, self.text.sizes[2]
        deep = sum(self.text.depths) > 256
        block_m = max(_LEAST, min(128 if self.text.dtype is torch.float32 else 64, _power(rows)))
        block_n = max(_LEAST, min(32 if deep else 64, _power(keys)))
        splits = {"SPLITS": self._first_splits(block_m)} if self.text.is_split else {}
        warps = 8 if block_m > 64 else 4
        blocks = {"BLOCK_M": block_m, "BLOCK_N": block_n, **splits}
        return {**blocks, "num_warps": warps, "num_stages": 3}

    def _first_splits(self, block_m: int) -> int:
        programs = -(-self.text.rows // block_m) * (self.text.sizes[0] // self.text.packs)
        most = max(1, self.text.sizes[2] // (2 * _LEAST_SHARE))
        return max(1, min(64, _power(_FEW_PROGRAMS // programs), _power(most)))

    def space(self) -> dict[str, tuple[int, ...]]:
        """Return the values of each parameter."""
        rows, keys = _power(self.text.rows), _power(self.text.sizes[2])
        space = {
            "BLOCK_M": tuple(n for n in (16, 32, 64, 128, 256) if n <= max(rows, _LEAST)),
            "BLOCK_N": tuple(n for n in (16, 32, 64, 128, 256) if n <= max(keys, _LEAST)),
            "SPLITS": tuple(
                n for n in (1, 2, 4, 8, 16, 32, 64) if n * _LEAST_SHARE <= keys or n == 1
            ),
            "num_warps": (1, 2, 4, 8) if rows < 64 else (4, 8),
            "num_stages": (1, 2, 3, 4),
        }
        least = 64 if rows >= 128 else _LEAST
        space["BLOCK_M"] = tuple(n for n in space["BLOCK_M"] if n >= least)
        return {name: tuple(sorted({*space[name], self.defaults[name]})) for name in self.defaults}

    def test_text(self, suffix: str) -> str:
        """Return a condition on ``params``: values of a thread, and shared memory."""
        m, n, warps, stages = (
            f'params["{name}{suffix}"]'
            for name in ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")
        )
        wide, deep = (sum(width for _, width in _parts(depth)) for depth in self.text.depths)
        values = f"{m} * ({n} + {deep}) <= 6144 * {warps} and {m} * {n} >= 64 * {warps}"
        is_twice = bool(self.text.splits) or self.text.dtype is torch.float32  # as two numbers
        wide_m, wide_n = wide * (1 + is_twice), wide * (1 + bool(self.text.splits))
        size = self.text.dtype.itemsize
        shared = f"{m} * {size * wide_m} + {n} * {size * (wide_n + deep)} * {stages}"
        if tiles := self.text.tile_bytes:
            shared = f"{shared} + {m} * {n} * {tiles} * ({stages} - 1)"
        shared = f"{shared} <= {_SHARED_BYTES}"
        return f"{values} and {shared}"

    # ------------------------------------------------------------------------------- launches

    def launch_lines(self, result: str, arguments: Sequence[str], device: str) -> Iterator[str]:
        """Yield statements that compute it.

        Args:
            result: the name of what it writes.
            arguments: the tensors that it reads, as expressions.
            device: theirs.
        """
        text, suffix = self.text, self.suffix
        names = []
        for tensor, argument in zip(text.tensors, arguments, strict=True):
            names.append(argument if argument.isidentifier() else f"{self.name}_{tensor.name}")
            if not argument.isidentifier():
                yield f"{names[-1]} = {argument}"
        shape, dtype = text.result.shape, text.result.dtype
        yield f"{result} = torch.empty({shape}, dtype={dtype}, device={device})"
        strides = [
            ", ".join(f"{name}.stride({axis})" for axis in axes)
            for name, axes in zip(names, text.strides(), strict=True)
            if axes
        ]
        batch, rows = text.sizes[0] // text.packs, text.sizes[0] * text.sizes[1]
        grid = f"{batch} * triton.cdiv({text.rows}, BLOCK_M{suffix})"
        written = [result]
        if text.is_split:
            splits, deep = f"SPLITS{suffix}", text.depths[1]
            parts, weights = f"{self.name}_parts", f"{self.name}_weights"
            yield (
                f"{parts} = torch.empty(({splits}, {rows}, {deep}), dtype=torch.float32, "
                f"device={device})"
            )
            yield (
                f"{weights} = torch.empty((2, {splits}, {rows}), dtype=torch.float32, "
                f"device={device})"
            )
            grid, written = f"{grid} * {splits}", [parts, weights]
        tuned = ", ".join(f"{name}={name}{suffix}" for name in self.tuned)
        sizes = [str(text.sizes[2])] if text.has_constant_range else []
        lines = [", ".join([*names, *written]), *strides, *sizes, tuned]
        listed = "".join(f"    {line},\n" for line in lines)
        yield f"{self.name}[({grid},)](\n{listed})"
        if text.is_split:
            yield (
                f"{self.name}_combined[({rows},)](\n    {parts}, {weights}, {result},\n"
                f"    SPLITS={splits}, num_warps=1,\n)"
            )
        temporary = {*names, *written} - {*arguments, result}
        if temporary:
            yield f"del {', '.join(sorted(temporary))}"

    @property
    def source(self) -> str:
        """The text of the functions."""
        text = self._main_text()
        return f"{text}\n\n{self._combining_text()}" if self.text.is_split else text

    def _main_text(self) -> str:
        text = self.text
        strides = [
            ", ".join(map(tensor.stride, axes))
            for tensor, axes in zip(text.tensors, text.strides(), strict=True)
        ]
        written = ["parts", "weights"] if text.is_split else ["result"]
        taken = ", ".join([*(t.name for t in text.tensors), *written])
        strides += ["end_of_keys"] if text.has_constant_range else []
        listed = "".join(f"    {line},\n" for line in (taken, *strides) if line)
        blocks = "".join(f"    {n}: tl.constexpr,\n" for n in self.tuned if n.isupper())
        body = "\n".join([*self._start(), *self._ranges(), *self._loop(), *self._end()])
        return (
            f"@triton.jit\ndef {self.name}(\n{listed}{blocks}):\n{textwrap.indent(body, '    ')}\n"
        )

    def _start(self) -> Iterator[str]:
        """Yield lines that find the rows, and load the queries."""
        text = self.text
        yield f"rows: tl.constexpr = {text.rows}"
        yield f"keys: tl.constexpr = {text.sizes[2]}"
        yield "blocks: tl.constexpr = (rows + BLOCK_M - 1) // BLOCK_M"
        if text.is_split:
            yield "split = tl.program_id(0) % SPLITS"
            yield "place = tl.program_id(0) // SPLITS"
        else:
            yield "place = tl.program_id(0)"
        yield "block = blocks - 1 - place % blocks  # those with the most keys first"
        packed = f" * {text.packs}" if text.packs > 1 else ""
        yield f"first = (place // blocks).to(tl.int64){packed}"
        yield "row = block * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]"
        yield "inside_m = row < rows"
        if text.packs > 1:
            yield f"batch = first + row // {text.sizes[1]}"
            yield f"m = row % {text.sizes[1]}"
        else:
            yield "batch = first"
            yield "m = row"
        yield from self._bases()
        for place, (start, width) in enumerate(_parts(text.depths[0])):
            yield f"d{place} = {_counted(start, width)}"
            names = "m", f"d{place}[None, :]"
            offset = self._tile_offset(text.query, names)
            mask = _both("inside_m", _within(f"d{place}[None, :]", start, width, text.depths[0]))
            load = f"tl.load(query_at + {offset}, mask={mask}, other=0.0)"
            yield f"q{place} = {self._operand(load, text.query)}"
            if text.splits:
                offset = self._tile_offset(text.splits[0].low, names)
                yield f"q_low{place} = tl.load(query_low_at + {offset}, mask={mask}, other=0.0)"
        if text.splits:
            offset = self._tile_offset(text.splits[0].unit, ("m",))
            yield f"q_unit = tl.load(query_unit_at + {offset}, mask=inside_m, other=0.0)"
        for place, (start, width) in enumerate(_parts(text.depths[1])):
            yield f"e{place} = {_counted(start, width)}"
            yield f"sum{place} = tl.zeros([BLOCK_M, {width}], tl.float32)"
        yield 'largest = tl.full([BLOCK_M], float("-inf"), tl.float32)'
        yield "total = tl.zeros([BLOCK_M], tl.float32)"
        yield from text.scores.before

    def _bases(self) -> Iterator[str]:
        for taken in self.text.taken():
            batch = "batch" if taken.tensor.name.startswith("query") else "first"
            offset = offset_text(taken.tensor, taken.dims[:1], (batch,))
            yield f"{taken.tensor.name}_at = {taken.tensor.name}{f' + {offset}' if offset else ''}"

    @staticmethod
    def _tile_offset(taken: Taken, names: Sequence[str]) -> str:
        return _of_all(offset_text(taken.tensor, taken.dims[1:], names), names)

    def _operand(self, load: str, taken: Taken) -> str:
        dtype = taken.tensor.node.meta["val"].dtype
        return load if dtype is self.text.dtype else f"{load}.to({_triton(self.text.dtype)})"

    def _ranges(self) -> Iterator[str]:
        """Yield lines that find the keys of the block: from `low` to `high`, some without masks."""
        text = self.text
        low, high, queries = text.band.low, text.band.high, text.sizes[1]
        if text.packs > 1 and text.band != Band():
            yield f"least, most = 0, {queries - 1}"
        elif text.band != Band():
            yield "least = block * BLOCK_M"
            yield f"most = tl.minimum(least + BLOCK_M, {queries}) - 1"
        yield "low = 0" if low is None else f"low = tl.maximum(least + {low}, 0)"
        # Triton 3.6 computes a last trip wrongly that constants make no loop
        last = "end_of_keys" if text.has_constant_range else "keys"
        yield f"high = {last}" if high is None else f"high = tl.minimum(most + {high + 1}, keys)"
        whole = "keys" if high is None else f"tl.maximum(tl.minimum(least + {high + 1}, keys), 0)"
        for reach in text.reaches:
            yield f"low = tl.maximum(low, {self._end_of(reach, reach.first, 'min', 'keys')})"
            yield f"high = tl.minimum(high, {self._end_of(reach, reach.last, 'max', '-1')} + 1)"
        if low is not None or text.reaches:
            yield "low = low // BLOCK_N * BLOCK_N"
            yield "high = tl.maximum(low, high)"
        if text.is_split:
            yield "share = tl.cdiv(tl.cdiv(high - low, BLOCK_N), SPLITS) * BLOCK_N"
            yield "low += split * share"
            yield "high = tl.maximum(tl.minimum(low + share, high), low)"
        if low is None:
            yield "whole_low = low"
        else:
            yield f"whole_low = tl.cdiv(tl.maximum(most + {low}, 0), BLOCK_N) * BLOCK_N"
            yield "whole_low = tl.minimum(tl.maximum(whole_low, low), high)"
        yield f"whole_high = {whole} // BLOCK_N * BLOCK_N"
        if text.band != Band() or text.is_split or text.reaches:
            yield "whole_high = tl.minimum(tl.maximum(whole_high, whole_low), high)"

    def _end_of(self, reach: Reach, tensor: TensorText, reduced: str, other: str) -> str:
        """Return the least or largest of the rows' keys."""
        offset = offset_text(tensor, reach.dims, ("batch", "m"))
        pointer = f"{tensor.name} + {offset}" if offset else tensor.name
        is_packed = self.text.packs > 1 and not is_repeated(reach.dims[0])
        if is_repeated(reach.dims[1]) and not is_packed:
            return f"tl.load({pointer})"
        return f"tl.{reduced}(tl.load({pointer}, mask=inside_m, other={other}))"

    def _loop(self) -> Iterator[str]:
        text = self.text
        has_first = text.band.low is not None
        count = "2 + (keys % BLOCK_N != 0)" if text.has_constant_range else "3"
        yield f"for trips in tl.static_range({0 if has_first else 1}, {count}):"
        if has_first:
            yield "    if trips == 0:  # keys of which a mask takes some"
            yield "        begin, end = low, whole_low"
            yield "    elif trips == 1:  # keys that all rows take"
        else:
            yield "    if trips == 1:  # keys that all rows take"
        yield "        begin, end = whole_low, whole_high"
        yield "    else:  # keys of which a mask takes some"
        yield "        begin, end = whole_high, high"
        yield "    for start in range(begin, end, BLOCK_N):"
        for line in self._trip():
            yield f"        {line}"

    def _trip(self) -> Iterator[str]:
        """Yield the lines for a block of keys."""
        text = self.text
        yield "n = start + tl.arange(0, BLOCK_N)[None, :]"
        yield "inside_n = n < keys"
        for place, (start, width) in enumerate(_parts(text.depths[0])):
            names = "n", f"d{place}[:, None]"
            within = _within(names[1], start, width, text.depths[0])
            offset = self._tile_offset(text.key, names)
            yield from self._guarded_load(f"k{place}", text.key, offset, "inside_n", within)
            for split in text.splits[1:]:
                offset = self._tile_offset(split.low, names)
                yield from self._guarded_load(
                    f"k_low{place}", split.low, offset, "inside_n", within
                )
        count = len(_parts(text.depths[0]))
        yield from _dots("s", [("q", "k")], count, self._precision(0))
        if text.splits:
            yield from _dots("rest", [("q", "k_low"), ("q_low", "k")], count, "")
            yield f"s += rest * {1 / LOW!r}"
            unit = text.splits[1].unit
            offset = self._tile_offset(unit, ("n",))
            yield f"s *= q_unit * tl.load(key_unit_at + {offset}, mask=inside_n, other=0.0)"
        yield from text.scores.lines
        if text.end.text != "s":
            yield f"s = {text.end.text}"
        condition = self._condition()
        yield "if trips != 1:"
        yield f'    s = tl.where({condition}, s, float("-inf"))'
        ahead, behind = text.factors
        yield f"top = tl.maximum(largest, {_times('tl.max(s, 1)', ahead)})"
        yield 'shift = tl.where(top == float("-inf"), 0.0, top)'
        shifted = f"{_times('s', ahead)} - shift[:, None]"
        yield f"p = tl.exp2({_times(shifted, behind)})"
        yield f"kept = tl.exp2({_times('largest - shift', behind)})"
        yield "total = total * kept + tl.sum(p, 1)"
        yield "largest = top"
        yield "keys_n = start + tl.arange(0, BLOCK_N)[:, None]"
        if text.dtype is not torch.float32:
            yield f"p = p.to({_triton(text.dtype)})"
        for place, (start, width) in enumerate(_parts(text.depths[1])):
            offset = self._tile_offset(text.value, ("keys_n", f"e{place}[None, :]"))
            within = _within(f"e{place}[None, :]", start, width, text.depths[1])
            yield from self._guarded_load(f"v{place}", text.value, offset, "keys_n < keys", within)
            former = f"sum{place} * kept[:, None]"
            yield f"sum{place} = tl.dot(p, v{place}, {former}{self._precision(1)})"

    def _guarded_load(
        self, name: str, taken: Taken, offset: str, inside: str, within: str
    ) -> Iterator[str]:
        """Yield a load that reads nothing outside of the keys in trips that may leave them."""
        pointer = f"{taken.tensor.name}_at + {offset}"
        plain = f", mask={within}, other=0.0" if within else ""
        masked = f"tl.load({pointer}, mask={_both(inside, within)}, other=0.0)"
        yield "if trips == 1:"
        yield f"    {name} = {self._operand(f'tl.load({pointer}{plain})', taken)}"
        yield "else:"
        yield f"    {name} = {self._operand(masked, taken)}"

    def _precision(self, product: int) -> str:
        if self.text.dtype is not torch.float32:
            return ""
        return f', input_precision="{self.text.precisions[product]}"'

    def _condition(self) -> str:
        low, high = self.text.band.low, self.text.band.high
        parts = ["inside_n"]
        parts += [f"(n >= m + {low})"] if low is not None else []
        parts += [f"(n <= m + {high})"] if high is not None else []
        return " & ".join(parts)

    def _end(self) -> Iterator[str]:
        text = self.text
        parts = _parts(text.depths[1])
        if text.is_split:
            total = text.sizes[0] * text.sizes[1]
            yield f"at = split * {total} + first * {text.sizes[1]} + row"
            for place, (start, width) in enumerate(parts):
                within = _within(f"e{place}[None, :]", start, width, text.depths[1])
                yield (
                    f"tl.store(parts + at * {text.depths[1]} + e{place}[None, :], sum{place}, "
                    f"mask={_both('inside_m', within)})"
                )
            yield "tl.store(weights + at, largest[:, None], mask=inside_m)"
            yield f"tl.store(weights + SPLITS * {total} + at, total[:, None], mask=inside_m)"
            return
        for place, (start, width) in enumerate(parts):
            yield from self._result_lines(f"sum{place}", "total[:, None]", f"r{place}")
            names = "batch", "m", f"e{place}[None, :]"
            offset = _of_all(self._result_offset(names), names[1:])
            within = _within(f"e{place}[None, :]", start, width, text.depths[1])
            mask = _both("inside_m", within)
            yield f"tl.store(result + {offset}, r{place}, mask={mask})"

    def _result_lines(self, value: str, total: str, name: str) -> Iterator[str]:
        factor = self.text.scale[1]
        scaled = value if factor == 1 else f"{value} * {factor!r}"
        yield f"{name} = {scaled} / {total}"
        if self.text.empty == 0:
            yield f"{name} = tl.where({total} == 0, 0.0, {name})"

    def _result_offset(self, names: tuple[str, str, str]) -> str:
        sizes = *self.text.sizes[:2], self.text.depths[1]
        return self.text.result.offset(names, sizes)

    def _combining_text(self) -> str:
        """Return a function that adds what the parts of the keys gave a row."""
        text = self.text
        total, (_, deep) = text.sizes[0] * text.sizes[1], text.depths
        width = max(_LEAST, _power(deep))
        within = _within("e", 0, width, deep)
        store = f"tl.store(result + OFFSET, r{f', mask={within}' if within else ''})"
        offset = _of_all(self._result_offset(("batch", "m", "e")), ("e",))
        body = [
            "row = tl.program_id(0).to(tl.int64)",
            f"batch = row // {text.sizes[1]}",
            f"m = row % {text.sizes[1]}",
            f"at = tl.arange(0, SPLITS) * {total} + row",
            f"e = tl.arange(0, {width})",
            "largest = tl.load(weights + at)",
            f"totals = tl.load(weights + SPLITS * {total} + at)",
            "top = tl.max(largest, 0)",
            'kept = tl.where(largest == float("-inf"), 0.0, '
            f"tl.exp2({_times('largest - top', text.factors[1])}))",
            f"sums = tl.load(parts + at[:, None] * {deep} + e[None, :]"
            + (f", mask={_within('e[None, :]', 0, width, deep)}, other=0.0)" if within else ")"),
            *self._result_lines("tl.sum(sums * kept[:, None], 0)", "tl.sum(totals * kept, 0)", "r"),
            store.replace("OFFSET", offset),
        ]
        return (
            f"@triton.jit\ndef {self.name}_combined(\n"
            "    parts, weights, result,\n    SPLITS: tl.constexpr,\n):\n"
            f"{textwrap.indent(chr(10).join(body), '    ')}\n"
        )


def _dots(
    result: str, pairs: Sequence[tuple[str, str]], count: int, precision: str
) -> Iterator[str]:
    for number in range(len(pairs) * count):
        (first, second), place = pairs[number // count], number % count
        added = f", {result}" if number else ""
        yield f"{result} = tl.dot({first}{place}, {second}{place}{added}{precision})"


def _times(text: str, factor: float) -> str:
    """Return a value's text, multiplied by a number."""
    if factor == 1:
        return text
    return f"({text}) * {factor!r}" if " - " in text else f"{text} * {factor!r}"


def _of_all(offset: str, names: Sequence[str]) -> str:
    """Return an offset of which each name is a part: an axis of size 1 has none."""
    parts = [f"{name} * 0" for name in names if name not in offset]
    return " + ".join([*([offset] if offset else []), *parts])


def _counted(first: int, width: int) -> str:
    return f"tl.arange(0, {width})" if not first else f"{first} + tl.arange(0, {width})"


def _within(name: str, first: int, width: int, size: int) -> str:
    return f"({name} < {size})" if first + width > size else ""


def _both(first: str, second: str) -> str:
    first = f"({first})" if " " in first else first
    return f"{first} & {second}" if second else first


def _triton(dtype: torch.dtype) -> str:
    return f"tl.{str(dtype).removeprefix('torch.')}"
