"""Events and results of Triton's own functions, by their names in Triton.

Only the last part of a qualified name counts: ``triton.language.core.load`` and a tensor's method
``load`` are the same. A function that is not known works on each element.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from solkit.surrogate.block_events import Details, EventRecorder
from solkit.surrogate.program_values import (
    FAR,
    UNKNOWN,
    WHOLE,
    Number,
    Value,
    broadcast_values,
    constant_value,
    contiguous_elements,
    expanded_shares,
    is_text,
    known_integers,
    merge_values,
    sector_share,
    single_integer,
    transpose_value,
    truth_of_number,
)

_SLOW = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log2", "log1p", "log10", "sin", "cos", "tan", "tanh"),
        *("sigmoid", "erf", "erfc", "rsqrt", "sqrt", "sqrt_rn", "div_rn", "fdiv", "pow", "softmax"),
        *("sinh", "cosh", "asin", "acos", "atan", "atan2", "lgamma", "fast_expf", "fast_dividef"),
    )
)
_REDUCING = frozenset(
    ("sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum", "reduce_or", "any", "all")
)
_SCANNING = frozenset(
    ("cumsum", "cumprod", "associative_scan", "sort", "histogram", "topk", "flip")
)
_LANES = 4.0
"""Instructions of a round of a scan or of a bitonic sort, about: a shuffle, a choice."""
_RANDOM = frozenset(("rand", "randn", "randint", "rand4x", "randn4x", "randint4x", "philox"))
_PHILOX = 60.0
"""Instructions of a random number, about: ten rounds of two products and four exclusive ors."""
_SAME = frozenset(
    (
        *("multiple_of", "max_contiguous", "max_constancy", "to_tensor", "constexpr", "ravel"),
        *("_unwrap_if_constexpr", "abs", "int", "float", "bool"),
    )
)
_NOTHING = frozenset(
    (
        *("static_assert", "static_print", "device_print", "device_assert", "assume", "print"),
        *("debug_barrier", "fence_async_shared", "sleep"),
    )
)
_EXTREMES: dict[str, Callable[[Any, Any], Any]] = {
    "min": np.minimum,
    "minimum": np.minimum,
    "max": np.maximum,
    "maximum": np.maximum,
}
_BYTES = {"int1": 1.0, "void": 1.0}
_HINTS = ("cache_modifier", "eviction_policy", "volatile", "sem")

_TILE_NAMES = {
    "load_tensor_descriptor": "load",
    "store_tensor_descriptor": "store",
    "_experimental_descriptor_load": "load",
    "_experimental_descriptor_store": "store",
}
"""Older names of descriptors' methods."""

Named = Mapping[str, Value]


def type_value(text: str) -> Value:
    """Return a type of Triton's: ``"bf16"``, ``"pointer<fp16>"`` and such."""
    is_pointer = text.startswith(("pointer", "*"))
    digits = "".join(c if c.isdigit() else " " for c in text.replace("e4", " ").replace("e5", " "))
    bits = float((digits.split() or ["32"])[0])
    element = text.removeprefix("pointer<").lstrip("*")
    is_integer = element.startswith(("int", "uint", "i", "u"))
    width = _BYTES.get(text, max(bits / 8, 1.0))
    return Value(kind="type", width=width, is_integer=is_integer, text="*" if is_pointer else "")


