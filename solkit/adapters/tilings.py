"""Constants that only say which program computes an element: proved on the compiler's IR.

A kernel of elements computes something for each index ``i = program · B + lane``, and its lanes do
nothing together. Then it does the same for any ``B``, as long as programs times ``B`` stay the
same. `tiled_axis` reads the IR for two values of a constant as what one element does, in terms of
its index. If both are equal term by term, so are the reads and writes of all elements.

Lanes may share nothing: reductions, scans, products, loops, branches, atomics and inline assembly
are refused, and so is any use of a lane's number, or of a program's on that axis, but their sum.
Nothing orders global accesses of different programs, but those of one come in its order more or
less. So no element may write where another one reads or writes, in a buffer of one argument.
Arguments are different buffers, or one (`solkit.adapters.argument_overlaps`), or views of one that
the launch's elements access apart (`solkit.adapters.element_places`).

Numbers are sums modulo 2ⁿ. Widening one is a term of its own, except for a program's part of an
index, a lane and an index, which are below 2³¹ if `MOST_ELEMENTS` holds. Under 32 bits nothing is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from solkit.adapters.argument_overlaps import ArgumentBuffers
from solkit.adapters.element_places import Places
from solkit.adapters.triton_ir import Function, IrError, Operation, element_bits, parse_module

MOST_ELEMENTS = 2**31 - 1
"""Programs of the axis times elements of each, at most."""
_MOST_LAUNCHES = 256
"""Kinds of launches with views of one buffer that are looked at: .2 ms each."""
_MOST_PROGRAMS = (2**31 - 1, 2**16 - 1, 2**16 - 1)
"""By axis. Source: CUDA C++ Programming Guide, technical specifications."""

_AXES = ("x", "y", "z")
_SAME_FOR_EACH = ("tt.splat", "ttg.convert_layout")
"""Operations whose result has the operand's value in each element."""
_WIDTHS = ("arith.extsi", "arith.extui", "arith.trunci")
_ELEMENTWISE = re.compile(
    r"(arith|math)\.\w+$|tt\.(bitcast|fp_to_fp|clampf|precise_sqrt|precise_divf|mulhiui|"
    r"int_to_ptr|ptr_to_int|extern_elementwise)$"
)
_IGNORED = ("tt.return", "llvm.intr.assume")

_Term = tuple[object, ...]
"""A part of a value: ``("program", axis)``, ``("lane", length)``, ``("index", axis)``,
``()`` for the number 1, or ``("term", number)`` for all else."""
_Sum = tuple[tuple[_Term, int], ...]
"""A value: terms with their whole coefficients."""


class _RefusedError(Exception):
    """The IR is not understood as what one element does."""


@dataclass
class _Terms:
    """Numbers of terms: equal terms of two kernels have the same."""

    numbers: dict[_Term, int] = field(default_factory=dict)

    def number(self, *term: object) -> _Term:
        return ("term", self.numbers.setdefault(term, len(self.numbers)))


class TileProof:
    """The code of a kernel for two values of a constant, and what follows from the value.

    Args:
        own: TTGIR of a launch.
        tuned: TTGIR of the same launch with another value of the constant.
        sizes: both values.
    """

    def __init__(self, own: str, tuned: str, sizes: tuple[int, int]) -> None:
        self._own, self._tuned, self._sizes = own, tuned, sizes
        self._axes: dict[tuple[int, ...], int | None] = {}
        self._places: dict[int, Places] = {}
        self._apart: dict[object, bool] = {}

    def axis_for(
        self, buffers: ArgumentBuffers, grid: Sequence[int] | None, arguments: Mapping[str, Any]
    ) -> int | None:
        """Return the axis of the grid that follows for a launch; ``None`` if more does, or may.

        Args:
            buffers: of its tensors.
            grid: its own; ``None`` if that is unknown.
            arguments: its numbers by parameter, and others.
        """
        same = buffers.same
        if same not in self._axes:
            self._axes[same] = tiled_axis(self._own, self._tuned, self._sizes, same)
        axis = self._axes[same]
        if axis is None or not buffers.shared:
            return axis
        scalars = {n: v for n, v in arguments.items() if type(v) in (int, bool)}
        is_apart = grid is not None and self._are_apart(axis, buffers, tuple(grid), scalars)
        return axis if is_apart else None

    def _are_apart(
        self, axis: int, buffers: ArgumentBuffers, grid: tuple[int, ...], scalars: dict[str, int]
    ) -> bool:
        """Tell whether elements of a launch keep views of one buffer apart."""
        key = (axis, buffers, grid, *scalars.items())
        if key not in self._apart:
            if len(self._apart) >= _MOST_LAUNCHES:  # each launch is of another kind
                return False
            if axis not in self._places:
                self._places[axis] = Places(self._own, axis)
            self._apart[key] = self._places[axis].are_apart(buffers, grid, scalars)
        return self._apart[key]


