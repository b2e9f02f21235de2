"""Follow the threads of some blocks through a kernel's PTX, for the addresses that they access.

All threads of all followed blocks go together: those earliest in the code take the next step, so
threads that diverged meet again where structured code does. Integers and predicates are computed as
on the GPU. Floats are not, since addresses hardly ever depend on them. Loaded indices are known if
their tensor's contents are. Unknown values are guessed, and a note says so.

Every value is an array of shape [blocks, threads], of size 1 along an axis if all agree, or
``None`` if unknown. Loops with equal iterations do not run to their end: see
`solkit.analysis.cuda.loop_extrapolation`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from solkit.adapters.fake_triton import Argument, TensorArgument
from solkit.analysis.common.out_of_bounds import outside_bytes
from solkit.analysis.common.ptx_code import ADDRESS, Statement
from solkit.analysis.common.ptx_numbers import Array, as_bits, operation, type_of
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.cuda.flow import BasicBlock, Kernel, Loop, is_access, registers_of, width_of
from solkit.analysis.cuda.loop_extrapolation import Comparison, LoopExtrapolator, Tables
from solkit.analysis.cuda.thread_groups import Active, Grid, Value, Watcher

__all__ = ["PTXInterpreter", "line_of"]

_WARP = 32
_SHARED, _LOCAL, _CONST = 1 << 17, (1 << 17) + 1, (1 << 17) + 2
"""Window numbers of generic addresses outside global memory."""
_WINDOWS = {"shared": _SHARED, "local": _LOCAL, "const": _CONST}
_WHOLE_COPY = 3  # operands of a cp.async that copies all of its bytes: target, source, size
_BEFORE = 1 << (ADDRESS_BITS - 1)
"""Bytes in front of a storage that count as its own."""
_OFFSET = (1 << ADDRESS_BITS) - 1
_MOST_WORK = 1_500_000.0
"""Work in microseconds, as estimated by `_STEP` and the like: some seconds at most."""
_HURRY = ((1.0, 3), (0.3, 6))
"""Shares of that, after which a loop gets so few iterations to repeat; see `arrive`."""
_GIVEN_UP = 4.0
_STEP, _STATEMENT, _ACCESS = (60.0, 0.02), (6.0, 0.006), (70.0, 0.1)
"""Time of one, and additional time per thread; measured on one core."""

_SPECIAL = re.compile(r"%(tid|ntid|ctaid|nctaid)\.([xyz])")
_REDUCTION_LIMITS = ("0f47CE4780", "0f47ce4780")
"""105615.0: above it, CUDA's sine and cosine reduce their argument slowly."""


@dataclass
class _Compiled:
    """A statement with its operands looked up."""

    statement: Statement
    results: tuple[str, ...]
    compute: Callable[..., Array] | None = None
    operands: tuple[str | Array | None, ...] = ()
    compares: str = ""
    keeps: bool = False
    unseen: str = ""


