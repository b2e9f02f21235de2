"""Parse the text of Triton's GPU dialect (TTGIR) into operations.

The only module that knows this text: a compiled kernel's ``asm["ttgir"]`` of Triton 3.6 to 3.9.
Decision 40 says why it is not read with Triton's bindings of MLIR. Parsing takes a few ms a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import PurePath

from solkit.adapters.triton_amd_ir import common_accesses

_BITS = {
    **{"f64": 64, "i64": 64, "f32": 32, "i32": 32, "tf32": 32, "f16": 16, "bf16": 16, "i16": 16},
    **{"i8": 8, "i1": 8, "index": 64},
}


class IrError(ValueError):
    """The text is not the expected IR."""


def element_bits(element: str) -> int:
    """Return bits of an element in memory. Pointers have 64; 8-bit floats have many names."""
    if element in _BITS:
        return _BITS[element]
    if element.startswith("!tt.ptr"):
        return 64
    return 4 if re.match(r"f4|[ui]4", element) else 8


@dataclass(frozen=True)
class Location:
    """A place in a source file."""

    file: str
    line: int
    column: int

    @cached_property
    def file_name(self) -> str:
        """The file's name without folders."""
        return PurePath(self.file).name

    def __str__(self) -> str:
        return f"{self.file_name}:{self.line}"


@dataclass(frozen=True)
class Layout:
    """A layout attribute, e.g. ``#ttg.blocked<{...}>``.

    Attributes:
        kind: ``"blocked"``, ``"slice"``, ``"nvidia_mma"``, ``"linear"``, ``"dot_op"`` or another.
        numbers: its lists of integers by name; a single integer is a list of one.
        bases: its lists of lists by name, as in ``"linear"``.
        parent: of a slice or a dot operand.
    """

    kind: str
    numbers: tuple[tuple[str, tuple[int, ...]], ...] = ()
    bases: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = ()
    parent: Layout | None = None

    def ints(self, name: str) -> tuple[int, ...]:
        """Return a list of integers by name; raises KeyError."""
        return dict(self.numbers)[name]


@dataclass(frozen=True)
class TensorType:
    """The type of a value; a scalar has no shape and no layout.

    Attributes:
        shape: of a tensor or of shared memory.
        element: ``"f32"``, ``"i1"``, ``"!tt.ptr<bf16>"`` ...
        layout: how a tensor is spread over threads.
    """

    shape: tuple[int, ...]
    element: str
    layout: Layout | None = None

    @cached_property
    def pointee(self) -> TensorType:
        """The type that pointers point to, with the same shape; raises IrError for others."""
        match = re.match(r"!tt\.ptr<(.+?)(, \d+)?>$", self.element)
        if match is None:
            raise IrError(f"{self.element} is not a pointer")
        return TensorType(self.shape, match.group(1), self.layout)

    @cached_property
    def pointee_bits(self) -> int:
        """Bits of the element that a pointer points to; raises IrError for others."""
        return element_bits(self.pointee.element)


