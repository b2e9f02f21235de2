"""The instructions of a warp that an operation of the IR becomes, estimated.

The constants are counts in the machine code that ptxas makes for sm_90.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator

from solkit.adapters.triton_ir import Function, Operation, TensorType, element_bits
from solkit.analysis.triton.coalescing import access_runs
from solkit.analysis.triton.exchanges import (
    Step,
    converted,
    elements_per_thread,
    exchanged,
    gathered,
    histogram,
    in_a_row,
    matrix_product,
    spread_of,
    through_shared,
    words_of,
)
from solkit.analysis.triton.operations import DOTS, libdevice_function
from solkit.analysis.triton.relevance import ACCESSES

_FREE = {
    *("arith.constant", "tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.reshape"),
    *("tt.trans", "tt.make_range", "ttg.memdesc_subview", "ttg.memdesc_index", "ttg.memdesc_trans"),
    *("ttg.memdesc_reinterpret", "scf.yield", "tt.bitcast", "arith.bitcast", "tt.return"),
    *("arith.negf", "math.absf", "arith.index_cast", "arith.extsi", "tt.split", "tt.join"),
    *("ttg.local_dealloc", "tt.reduce.return", "tt.scan.return", "scf.if", "scf.condition"),
    *("tt.call", "llvm.intr.assume", "tt.assert", "tt.ptr_to_int", "tt.int_to_ptr", "tt.cat"),
}
"""Operations that become no instruction, constants or modifiers of others."""

_FLOATS: dict[str, tuple[tuple[str, float], ...]] = {
    "arith.addf": (("fp32", 1),),
    "arith.subf": (("fp32", 1),),
    "arith.mulf": (("fp32", 1),),
    "math.fma": (("fp32", 1),),
    "arith.maxnumf": (("fp32", 1),),
    "arith.minnumf": (("fp32", 1),),
    "arith.maximumf": (("fp32", 1),),
    "arith.minimumf": (("fp32", 1),),
    "tt.clampf": (("fp32", 2),),
    "arith.cmpf": (("fp32", 1),),
    "arith.select": (("fp32", 1),),
    "arith.divf": (("fp32", 5), ("sfu", 1), ("fp32", 2)),
    "tt.approx_divf": (("fp32", 3), ("sfu", 1), ("fp32", 2)),
    "tt.precise_divf": (("fp32", 2), ("sfu", 1), ("fp32", 6), ("branch", 3)),
    "math.exp": (("fp32", 3), ("sfu", 1), ("fp32", 1)),
    "math.exp2": (("fp32", 2), ("sfu", 1), ("fp32", 1)),
    "math.log": (("fp32", 2), ("sfu", 1), ("fp32", 2)),
    "math.log2": (("fp32", 2), ("sfu", 1), ("fp32", 1)),
    "math.rsqrt": (("fp32", 2), ("sfu", 1), ("fp32", 1)),
    "math.sqrt": (("fp32", 2), ("sfu", 1), ("fp32", 1)),
    "tt.precise_sqrt": (("int32", 2), ("sfu", 1), ("fp32", 5), ("branch", 3)),
    "math.sin": (("fp32", 12), ("int32", 10)),
    "math.cos": (("fp32", 12), ("int32", 10)),
    "math.tanh": (("fp32", 6), ("sfu", 2), ("fp32", 6)),
    "math.erf": (("fp32", 14), ("sfu", 1), ("fp32", 8)),
    "math.floor": (("convert", 1),),
    "math.ceil": (("convert", 1),),
    "arith.sitofp": (("convert", 1),),
    "arith.uitofp": (("convert", 1),),
    "arith.fptosi": (("convert", 1),),
    "arith.fptoui": (("convert", 1),),
}
"""By element. Numbers that MUFU does not take as they are, are scaled before and after it."""

_EXTERN = {"tanh": "math.tanh", "erf": "math.erf", "exp": "math.exp", "log": "math.log"}
_EXTERN |= {"rsqrt": "math.rsqrt", "sqrt": "math.sqrt", "sin": "math.sin", "cos": "math.cos"}
_EXTERN |= {"fma": "math.fma", "log2": "math.log2", "exp2": "math.exp2", "pow": "math.tanh"}

_ADDED = {"arith.addi", "arith.subi", "tt.addptr", "arith.muli", "arith.shli"}
_DIVISIONS = {
    *("arith.divsi", "arith.remsi", "arith.divui", "arith.remui", "arith.ceildivsi"),
    *("arith.floordivsi", "arith.ceildivui"),
}
_BY_CONSTANT, _BY_NUMBER = 4, 24
"""Instructions of a division, by a constant and otherwise."""
_PLAIN = ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas")
_RUN = 8
"""Elements in a row that share one address and mask at most."""

Spreads = tuple[int, ...]
"""Along each dimension, values of a thread that do not follow from each other by a constant."""


@functools.lru_cache(maxsize=2)  # as `solkit.adapters.triton_ir.parse_module`
def steps_of(function: Function) -> Steps:
    """Return the steps of a kernel's operations, once for all who ask."""
    return Steps(function)


