"""A CUDA C++ kernel's PTX, read into instructions for the interpreter."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from solkit.adapters.ptx_entries import Parameter, entries_of
from solkit.analysis.common.access_modifiers import ptx_modifiers
from solkit.analysis.common.ptx_code import ADDRESS, Statement, read_ptx
from solkit.analysis.common.ptx_numbers import operation, type_of
from solkit.analysis.cuda.bulk_copies import SECTOR_BYTES, bulk_copy_of
from solkit.analysis.interpreter.control_flow import (
    ControlFlow,
    Instruction,
    MemoryUse,
    control_flow_of,
)


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
class Kernel:
    """One kernel's PTX.

    Attributes:
        parameters: in order.
        symbols: by name.
        flow: its code; the source of each instruction is a `Statement`.
    """

    parameters: tuple[Parameter, ...]
    symbols: Mapping[str, Symbol]
    flow: ControlFlow

    @property
    def statements(self) -> Iterator[Statement]:
        """All of them."""
        return (instruction.source for instruction in self.flow.instructions)


# ---------------------------------------------------------------------------------------- reading

_DECLARED = re.compile(
    r"\.(shared|global|const|local)\s+(?:\.align\s+(\d+)\s+)?\.([bsuf]\d+)\s+([\w$]+)(?:\[(\d*)\])?"
)
_NAME = re.compile(r"[A-Za-z_$][\w$]*")


@functools.lru_cache(maxsize=4)  # following asks for it, then each input that may be unread
def read_kernel(ptx: str, name: str) -> Kernel:
    """Read one kernel of a module.

    Raises:
        ValueError: the module has no such kernel.
    """
    entry = entries_of(ptx).get(name)
    if entry is None:
        raise ValueError(f"the PTX has no kernel {name}")
    body = ptx[entry.body_start : _closing_brace(ptx, entry.body_start)]
    code = read_ptx(body, ptx)
    outside = re.sub(r"\.(?:entry|func)[^{;]*\{.*?^\}", "", ptx, flags=re.S | re.M)
    statements = [
        statement for statement in code.statements if not statement.opcode.startswith("pragma")
    ]
    statements = _without_waiting(statements)
    labels = {label: _statement_count(code.statements[:at]) for label, at in code.labels.items()}
    parameters = entry.parameters
    used = frozenset(_NAME.findall(body))  # headers bring hundreds of others
    symbols = {n: s for n, s in _declared_symbols(outside + body).items() if n in used}
    names = frozenset(parameter.name for parameter in parameters)
    variables = frozenset(name for name, symbol in symbols.items() if symbol.space == "global")
    parts = [
        ([_instruction(statement, names, variables) for statement in part], targets)
        for part, targets in _split_basic_blocks(statements, labels)
    ]
    return Kernel(parameters, symbols, control_flow_of(parts))


def _statement_count(statements: Sequence[Statement]) -> int:
    return sum(not statement.opcode.startswith("pragma") for statement in statements)


def _without_waiting(statements: Sequence[Statement]) -> list[Statement]:
    """Return code whose threads wait at a barrier once: what they wait for comes."""
    waits = {name for s in statements if _is_wait(s) for name in _registers_of(s)[0]}
    others = (_registers_of(s)[0] for s in statements if not _is_wait(s))
    waits.difference_update(name for written in others for name in written)
    passed: list[Statement] = []
    for statement in statements:
        if statement.name == "bra" and statement.guard.lstrip("!") in waits:
            is_taken = not statement.guard.startswith("!")
            kept = statement if is_taken else statement._replace(opcode="nop", operands=())
            passed.append(kept._replace(guard=""))
        else:
            passed.append(statement)
    return passed


def _is_wait(statement: Statement) -> bool:
    return statement.name == "mbarrier" and not {"try_wait", "test_wait"}.isdisjoint(
        statement.modifiers
    )


def _closing_brace(text: str, at: int) -> int:
    depth = 1
    for brace in re.finditer(r"[{}]", text[at:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return at + brace.start()
    return len(text)


def _declared_symbols(text: str) -> dict[str, Symbol]:
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


def _split_basic_blocks(
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
    reached = _reached_blocks([targets for _, targets in blocks])
    return [
        (part, targets if n in reached else (n + 1,)) for n, (part, targets) in enumerate(blocks)
    ]


def _reached_blocks(targets: Sequence[tuple[int, ...]]) -> set[int]:
    reached: set[int] = set()
    waiting = [0]
    while waiting:
        number = waiting.pop()
        if number < len(targets) and number not in reached:
            reached.add(number)
            waiting.extend(targets[number])
    return reached


# ------------------------------------------------------------------------------------ instructions

_REGISTER = re.compile(r"%[\w$]+(?:\.[xyzw])?")
_NO_RESULT = (
    *("st", "red", "bra", "ret", "exit", "bar", "barrier", "membar", "fence", "cp", "trap"),
    *("nop", "prefetch", "setmaxnreg"),
)
_ADDRESSING = ("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "wmma")
_MATRIX = re.compile(r"\.x(\d)")
_KINDS = {
    **{"ld": "load", "ldmatrix": "load", "cp": "load", "st": "store", "stmatrix": "store"},
    **{"atom": "atomic", "red": "atomic"},
}


def _instruction(
    statement: Statement, parameters: frozenset[str], variables: frozenset[str]
) -> Instruction:
    """Return a statement as the interpreter takes it.

    Args:
        statement: of the kernel.
        parameters: the kernel's, by name.
        variables: in global memory, likewise.
    """
    written, read = _registers_of(statement)
    takes_pointers = not {"u64", "b64"}.isdisjoint(statement.modifiers)
    named = (_address_base(operand) or operand for operand in statement.operands[1:])
    loads = "parameter" if "param" in statement.modifiers else "memory"
    return Instruction(
        source=statement,
        line=source_line(statement),
        written=written,
        read=read,
        guard=statement.guard,
        memory=_memory_use(statement),
        loads=loads if statement.name in ("ld", "atom") else "",
        pointers=tuple(
            name for name in named if (takes_pointers and name in parameters) or name in variables
        ),
        is_computed=is_computed(statement),
        deciding=tuple(_deciding(statement)),
    )


_LIBRARIES = ("/include/", "/tl_templates/")
"""Folders of headers: CUDA's and CUTLASS's, TileLang's."""