@dataclass(frozen=True)
class Loop:
    """The values of ``scf.for %i = %a to %b step %c iter_args(%x = %y, ...)``.

    Attributes:
        variable: counts the iterations.
        bounds: first, end and step.
        names: the values carried between iterations.
        starts: their initial values.
    """

    variable: str
    bounds: tuple[str, str, str]
    names: tuple[str, ...]
    starts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation.

    Attributes:
        name: ``"tt.load"``; ``"scf.for"`` ...
        results: the names that it binds.
        operands: the values in its text, in order.
        text: between name and types.
        types: the types' text.
        blocks: of its regions, in order: body; then and else; before and after.
        places: its source location, then those of its callers.
        types_in: parses the types in a text.
    """

    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    text: str
    types: str
    blocks: list[Block]
    places: tuple[Location, ...]
    types_in: Callable[[str], tuple[TensorType, ...]] = field(repr=False)

    @cached_property
    def result_type(self) -> TensorType:
        """The type of its first result."""
        if "->" in self.types:
            return _after_arrow(self)
        if not self.types:  # of the constants true and false
            return TensorType((), "i1")
        last = self.all_types[-1]
        return last.pointee if self.name == "tt.load" else last

    @cached_property
    def all_types(self) -> tuple[TensorType, ...]:
        """The tensor and scalar types in its text, in order."""
        return self.types_in(self.types)

    @cached_property
    def loop(self) -> Loop:
        """The loop, if this is ``scf.for``."""
        head, _, carried = self.text.partition("iter_args(")
        variable, low, high, step = _NAME.findall(head)[:4]
        pairs = _PAIR.findall(carried.split(") ->")[0])
        names, starts = zip(*pairs, strict=True) if pairs else ((), ())
        return Loop(variable, (low, high, step), tuple(names), tuple(starts))

    def attribute(self, name: str) -> int | None:
        """Return an integer attribute."""
        match = re.search(rf"\b{name} = (-?\d+)", self.text)
        return int(match.group(1)) if match else None

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is an array of integers; empty if missing."""
        match = re.search(rf"\b{name} = array<i\d+: ([^>]*)>", self.text)
        return tuple(int(part) for part in match.group(1).split(",")) if match else ()


