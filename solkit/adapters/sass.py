"""Parse the text of NVIDIA's disassemblers, which Triton ships, into machine code (SASS).

Formats (CUDA Binary Utilities): `nvdisasm -c` with labels, and source lines with ``-gi``;
`nvdisasm -b` and `cuobjdump -sass` with bare addresses.
"""

from __future__ import annotations

import bisect
import operator
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TypeVar

from triton import knobs

from solkit.adapters.cubin import Function
from solkit.adapters.triton_cache import cached_result
from solkit.errors import UnsupportedError

T = TypeVar("T")


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    Attributes:
        address: in bytes from the start of its function.
        predicate: its condition, e.g. ``"!P1"``; empty if it always runs.
        opcode: with its modifiers, e.g. ``"LDG.E.128"``.
        operands: in order, e.g. ``("R4", "desc[UR6][R12.64]")``.
        lines: ``file:line`` of its source, then of each inlined call around it; empty without a
            line table.
    """

    address: int
    predicate: str
    opcode: str
    operands: tuple[str, ...]
    lines: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The opcode without modifiers, e.g. ``"LDG"``."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """E.g. ``("E", "128")``."""
        return tuple(self.opcode.split(".")[1:])


@dataclass(frozen=True)
class Block:
    """Instructions that run in sequence.

    Attributes:
        instructions: at least one.
        successors: indices of the blocks that may follow.
        depth: the number of loops around it.
    """

    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]
    depth: int


@dataclass(frozen=True)
class Code:
    """The reachable machine code of one function.

    Attributes:
        name: as linked, so mangled for C++.
        blocks: by address; the function starts at the first.
        loops: their number, including nested ones.
        language: ``"sass"``, or ``"gcn"`` of AMD's GPUs.
    """

    name: str
    blocks: tuple[Block, ...]
    loops: int
    language: str = "sass"

    @property
    def instructions(self) -> Iterator[Instruction]:
        """All instructions, by address."""
        return (instruction for block in self.blocks for instruction in block.instructions)


def disassemble(cubin: bytes) -> str:
    """Return the disassembly of a cubin, with source lines if it has a line table.

    `nvdisasm` takes 0.2 to 0.6 s to start, so Triton's cache keeps its output.

    Raises:
        UnsupportedError: `nvdisasm` refuses it, e.g. because the architecture is too new.
    """
    return _cached_listing(cubin, lambda: _run_nvdisasm(cubin, "-c", "-gi"))


def machine_code(
    functions: Sequence[Function], architecture: str, mends: Sequence[Mapping[int, str]] = ()
) -> list[Code]:
    """Return the code of several functions, which takes hardly longer than one.

    Args:
        functions: of cubins.
        architecture: of all of them, e.g. ``"90a"``.
        mends: for each function ``"file:line"`` by line of its PTX, where its line table is wrong.

    Raises:
        UnsupportedError: as for `disassemble`.
    """
    joined = b"".join(function.code for function in functions)
    text = _cached_listing(joined, lambda: _run_nvdisasm(joined, "-b", f"SM{architecture}"))
    read, labels, _ = _read_instructions(text.splitlines())
    codes: list[Code] = []
    start = 0
    for function, mended in zip(functions, mends or repeat({}), strict=False):
        end = start + len(function.code)
        own = [instruction for instruction in read if start <= instruction.address < end]
        base = labels[f"{start:#x}"] if own else 0
        inside = {label: index - base for label, index in labels.items()}
        indirect = {
            address: [f"{start + target:#x}" for target in targets]
            for address, targets in function.branch_targets.items()
        }
        codes.append(
            _control_flow("", _place_instructions(own, function, start, mended), inside, indirect)
        )
        start = end
    return codes


def _place_instructions(
    instructions: Sequence[Instruction], function: Function, start: int, mended: Mapping[int, str]
) -> list[Instruction]:
    """Return the instructions with addresses relative to the function, and source lines."""
    placed: list[Instruction] = []
    for instruction in instructions:
        address = instruction.address - start
        places = _value_at(function.lines, address) or ()
        own = mended.get(_value_at(function.ptx_lines, address) or 0) if mended else None
        places = (own, *places[1:]) if own else places
        placed.append(replace(instruction, address=address, lines=places))
    return placed


def _value_at(rows: Sequence[tuple[int, T]], address: int) -> T | None:
    """Return the value that holds at an address: that of the last row up to there."""
    row = bisect.bisect_right(rows, address, key=operator.itemgetter(0))
    return rows[row - 1][1] if row else None


def _cached_listing(code: bytes, disassemble: Callable[[], str]) -> str:
    key = b"solkit sass " + knobs.nvidia.nvdisasm.version.encode() + code
    (text,) = cached_result(key, ["code.sass"], lambda: [disassemble().encode()])
    return text.decode()


def _run_nvdisasm(code: bytes, *options: str) -> str:
    tool = knobs.nvidia.nvdisasm
    try:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(code)
            file.flush()
            command = [tool.path, *options, file.name]
            done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:  # a full disk, or no such tool
        raise UnsupportedError(f"nvdisasm cannot run: {error}") from error
    if done.returncode:
        message = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UnsupportedError(f"nvdisasm {tool.version}: {message[-1]}")
    return done.stdout


# --------------------------------------------------------------------------------- reading

_FUNCTION = re.compile(r"^\s*(?:\.section\s+\.text\.([^,\s]+),|Function : (\S+))")
_LABEL = re.compile(r"^\s*([.$\w]+):")
_SOURCE = re.compile(r'"([^"]+)", line (\d+)')
_COMMENT = re.compile(r"\(\*.*?\*\)")
_TARGETS = re.compile(r'\(\*"BRANCH_TARGETS ([^"]*)"\*\)')
_INSTRUCTION = re.compile(
    r"/\*(?P<address>[0-9a-f]{4,})\*/\s+\{?\s*"
    r"(?:@(?P<predicate>!?U?P\w+)\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;]*?)\s*;"
)


def parse_listing(text: str) -> Mapping[str, Code]:
    """Return the functions in the output of `nvdisasm -c` or `cuobjdump -sass`, by name."""
    bodies: dict[str, list[str]] = {}
    body: list[str] = []  # of no function, before the first
    for line in text.splitlines():
        if start := _FUNCTION.match(line):
            body = bodies.setdefault(start[1] or start[2], [])
        else:
            body.append(line)
    return {name: _control_flow(name, *_read_instructions(lines)) for name, lines in bodies.items()}


def _read_instructions(
    lines: Sequence[str],
) -> tuple[list[Instruction], dict[str, int], dict[int, list[str]]]:
    """Read the instructions, the index of each label or branch address, and indirect labels."""
    instructions: list[Instruction] = []
    indirect: dict[int, list[str]] = {}  # by the branch's address
    labels: dict[str, int] = {}  # to the index of the instruction that follows
    source: list[str] = []
    fresh = True  # the next source line starts a new chain of inlined calls
    for line in lines:
        if match := _INSTRUCTION.search(_COMMENT.sub("", line)):
            if targets := _TARGETS.search(line):
                indirect[int(match["address"], 16)] = _split_operands(targets[1])
            operands = tuple(_split_operands(match["operands"]))
            fields = (int(match["address"], 16), match["predicate"] or "", match["opcode"])
            instructions.append(Instruction(*fields, operands, tuple(source)))
            fresh = True
        elif label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif "//##" in line:
            source = [] if fresh else source
            fresh = False
            source += [f"{file}:{number}" for file, number in _SOURCE.findall(line)[:1]]
    labels |= {f"{instruction.address:#x}": index for index, instruction in enumerate(instructions)}
    return instructions, labels, indirect


def _split_operands(operands: str) -> list[str]:
    return [part.strip() for part in operands.split(",")] if operands else []


# ----------------------------------------------------------------------------------- loops

_INDIRECT = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
"""Jump to an address in a register, as a `switch` or a warp's role does."""
_ENDS = frozenset({"EXIT", "RET", "KILL"}) | _INDIRECT
"""The next instruction in the code does not follow."""
_JUMPS = frozenset({"BRA", "JMP"})
_CALLS = frozenset({"CALL"})