def tiled_axis(
    one: str, other: str, sizes: tuple[int, int], same: Sequence[int] = ()
) -> int | None:
    """Return the axis of the grid that follows if a constant changes; ``None`` if it must not.

    Args:
        one: TTGIR of a launch.
        other: TTGIR of the same launch with another value of a constant.
        sizes: both values.
        same: for each pointer among the arguments, the place of the first that is the same; all
            differ by default.

    Returns:
        0, 1 or 2: both do the same if programs of this axis times the constant are the same number
        for both, and elements are at most `MOST_ELEMENTS`.
    """
    terms = _Terms()
    try:
        kernels = [_Elements(parse_module(text), terms, same) for text in (one, other)]
        effects = [kernel.effects() for kernel in kernels]
    except (IrError, _RefusedError):
        return None
    axes = {axis for kernel in kernels for axis in kernel.tiled}
    if effects[0] != effects[1] or len(axes) != 1:
        return None
    own, tuned = sizes
    one_length, other_length = (max(kernel.lengths) for kernel in kernels)
    return axes.pop() if one_length * tuned == other_length * own else None


def retiled_grid(
    grid: tuple[int, ...], axis: int, elements: int, others: int
) -> tuple[int, ...] | None:
    """Return the grid in which programs of other elements each compute the same.

    Args:
        grid: programs in x, y and z, as far as they are given.
        axis: of the grid that follows.
        elements: of a program on it.
        others: elements of a program in the new grid.

    Returns:
        ``None`` if there is none.
    """
    total = grid[axis] * elements if axis < len(grid) else elements
    if total % others or not 0 < total <= MOST_ELEMENTS or total // others > _MOST_PROGRAMS[axis]:
        return None
    full = [*grid, *(1 for _ in range(axis + 1 - len(grid)))]
    full[axis] = total // others
    return tuple(full)