class TritonFunctions:
    """Functions of Triton, for one block.

    Args:
        recorder: receives what they do.
        grid: blocks in x, y and z.
        programs: the block's place in these.
    """

    def __init__(
        self, recorder: EventRecorder, grid: Sequence[Number], programs: Sequence[Number]
    ) -> None:
        self._recorder = recorder
        self._grid = grid
        self._programs = programs

    def call(self, name: str, arguments: list[Value], named: Named) -> Value:
        """Return what a function gives, and record what it does."""
        first = arguments[0] if arguments else next(iter(named.values()), UNKNOWN)
        if name in _NOTHING:
            return UNKNOWN
        for handler in (self._place, self._memory, self._scalar, self._shape, self._whole):
            result = handler(name, first, arguments, named)
            if result is not None:
                return result
        return self._elementwise(name, arguments, named)

    # ----------------------------------------------------------------------------------- places

    def _place(self, name: str, first: Value, arguments: list[Value], named: Named) -> Value | None:
        if name in ("program_id", "num_programs"):
            axis = single_integer(first.number)
            numbers = self._programs if name == "program_id" else self._grid
            is_axis = axis is not None and 0 <= axis < len(numbers)
            return Value(numbers[axis or 0] if is_axis else np.nan, is_integer=True)
        if name == "arange":
            begin, end = (*arguments, *named.values())[:2]
            size = _as_number(end) - _as_number(begin)
            tensor = Value(begin.number, sizes=(size,), steps=(1.0,), is_integer=True)
            return self._recorder.note_size(tensor)
        if name == "swizzle2d" and len(arguments) > 4:
            return _swizzled_places(arguments)
        return None

    # ----------------------------------------------------------------------------------- memory

    def _memory(
        self, name: str, first: Value, arguments: list[Value], named: Named
    ) -> Value | None:
        name = _TILE_NAMES.get(name, name)
        if name in ("load", "store", "gather", "scatter") or name.startswith("atomic"):
            is_tile_gather = name in ("gather", "scatter")
            if is_tile_gather and not first.points:
                return self._gather_lanes(first, arguments)
            kind = {"gather": "load", "scatter": "store"}.get(name, name)
            return self._access("atomic" if name.startswith("atomic") else kind, arguments, named)
        if name in ("make_block_ptr", "make_tensor_descriptor", "_experimental_make_tensor_desc"):
            return _described_tile(name == "make_block_ptr", arguments, named)
        if name == "advance" and first.bounds:
            return _moved_tile(first, named.get("offsets", arguments[-1]))
        if name == "advance":
            return first
        if name in ("dot", "dot_scaled"):
            return self._multiply(name, arguments, named)
        return None

    def _gather_lanes(self, first: Value, arguments: list[Value]) -> Value:
        index = arguments[1] if len(arguments) > 1 else first
        self._recorder.record("scan", index.elements, width=first.width)
        return self._recorder.note_size(replace(first, sizes=index.sizes, steps=_lost(index)))

    def _access(self, kind: str, arguments: list[Value], named: Named) -> Value:
        pointer = arguments[0] if arguments else named.get("pointer", UNKNOWN)
        rest = arguments[1:]
        mask = named.get("mask", UNKNOWN)
        value = named.get("value", rest[0] if rest and kind != "load" else UNKNOWN)
        if pointer.bounds or (pointer.sizes and rest and rest[0].items is not None):
            return self._access_tile(kind, pointer, rest, named)
        place = {"load": 0, "store": 1}.get(kind, 1)
        if mask is UNKNOWN and len(rest) > place:
            mask = rest[-1] if kind == "atomic" else rest[place]
        if not pointer.sizes and value.sizes:  # one pointer of a tensor of values
            pointer = replace(pointer, sizes=value.sizes, steps=(0.0,) * len(value.sizes))
        if mask.sizes and not pointer.sizes:
            pointer = replace(pointer, sizes=mask.sizes, steps=(0.0,) * len(mask.sizes))
        shares = expanded_shares(mask, len(pointer.sizes))
        lanes = shares[-len(pointer.sizes) :] if pointer.sizes else ()
        self._record_access(kind, pointer, contiguous_elements(pointer, lanes), shares, named)
        if kind == "store":
            return UNKNOWN
        return self._loaded(pointer) if kind == "load" else self._unread(pointer)

    def _record_access(
        self, kind: str, pointer: Value, run: float, shares: Sequence[float], named: Named
    ) -> None:
        """Record an access of a pointer's elements in contiguous runs, of which shares are read."""
        self._recorder.record(
            kind,
            pointer.elements * functools.reduce(operator.mul, shares, 1.0),
            width=pointer.width,
            details=Details(
                lanes=pointer.elements,
                run=run,
                sectors=sector_share(pointer, run),
                hint=_hint_of(named),
            ),
        )

    def _loaded(self, pointer: Value) -> Value:
        numbers = known_integers(pointer) if pointer.is_integer else None
        return self._unread(pointer) if numbers is None else self._recorder.note_size(numbers)

    def _unread(self, pointer: Value) -> Value:
        return self._recorder.note_size(
            Value(
                sizes=pointer.sizes,
                steps=_lost(pointer),
                width=pointer.width,
                is_integer=pointer.is_integer,
                loaded=True,
                is_data=True,
            )
        )

    def _access_tile(self, kind: str, pointer: Value, rest: Sequence[Value], named: Named) -> Value:
        """Access a tile by a block pointer or descriptor."""
        places = named.get("offsets", next((v for v in rest if v.items is not None), UNKNOWN))
        is_descriptor = not pointer.places
        starts = places.items if is_descriptor and places.items is not None else ()
        numbers = tuple(item.number for item in starts) if starts else pointer.places
        shares = _shares_inside(pointer, numbers) if is_descriptor or _checks(named) else ()
        shares = shares or (1.0,) * len(pointer.sizes)
        self._record_access(kind, pointer, contiguous_elements(pointer, shares), shares, named)
        return UNKNOWN if kind == "store" else self._unread(pointer)

    def _multiply(self, name: str, arguments: list[Value], named: Named) -> Value:
        lhs = arguments[0] if arguments else named.get("input", named.get("lhs", UNKNOWN))
        place = 3 if name == "dot_scaled" else 1
        by_name = named.get("other", named.get("rhs", UNKNOWN))
        rhs = arguments[place] if len(arguments) > place else by_name
        if len(lhs.sizes) < 2 or len(rhs.sizes) < 2:
            return UNKNOWN
        rows, depth, columns = lhs.sizes[-2], lhs.sizes[-1], rhs.sizes[-1]
        batch = functools.reduce(operator.mul, lhs.sizes[:-2], 1.0)
        staged = sum(operand.elements * operand.width for operand in (lhs, rhs) if operand.loaded)
        precision = named.get("input_precision", UNKNOWN).number
        rounds = named.get("allow_tf32", constant_value(True)).number
        passes = 3.0 if precision == "tf32x3" and np.all(lhs.width == 4) else 1.0
        self._recorder.record(
            "dot",
            passes * batch * rows * columns * depth,
            width=np.maximum(lhs.width, rhs.width),
            details=Details(
                staged=staged,
                sizes=(rows, columns, depth),
                is_exact=precision == "ieee" or (isinstance(rounds, float) and rounds == 0),
            ),
        )
        sizes = (*lhs.sizes[:-1], columns)
        return self._recorder.note_size(Value(sizes=sizes, steps=(np.nan,) * len(sizes)))

    # ----------------------------------------------------------------------------------- scalars

    def _scalar(
        self, name: str, first: Value, arguments: list[Value], named: Named
    ) -> Value | None:
        several = [*arguments, *named.values()]
        if any(value.sizes for value in several) or any(is_text(v.number) for v in several):
            return None
        second = several[1] if len(several) > 1 else UNKNOWN
        if name == "cdiv":
            whole = np.ceil(np.asarray(first.number, float) / np.asarray(second.number, float))
            return Value(whole, is_integer=True)
        if name in _EXTREMES and len(several) > 1:
            numbers = [value.number for value in several]
            return Value(functools.reduce(_EXTREMES[name], numbers), is_integer=first.is_integer)
        if name == "next_power_of_2":
            return Value(2.0 ** np.ceil(np.log2(np.asarray(first.number, float))), is_integer=True)
        if name == "len" and first.items is not None:
            return constant_value(len(first.items))
        if name == "where" and len(several) > 2:
            return merge_values(truth_of_number(first.number), several[1], several[2])
        if name == "fdiv" and len(several) > 1:
            return Value(np.asarray(first.number, float) / np.asarray(second.number, float))
        return None

    # ------------------------------------------------------------------------------------- shape

    def _shape(self, name: str, first: Value, arguments: list[Value], named: Named) -> Value | None:
        if name in ("zeros", "full", "empty"):
            return self._filled(name, first, arguments, named)
        if name in ("zeros_like", "full_like", "empty_like"):
            return replace(first, number=0.0, steps=(0.0,) * len(first.sizes), loaded=False)
        if name in ("broadcast_to", "reshape", "view", "expand"):
            return self._reshaped(name, first, arguments, named)
        if name in ("trans", "permute"):
            parts = [part for value in arguments[1:] for part in value.items or (value,)]
            order = [single_integer(part.number) for part in parts]
            return transpose_value(first, [at for at in order if at is not None])
        if name == "expand_dims":
            axis = named.get("axis", arguments[1] if len(arguments) > 1 else UNKNOWN)
            return _with_new_dimension(first, axis)
        if name in ("to", "cast"):
            return _cast(first, named.get("dtype", arguments[1] if len(arguments) > 1 else UNKNOWN))
        if name == "pointer_type":
            return replace(first, kind="type", text="*")
        if name in ("join", "interleave", "cat") and first.sizes:
            return self._joined(name, first)
        if name == "split" and first.sizes:
            part = replace(
                first, sizes=first.sizes[:-1], steps=first.steps[:-1], slopes=(), spans=()
            )
            return Value(items=(part, part))
        return first if name in _SAME and not (name == "abs" and first.sizes) else None

    def _filled(self, name: str, first: Value, arguments: list[Value], named: Named) -> Value:
        shape = named.get("shape", first)
        sizes = tuple(item.number for item in shape.items or (shape,))
        dtype = named.get("dtype", arguments[-1] if len(arguments) > 1 else UNKNOWN)
        filler = named.get("value", arguments[1] if name == "full" and len(arguments) > 1 else None)
        is_type = dtype.kind == "type"
        tensor = Value(
            0.0 if filler is None else filler.number,
            sizes,
            (0.0,) * len(sizes),
            width=dtype.width if is_type else 4.0,
            is_integer=is_type and dtype.is_integer,
        )
        return self._recorder.note_size(tensor)

    def _reshaped(self, name: str, first: Value, arguments: list[Value], named: Named) -> Value:
        shape = named.get("shape", arguments[1] if len(arguments) > 1 else UNKNOWN)
        items = arguments[1:] if shape.items is None else shape.items
        sizes = tuple(item.number for item in items)
        rank = len(sizes)
        if len(first.sizes) == rank and name in ("broadcast_to", "expand"):
            return self._recorder.note_size(replace(first, sizes=sizes))
        if not first.sizes:
            return self._recorder.note_size(
                replace(first, sizes=sizes, steps=(0.0,) * rank, slopes=())
            )
        steps = _row_major_steps(first, sizes)
        spans = (*(WHOLE,) * (rank - 1), (0.0, first.share)) if first.spans else ()
        return self._recorder.note_size(
            replace(first, sizes=sizes, steps=steps, slopes=(), spans=spans)
        )

    def _joined(self, name: str, first: Value) -> Value:
        if name == "join":
            sizes: tuple[Number, ...] = (*first.sizes, 2.0)
        else:
            sizes = (*first.sizes[:-1], 2 * first.sizes[-1])
        gone = (np.nan,) * len(sizes)
        return self._recorder.note_size(
            replace(first, sizes=sizes, steps=gone, slopes=(), spans=())
        )

    # ------------------------------------------------------------------------------ whole tensors

    def _whole(self, name: str, first: Value, arguments: list[Value], named: Named) -> Value | None:
        if not first.sizes:
            return None
        second = arguments[1] if len(arguments) > 1 else UNKNOWN
        if name in _REDUCING and not second.sizes:
            return self._reduced(first, named.get("axis", second))
        if name in _SCANNING:
            self._recorder.record("scan", first.elements, width=first.width)
            steps = np.log2(np.maximum(first.sizes[-1], 2))
            rounds = steps * (steps + 1) / 2 if name in ("sort", "topk") else steps
            self._recorder.record("fast", _LANES * rounds * first.elements, width=first.width)
            return replace(first, loaded=False, steps=_lost(first), slopes=(), number=np.nan)
        return None

    def _reduced(self, first: Value, axis: Value) -> Value:
        self._recorder.record("reduce", first.elements, width=first.width)
        result = Value(width=first.width, is_integer=first.is_integer)
        number = None if axis.kind in ("none", "unknown") else single_integer(axis.number)
        if number is None:
            return result
        place = number % len(first.sizes)
        sizes = tuple(size for at, size in enumerate(first.sizes) if at != place)
        return replace(result, sizes=sizes, steps=(np.nan,) * len(sizes))

    def _elementwise(self, name: str, arguments: list[Value], named: Named) -> Value:
        several = [*arguments, *named.values()]
        several += [item for value in several for item in value.items or ()]
        tensors = [value for value in several if value.sizes]
        if not tensors:
            return UNKNOWN
        if name in ("minimum", "maximum") and len(several) > 1:
            index = next((value for value in tensors if value.is_integer), None)
            if index is not None and all(value.is_integer for value in several[:2]):
                return replace(index, loaded=False)
        if name == "where" and len(several) > 2 and not several[0].is_data:
            index = several[1] if several[1].sizes else several[2]
            if index.is_integer and index.sizes:
                return replace(index, loaded=False)
        result = broadcast_values(tensors)
        if name in _RANDOM:
            self._recorder.record("fast", _PHILOX * result.elements, width=4.0)
            number = self._recorder.note_size(replace(result, is_integer="int" in name))
            return Value(items=(number,) * 4) if name.endswith("4x") else number
        self._recorder.record(
            "slow" if name in _SLOW else "fast", result.elements, width=result.width
        )
        return self._recorder.note_size(result)