def _control_flow(
    name: str,
    instructions: list[Instruction],
    labels: Mapping[str, int],
    indirect: Mapping[int, Sequence[str]],
) -> Code:
    """Cut into blocks, drop unreachable ones, and find the loops.

    Args:
        name: of the function.
        instructions: all, by address.
        labels: the index of the instruction that follows each.
        indirect: the labels that an indirect branch may go to, by its address.
    """
    targets = [_branch_targets(instruction, labels, indirect) for instruction in instructions]
    starts = {0, *(target for every in targets for target in every)}
    starts |= {
        i + 1
        for i, instruction in enumerate(instructions)
        if instruction.name in _ENDS | _JUMPS | _CALLS
    }
    bounds = sorted(start for start in starts if start < len(instructions))
    number = {start: index for index, start in enumerate(bounds)}
    ends = [*bounds[1:], len(instructions)]
    edges: list[list[int]] = []
    for end in ends:
        last, successors = instructions[end - 1], [*targets[end - 1]]
        conditional = last.predicate not in ("", "PT", "UPT") or _conditional(last)
        falls = conditional or last.name not in _ENDS | _JUMPS
        successors += [end] if falls and end in number else []
        edges.append([number[start] for start in dict.fromkeys(successors)])
    _follow_unknown(instructions, bounds, edges, indirect)
    return reachable_code(name, [instructions[i:j] for i, j in zip(bounds, ends)], edges)