class Steps:
    """The steps of a kernel's operations.

    Integers of a thread that differ by constants are one register: the constants go into the
    instructions that use them. `spreads` says along each dimension how many there are.
    """

    def __init__(self, function: Function) -> None:
        self.warps = function.warps_of_32
        self.constants: dict[str, int] = {}
        self.uses: dict[str, int] = {}
        self.made: dict[str, Operation] = {}
        self.spreads: dict[str, Spreads] = {}
        self.known: dict[Operation, tuple[Step, ...]] = {}
        self.seen: dict[tuple[object, ...], str] = {}
        self.runs = access_runs(function)
        everything = [operation for block in function.blocks for operation in block.walk()]
        for operation in everything:
            self.made |= dict.fromkeys(operation.results, operation)
            for name in operation.operands:
                self.uses[name] = self.uses.get(name, 0) + 1
            if operation.name == "arith.constant":
                number = re.match(r"(?:dense<)?(-?\d+)>?(?:\s|$|,|\{)", operation.text + " ")
                if number:
                    self.constants[operation.results[0]] = int(number[1])
        for operation in everything:
            if operation.name == "scf.for":
                loop = operation.loop
                for name, start in zip(loop.names, loop.starts, strict=True):
                    self.spreads[name] = self.spreads.get(start, ())
            self.known[operation] = tuple(step for step in self._steps(operation) if step.count > 0)

    def of(self, operation: Operation) -> tuple[Step, ...]:
        """Return the steps in the order in which a warp takes them."""
        return self.known[operation]

    def _steps(self, operation: Operation) -> Iterator[Step]:
        name = operation.name
        whole = _is_whole(operation)
        if whole:
            self._follow(operation)
        if name in _FREE or not (operation.results or operation.all_types):
            yield Step("barrier", float(name in ("gpu.barrier", "ttg.barrier")))
        elif name in DOTS:
            yield from matrix_product(operation, self.warps)
        elif name in ("tt.reduce", "tt.scan"):
            yield from exchanged(operation, self.warps)
        elif name in _PLAIN and operation.all_types[0].element.startswith("!tt.ptr"):
            yield from self._access(operation)
        elif name.startswith(("ttg.", "ttng.", "nvws.", "tt.descriptor")):
            yield from self._shared(operation)
        elif name == "tt.histogram":
            yield from histogram(operation, self.warps)
        elif name == "tt.gather":
            yield from gathered(operation, self.warps)
        elif whole:
            yield from self._integers(operation)
        else:
            yield from self._floats(operation)

    # ---------------------------------------------------------------------------------- integers

    def _follow(self, operation: Operation) -> None:
        """Count the registers that the integers of a result take along each dimension."""
        name, results = operation.name, operation.results
        if len(results) != 1:
            return
        kind = operation.result_type
        if not kind.shape:
            self.spreads[results[0]] = ()
            return
        full = _registers_along(kind)
        inputs = [self.spreads.get(operand) for operand in operation.operands]
        if name in ("tt.make_range", "tt.splat", "arith.constant"):
            self.spreads[results[0]] = (1,) * len(full)
        elif name == "tt.expand_dims":
            axis = operation.attribute("axis") or 0
            before = (
                inputs[0] if inputs and inputs[0] is not None else full[:axis] + full[axis + 1 :]
            )
            self.spreads[results[0]] = (*before[:axis], 1, *before[axis:])
        elif name in ACCESSES or name in ("tt.reduce", "tt.scan", "tt.gather"):
            self.spreads[results[0]] = full
        elif name in ("tt.reshape", "tt.trans", "ttg.convert_layout", "tt.join", "tt.split"):
            plain = inputs and inputs[0] is not None and max(inputs[0], default=1) == 1
            self.spreads[results[0]] = (1,) * len(full) if plain else full
        else:
            ranked = [
                operand_spread
                for operand_spread in inputs
                if operand_spread is not None and len(operand_spread) == len(full)
            ]
            spread = (
                [max(along_axis) for along_axis in zip(*ranked, strict=True)]
                if ranked
                else list(full)
            )
            if not self._keeps(operation):
                varying = self._varying(operation, len(full))
                spread = [f if v else 1 for f, v in zip(full, varying, strict=True)]
            self.spreads[results[0]] = tuple(min(a, b) for a, b in zip(spread, full, strict=True))

    def _keeps(self, operation: Operation) -> bool:
        """Tell whether results differ by constants if operands do."""
        if operation.name in ("arith.muli", "arith.shli"):
            return any(self._is_constant(operand) for operand in operation.operands)
        return operation.name in (
            *_ADDED,
            "tt.broadcast",
            "arith.extsi",
            "arith.extui",
            "arith.trunci",
        )

    def _is_constant(self, name: str) -> bool:
        maker = self.made.get(name)
        if maker is not None and maker.name == "tt.splat":
            return self._is_constant(maker.operands[0])
        return name in self.constants

    def _varying(self, operation: Operation, rank: int) -> list[bool]:
        """Return the dimensions along which a value differs at all."""
        varying = [False] * rank
        for name in operation.operands:
            varied = self._varied(name, rank, 0)
            varying = [a or b for a, b in zip(varying, varied, strict=True)]
        return varying

    def _varied(self, name: str, rank: int, deep: int) -> list[bool]:
        maker = self.made.get(name)
        if maker is None or deep > 6:
            return [True] * rank
        if maker.name in ("tt.splat", "arith.constant"):
            return [False] * rank
        if maker.name == "tt.broadcast":
            shape = maker.all_types[0].shape
            inner = self._varied(maker.operands[0], rank, deep + 1)
            return [size > 1 and v for size, v in zip(shape, inner, strict=True)]
        kind = maker.result_type if len(maker.results) == 1 else None
        if kind is None or len(kind.shape) != rank:
            return [True] * rank
        if maker.name in (*_ADDED, *_DIVISIONS, "arith.cmpi", "arith.andi", "arith.ori"):
            operands = [self._varied(inner, rank, deep + 1) for inner in maker.operands]
            return [any(along_axis) for along_axis in zip(*operands, strict=True)]
        return [size > 1 for size in kind.shape]

    def _integers(self, operation: Operation) -> Iterator[Step]:
        name = operation.name
        kind = operation.result_type if operation.results else operation.all_types[0]
        key = (name, operation.operands, operation.text)
        if not operation.results or (key in self.seen and name not in ("tt.get_program_id",)):
            return
        self.seen[key] = operation.results[0]
        wide = 2 if element_bits(kind.element) == 64 else 1
        if not kind.shape:
            count = self._division(operation) if name in _DIVISIONS else wide
            yield Step("uniform" if name not in _DIVISIONS else "int32", count)
            return
        registers = math.prod(self.spreads.get(operation.results[0], (1,)))
        if name in _DIVISIONS:
            yield Step(
                "int32", registers * self._division(operation), self._division(operation) / 2
            )
        elif name == "arith.cmpi":
            yield Step("int32", 1.5 * registers)
        elif name == "tt.addptr":  # the sum goes into the access's own address
            yield Step("int32", 2.0 * registers)
        elif kind.element == "i1":
            yield Step("int32", 0.5 * registers)  # predicates combine within comparisons
        else:
            yield Step("int32", wide * registers)

    def _division(self, operation: Operation) -> float:
        constant = operation.operands and self._is_constant(operation.operands[-1])
        return _BY_CONSTANT if constant else _BY_NUMBER

    # ----------------------------------------------------------------------------------- floats

    def _floats(self, operation: Operation) -> Iterator[Step]:
        name, kind = operation.name, operation.result_type
        elements = elements_per_thread(kind, self.warps) if kind.shape else 1
        if name == "tt.extern_elementwise":
            name = _EXTERN.get(libdevice_function(operation), "math.tanh")
        if name in ("arith.truncf", "arith.extf", "tt.fp_to_fp"):
            yield from converted(operation, elements)
            return
        if name == "arith.mulf" and self._is_fused(operation):
            return
        wide = kind.element == "f64"
        for pipe, count in _FLOATS.get(name, (("fp32", 1.0),)):
            yield Step("fp64" if wide and pipe == "fp32" else pipe, count * elements, count)

    def _is_fused(self, operation: Operation) -> bool:
        """Tell whether a product goes into a sum: LLVM contracts the two."""
        result = operation.results[0]
        if self.uses.get(result, 0) != 1:
            return False
        return result in self._summed

    @property
    def _summed(self) -> set[str]:
        if not hasattr(self, "_summed_names"):
            self._summed_names = {
                name
                for operation in self.made.values()
                if operation.name in ("arith.addf", "arith.subf")
                for name in operation.operands
            }
        return self._summed_names

    # --------------------------------------------------------------------------------- accesses

    def _access(self, operation: Operation) -> Iterator[Step]:
        kind = operation.all_types[0]
        elements = elements_per_thread(kind, self.warps) if kind.shape else 1
        bits = kind.pointee_bits
        if operation.name.startswith("tt.atomic"):
            adds = "fadd" in operation.text and not self.uses.get(operation.results[0], 0)
            in_one = self._in_one(operation) if adds else 1  # PTX ISA, red: vectors on sm_90
            yield Step("global_atomic", elements / in_one, width=max(in_one * bits // 8, 1))
            return
        in_one = self._in_one(operation)
        width = max(in_one * bits // 8, 1)
        words = elements * bits / 32
        if operation.name == "tt.store":
            packing = words if bits < 32 and in_one * bits > bits else 0
            yield Step("move", 0.5 * packing)
            yield Step("global_store", elements / in_one, width=width)
            return
        masked = len(operation.operands) > 1
        yield Step("move", 0.5 * words * masked)
        yield Step("global_load", elements / in_one, width=width)

    def _in_one(self, operation: Operation) -> int:
        """Count elements that one access moves: those in a row, aligned, that share a mask."""
        kind = operation.all_types[0]
        if not kind.shape:
            return 1
        bits = kind.pointee_bits
        aligned = self.runs.get(operation, 1) or 1 << 30
        return min(in_a_row(kind), max(128 // bits, 1), aligned)

    def _shared(self, operation: Operation) -> Iterator[Step]:
        name = operation.name
        if name == "ttg.convert_layout":
            yield from through_shared(operation, self.warps)
        elif name == "ttg.async_copy_global_to_local":
            kind = operation.all_types[0]
            bits = kind.pointee_bits
            in_one = self._in_one(operation)
            yield Step(
                "async_copy",
                elements_per_thread(kind, self.warps) / in_one,
                width=in_one * bits // 8,
            )
        elif name == "ttg.local_load":
            words = words_of(operation.result_type, self.warps)
            yield Step("shared_load", max(words / 4, 1), width=16)
        elif name == "ttg.local_store" or (name == "ttg.local_alloc" and operation.operands):
            words = words_of(operation.all_types[0], self.warps)
            yield Step("shared_store", max(words / 4, 1), width=16)
            yield Step("barrier", 1, cycles=25)
        elif name == "ttg.async_commit_group":
            yield Step("barrier", 1)
        elif name == "ttg.async_wait":
            yield Step("barrier", 2, cycles=25)
        elif name == "ttng.warp_group_dot_wait":
            yield Step("barrier", 1)
        elif name in ("ttng.wait_barrier", "nvws.wait"):
            yield Step("barrier", 3)
            yield Step("branch", 2)
        elif name.startswith("ttng.async_tma") or name.startswith("tt.descriptor"):
            yield Step("uniform", 8)
            yield Step("tma", 1)
        elif name.startswith("ttng."):
            yield Step("uniform", 3)
            yield Step("barrier", 1)


def _is_whole(operation: Operation) -> bool:
    if not operation.results and not operation.all_types:
        return False
    kind = operation.result_type if operation.results and operation.all_types else None
    if kind is None:
        return not operation.results or operation.types == ""
    if operation.name == "arith.cmpf":
        return False
    if operation.name in ("arith.fptosi", "arith.fptoui"):
        return False
    return kind.element.startswith(("i", "!tt.ptr"))


def _registers_along(kind: TensorType) -> Spreads:
    """Return a thread's registers along each dimension; those in a row count as one."""
    layout = spread_of(kind)
    if layout is None:
        return (1,) * len(kind.shape)
    registers = [
        1 << sum(bool(basis[dim]) for basis in layout.registers) for dim in range(len(kind.shape))
    ]
    row = layout.row_dimension
    registers[row] = max(registers[row] // min(layout.in_a_row, _RUN), 1)
    return tuple(registers)
