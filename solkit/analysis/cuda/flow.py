"""A CUDA C++ kernel's PTX as blocks, loops and what its addresses and branches depend on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from solkit.analysis.common.ptx_code import ADDRESS, Statement, read_ptx
from solkit.analysis.common.ptx_numbers import operation, type_of

__all__ = [
    "BasicBlock",
    "Kernel",
    "Loop",
    "Parameter",
    "Symbol",
    "is_access",
    "is_computed",
    "read_kernel",
    "registers_of",
    "width_of",
]


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter.

    Attributes:
        name: in PTX.
        size_bytes: of it.
        is_struct: whether it is a struct or class, passed as bytes.
    """

    name: str
    size_bytes: int
    is_struct: bool


@dataclass(frozen=True)
class Symbol:
    """A variable in memory.

    Attributes:
        name: in PTX.
        space: ``"shared"``, ``"global"``, ``"const"`` or ``"local"``.
        offset: in the block's shared memory, if it is there.
        size_bytes: 0 if the launch decides.
    """

    name: str
    space: str
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class BasicBlock:
    """Statements that run in sequence.

    Attributes:
        number: its place in the text.
        statements: the last may be a branch or return.
        targets: the branch's target, then the block that follows.
        loops: numbers of the loops around it, the outermost first.
    """

    number: int
    statements: tuple[Statement, ...]
    targets: tuple[int, ...]
    loops: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """A loop, from its header to the last branch back to it.

    Attributes:
        number: in the order of headers.
        header, last: numbers of blocks.
        carried: registers that one iteration passes to the next.
    """

    number: int
    header: int
    last: int
    carried: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """One kernel's PTX.

    Attributes:
        parameters: in order.
        symbols: by name.
        blocks: in the order of the text.
        loops: in the order of their headers.
        relevant: registers that an address or a branch depends on.
    """

    parameters: tuple[Parameter, ...]
    symbols: Mapping[str, Symbol]
    blocks: tuple[BasicBlock, ...]
    loops: tuple[Loop, ...]
    relevant: frozenset[str]

    @property
    def statements(self) -> Iterator[Statement]:
        """All of them."""
        for block in self.blocks:
            yield from block.statements

    def phase(self, block: BasicBlock) -> int:
        """Return the number of the outermost loop around it, or of the gap between loops."""
        outer = [loop for loop in self.loops if not self.blocks[loop.header].loops[:-1]]
        before = sum(loop.header <= block.number for loop in outer)
        return 2 * before - 1 if block.loops else 2 * before

    @cached_property
    def definitions(self) -> Mapping[str, int]:
        """Number of statements that write each register."""
        counts: dict[str, int] = {}
        for statement in self.statements:
            for name in registers_of(statement)[0]:
                counts[name] = counts.get(name, 0) + 1
        return counts

    @cached_property
    def after(self) -> tuple[frozenset[int], ...]:
        """Blocks on every path from each block to the end."""
        return tuple(_post_dominators(self.blocks))

    def depends_on(self, start: Iterable[str], loads: bool = True) -> frozenset[str]:
        """Return all registers that some registers are computed from, including themselves.

        Args:
            start: those registers.
            loads: whether a loaded value depends on its address.
        """
        return _closure(start, self._sources[loads])

    @cached_property
    def _sources(self) -> tuple[Mapping[str, frozenset[str]], Mapping[str, frozenset[str]]]:
        computed = (
            statement for statement in self.statements if statement.name not in ("ld", "atom")
        )
        return _sources(computed), _sources(self.statements)


# ---------------------------------------------------------------------------------------- reading

_DECLARED = re.compile(
    r"\.(shared|global|const|local)\s+(?:\.align\s+(\d+)\s+)?\.([bsuf]\d+)\s+([\w$]+)(?:\[(\d*)\])?"
)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]+)(\d+)[^,]*?([\w$]+)(?:\[(\d+)\])?$"
)