# ---------------------------------------------------------------------------------------- helpers


def _as_number(value: Value) -> Number:
    return np.nan if is_text(value.number) else value.number


def _lost(value: Value) -> tuple[Number, ...]:
    return (np.nan,) * len(value.sizes)


def _hint_of(named: Named) -> str:
    """Return an access's words for the cache; those that all candidates share."""
    words = []
    for name in _HINTS:
        number = named[name].number if name in named else ""
        distinct = set(np.asarray(number, object).ravel().tolist()) if is_text(number) else {""}
        words += sorted(str(word) for word in distinct if len(distinct) == 1 and word)
    return " ".join(words)


def _checks(named: Named) -> bool:
    check = named.get("boundary_check")
    return check is not None and bool(check.items)


def _shares_inside(tile: Value, places: Sequence[Number]) -> tuple[Number, ...]:
    """Return the share of a tile's dimensions that lies inside its tensor."""
    if len(places) != len(tile.sizes) or len(tile.bounds) != len(tile.sizes):
        return ()
    shares = []
    for size, bound, place in zip(tile.sizes, tile.bounds, places, strict=True):
        inside = np.clip(np.asarray(bound, float) - np.asarray(place, float), 0, size) / size
        shares.append(np.where(np.isnan(inside), 1.0, inside))
    return tuple(shares)