def source_line(statement: Statement) -> str:
    """``file:line`` in the user's source: the innermost place outside headers."""
    places = [place for place in (statement.place, *statement.callers) if place[0] and place[1]]
    own = [p for p in places if p[0] != "cuda" and not any(part in p[0] for part in _LIBRARIES)]
    file, line, _ = (own or places or [("", 0, 0)])[0]
    return f"{file.rpartition('/')[2]}:{line}" if file else ""  # which NVRTC puts in a folder


def _registers_of(statement: Statement) -> tuple[tuple[str, ...], tuple[str, ...]]:
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
    if statement.name == "elect" or _is_wait(statement):
        return True
    return operation(statement.name, statement.modifiers) is not None


def _address_base(operand: str) -> str:
    """Return the register or symbol of an operand that addresses memory; empty for others."""
    memory = ADDRESS.search(operand)
    return memory.group(1) if memory else ""


def _memory_use(statement: Statement) -> MemoryUse | None:
    """Return the use of memory of a statement; ``None`` if it makes no access."""
    bulk = bulk_copy_of(statement)
    if bulk is not None:
        return MemoryUse(
            kind=bulk.kind,
            path="tma",
            width_bytes=SECTOR_BYTES,
            registers=tuple(_REGISTER.findall(bulk.address)),
            modifiers=ptx_modifiers(statement.name, statement.modifiers),
        )
    if not _is_access(statement):
        return None
    bases = [base for base in map(_address_base, statement.operands) if base]
    is_matrix = statement.name in ("ldmatrix", "stmatrix")
    matrices = _MATRIX.search(statement.opcode)
    kinds = re.findall(r"\.(?:b?f|[bus])(\d+)", statement.opcode)
    kind = _KINDS.get(statement.name) or ("load" if "load" in statement.modifiers else "store")
    return MemoryUse(
        kind=kind,
        path="async" if statement.name == "cp" else "global",
        width_bytes=width_of(statement),
        element_bytes=max(int(kinds[-1]) // 8, 1) if kinds else 4,
        registers=tuple(bases[-1:] if statement.name == "cp" else bases[:1]),
        is_global=not is_matrix and {"param", "local", "const"}.isdisjoint(statement.modifiers),
        lanes=8 * int(matrices[1] if matrices else 1) if is_matrix else 32,
        modifiers=ptx_modifiers(statement.name, statement.modifiers),
    )


def _is_access(statement: Statement) -> bool:
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


def _deciding(statement: Statement) -> Iterator[str]:
    """Yield the registers of addresses, and of conditions of accesses and branches."""
    if statement.guard and (statement.name in _ADDRESSING or statement.name in _ENDS):
        yield statement.guard.lstrip("!")
    if (bulk := bulk_copy_of(statement)) is not None:
        yield from (name for name in (*bulk.coordinates, bulk.size) if name.startswith("%"))
    if _is_access(statement) and "local" not in statement.modifiers:
        yield from (base for base in map(_address_base, statement.operands) if base.startswith("%"))
        if statement.name == "wmma":  # the stride of its rows
            yield from _REGISTER.findall(statement.operands[-1])


def stored_registers(kernel: Kernel) -> frozenset[str]:
    """Return the registers that a kernel writes to memory."""
    stores = (
        statement for statement in kernel.statements if statement.name in ("st", "atom", "red")
    )
    values = (_registers_of(store._replace(operands=store.operands[1:]))[1] for store in stores)
    return frozenset(name for read in values for name in read)