def read_kernel(ptx: str, name: str) -> Kernel:
    """Read one kernel of a module.

    Raises:
        ValueError: the module has no such kernel.
    """
    head = re.search(rf"\.entry\s+{re.escape(name)}\s*\(([^)]*)\)[^{{]*\{{", ptx)
    if head is None:
        raise ValueError(f"the PTX has no kernel {name}")
    body = ptx[head.end() : _closing(ptx, head.end())]
    code = read_ptx(body, ptx)
    outside = re.sub(r"\.(?:entry|func)[^{;]*\{.*?^\}", "", ptx, flags=re.S | re.M)
    statements = [
        statement for statement in code.statements if not statement.opcode.startswith("pragma")
    ]
    labels = {label: _count(code.statements[:at]) for label, at in code.labels.items()}
    parts = _split(statements, labels)
    loops = _loop_ranges(parts)
    relevant = _relevant(statements)
    blocks = tuple(
        BasicBlock(
            n, tuple(part), targets, tuple(i for i, (a, b) in enumerate(loops) if a <= n <= b)
        )
        for n, (part, targets) in enumerate(parts)
    )
    live = _live(blocks)
    return Kernel(
        parameters=tuple(_parameters(head.group(1))),
        symbols=_symbols(outside + body),
        blocks=blocks,
        loops=tuple(
            Loop(i, first, last, _carried(blocks[first : last + 1], live[first] & relevant))
            for i, (first, last) in enumerate(loops)
        ),
        relevant=relevant,
    )


def _count(statements: Sequence[Statement]) -> int:
    return sum(not statement.opcode.startswith("pragma") for statement in statements)


