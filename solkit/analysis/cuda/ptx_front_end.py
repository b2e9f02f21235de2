"""The PTX of a launch of CUDA C++, as `solkit.analysis.interpreter` follows it: its semantics."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from solkit.adapters.launch_recording import Argument, PackedArgument, TensorArgument
from solkit.analysis.common.ptx_code import ADDRESS, Statement
from solkit.analysis.common.ptx_numbers import as_bits, operation, type_of
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.cuda.bulk_copies import BulkCopy, bulk_copy_of, row_bulk, tile_bulk
from solkit.analysis.cuda.operations import (
    chain_of,
    described_operations,
    lane_operations,
    warp_operations,
)
from solkit.analysis.cuda.ptx_kernel import Kernel
from solkit.analysis.interpreter.control_flow import ControlFlow, Instruction
from solkit.analysis.interpreter.front_end import (
    UNFOLLOWED,
    WINDOWS,
    AccessStep,
    Bulk,
    Cost,
    FrontEnd,
    Motion,
    Operand,
    SharedAccesses,
    ValueStep,
)
from solkit.analysis.interpreter.storages import Storages
from solkit.analysis.interpreter.thread_groups import Active
from solkit.analysis.interpreter.thread_interpreter import ThreadInterpreter
from solkit.analysis.interpreter.values import Array, Value, single_value

_WARP = 32
_POINTER_BYTES = 8
_WHOLE_COPY = 3  # operands of a cp.async that copies all of its bytes: target, source, size
_SPECIAL = re.compile(
    r"%(tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.([xyz])"
)
_OF_THREAD = ("%tid", "%laneid", "%lanemask", "%warpid", "%clock", "%globaltimer")
_DESCRIPTORS = max(WINDOWS.values()) + 1
"""Storage number of addresses of parameters, which hold TMA descriptors."""
_PARAMETER_BYTES = 1 << 13
"""More than all parameters of a kernel have; 4 KiB up to CUDA 12.0."""
_REDUCTION_LIMITS = ("0f47CE4780", "0f47ce4780")
"""105615.0: above it, CUDA's sine and cosine reduce their argument slowly."""
_STEADY = frozenset("add sub mov cvt cvta neg setp selp min max mul mad shl ld".split())
_PERIODIC = frozenset("and or xor shr rem div bfe lop3 bfi prmt not".split())
_FLAGS = frozenset("and or xor not shfl bar".split())
_MULTIPLIES = frozenset(("mma", "mma_async"))
_UNSEEN = {
    **UNFOLLOWED,
    "call": "what a function does that is not inlined is not seen",
    "bulk": "a bulk copy (TMA) is not counted",
    "brx": "a jump through a table is not followed",
    **dict.fromkeys(("tex", "tld4", "suld", "sust"), "textures and surfaces are not counted"),
    **dict.fromkeys(("wgmma", "tcgen05"), "what tensor cores read of shared memory is not counted"),
}