def reachable_code(
    name: str,
    runs: Sequence[Sequence[Instruction]],
    edges: Sequence[Sequence[int]],
    language: str = "sass",
) -> Code:
    """Return the code whose blocks can be reached from the first one.

    Args:
        name: of the function.
        runs: the instructions of each block.
        edges: the blocks that may follow each.
        language: see `Code`.
    """
    reached = reachable_blocks(edges)
    loops = natural_loops(edges, reached)
    kept = {old: new for new, old in enumerate(sorted(reached))}
    blocks = tuple(
        Block(
            tuple(runs[i]),
            tuple(kept[j] for j in edges[i]),
            sum(i in loop for loop in loops.values()),
        )
        for i in kept
    )
    return Code(name, blocks, len(loops), language)


def _branch_targets(
    instruction: Instruction, labels: Mapping[str, int], indirect: Mapping[int, Sequence[str]]
) -> list[int]:
    """Return the indices of the instructions that a branch or call may go to."""
    if instruction.name in _INDIRECT:
        labelled = indirect.get(instruction.address, ())
        return [labels[label] for label in labelled if label in labels]
    if instruction.name not in _JUMPS | _CALLS or not instruction.operands:
        return []
    match = re.search(r"`\(([.$\w]+)\)|(0x[0-9a-f]+)", instruction.operands[-1])
    target = labels.get(match[1] or match[2]) if match else None
    return [] if target is None else [target]


def _follow_unknown(
    instructions: Sequence[Instruction],
    bounds: Sequence[int],
    edges: list[list[int]],
    indirect: Mapping[int, Sequence[str]],
) -> None:
    """Let an indirect branch without a list of targets go where no other instruction leads."""
    ends = [*bounds[1:], len(instructions)]
    led_to = {0, *(block for every in edges for block in every)}
    orphans = [
        block
        for block, (start, end) in enumerate(zip(bounds, ends, strict=True))
        if block not in led_to
        and any(instruction.name != "NOP" for instruction in instructions[start:end])
    ]
    for block, end in enumerate(ends):
        last = instructions[end - 1]
        if last.name in _INDIRECT and not indirect.get(last.address):
            edges[block] += orphans


def _conditional(instruction: Instruction) -> bool:
    """Tell whether a branch has a condition operand, or may leave part of the warp behind."""
    if instruction.name not in _JUMPS:
        return False
    divergent = "DIV" in instruction.modifiers or "CONV" in instruction.modifiers
    return divergent or any(
        re.fullmatch(r"!?U?P\d", operand) for operand in instruction.operands[:-1]
    )


def reachable_blocks(edges: Sequence[Sequence[int]], removed: int = -1) -> set[int]:
    """Return the blocks reachable from the first without passing `removed`."""
    if removed == 0 or not edges:
        return set()
    seen, waiting = {0}, [0]
    while waiting:
        for successor in edges[waiting.pop()]:
            if successor not in seen and successor != removed:
                seen.add(successor)
                waiting.append(successor)
    return seen


def natural_loops(edges: Sequence[Sequence[int]], reached: set[int]) -> dict[int, set[int]]:
    """Return the natural loops by head: an edge to a block that dominates its origin closes a loop.

    Source: Aho, Lam, Sethi, Ullman, "Compilers", 9.6.
    """
    before: dict[int, list[int]] = {block: [] for block in reached}
    for block in reached:
        for successor in edges[block]:
            before[successor].append(block)
    loops: dict[int, set[int]] = {}
    for tail, head in _retreating(edges):
        if tail in reachable_blocks(edges, head):
            continue  # a jump into the middle of a loop bypasses the head
        body = loops.setdefault(head, {head})
        waiting = [tail]
        while waiting:
            block = waiting.pop()
            if block not in body:
                body.add(block)
                waiting += before[block]
    return loops


def _retreating(edges: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the edges of a depth-first walk that lead back to its path."""
    retreating: list[tuple[int, int]] = []
    seen, path = {0}, {0: iter(edges[0])} if edges else {}
    while path:
        block = next(reversed(path))
        successor = next(path[block], None)
        if successor is None:
            del path[block]
        elif successor in path:
            retreating.append((block, successor))
        elif successor not in seen:
            seen.add(successor)
            path[successor] = iter(edges[successor])
    return retreating