class _Elements:
    """The computation of one element by a kernel.

    Attributes:
        tiled: axes of the grid whose programs' numbers are parts of an index.
        lengths: elements of a program on them.
    """

    def __init__(self, function: Function, terms: _Terms, same: Sequence[int]) -> None:
        self._function, self._terms = function, terms
        firsts = _first_pointers(function, same)
        self._values: dict[str, _Sum] = {
            name: ((terms.number("argument", firsts.get(name, name)), 1),)
            for name, _ in function.arguments
        }
        self._pointers = {
            term
            for name, kind in function.arguments
            if "ptr" in kind
            for term, _ in self._values[name]
        }
        self._effects: list[_Term] = []
        self._accesses: list[tuple[bool, _Sum]] = []
        self._widened_sums: dict[_Term, _Sum] = {}
        self._by_itself: set[object] = set()  # axes whose program's number is used by itself
        self._widened: set[object] = set()  # axes of which a multiple was widened
        self.tiled: set[int] = set()
        self.lengths: set[int] = set()

    def effects(self) -> list[_Term]:
        """Return its reads and writes, in order.

        Raises:
            _RefusedError: lanes do something together, or the order depends on data.
            IrError: the text is not the expected IR.
        """
        if len(self._function.blocks) != 1 or self._function.num_ctas != 1:
            raise _RefusedError
        for operation in self._function.blocks[0].operations:
            if operation.name not in _IGNORED:
                self._follow(operation)
        if self._by_itself & self.tiled or self._widened - self.tiled:
            raise _RefusedError
        if not self._keeps_to_its_places():
            raise _RefusedError
        return self._effects

    def _keeps_to_its_places(self) -> bool:
        """Tell whether no element writes where another one reads or writes, in one buffer."""
        buffers: dict[frozenset[_Term], list[tuple[bool, _Sum]]] = {}
        for is_store, place in self._accesses:
            pointers = frozenset(term for term, _ in place if term in self._pointers)
            buffers.setdefault(pointers, []).append((is_store, place))
        if frozenset() in buffers:  # whose pointer that is, is unknown
            buffers = {frozenset(): self._accesses}
        return all(
            self._are_apart({place for _, place in accesses})
            for accesses in buffers.values()
            if any(is_store for is_store, _ in accesses) and len(set(accesses)) > 1
        )

    def _are_apart(self, places: set[_Sum]) -> bool:
        """Tell whether places of one element are no places of another: ``2 · i`` and ``2 · i + 1``.

        What they have in common is a multiple of the index, so they must differ in the rest of the
        division by the largest power of two in it, which sums modulo 2ⁿ keep.
        """
        apart = [dict(self._widest(place)) for place in places]
        numbers = [terms.pop((), 0) for terms in apart]
        steps = [times for term, times in apart[0].items() if term[:1] == ("index",)]
        if len(steps) != 1 or any(terms != apart[0] for terms in apart):
            return False
        step = steps[0] & -steps[0]
        return len({number % step for number in numbers}) == len(set(numbers))

    def _widest(self, place: _Sum) -> _Sum:
        """Return a place with what was widened as the sum that it was."""
        parts = [self._widened_sums.get(term, ((term, 1),)) for term, times in place if times == 1]
        return self._sum(*parts, tuple(part for part in place if part[1] != 1))

    def _follow(self, operation: Operation) -> None:
        if operation.blocks or len(operation.results) > 1:
            raise _RefusedError(operation.name)
        if operation.name in ("tt.load", "tt.store"):
            effect = self._opaque(operation)
            self._effects.append(effect)
            place = self._values[operation.operands[0]]
            self._accesses.append((operation.name == "tt.store", place))
            value: _Sum = ((self._terms.number("read", len(self._effects), effect), 1),)
        else:
            value = self._value(operation)
        for name in operation.results:
            self._values[name] = value

    def _value(self, operation: Operation) -> _Sum:
        name = operation.name
        operands = [self._values[operand] for operand in operation.operands]
        if name == "tt.get_program_id":
            return ((("program", _AXES.index(operation.text.split()[0])), 1),)
        if name == "tt.make_range":
            return _range(operation)
        if name in _SAME_FOR_EACH:
            return operands[0]
        if name == "arith.constant":
            return self._constant(operation)
        if name in _WIDTHS and _holds_places(operation) and self._is_place(operands[0]):
            return operands[0]
        if name == "tt.bitcast" and _keeps_places(operation):
            return operands[0]
        if name == "tt.addptr":
            bits = element_bits(operation.all_types[-1].element)
            return self._sum(operands[0], self._offset(operands[1], bits))
        if name == "arith.addi":
            return self._sum(*operands)
        if name == "arith.muli" and (product := _multiple(*operands)) is not None:
            return self._with_index(product)
        if not _ELEMENTWISE.match(name) or "pure = false" in operation.text:
            raise _RefusedError(name)
        return ((self._opaque(operation), 1),)

    def _constant(self, operation: Operation) -> _Sum:
        text = re.sub(r"^dense<(.*)>$", r"\1", operation.text.strip())
        if re.fullmatch(r"-?\d+", text):
            return (((), int(text)),) if int(text) else ()
        if "[" in text or '"' in text:  # its elements differ
            raise _RefusedError(operation.name)
        return ((self._terms.number("constant", text, operation.result_type.element), 1),)

    def _is_place(self, value: _Sum) -> bool:
        """Tell whether a value is below 2³¹ and not negative, so that any width holds it."""
        if len(value) != 1:
            return False
        (term, times), *_ = value
        if term[:1] == ("program",):
            if times > 1:
                self._widened.add(term[1])  # part of an index, or `effects` refuses it
            return times > 0
        return term[:1] in (("lane",), ("index",)) and times == 1

    def _offset(self, value: _Sum, bits: int) -> _Sum:
        """Return an offset as it is added to a pointer, of 64 bits."""
        if bits == 64 or self._is_place(value):
            return value
        widened = self._terms.number("widened", bits, self._settled(value))
        self._widened_sums[widened] = value
        return ((widened, 1),)

    def _sum(self, *parts: _Sum) -> _Sum:
        amounts: Counter[_Term] = Counter()
        for part in parts:
            amounts.update(dict(part))
        return self._with_index(amounts)

    def _with_index(self, amounts: Mapping[_Term, int]) -> _Sum:
        """Return a sum in which programs times B and lanes of B are the element's index."""
        remaining = dict(amounts)
        for lane in [term for term in remaining if term[:1] == ("lane",)]:
            for axis in range(len(_AXES)):
                program, index = ("program", axis), ("index", axis)
                length = lane[1]
                is_one = remaining[lane] == 1 and remaining.get(program) == length
                if isinstance(length, int) and is_one and index not in remaining:
                    del remaining[program], remaining[lane]
                    remaining[index] = 1
                    self.tiled.add(axis)
                    self.lengths.add(length)
                    break
        kept = ((term, times) for term, times in remaining.items() if times)
        return tuple(sorted(kept, key=repr))

    def _opaque(self, operation: Operation) -> _Term:
        """Return an operation as a term: name, attributes, element types and operands."""
        operands = tuple(self._settled(self._values[name]) for name in operation.operands)
        text = re.sub(r"%[\w$.\-#]+", "%", operation.text)
        kinds = tuple(kind.element for kind in operation.all_types)
        return self._terms.number(operation.name, text, kinds, operands)

    def _settled(self, value: _Sum) -> _Sum:
        """Return a value in which no lane's number is left.

        Raises:
            _RefusedError: there is one.
        """
        for term, _ in value:
            if term[:1] == ("lane",):
                raise _RefusedError
            if term[:1] == ("program",):
                self._by_itself.add(term[1])
        return value