def _described_tile(is_block_pointer: bool, arguments: list[Value], named: Named) -> Value:
    """Return a block pointer or a descriptor that is made in the kernel."""

    def argument(name: str, place: int) -> Value:
        return named.get(name, arguments[place] if len(arguments) > place else UNKNOWN)

    base, shape, strides = argument("base", 0), argument("shape", 1), argument("strides", 2)
    tile = argument("block_shape", 4 if is_block_pointer else 3)
    offsets = argument("offsets", 3) if is_block_pointer else UNKNOWN
    sizes = tuple(size.number for size in tile.items or ())
    steps = tuple(stride.number for stride in (strides.items or ())[: len(sizes)])
    steps = steps if len(steps) == len(sizes) else (FAR,) * len(sizes)
    return Value(
        sizes=sizes,
        steps=tuple(np.where(np.isnan(step), FAR, step) for step in steps),
        width=base.width,
        kind="pointer",
        is_integer=base.is_integer,
        bounds=tuple(size.number for size in shape.items or ()),
        places=tuple(offset.number for offset in offsets.items or ()),
    )


def _moved_tile(tile: Value, by: Value) -> Value:
    steps = by.items or ()
    if len(steps) != len(tile.places):
        return tile
    places = tuple(place + _as_number(step) for place, step in zip(tile.places, steps, strict=True))
    return replace(tile, places=places)