class PTXFrontEnd(FrontEnd):
    """A kernel's PTX with the arguments of a launch.

    Args:
        kernel: the code.
        arguments: in the order of the kernel's parameters.
        names: of the parameters in C++; empty if unknown.
    """

    def __init__(
        self, kernel: Kernel, arguments: Sequence[Argument], names: Sequence[str] = ()
    ) -> None:
        self.kernel = kernel
        self.arguments = arguments
        self.names = {p.name: name for p, name in zip(kernel.parameters, names)}
        storages = Storages()
        self.parameters = _parameter_memory(kernel, arguments, storages)
        self.packed = {
            p.name: a.data
            for p, a in zip(kernel.parameters, arguments)
            if isinstance(a, PackedArgument)
        }
        self.symbols = _variable_addresses(kernel, storages)
        self.symbols |= {
            p.name: (_DESCRIPTORS << ADDRESS_BITS) + n * _PARAMETER_BYTES
            for n, p in enumerate(kernel.parameters)
        }
        self.descriptors = {
            self.symbols[name] + offset: tensor
            for name, offset, tensor in _tensors_of(kernel, arguments)
            if tensor.block
        }
        self.places = {id(t): storages.address_of(t) for t in self.descriptors.values()}
        self.sizes = {p.name: a.storage_bytes for p, a in zip(kernel.parameters, arguments)
                      if isinstance(a, TensorArgument)}  # fmt: skip
        self.sizes |= {s.name: s.size_bytes for s in kernel.symbols.values() if s.space == "global"}
        self.shared_runs = _shared_runs(kernel.flow)
        self.constants = _constants_of(kernel)
        super().__init__(kernel.flow, storages)

    # ---------------------------------------------------------------------------------- names

    def argument_name(self, pointer: str) -> str:
        """Return the C++ name of a parameter."""
        return self.names.get(pointer, pointer)

    def pointers_into(self, storage: TensorArgument) -> list[str]:
        """See `FrontEnd`."""
        pairs = _tensors_of(self.kernel, self.arguments)
        names = [name for name, _, tensor in pairs if tensor.storage == storage.storage]
        return list(dict.fromkeys(names))

    def pointer_bytes(self, pointer: str) -> int:
        """See `FrontEnd`."""
        return self.sizes.get(pointer, 0)

    def is_flag(self, register: str) -> bool:
        """See `FrontEnd`."""
        return register.startswith("%p")

    def is_of_thread(self, register: str) -> bool:
        """See `FrontEnd`."""
        return register.startswith(_OF_THREAD)

    def unseen(self, instruction: Instruction) -> str:
        """See `FrontEnd`."""
        statement = instruction.source
        if _is_unread_bulk(statement):
            return _UNSEEN["bulk"]
        if statement.name in ("wgmma", "tcgen05") and _MULTIPLIES.isdisjoint(statement.modifiers):
            return ""
        if statement.name == "tcgen05" and not described_operations(statement, self.constants):
            return "operations of tcgen05.mma, and what it reads of shared memory, are not counted"
        elsewhere = [m for m in statement.modifiers if m in UNFOLLOWED]
        key = elsewhere[0] if elsewhere and instruction.memory else statement.name
        return _UNSEEN.get(key, "")

    @property
    def needs_first_lanes(self) -> bool:
        """See `FrontEnd`."""
        return any(s.name in ("elect", "shfl") for s in self.kernel.statements)

    # ----------------------------------------------------------------------------- arithmetic

    def value_step(self, instruction: Instruction, threads: ThreadInterpreter) -> ValueStep:
        """See `FrontEnd`."""
        statement: Statement = instruction.source
        name, modifiers = statement.name, statement.modifiers
        if name == "elect":
            lane = threads.threads[None, :] % _WARP
            return ValueStep((), lambda: (lane * 0, (lane == 0).astype(np.int64)))
        if name == "mbarrier":
            return ValueStep((), lambda: single_value(1))
        if name in ("cvta", "mov") and statement.operands[1].startswith("{"):
            parts = [
                self._operand(p.strip(), threads) for p in statement.operands[1][1:-1].split(",")
            ]
            bits, _ = type_of(modifiers) or (64, False)
            packed = partial(_packed_halves, bits // 2) if len(parts) == 2 else None
            return ValueStep(tuple(parts), packed)
        if name == "setp" and any(o in _REDUCTION_LIMITS for o in statement.operands):
            held = single_value(modifiers[0] in ("lt", "ltu", "le", "leu"))
            return ValueStep((), lambda: held)
        operands = tuple(self._operand(text, threads) for text in statement.operands[1:])
        kind = type_of(modifiers)
        if kind is not None:
            operands = tuple(
                as_bits(operand, 64 if n == 2 and "wide" in modifiers else kind[0], signed=False)
                if isinstance(operand, np.ndarray)
                else operand
                for n, operand in enumerate(operands)
            )
        if name == "shfl":
            is_indexed = "idx" in modifiers
            shuffled = partial(_shuffled, threads.threads, is_indexed)
            return ValueStep(operands, shuffled, takes_unknown=True)
        if name == "cvta":
            return ValueStep(operands[:1], _conversion(modifiers))
        compute = operation(name, modifiers)
        if name == "mov" and len(instruction.written) == 2 and compute is not None:
            return ValueStep(operands, partial(_unpacked_halves, (kind or (64, False))[0] // 2))
        signs = kind or (32, False)
        is_flag = "pred" in modifiers
        compares = name in ("setp", "min", "max") and compute is not None
        joins = name in ("and", "or") and is_flag and compute is not None
        return ValueStep(
            operands,
            partial(_joined_flags, name, compute) if joins and compute else compute,
            takes_unknown=joins,
            comparison=(modifiers[0] if name == "setp" else "lt") if compares else "",
            compared=lambda a, b: (as_bits(a, *signs), as_bits(b, *signs)),
            joins_flags=name == "and" and is_flag,
        )

    def _operand(self, text: str, threads: ThreadInterpreter) -> Operand:
        """Return a register's name, or the value itself."""
        special = _SPECIAL.fullmatch(text)
        if special:
            return _special_register(threads, special[1], "xyz".index(special[2]))
        if text in ("%cluster_ctarank", "%cluster_nctarank"):
            return (
                _cluster_rank(threads)
                if text == "%cluster_ctarank"
                else single_value(math.prod(threads.grid.cluster))
            )
        if text in ("%laneid", "%warpid"):
            numbers = threads.threads[None, :]
            return numbers % _WARP if text == "%laneid" else numbers // _WARP
        if text.startswith("%"):
            return text
        if text in self.symbols:
            return single_value(self.symbols[text])
        number = re.fullmatch(r"(-?)(0[xX][\da-fA-F]+|\d+)U?", text)
        if number is None:
            return single_value(_WARP) if text == "WARP_SZ" else None
        value = int(number[2], 0) * (-1 if number[1] else 1)
        return single_value((value + (1 << 63)) % (1 << 64) - (1 << 63))

    # --------------------------------------------------------------------------------- memory

    def access_step(self, instruction: Instruction, threads: ThreadInterpreter) -> AccessStep:
        """See `FrontEnd`."""
        statement: Statement = instruction.source
        name, modifiers = statement.name, statement.modifiers
        if "param" in modifiers:
            return AccessStep("parameter", parameter=partial(self._parameter, instruction))
        bulk = bulk_copy_of(statement)
        if bulk is not None:
            return AccessStep(bulk=partial(self._bulk, bulk))
        places = [
            (self._operand(memory.group(1), threads), int(memory.group(2) or "0", 0))
            for memory in map(ADDRESS.search, statement.operands)
            if memory
        ]
        (copy_address, copy_offset), (address, offset) = [(None, 0), (None, 0), *places][-2:]
        kind = type_of(modifiers)
        return AccessStep(
            space=_memory_space(statement),
            address=address,
            offset=offset,
            copy_address=copy_address,
            copy_offset=copy_offset,
            is_copy=len(places) > 1,  # of cp.async: into shared memory
            loaded_bits=kind[0] if kind is not None and name == "ld" else 0,
            is_partial=name == "cp" and len(statement.operands) > _WHOLE_COPY,
            rows=partial(self._rows, instruction) if name == "wmma" else None,
        )

    def _bulk(self, copy: BulkCopy, threads: ThreadInterpreter) -> Bulk | None:
        """Return what a bulk copy touches, if its descriptor or its size is known."""
        base, offset = copy.base
        address = threads.value(self._operand(base, threads))
        if address is None:
            return None
        if copy.size:
            size = threads.value(self._operand(copy.size, threads))
            return None if size is None else row_bulk(address + offset, size)
        coordinates = [threads.value(self._operand(at, threads)) for at in copy.coordinates]
        tensor = self.descriptors.get(int(address.flat[0]) + offset)
        places = [at for at in coordinates if at is not None]
        if tensor is None or len(places) < len(coordinates) or len(places) != len(tensor.shape):
            return None
        return tile_bulk(tensor, self.places[id(tensor)], places)

    def _parameter(
        self, instruction: Instruction, threads: ThreadInterpreter
    ) -> Value | tuple[Value, ...]:
        statement: Statement = instruction.source
        memory = ADDRESS.search(statement.operands[1])
        if memory is None:
            return None
        bits, _ = type_of(statement.modifiers) or (64, False)
        start = int(memory.group(2) or "0", 0)
        loaded = tuple(
            self._word(instruction, threads, (memory.group(1), start + n * bits // 8))
            for n in range(len(instruction.written))
        )
        return loaded if len(loaded) > 1 else loaded[0]

    def _word(
        self, instruction: Instruction, threads: ThreadInterpreter, key: tuple[str, int]
    ) -> Value:
        statement: Statement = instruction.source
        bits, _ = type_of(statement.modifiers) or (64, False)
        if key[0] in self.packed and key not in self.parameters:
            word = self.packed[key[0]][key[1] : key[1] + bits // 8]
            return single_value(int.from_bytes(word, "little"))
        if key not in self.parameters:
            if statement.modifiers[-1][0] in "bsu" and key[0] in self.flow.relevant:
                threads.guess(f"{key[0]} is not known", instruction)
            return None
        return as_bits(single_value(self.parameters[key]), bits, signed=False)

    def _rows(
        self, instruction: Instruction, threads: ThreadInterpreter, base: Array
    ) -> Iterator[Array]:
        """Yield the requests of ``wmma.load`` and ``store``: 8 rows, each held by 4 adjacent lanes.

        Source: PTX ISA, the fragments of mma; and the LDG.E and STG.E.64 that ptxas makes of 16-bit
        factors and fp32 sums on sm_90, their lanes' addresses.
        """
        statement: Statement = instruction.source
        shape = re.search(r"m(\d+)n(\d+)k(\d+)", statement.opcode)
        sizes = dict(zip("mnk", map(int, shape.groups()))) if shape else {}
        axes = {"a": "mk", "b": "kn"}.get(statement.modifiers[1], "mn")
        outer, inner = (
            sizes[axis] for axis in (axes if "row" in statement.modifiers else axes[::-1])
        )
        element = int(re.findall(r"\d+", statement.modifiers[-1])[-1]) // 8
        stride = threads.value(self._operand(statement.operands[-1], threads))
        stride = single_value(inner) if stride is None else stride
        lanes = threads.threads[None, :] % _WARP
        assert instruction.memory is not None
        width = instruction.memory.width_bytes
        for row in range(0, outer, 8):
            for column in range(0, inner * element, 4 * width):
                ahead = (row + lanes // 4) * stride * element + column + lanes % 4 * width
                yield base + ahead

    def shared_accesses(
        self, accesses: SharedAccesses
    ) -> Iterable[tuple[Instruction, Value, Active, int]]:
        """Join loads side by side, of which ptxas makes one where they are aligned."""
        groups: dict[str, dict[int, _SharedAccess]] = {}
        for single_access in super().shared_accesses(accesses):
            run = self.shared_runs.get(single_access[0])
            if run is None or single_access[1] is None:
                yield single_access
            else:
                groups.setdefault(run[0], {})[run[1]] = single_access
        for group in groups.values():
            yield from _joined_to_double_width(_joined_to_double_width(group, 4), 8).values()

    # ------------------------------------------------------------------------- loops and costs

    def motion(self, instruction: Instruction, varying: frozenset[str]) -> Motion:
        """See `FrontEnd`."""
        statement: Statement = instruction.source
        name = statement.name
        if name in _PERIODIC and "pred" not in statement.modifiers:
            by_varying = name in ("rem", "div") and statement.operands[2] in varying
            return Motion.IRREGULAR if by_varying else Motion.PERIODIC
        if name in _STEADY:
            is_irregular = name == "ld" or _is_product(statement, varying)
            return Motion.IRREGULAR if is_irregular else Motion.STEADY
        return Motion.STEADY if name in _FLAGS else Motion.IRREGULAR

    def period(self, instruction: Instruction, values: Sequence[Array]) -> int:
        """See `FrontEnd`."""
        name = instruction.source.name
        if name in ("rem", "div"):
            numbers = np.unique(values[1])
            return max(int(numbers[0]), 1) if len(numbers) == 1 else 1 << 30
        if name == "shr":
            return 1 << min(int(np.max(values[1])), 40)
        if name == "bfe":
            return 1 << min(int(np.max(values[1] + values[2])), 40)
        fixed = [int(np.max(np.abs(value))) for value in values[1:] if value.size == 1]
        mask = max(fixed, default=1 << 30)
        if name == "and" and mask:
            flipped = ~mask & 0xFFFFFFFF
            mask = min(mask, flipped) if flipped & (flipped + 1) == 0 else mask
        return 1 << min(mask.bit_length(), 40)

    def cost(self, instruction: Instruction) -> Cost:
        """See `FrontEnd`."""
        statement: Statement = instruction.source
        waits = statement.name in ("bar", "barrier") and "warp" not in statement.modifiers
        products = warp_operations(statement) or described_operations(statement, self.constants)
        return Cost(lane_operations(statement), products, statement.name != "mov", waits)

    def chain_cycles(self, instructions: Sequence[Instruction]) -> float:
        """See `FrontEnd`."""
        return chain_of(instructions)


# -------------------------------------------------------------------------------------- arguments


def _parameter_memory(
    kernel: Kernel, arguments: Sequence[Argument], storages: Storages
) -> dict[tuple[str, int], int]:
    """Return parameter memory, by parameter and offset; adds the tensors' storages."""
    values: dict[tuple[str, int], int] = {}
    for parameter, argument in zip(kernel.parameters, arguments):
        if isinstance(argument, TensorArgument):
            values[parameter.name, 0] = storages.address_of(argument)
            if (
                parameter.is_struct and parameter.size_bytes > _POINTER_BYTES
            ):  # at::PackedTensorAccessor: a pointer, sizes, strides
                values |= _accessor(parameter.name, parameter.size_bytes, argument)
        elif isinstance(argument, PackedArgument):
            for offset, tensor in argument.tensors.items():
                if not tensor.block:
                    values[parameter.name, offset] = storages.address_of(tensor)
        elif isinstance(argument, int):
            values[parameter.name, 0] = int(argument)
    return values


def _tensors_of(
    kernel: Kernel, arguments: Sequence[Argument]
) -> Iterator[tuple[str, int, TensorArgument]]:
    """Yield the tensors of parameters: name, offset in it, tensor."""
    for parameter, argument in zip(kernel.parameters, arguments):
        if isinstance(argument, TensorArgument):
            yield parameter.name, 0, argument
        elif isinstance(argument, PackedArgument):
            yield from ((parameter.name, offset, t) for offset, t in argument.tensors.items())


def _constants_of(kernel: Kernel) -> dict[str, int]:
    """Return the numbers that registers hold throughout."""
    written = Counter(name for i in kernel.flow.instructions for name in i.written)
    moves = (s.operands for s in kernel.statements if s.name == "mov" and len(s.operands) > 1)
    return {
        register: int(value, 0) & 0xFFFFFFFF
        for register, value in moves
        if written[register] == 1 and re.fullmatch(r"-?(0[xX][\da-fA-F]+|\d+)", value)
    }


def _is_unread_bulk(statement: Statement) -> bool:
    """Tell whether it is a bulk copy of global memory that is not read."""
    if statement.name != "cp" or "bulk" not in statement.modifiers:
        return False
    is_copy = "global" in statement.modifiers and "prefetch" not in statement.modifiers
    return is_copy and bulk_copy_of(statement) is None


def _accessor(name: str, size_bytes: int, tensor: TensorArgument) -> dict[tuple[str, int], int]:
    numbers = (*tensor.shape, *tensor.strides)
    width = (size_bytes - 8) // max(len(numbers), 1)
    return {(name, 8 + i * width): number for i, number in enumerate(numbers)}


def _variable_addresses(kernel: Kernel, storages: Storages) -> dict[str, int]:
    """Return the address of each variable: in its memory, or a storage of its own."""
    places: dict[str, int] = {}
    for number, symbol in enumerate(kernel.symbols.values()):
        if symbol.space == "shared":
            places[symbol.name] = symbol.offset
        elif symbol.space == "global":
            variable = TensorArgument(-1 - number, symbol.size_bytes, 0, (), (), 1)
            places[symbol.name] = storages.address_of(variable)
        elif symbol.space == "local":
            places[symbol.name] = WINDOWS["local"] << ADDRESS_BITS
        else:
            places[symbol.name] = 0
    return places


def _special_register(threads: ThreadInterpreter, name: str, axis: int) -> Array:
    grid, block = threads.grid, threads.block_at[axis]
    cluster = grid.cluster[axis]
    values: Mapping[str, Callable[[], Array]] = {
        "tid": lambda: threads.thread_at[axis],
        "ctaid": lambda: block,
        "ntid": lambda: single_value(grid.threads[axis]),
        "nctaid": lambda: single_value(grid.blocks[axis]),
        "clusterid": lambda: block // cluster,
        "nclusterid": lambda: single_value(grid.blocks[axis] // cluster),
        "cluster_ctaid": lambda: block % cluster,
        "cluster_nctaid": lambda: single_value(cluster),
    }
    return values[name]()


def _cluster_rank(threads: ThreadInterpreter) -> Array:
    """Return the number of each block in its cluster, x fastest."""
    x, y, z = (at % size for at, size in zip(threads.block_at, threads.grid.cluster))
    rank: Array = x + threads.grid.cluster[0] * (y + threads.grid.cluster[1] * z)
    return rank


# -------------------------------------------------------------------------------------- semantics


def _packed_halves(bits: int, low: Array, high: Array) -> Array:
    """``mov.b64 %rd1, {%r1, %r2}``."""
    packed: Array = low | high << bits
    return packed


def _unpacked_halves(bits: int, value: Array) -> tuple[Array, Array]:
    """``mov.b64 {%r1, %r2}, %rd1``."""
    return as_bits(value, bits, signed=False), as_bits(value >> bits, bits, signed=False)


def _conversion(modifiers: Sequence[str]) -> Callable[[Array], Array]:
    """``cvta``: between an address in its own memory and a generic one."""
    space = next((space for space in WINDOWS if space in modifiers), "")
    if not space or space == "local":
        return lambda value: value
    window = WINDOWS[space] << ADDRESS_BITS
    return lambda value: value - window if "to" in modifiers else value + window


def _shuffled(threads: Array, is_indexed: bool, value: Value, lane: Value, *_: Value) -> Value:
    """``shfl.idx`` from one lane for all; other exchanges are unknown."""
    if value is None or value.shape[1] == 1:  # all threads of a block agree
        return value
    if lane is None or lane.size != 1 or not is_indexed:
        return None
    lanes = np.minimum(threads // _WARP * _WARP + int(lane.flat[0]), threads[-1])
    source = np.searchsorted(threads, lanes)
    if (threads[source] != lanes).any():  # not among the followed
        return None
    shuffled: Array = value[:, source]
    return shuffled


def _joined_flags(name: str, compute: Callable[..., Array], *values: Value) -> Value:
    """Join two flags; ``false and x`` and ``true or x`` are known although x is not."""
    operands = [value for value in values if value is not None]
    if len(operands) == len(values):
        return compute(*operands)
    decided = 0 if name == "and" else 1
    is_decided = bool(operands) and operands[0].size == 1 and operands[0].flat[0] == decided
    return operands[0] if is_decided else None


def _memory_space(statement: Statement) -> str:
    """Return the memory that an instruction accesses; empty if its address decides."""
    if statement.name == "cp":
        return "global"  # from there
    for modifier in statement.modifiers:
        if modifier in ("global", "local", "const") or modifier.startswith("shared"):
            return modifier.partition("::")[0]
    return ""


def _is_product(statement: Statement, varying: frozenset[str]) -> bool:
    """Tell whether it multiplies two varying factors, or keeps a product's upper half."""
    if statement.name not in ("mul", "mad", "shl"):
        return False
    factors = [name for name in statement.operands[1:3] if name in varying]
    if not factors:
        return False
    by_shift = statement.name == "shl" and statement.operands[2] in varying
    return len(factors) > 1 or "hi" in statement.modifiers or by_shift


# ------------------------------------------------------------------------------ shared memory

_SharedAccess = tuple[Instruction, Value, Active, int]


def _shared_runs(flow: ControlFlow) -> dict[Instruction, tuple[str, int]]:
    """Return the loads that may be side by side: a key for those of one base, and the offset."""
    runs: dict[Instruction, tuple[str, int]] = {}
    for block in flow.blocks:
        parted = 0
        for instruction in block.instructions:
            statement: Statement = instruction.source
            parted += statement.name in ("bar", "barrier", "st", "atom", "red", "cp", "call")
            memory = next(filter(None, map(ADDRESS.search, statement.operands)), None)
            use = instruction.memory
            if statement.name == "ld" and memory and use and not use.width_bytes % 4:
                base = f"{statement.guard} {memory.group(1)} {parted} {block.number}"
                runs[instruction] = (base, int(memory.group(2) or "0", 0))
    return runs


def _joined_to_double_width(
    group: Mapping[int, _SharedAccess], width: int
) -> dict[int, _SharedAccess]:
    """Join accesses of a width whose other half is there as well, by offset, to twice the width."""
    merged = dict(group)
    for at in sorted(group):
        low, high = merged.get(at), merged.get(at + width)
        if low is None or high is None or low[3] != width or high[3] != width:
            continue
        instruction, addresses, active, _ = low
        if addresses is not None and not (addresses % (2 * width)).any():
            merged[at] = (instruction, addresses, active, 2 * width)
            del merged[at + width]
    return merged