def _closing(text: str, at: int) -> int:
    depth = 1
    for brace in re.finditer(r"[{}]", text[at:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return at + brace.start()
    return len(text)


def _parameters(text: str) -> Iterator[Parameter]:
    for part in text.split(",\n"):
        match = _PARAMETER.search(part.strip())
        if match:
            _, bits, name, length = match.groups()
            yield Parameter(name, int(bits) // 8 * int(length or 1), length is not None)


def _symbols(text: str) -> dict[str, Symbol]:
    """Return variables; shared ones in sequence, and last the one whose size the launch decides."""
    symbols: dict[str, Symbol] = {}
    end = 0
    for open_ended in (False, True):
        for space, align, kind, name, length in _DECLARED.findall(text):
            declared_open = f"{name}[]" in text
            if name in symbols or declared_open is not open_ended:
                continue
            size = int(kind[1:]) // 8 * int(length or (0 if declared_open else 1))
            offset = 0
            if space == "shared":
                step = int(align or int(kind[1:]) // 8)
                offset = -(-end // step) * step
                end = offset + size
            symbols[name] = Symbol(name, space, offset, size)
    return symbols


# ------------------------------------------------------------------------------------ control flow

_ENDS = ("bra", "ret", "exit", "trap", "brx")


def _split(
    statements: Sequence[Statement], labels: Mapping[str, int]
) -> list[tuple[list[Statement], tuple[int, ...]]]:
    """Split into basic blocks with their targets; the end is past the last one."""
    starts = {0, *labels.values()}
    starts |= {i + 1 for i, statement in enumerate(statements) if statement.name in _ENDS}
    ordered = sorted(start for start in starts if start < len(statements))
    numbers = {start: n for n, start in enumerate(ordered)}
    end = len(ordered)
    blocks: list[tuple[list[Statement], tuple[int, ...]]] = []
    for n, start in enumerate(ordered):
        part = list(statements[start : ordered[n + 1] if n + 1 < end else len(statements)])
        last = part[-1]
        targets: tuple[int, ...] = (n + 1,)
        if last.name == "bra":
            to = numbers.get(labels.get(last.operands[0], -1), end)
            targets = (to, n + 1) if last.guard else (to,)
        elif last.name in _ENDS:
            targets = (end, n + 1) if last.guard else (end,)
        blocks.append((part, targets))
    return blocks


def _loop_ranges(
    parts: Sequence[tuple[list[Statement], tuple[int, ...]]],
) -> list[tuple[int, int]]:
    ends: dict[int, int] = {}
    for n, (_, targets) in enumerate(parts):
        for to in targets:
            if to <= n:
                ends[to] = max(n, ends.get(to, n))
    return sorted(ends.items())


def _post_dominators(blocks: Sequence[BasicBlock]) -> Iterator[frozenset[int]]:
    end = len(blocks)
    everything = (1 << (end + 1)) - 1
    after = [everything] * end + [1 << end]
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            common = everything
            for to in block.targets:
                common &= after[to]
            new = common | 1 << block.number
            changed |= new != after[block.number]
            after[block.number] = new
    for block in blocks:
        mask = after[block.number] & ~(1 << block.number)
        yield frozenset(n for n in range(end + 1) if mask >> n & 1)


# ------------------------------------------------------------------------------------- registers

_REGISTER = re.compile(r"%[\w$]+(?:\.[xyzw])?")
_NO_RESULT = ("st", "red", "bra", "ret", "exit", "bar", "barrier", "membar", "fence", "cp", "trap")
_ADDRESSING = ("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "wmma")


def registers_of(statement: Statement) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the registers that a statement writes and reads; it reads its guard."""
    guard = (statement.guard.lstrip("!"),) if statement.guard else ()
    operands = statement.operands
    no_result = statement.name in _NO_RESULT or statement.opcode.startswith(
        ("wmma.store", "stmatrix")
    )
    if not operands or no_result:
        return (), (*guard, *_REGISTER.findall(" ".join(operands)))
    read = _REGISTER.findall(" ".join(operands[1:]))
    return tuple(_REGISTER.findall(operands[0])), (*guard, *read)


def is_computed(statement: Statement) -> bool:
    """Tell whether a statement's result can be known: neither a float nor an exchange of lanes."""
    if statement.name in ("ld", "cvta", "shfl", "setp"):
        return type_of(statement.modifiers) is not None
    return operation(statement.name, statement.modifiers) is not None


def is_access(statement: Statement) -> bool:
    """Tell whether a statement accesses memory."""
    if statement.name == "wmma":
        return not {"load", "store"}.isdisjoint(statement.modifiers)
    if statement.name == "cp":  # no fence, and no bulk copy
        return statement.modifiers[:2] in (("async", "ca"), ("async", "cg"))
    return statement.name in _ADDRESSING


def width_of(statement: Statement) -> int:
    """Count bytes of one lane's address; a row of 16 for ``ldmatrix``."""
    if statement.name in ("ldmatrix", "stmatrix"):
        return 16
    if statement.name == "wmma":  # a register, or two neighbouring sums
        wide = statement.modifiers[-1] in ("f32", "s32", "f64") and statement.modifiers[1] in "cd"
        return 8 if wide or statement.modifiers[-1] == "f64" else 4
    if statement.name == "cp":
        return int(statement.operands[2], 0) if len(statement.operands) > 2 else 16
    vector = re.search(r"\.v(\d)", statement.opcode)
    kinds = re.findall(r"\.(?:b?f|[bus])(\d+)(x2)?", statement.opcode)
    bits, paired = kinds[-1] if kinds else ("32", "")
    return (int(vector.group(1)) if vector else 1) * int(bits) * (2 if paired else 1) // 8


def _relevant(statements: Sequence[Statement]) -> frozenset[str]:
    start: set[str] = set()
    for statement in statements:
        if statement.guard and (statement.name in _ADDRESSING or statement.name in _ENDS):
            start.add(statement.guard.lstrip("!"))
        if is_access(statement) and "local" not in statement.modifiers:
            for operand in statement.operands:
                memory = ADDRESS.search(operand)
                if memory and memory.group(1).startswith("%"):
                    start.add(memory.group(1))
            if statement.name == "wmma":  # the stride of its rows
                start.update(_REGISTER.findall(statement.operands[-1]))
    computed = (statement for statement in statements if is_computed(statement))
    return _closure(start, _sources(computed))


def _sources(statements: Iterable[Statement]) -> dict[str, frozenset[str]]:
    sources: dict[str, set[str]] = {}
    for statement in statements:
        written, read = registers_of(statement)
        for name in written:
            sources.setdefault(name, set()).update(read)
    return {name: frozenset(read) for name, read in sources.items()}


def _closure(start: Iterable[str], sources: Mapping[str, frozenset[str]]) -> frozenset[str]:
    closure: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in closure:
            closure.add(name)
            waiting.extend(sources.get(name, ()))
    return frozenset(closure)


def _live(blocks: Sequence[BasicBlock]) -> list[frozenset[str]]:
    """List each block's registers that may be read after its start before a write."""
    end = len(blocks)
    own = [_own(block) for block in blocks]
    live: list[frozenset[str]] = [frozenset()] * (end + 1)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            read, written = own[block.number]
            out = frozenset().union(*(live[to] for to in block.targets))
            new = read | (out - written)
            changed |= new != live[block.number]
            live[block.number] = new
    return live


def _own(block: BasicBlock) -> tuple[frozenset[str], frozenset[str]]:
    """Return what a block reads before writing it, and what it certainly writes."""
    reads: set[str] = set()
    writes: set[str] = set()
    for statement in block.statements:
        written, read = registers_of(statement)
        reads |= set(read) - writes
        if not statement.guard:
            writes |= set(written)
        else:
            reads |= set(written) - writes
    return frozenset(reads), frozenset(writes)


def _carried(blocks: Sequence[BasicBlock], live: frozenset[str]) -> tuple[str, ...]:
    written = {
        name
        for block in blocks
        for statement in block.statements
        for name in registers_of(statement)[0]
    }
    return tuple(sorted(written & live))