def _with_new_dimension(first: Value, axis: Value) -> Value:
    rank = len(first.sizes) + 1
    number = single_integer(axis.number)
    place = (-1 if number is None else number) % rank

    def widened(parts: tuple[Any, ...], filler: Any) -> tuple[Any, ...]:
        return (*parts[:place], filler, *parts[place:])

    spans = widened(first.spans, WHOLE) if first.spans else ()
    return replace(
        first,
        sizes=widened(first.sizes, 1.0),
        steps=widened(first.steps, 0.0),
        slopes=widened(first.trends, 0.0),
        spans=spans,
    )


def _cast(first: Value, to: Value) -> Value:
    if to.kind != "type":
        return replace(first, width=first.width if first.loaded else 4.0)
    if to.text == "*":
        return replace(first, kind="pointer", width=to.width, is_integer=to.is_integer)
    if first.is_integer and to.is_integer:
        return first if first.spans else replace(first, width=to.width)
    return replace(first, width=to.width, is_integer=to.is_integer)


def _row_major_steps(first: Value, sizes: Sequence[Number]) -> tuple[Number, ...]:
    """Return the steps of a tensor in another shape, where its last dimension is cut in parts."""
    if len(first.sizes) != 1:
        return (np.nan,) * len(sizes)
    steps: list[Number] = []
    step = first.steps[0]
    for size in reversed(sizes):
        steps.insert(0, step)
        step = step * size
    return tuple(steps)


def _swizzled_places(arguments: Sequence[Value]) -> Value:
    """``tl.swizzle2d``: places in groups of rows; source: triton/language/standard.py."""
    row, column, rows, columns, group = (np.asarray(_as_number(v), float) for v in arguments[:5])
    at = row * columns + column
    of_group = at // (group * columns)
    first = of_group * group
    high = np.minimum(rows - first, group)
    inside = at % (group * columns)
    parts = (first + inside % high, inside // high)
    return Value(items=tuple(Value(part, is_integer=True) for part in parts))