@dataclass(eq=False)
class Block:
    """A straight line of operations.

    Attributes:
        label: ``"^bb1"``; empty for a region's first.
        arguments: the names that it binds.
        operations: in order.
    """

    label: str = ""
    arguments: tuple[str, ...] = ()
    operations: list[Operation] = field(default_factory=list)

    def walk(self) -> Iterator[Operation]:
        """Yield all operations; those in regions follow their parent."""
        for operation in self.operations:
            yield operation
            for block in operation.blocks:
                yield from block.walk()


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel.

    Attributes:
        name: its own.
        arguments: (name, type's text) in order.
        blocks: the entry first.
        num_warps: warps a block.
        num_ctas: blocks a cluster.
        warp_threads: threads a warp.
        divisible: the arguments known to be multiples of 16.
    """

    name: str
    arguments: tuple[tuple[str, str], ...]
    blocks: list[Block]
    num_warps: int
    num_ctas: int
    divisible: frozenset[str] = frozenset()
    warp_threads: int = 32

    @property
    def warps_of_32(self) -> int:
        """Warps a block, a warp of 64 threads taken as two: the unit of counts by 32 lanes."""
        return self.num_warps * self.warp_threads // 32

    def walk(self) -> Iterator[tuple[Block, Operation, int]]:
        """Yield operations with their block and the number of loops around; none in reductions."""
        yield from _walk_blocks(self.blocks, 0)


def _walk_blocks(blocks: Sequence[Block], depth: int) -> Iterator[tuple[Block, Operation, int]]:
    for block in blocks:
        for operation in block.operations:
            yield block, operation, depth
            if operation.name not in ("tt.reduce", "tt.scan"):
                inner = depth + (operation.name in ("scf.for", "scf.while"))
                yield from _walk_blocks(operation.blocks, inner)


# ------------------------------------------------------------------------------------ reading

_LOC = re.compile(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_LAST_LOC = re.compile(r" loc\((#loc\d*|(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)$")
_NAME = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_BARE_NAME = re.compile(r"%[\w$.\-]+")
_CARRIED = re.compile(r"(%[\w$.\-]+) = ")
_PAIR = re.compile(r"(%[\w$.\-]+) = (%[\w$.\-]+(?:#\d+)?)")
_HEAD = re.compile(r"(?:(%[^=]+?) = )?\"?([a-z_]\w*\.[\w.]+|[a-z_]\w+)\"?(.*)$")
_RESULT = re.compile(r"(%[\w$.\-]+)(?::(\d+))?")


@lru_cache(maxsize=2)  # launches of one kernel come one after the other
def parse_module(text: str) -> Function:
    """Return the kernel in a TTGIR module; raise `IrError` without one, or at an unknown line."""
    return _Reader(text).function()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text = common_accesses(text)
        self.locations = _parse_locations(text)
        self.resolved: dict[str, tuple[Location, ...]] = {}
        self.names: dict[str, str] = {}  # unique names by those in the text
        self.times: dict[str, int] = {}  # how often the text binds a name
        aliases = dict(re.findall(r"^(#\w+) = (#tt[\w.]*<.*>)$", text, re.M))
        self.types_in = cache(
            lambda types: tuple(_parse_types(types, aliases))
        )  # kept by the operations

    def function(self) -> Function:
        warps = re.search(r'"ttg\.num-warps" = (\d+)', self.text)
        ctas = re.search(r'"ttg\.num-ctas" = (\d+)', self.text)
        threads = re.search(r'"ttg\.threads-per-warp" = (\d+)', self.text)
        lines = iter(self.text.splitlines())
        for line in lines:
            if line.lstrip().startswith("tt.func public"):
                break
        else:
            raise IrError("no public function in the module")
        bare = _LOC.sub("", line)
        name = re.search(r"@([\w$.\-]+)\(", bare)
        if name is None or warps is None:
            raise IrError(f"not understood: {bare.strip()[:80]}")
        parameters = bare.split(") attributes")[0]
        arguments = re.findall(r"(%[\w$.\-]+): (!?[\w.]+(?:<.*?>+)?)", parameters)
        blocks = self._read_region(lines)[0]
        divisible = re.findall(r"(%[\w$.\-]+): [^%]*tt\.divisibility = 16", parameters)
        sizes = int(warps.group(1)), int(ctas.group(1)) if ctas else 1
        lanes = int(threads.group(1)) if threads else 32
        return Function(
            name.group(1), tuple(arguments), blocks, *sizes, frozenset(divisible), lanes
        )

    def _read_region(self, lines: Iterator[str]) -> tuple[list[Block], str]:
        """Return the blocks up to the region's closing brace, and the line with that brace."""
        blocks = [Block()]
        for raw in lines:
            line = raw.strip()
            if not line or line.startswith("//"):
                continue
            if line.startswith("}"):
                return blocks, line
            if line.startswith("^"):
                bare = _LOC.sub("", line)
                label = re.match(r"\^\w+", bare)
                assert label is not None
                arguments = self._bind_names(_NAME.findall(bare.split("//")[0]))
                if not blocks[-1].operations and not blocks[-1].label:
                    blocks.pop()
                blocks.append(Block(label.group(0), arguments))
            else:
                blocks[-1].operations.append(self._read_operation(line, lines))
        raise IrError("the text ends within a region")

    def _read_operation(self, line: str, lines: Iterator[str]) -> Operation:
        places = self._read_places(line)
        bare = _LOC.sub("", line)
        head = _HEAD.match(bare)
        if head is None:
            raise IrError(f"not understood: {bare[:120]}")
        blocks: list[Block] = []
        results = tuple(self._read_results(head.group(1) or ""))
        rest = self._rename_values(head.group(3))
        if (bare.endswith("{") and not bare.endswith("({")) or bare.endswith("({"):
            rest, closing = self._read_regions(bare, rest, lines, blocks)
            places = self._read_places(closing) or places
        elif head.group(2) == "ttg.warp_specialize":
            rest, closing = self._partitions(rest, lines, blocks)
        text, types = _split_types(rest)
        operands = tuple(_NAME.findall(text))
        return Operation(
            head.group(2), results, operands, text, types, blocks, places, self.types_in
        )

    def _read_regions(
        self, bare: str, rest: str, lines: Iterator[str], blocks: list[Block]
    ) -> tuple[str, str]:
        """Add the blocks of the operation's regions, the first of which its line opens."""
        while True:
            inner, closing = self._read_region(lines)
            if len(inner) > 1:
                raise IrError("branches within a region are not followed")
            blocks.extend(inner)
            bare = _LOC.sub("", closing)
            if not bare.endswith("{"):  # } else {, } do {
                break
        tail = bare[1:].strip()
        if tail.startswith(")"):  # }) : (types) -> type, of a generic operation
            return rest.rstrip("({ ") + " " + tail[1:].strip(), closing
        return rest.rstrip("{ "), closing

    def _partitions(self, rest: str, lines: Iterator[str], blocks: list[Block]) -> tuple[str, str]:
        """Add the blocks of ``default { } partition0(...) num_warps(n) { } : types``."""
        closing = ""
        for raw in lines:
            arguments = self._bind_names(_NAME.findall(_LOC.sub("", raw.strip())))
            inner, closing = self._read_region(lines)
            inner[0].arguments = arguments
            blocks.extend(inner[:1])
            if _LOC.sub("", closing).startswith("} : "):
                break
        return rest, closing

    def _read_results(self, text: str) -> Iterator[str]:
        for name, count in _RESULT.findall(text):
            (own,) = self._bind_names([name])
            yield from (f"{own}#{i}" for i in range(int(count))) if count else (own,)

    def _rename_values(self, text: str) -> str:
        """Return the text with unique names of values."""
        self._bind_names(_CARRIED.findall(text))
        return _BARE_NAME.sub(lambda match: self.names.get(match[0], match[0]), text)

    def _bind_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return unique names for new values: sibling regions reuse names."""
        for name in names:
            times = self.times[name] = self.times.get(name, 0) + 1
            self.names[name] = name if times == 1 else f"{name}${times}"
        return tuple(self.names[name] for name in names)

    def _read_places(self, line: str) -> tuple[Location, ...]:
        match = _LAST_LOC.search(line)
        if match is None:
            return ()
        text = match.group(1)
        if text not in self.resolved:
            self.resolved[text] = _resolve_location(text, self.locations)
        return self.resolved[text]


def _split_types(rest: str) -> tuple[str, str]:
    """Return text and types, which follow the last ``:`` outside brackets."""
    cut = None
    for i in _outside_brackets(rest):
        if rest[i - 1 : i + 2] == " : ":
            cut = i
            if "->" in rest[i:]:
                break
    return (rest.strip(), "") if cut is None else (rest[:cut].strip(), rest[cut + 1 :].strip())


def _outside_brackets(text: str) -> Iterator[int]:
    """Yield the places outside brackets; the ``>`` of an arrow closes none."""
    depth = 0
    for i, letter in enumerate(text):
        if letter in "([{<":
            depth += 1
        elif letter in ")]}" or (letter == ">" and text[i - 1] != "-"):
            depth -= 1
        elif depth == 0:
            yield i


# -------------------------------------------------------------------------------------- types


def _after_arrow(operation: Operation) -> TensorType:
    """Return the first type after the arrow of ``(types) -> type`` or ``(types) -> (types)``."""
    for i in _outside_brackets(operation.types):
        if operation.types.startswith("->", i):
            return operation.types_in(operation.types[i + 2 :])[0]
    raise IrError(f"{operation.name} has no result")


_TENSOR = re.compile(r"(!ttg\.memdesc|!tt\.tensordesc<tensor|!tt\.tensordesc|tensor|)<")
_SCALAR = re.compile(r"!tt\.ptr<[^<>]*>|[a-z]\w*")


def _parse_types(text: str, aliases: Mapping[str, str]) -> Iterator[TensorType]:
    at = 0
    while at < len(text):
        tensor = _TENSOR.match(text, at)
        if tensor:
            end = _find_closing(text, tensor.end() - 1)
            yield _parse_tensor(text[tensor.end() : end], aliases)
            at = end + 1
            continue
        scalar = _SCALAR.match(text, at)
        if scalar:
            yield TensorType((), scalar.group(0))
            at = scalar.end()
        else:
            at += 1


def _find_closing(text: str, opening: int) -> int:
    depth = 0
    for i in range(opening, len(text)):
        depth += text[i] == "<"
        depth -= text[i] == ">" and text[i - 1] != "-"
        if depth == 0:
            return i
    raise IrError(f"unbalanced: {text[opening : opening + 80]}")


def _parse_tensor(inside: str, aliases: Mapping[str, str]) -> TensorType:
    """``128x64x!tt.ptr<bf16>, #blocked``: sizes, element and the first attribute."""
    sizes = re.match(r"(?:\d+x)*", inside)
    assert sizes is not None
    shape = tuple(int(size) for size in sizes.group(0).split("x")[:-1])
    element, _, attribute = inside[sizes.end() :].partition(", ")
    layout = _parse_layout(attribute, aliases) if attribute.startswith("#") else None
    return TensorType(shape, element, layout)


_layouts: dict[str, Layout] = {}


def _parse_layout(text: str, aliases: Mapping[str, str]) -> Layout:
    """Return the layout at the start of an attribute's text."""
    name = re.match(r"#\w+(?![\w.])", text)
    if name and name.group(0) in aliases:
        text = aliases[name.group(0)]
    resolved = re.sub(r"parent = (#\w+)(?![\w.])", lambda m: f"parent = {aliases[m[1]]}", text)
    if resolved not in _layouts:
        _layouts[resolved] = _read_layout(resolved, aliases)
    return _layouts[resolved]


def _read_layout(text: str, aliases: Mapping[str, str]) -> Layout:
    kind = re.match(r"#tt\w*\.(\w+)", text)
    if kind is None:
        return Layout("unknown")
    parent = re.search(r"parent = (#.*)", text)
    own = text[: parent.start()] if parent else text
    tail = re.search(r"\}?>(?:, |)(\w+ = \d+)", text[parent.start() :]) if parent else None
    numbers: dict[str, tuple[int, ...]] = {}
    bases: dict[str, tuple[tuple[int, ...], ...]] = {}
    for name, value in re.findall(r"(\w+) = (\[(?:[^\[\]]|\[[^\[\]]*\])*\]|\d+|true|false)", own):
        if value.startswith("[["):
            bases[name] = tuple(map(_parse_numbers, re.findall(r"\[[^\[\]]*\]", value)))
        elif value in ("true", "false"):
            numbers[name] = (int(value == "true"),)
        else:
            numbers[name] = _parse_numbers(value)
    if tail:
        name, _, value = tail.group(1).partition(" = ")
        numbers.setdefault(name, (int(value),))
    above = _parse_layout(parent.group(1), aliases) if parent else None
    return Layout(kind.group(1), tuple(numbers.items()), tuple(bases.items()), above)


def _parse_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"-?\d+", text))


# ---------------------------------------------------------------------------------- locations


def _parse_locations(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.M))


def _resolve_location(text: str, locations: Mapping[str, str]) -> tuple[Location, ...]:
    """Return the innermost place, then its callers."""
    text = text.strip()
    if text.startswith("#"):
        return _resolve_location(locations[text], locations) if text in locations else ()
    place = re.match(r'"([^"]*)":(\d+):(\d+)', text)
    if place:
        return (Location(place.group(1), int(place.group(2)), int(place.group(3))),)
    named = re.match(r'"[^"]*"\((.*)\)$', text)
    if named:
        return _resolve_location(named.group(1), locations)
    call = re.match(r"callsite\((\S+) at (\S+)\)", text)
    if call:
        callee, caller = (_resolve_location(part, locations) for part in call.groups())
        return (*callee, *caller)
    fused = re.match(r"fused(?:<.*>)?\[([^,\]]+)", text)
    return _resolve_location(fused.group(1), locations) if fused else ()