def _first_pointers(function: Function, same: Sequence[int]) -> dict[str, str]:
    """Return the first of the same pointers, by the name of each.

    Raises:
        _RefusedError: they are not those of the kernel, or point to elements of different types.
    """
    pointers = [(name, kind) for name, kind in function.arguments if "ptr" in kind]
    if all(first == place for place, first in enumerate(same)):
        return {}
    if len(same) != len(pointers):
        raise _RefusedError
    kinds = [re.match(r"!tt\.ptr<[^>]*>", kind) for _, kind in pointers]
    texts = ["" if kind is None else kind[0] for kind in kinds]
    if any(not texts[first] or texts[first] != text for text, first in zip(texts, same)):
        raise _RefusedError
    return {name: pointers[first][0] for (name, _), first in zip(pointers, same)}


def _holds_places(operation: Operation) -> bool:
    """Tell whether an operation's result is wide enough for any place."""
    return element_bits(operation.result_type.element) >= 32


def _keeps_places(operation: Operation) -> bool:
    """Tell whether pointers are cast to elements of the same size, as those to booleans are."""
    one, *_, other = operation.all_types
    is_pointer = all(kind.element.startswith("!tt.ptr") for kind in (one, other))
    return is_pointer and one.pointee_bits == other.pointee_bits


def _range(operation: Operation) -> _Sum:
    if operation.attribute("start") != 0:
        raise _RefusedError(operation.name)
    (length,) = operation.result_type.shape
    return ((("lane", length), 1),)


def _multiple(one: _Sum, other: _Sum) -> dict[_Term, int] | None:
    """Return the product of a whole number and a value; ``None`` if neither is a number."""
    for number, factor in ((_whole(one), other), (_whole(other), one)):
        if number is not None:
            return {term: number * times for term, times in factor}
    return None


def _whole(value: _Sum) -> int | None:
    if not value:
        return 0
    (term, number), *more = value
    return number if term == () and not more else None