@dataclass
class PTXInterpreter:
    """Some blocks of a launch, followed together.

    Args:
        kernel: the code.
        grid: of the launch.
        arguments: in the order of the kernel's parameters.
        numbers: of the blocks to follow, x fastest.
        threads: of each block to follow.
        tables: counts by block; shortened loops extrapolate them.
        watcher: notified of accesses.
        line_bytes: as for `LoopExtrapolator`.
        guessed: registers with values that stand for unknown ones. They give addresses; comparisons
            with them are unknown.
        outside: how far statements, by id, reach beyond the ends of storages, in bytes, as far as
            no guess is wrong.
    """

    kernel: Kernel
    grid: Grid
    arguments: Sequence[Argument]
    numbers: Array
    threads: Array
    tables: Tables
    watcher: Watcher
    line_bytes: int = 128
    guesses: dict[str, None] = field(default_factory=dict)
    storages: list[TensorArgument] = field(default_factory=list)
    registers: dict[str, Value] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)
    outside: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        x, y, _ = self.grid.blocks
        numbers = self.numbers[:, None]
        self.block_at = (numbers % x, numbers // x % y, numbers // (x * y))
        x, y, _ = self.grid.threads
        threads = self.threads[None, :]
        self.thread_at = (threads % x, threads // x % y, threads // (x * y))
        warps = self.threads // _WARP
        self.warps_of = np.flatnonzero(np.r_[True, warps[1:] != warps[:-1]])
        self.parameters = _bound(self)
        self.symbols = _placed(self)
        self.sizes = np.array([0, *(storage.storage_bytes for storage in self.storages)])
        self.is_sure = True  # whether all active threads make the access at hand
        self.work = 0.0
        self.loops = [
            LoopExtrapolator(loop, self.kernel, self.tables, self.line_bytes)
            for loop in self.kernel.loops
        ]
        self.code = [
            [
                self._compiled(statement)
                for statement in block.statements
                if self._matters(statement)
            ]
            for block in self.kernel.blocks
        ]

    # ---------------------------------------------------------------------------- control flow

    def run(self) -> None:
        """Follow them from entry to return."""
        everyone = np.ones((len(self.numbers), len(self.threads)), bool)
        waiting = {0: Active(everyone, self.warps_of)}
        end = len(self.kernel.blocks)
        with np.errstate(all="ignore"):
            while waiting and self.work < _GIVEN_UP * _MOST_WORK:
                number = min(waiting)
                active = waiting.pop(number)
                if number < end:
                    self._step(self.kernel.blocks[number], active, waiting)
        if waiting:
            self._guess("after so many steps the rest of the kernel was not followed", None)

    def _step(self, block: BasicBlock, active: Active, waiting: dict[int, Active]) -> None:
        whole = not waiting
        for n in block.loops:
            if self.loops[n].loop.header == block.number:
                self._arrived(self.loops[n], active)
        size = active.mask.size
        self.work += _STEP[0] + _STEP[1] * size
        for compiled in self.code[block.number]:
            counted = is_access(compiled.statement) and not compiled.unseen
            fixed, by_thread = _ACCESS if counted else _STATEMENT
            self.work += fixed + by_thread * size
            self._statement(compiled, block, active, whole)
        self.watcher.block_ends(block, active)
        for to, who in self._targets(block, active):
            for loop in self.loops:
                inside = loop.loop.header <= block.number <= loop.loop.last
                if to == loop.loop.header and not inside:
                    loop.entered()
            others = waiting.get(to)
            waiting[to] = who if others is None else Active(others.mask | who.mask, self.warps_of)

    def _targets(self, block: BasicBlock, active: Active) -> list[tuple[int, Active]]:
        last = block.statements[-1]
        if len(block.targets) == 1:
            return [(block.targets[0], active)]
        condition = None if last.guard.lstrip("!") in self.guessed else self._guard(last.guard)
        if condition is None:
            return [(self._guessed(block), active)]
        if condition.size == 1:
            return [(block.targets[0 if condition.flat[0] else 1], active)]
        sides = (active.where(condition != 0), active.where(condition == 0))
        return [(to, who) for to, who in zip(block.targets, sides) if who.mask.any()]

    def _guessed(self, block: BasicBlock) -> int:
        """Guess the way of an open branch: into what it guards, or out of the loop that it ends."""
        self._guess("a branch that depends on data is assumed to do the work that it guards", block)
        for n in reversed(block.loops):
            loop = self.kernel.loops[n]
            inside = [loop.header <= to <= loop.last for to in block.targets]
            if inside != [True, True]:
                ends = [
                    b for b in self.kernel.blocks[loop.header : loop.last + 1] if _leaves(b, loop)
                ]
                stays = len(ends) > 1 and block.targets[inside.index(True)] > block.number
                return block.targets[inside.index(stays)]
        taken, falls = block.targets
        return taken if falls in self.kernel.after[block.number] else falls

    def _arrived(self, run: LoopExtrapolator, active: Active) -> None:
        """At a loop's header: skip iterations if they repeat."""
        patience = next((n for share, n in _HURRY if self.work > share * _MOST_WORK), None)
        sentence = run.arrive(active.mask, self.registers, patience)
        if sentence:
            self._guess(sentence, self.kernel.blocks[run.loop.header])

    def _guess(
        self, what: str, block: BasicBlock | None, statement: Statement | None = None
    ) -> None:
        listed = [statement] if statement else block.statements[::-1] if block else []
        place = next(filter(None, map(line_of, listed)), "")
        self.guesses.setdefault(f"{place}: {what}." if place else f"{what}.")

    # ------------------------------------------------------------------------------ statements

    def _matters(self, statement: Statement) -> bool:
        """Tell whether it makes an access, or an address or a branch depends on it."""
        shown = is_access(statement) or self._unseen(statement) != ""
        return shown or not self.kernel.relevant.isdisjoint(registers_of(statement)[0])

    @staticmethod
    def _unseen(statement: Statement) -> str:
        """Say what cannot be followed of a statement; empty if nothing."""
        if "bulk" in statement.modifiers and any(map(ADDRESS.search, statement.operands)):
            return _UNSEEN["bulk"]
        elsewhere = [m for m in statement.modifiers if m in ("const", "local")]
        key = elsewhere[0] if elsewhere and is_access(statement) else statement.name
        return _UNSEEN.get(key, "")

    def _compiled(self, statement: Statement) -> _Compiled:
        """Return a statement with its operands looked up."""
        written, _ = registers_of(statement)
        relevant = tuple(name for name in written if name in self.kernel.relevant)
        compiled = _Compiled(statement, relevant, unseen=self._unseen(statement))
        if not relevant:
            return compiled
        definitions = self.kernel.definitions
        looped = statement.depth > 0
        compiled.keeps = looped or any(definitions[name] > 1 for name in relevant)
        compiled.operands = tuple(map(self._operand, statement.operands[1:]))
        if kind := type_of(statement.modifiers):
            compiled.operands = tuple(
                as_bits(
                    operand,
                    64 if n == 2 and "wide" in statement.modifiers else kind[0],
                    signed=False,
                )
                if isinstance(operand, np.ndarray)
                else operand
                for n, operand in enumerate(compiled.operands)
            )
        compiled.compute = operation(statement.name, statement.modifiers)
        if statement.name in ("setp", "min", "max") and compiled.compute is not None:
            compiled.compares = statement.modifiers[0] if statement.name == "setp" else "lt"
        return compiled

    def _operand(self, text: str) -> str | Array | None:
        """Return a register's name, or the value itself."""
        special = _SPECIAL.fullmatch(text)
        if special:
            return self._special(*special.groups())
        if text.startswith("%"):
            return text if text not in ("%laneid", "%warpid") else self._lane(text)
        if text in self.symbols:
            return _one(self.symbols[text])
        number = re.fullmatch(r"(-?)(0[xX][\da-fA-F]+|\d+)U?", text)
        if number is None:
            return _one(_WARP) if text == "WARP_SZ" else None
        value = int(number[2], 0) * (-1 if number[1] else 1)
        return _one((value + (1 << 63)) % (1 << 64) - (1 << 63))

    def _special(self, name: str, axis: str) -> Array:
        at = "xyz".index(axis)
        values = {
            "tid": self.thread_at[at],
            "ctaid": self.block_at[at],
            "ntid": _one(self.grid.threads[at]),
            "nctaid": _one(self.grid.blocks[at]),
        }
        return values[name]

    def _lane(self, text: str) -> Array:
        threads = self.threads[None, :]
        numbers: Array = threads % _WARP if text == "%laneid" else threads // _WARP
        return numbers

    def _value(self, operand: str | Array | None) -> Value:
        return self.registers.get(operand) if isinstance(operand, str) else operand

    def _guard(self, guard: str) -> Value:
        value = self.registers.get(guard.lstrip("!"))
        if value is None:
            return None
        return 1 - value if guard.startswith("!") else value

    def _statement(
        self, compiled: _Compiled, block: BasicBlock, active: Active, whole: bool
    ) -> None:
        statement = compiled.statement
        self.is_sure = True
        if is_access(statement) and statement.guard:
            condition = self._guard(statement.guard)
            self.is_sure = condition is not None and statement.guard.lstrip("!") not in self.guessed
            if condition is not None and self.is_sure:
                active, whole = active.where(condition != 0), False
        if compiled.unseen and active.mask.any():
            self._guess(compiled.unseen, block, statement)
        if is_access(statement):
            self._memory(compiled, block, active, whole)
        elif compiled.results and not compiled.unseen:
            self._inherit(compiled)
            self._compute(compiled, block, active, whole)

    def _inherit(self, compiled: _Compiled) -> None:
        """Note results of guessed operands; of two joined flags one that is known decides."""
        if not self.guessed:
            return
        names = [operand for operand in compiled.operands if isinstance(operand, str)]
        if compiled.statement.name == "mov" and compiled.statement.operands[1].startswith("{"):
            names = list(registers_of(compiled.statement)[1])
        taken = [name for name in names if name in self.guessed]
        if taken and not (_joins_flags(compiled.statement) and len(taken) < len(names)):
            self.guessed.update(compiled.results)

    def _compute(self, compiled: _Compiled, block: BasicBlock, active: Active, whole: bool) -> None:
        statement = compiled.statement
        value = self._computed(compiled, block, active)
        if statement.guard:
            condition = self._guard(statement.guard)
            old = self.registers.get(compiled.results[0])
            if condition is None or value is None or old is None:
                value = None
            else:
                value = np.where(condition != 0, value, old)
        if statement.name == "mov" and len(compiled.results) == 2 and value is not None:
            half = type_of(statement.modifiers) or (64, False)
            self._write(
                compiled.results[0],
                as_bits(value, half[0] // 2, signed=False),
                compiled,
                active,
                whole,
            )
            value = as_bits(value >> half[0] // 2, half[0] // 2, signed=False)
            self._write(compiled.results[1], value, compiled, active, whole)
            return
        for n, name in enumerate(compiled.results):
            self._write(name, value if n == 0 else None, compiled, active, whole)

    def _write(
        self, name: str, value: Value, compiled: _Compiled, active: Active, whole: bool
    ) -> None:
        if not whole and compiled.keeps and name in self.registers:
            old = self.registers[name]
            if old is None and self.kernel.definitions[name] > 1:
                value = None  # not known in the threads that do not take part
            elif value is not None and old is not None and old is not value:
                value = np.where(active.mask, value, old)
        self.registers[name] = value

    def _computed(self, compiled: _Compiled, block: BasicBlock, active: Active) -> Value:
        statement = compiled.statement
        if statement.name in ("cvta", "mov") and statement.operands[1].startswith("{"):
            return self._packed(statement)
        if statement.name == "cvta":
            return self._converted(compiled)
        if statement.name == "shfl":
            return self._shuffled(compiled)
        if statement.name == "setp" and any(o in _REDUCTION_LIMITS for o in statement.operands):
            return _one(statement.modifiers[0] in ("lt", "ltu", "le", "leu"))
        if compiled.compute is None:
            return None
        values = [self._value(operand) for operand in compiled.operands]
        if self.guessed and _joins_flags(statement):  # an unknown flag is assumed to be set
            kept = [v for o, v in zip(compiled.operands, values) if o not in self.guessed]
            if len(kept) == 1:
                return kept[0]
        if any(value is None for value in values):
            return self._decided(statement, values)
        operands = [value for value in values if value is not None]
        for n in block.loops:
            self.loops[n].observe(statement, operands, active.mask)
            if compiled.compares:
                signs = type_of(statement.modifiers) or (32, False)
                a, b = (as_bits(value, *signs) for value in operands[:2])
                self.loops[n].compared(Comparison(statement, compiled.compares, a, b, active.mask))
        return compiled.compute(*operands)

    def _decided(self, statement: Statement, values: Sequence[Value]) -> Value:
        """Return a result despite an unknown operand: ``false and x``, ``true or x``."""
        operands = [value for value in values if value is not None]
        if statement.name in ("and", "or") and "pred" in statement.modifiers and operands:
            decided = 0 if statement.name == "and" else 1
            if operands[0].size == 1 and operands[0].flat[0] == decided:
                return operands[0]
        return None

    def _packed(self, statement: Statement) -> Value:
        """``mov.b64 %rd1, {%r1, %r2}``."""
        parts = [
            self._value(self._operand(p.strip())) for p in statement.operands[1][1:-1].split(",")
        ]
        bits, _ = type_of(statement.modifiers) or (64, False)
        if len(parts) != 2 or parts[0] is None or parts[1] is None:
            return None
        packed: Array = parts[0] | parts[1] << bits // 2
        return packed

    def _converted(self, compiled: _Compiled) -> Value:
        """``cvta``: between an address in its own memory and a generic one."""
        value = self._value(compiled.operands[0])
        space = next((s for s in _WINDOWS if s in compiled.statement.modifiers), "")
        if value is None or not space or space == "local":
            return value
        window = _WINDOWS[space] << ADDRESS_BITS
        return value - window if "to" in compiled.statement.modifiers else value + window

    def _shuffled(self, compiled: _Compiled) -> Value:
        """``shfl.idx`` from one lane for all; other exchanges are unknown."""
        value, lane = (self._value(operand) for operand in compiled.operands[:2])
        if value is None:
            return None
        if value.shape[1] == 1:  # all threads of a block agree
            return value
        from_one_lane = (
            lane is not None and lane.size == 1 and "idx" in compiled.statement.modifiers
        )
        if not from_one_lane or lane is None or len(self.threads) != int(self.threads[-1]) + 1:
            return None
        source = np.minimum(self.threads // _WARP * _WARP + int(lane.flat[0]), self.threads[-1])
        shuffled: Array = value[:, source]
        return shuffled

    # ---------------------------------------------------------------------------------- memory

    def _memory(self, compiled: _Compiled, block: BasicBlock, active: Active, whole: bool) -> None:
        statement = compiled.statement
        value: Value = None
        if "param" in statement.modifiers:
            value = self._parameter(statement)
        elif not {"local", "const"} & set(statement.modifiers) and active.mask.any():
            *ends, last = self._addresses(statement) or [None]
            for end in ends:  # where cp.async copies to
                self.watcher.access(statement, "shared", end, active)
            value = self._accessed(compiled, block, last, active)
        for n, name in enumerate(compiled.results):
            self._write(name, value if n == 0 else None, compiled, active, whole)

    def _parameter(self, statement: Statement) -> Value:
        memory = ADDRESS.search(statement.operands[1])
        if memory is None:
            return None
        key = (memory.group(1), int(memory.group(2) or "0", 0))
        if key not in self.parameters:
            if statement.modifiers[-1][0] in "bsu" and key[0] in self.kernel.relevant:
                self._guess(f"{key[0]} is not known", None, statement)
            return None
        bits, _ = type_of(statement.modifiers) or (64, False)
        return as_bits(_one(self.parameters[key]), bits, signed=False)

    def _addresses(self, statement: Statement) -> list[Value]:
        """Return a statement's address; for ``cp.async`` the target, then the source."""
        listed: list[Value] = []
        for memory in map(ADDRESS.search, statement.operands):
            if memory:
                base = self._value(self._operand(memory.group(1)))
                listed.append(None if base is None else base + int(memory.group(2) or "0", 0))
        return listed

    def _accessed(
        self, compiled: _Compiled, block: BasicBlock, addresses: Value, active: Active
    ) -> Value:
        """Report an access; returns what it loads, if known."""
        statement = compiled.statement
        space = _space(statement, addresses)
        if space not in ("global", "shared"):
            self._guess(_UNSEEN[space], block, statement)
            return None
        if addresses is not None and space == "shared":
            addresses = addresses & _OFFSET
        elif addresses is not None:
            last = int(np.broadcast_to(addresses, active.mask.shape)[active.mask].max())
            if not 0 < (last + _BEFORE) >> ADDRESS_BITS <= len(self.storages):
                addresses = None  # a pointer that was loaded from memory
        if addresses is None and space == "global":
            self._guess("places that depend on data are spread over the storage", None, statement)
        for n in block.loops:
            if addresses is not None and space == "global":
                self.loops[n].accessed(statement, addresses)
        if statement.name == "wmma" and addresses is not None:
            for rows in self._rows(statement, addresses):
                self.watcher.access(statement, space, rows, active)
            return None
        self.watcher.access(statement, space, addresses, active)
        if addresses is not None and space == "global" and self.is_sure:
            self._reach(statement, addresses, active)
        if not compiled.results or addresses is None or statement.name != "ld":
            return None
        return self._loaded(statement, addresses)

    def _reach(self, statement: Statement, addresses: Array, active: Active) -> None:
        """Note how far an access leaves its storage."""
        if statement.name == "cp" and len(statement.operands) > _WHOLE_COPY:
            return  # it copies as much as a register says
        low = np.broadcast_to(addresses, active.mask.shape)[active.mask]
        farthest = int(outside_bytes(low, low + width_of(statement), self.sizes).max())
        if farthest > self.outside.get(id(statement), 0):
            self.outside[id(statement)] = farthest

    def _rows(self, statement: Statement, base: Array) -> Iterator[Array]:
        """Yield the requests of ``wmma.load`` and ``store``: 8 rows, each held by 4 adjacent lanes.

        Source: PTX ISA, the fragments of mma; and the LDG.E and STG.E.64 that ptxas makes of 16-bit
        factors and fp32 sums on sm_90, their lanes' addresses.
        """
        shape = re.search(r"m(\d+)n(\d+)k(\d+)", statement.opcode)
        sizes = dict(zip("mnk", map(int, shape.groups()))) if shape else {}
        axes = {"a": "mk", "b": "kn"}.get(statement.modifiers[1], "mn")
        outer, inner = (
            sizes[axis] for axis in (axes if "row" in statement.modifiers else axes[::-1])
        )
        element = int(re.findall(r"\d+", statement.modifiers[-1])[-1]) // 8
        stride = self._value(self._operand(statement.operands[-1]))
        stride = _one(inner) if stride is None else stride
        lanes = self.threads[None, :] % _WARP
        width = width_of(statement)
        for row in range(0, outer, 8):
            for column in range(0, inner * element, 4 * width):
                ahead = (row + lanes // 4) * stride * element + column + lanes % 4 * width
                yield base + ahead

    def _loaded(self, statement: Statement, addresses: Array) -> Value:
        """Return integers from memory if the contents are known, else guesses in order."""
        kind = type_of(statement.modifiers)
        place = int(addresses.flat[0] >> ADDRESS_BITS) - 1
        if kind is None or not 0 <= place < len(self.storages):
            return None
        storage = self.storages[place]
        at = ((addresses & _OFFSET) - storage.offset_bytes) // storage.element_bytes
        contents = storage.contents
        if contents is None or contents.size == 0 or kind[0] != 8 * storage.element_bytes:
            self._guess(
                "indices whose values are not known are taken to be in order", None, statement
            )
            self.guessed.update(registers_of(statement)[0])
            return at
        elements: Array = contents[np.clip(at, 0, contents.size - 1)].astype(np.int64)
        return as_bits(elements, kind[0], signed=False)


_UNSEEN = {
    "call": "what a function does that is not inlined is not seen",
    "bulk": "a bulk copy (TMA) is not counted",
    "brx": "a jump through a table is not followed",
    "const": "what is read of constant memory is not counted",
    "local": "an array in local memory is counted as spilled registers are",
    **dict.fromkeys(("tex", "tld4", "suld", "sust"), "textures and surfaces are not counted"),
    **dict.fromkeys(("wgmma", "tcgen05"), "what tensor cores read of shared memory is not counted"),
}


def line_of(statement: Statement) -> str:
    """``file:line`` in the user's source: the innermost place outside headers."""
    places = [place for place in (statement.place, *statement.callers) if place[0] and place[1]]
    own = [place for place in places if "/include/" not in place[0] and place[0] != "cuda"]
    file, line, _ = (own or places or [("", 0, 0)])[0]
    return f"{file.rpartition('/')[2]}:{line}" if file else ""  # which NVRTC puts in a folder


def _joins_flags(statement: Statement) -> bool:
    return statement.name == "and" and "pred" in statement.modifiers


def _leaves(block: BasicBlock, loop: Loop) -> bool:
    return any(not loop.header <= to <= loop.last for to in block.targets)


def _space(statement: Statement, addresses: Value) -> str:
    """Return the memory that an instruction accesses; by default its address's."""
    if statement.name == "cp":
        return "global"  # from there
    for modifier in statement.modifiers:
        if modifier in ("global", "local", "const") or modifier.startswith("shared"):
            return modifier.partition("::")[0]
    number = 0 if addresses is None else int(addresses.flat[0]) >> ADDRESS_BITS
    return next((space for space, window in _WINDOWS.items() if window == number), "global")


def _one(value: int) -> Array:
    return np.array([[value]], np.int64)


def _placed(follower: PTXInterpreter) -> Mapping[str, int]:
    """Return the address of each variable: in its memory, or a storage of its own."""
    places: dict[str, int] = {}
    for number, symbol in enumerate(follower.kernel.symbols.values()):
        if symbol.space == "shared":
            places[symbol.name] = symbol.offset
        elif symbol.space == "global":
            follower.storages.append(TensorArgument(-1 - number, symbol.size_bytes, 0, (), (), 1))
            places[symbol.name] = len(follower.storages) << ADDRESS_BITS
        elif symbol.space == "local":
            places[symbol.name] = _LOCAL << ADDRESS_BITS
        else:
            places[symbol.name] = 0
    return places


def _bound(follower: PTXInterpreter) -> dict[tuple[str, int], int]:
    """Parameter memory, by parameter and offset."""
    values: dict[tuple[str, int], int] = {}
    place_of_storage: dict[int, int] = {}
    for parameter, argument in zip(follower.kernel.parameters, follower.arguments):
        if isinstance(argument, TensorArgument):
            place = place_of_storage.setdefault(argument.storage, len(place_of_storage))
            if place == len(follower.storages):
                follower.storages.append(argument)
            values[parameter.name, 0] = ((place + 1) << ADDRESS_BITS) + argument.offset_bytes
            if parameter.is_struct:  # at::PackedTensorAccessor: a pointer, sizes, strides
                values |= _accessor(parameter.name, parameter.size_bytes, argument)
        elif isinstance(argument, int):
            values[parameter.name, 0] = int(argument)
    return values


def _accessor(name: str, size_bytes: int, tensor: TensorArgument) -> dict[tuple[str, int], int]:
    numbers = (*tensor.shape, *tensor.strides)
    width = (size_bytes - 8) // max(len(numbers), 1)
    return {(name, 8 + i * width): number for i, number in enumerate(numbers)}
