"""Steps of a warp for operations on whole tensors: exchanges, conversions, products.

The constants are counts in the machine code that ptxas makes for sm_90.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solkit.adapters.triton_ir import Operation, TensorType, element_bits
from solkit.analysis.triton.layouts import Spread, tensor_spread


@dataclass(frozen=True)
class Step:
    """Instructions of one kind that do not depend on each other, or in a chain.

    Attributes:
        kind: of `solkit.analysis.common.instruction_kinds.KINDS`.
        count: of one warp.
        serial: how many of them follow one another.
        width: bytes that a thread moves with one.
        opcode: of tensor cores.
        cycles: until a result is there; 0 for what its kind takes.
        whole: 1 if the next step needs all results, 0 if it can begin with the first.
    """

    kind: str
    count: float
    serial: float = 1.0
    width: int = 0
    opcode: str = ""
    cycles: float = 0.0
    whole: int = 0


def spread_of(kind: TensorType) -> Spread | None:
    """Return how a tensor spreads over threads; ``None`` if its layout is unknown."""
    try:
        return tensor_spread(kind)
    except (ValueError, KeyError):
        return None


def elements_per_thread(kind: TensorType, warps: int) -> float:
    """Count elements of a thread."""
    layout = spread_of(kind)
    if layout is not None:  # equal elements are computed once
        return float(1 << sum(any(basis) for basis in layout.registers))
    return max(_warps_with_copies(kind) * math.prod(kind.shape) / (32 * warps), 1.0)


def _warps_with_copies(kind: TensorType) -> int:
    """Count the warps that hold the same elements of an operand of ``mma.sync``."""
    layout = kind.layout
    if layout is None or layout.kind != "dot_op" or layout.parent is None:
        return 1
    if dict(layout.parent.numbers).get("versionMajor", (2,))[0] == 3:
        return 1
    (side,) = layout.ints("opIdx")
    return dict(layout.parent.numbers).get("warpsPerCTA", (1, 1))[-1 - side]


def words_of(kind: TensorType, warps: int) -> float:
    """Return the registers that a thread needs for a tensor."""
    return elements_per_thread(kind, warps) * element_bits(kind.element) / 32


def in_a_row(kind: TensorType) -> int:
    """Count neighbouring elements that a thread holds; 1 if the layout is unknown."""
    layout = spread_of(kind)
    return layout.in_a_row if layout is not None else 1


# ---------------------------------------------------------------------------------------- several


def converted(operation: Operation, held: float) -> Iterator[Step]:
    """Between floats. Two numbers of 16 bits, or four of 8, are packed at once."""
    before, after = operation.all_types[0].element, operation.result_type.element
    small = min(element_bits(before), element_bits(after))
    if "f64" in (before, after):
        yield Step("convert", 2 * held)
    elif small == 8:
        yield Step("convert", held / 2)
        if element_bits(before) == 8 and element_bits(after) == 32:
            yield Step("fp16", held)
    elif element_bits(after) == 16:
        yield Step("convert", held / 2)
    elif before == "bf16":
        yield Step("int32", held)
    else:
        yield Step("fp16", held)


def _combining(operation: Operation) -> float:
    """Count instructions that combine two elements."""
    inner = [operation for block in operation.blocks for operation in block.operations]
    computing = [
        operation for operation in inner if not operation.name.endswith((".return", "yield"))
    ]
    logic = sum(
        operation.name in ("arith.andi", "arith.ori", "arith.xori") for operation in computing
    )
    return max(len(computing) - logic, 1)


def exchanged(operation: Operation, warps: int) -> Iterator[Step]:
    """Yield a reduction or scan: within threads, between lanes, between warps."""
    kind = operation.all_types[0]
    axis = operation.attribute("axis") or 0
    values = max(len(operation.results), 1)
    per_element = _combining(operation)
    pipe = "fp32" if kind.element.startswith(("f", "bf")) else "int32"
    layout = spread_of(kind)
    if layout is None:
        yield Step(pipe, math.prod(kind.shape) / (32 * warps) * per_element)
        return
    along = 1 << sum(bool(basis[axis]) for basis in layout.registers)
    others = layout.per_thread / along
    lanes = sum(bool(basis[axis]) for basis in layout.lanes)
    across = sum(bool(basis[axis]) for basis in layout.warps)
    is_scan = operation.name == "tt.scan"
    if is_scan:  # each run of neighbours is scanned by itself
        run = min(layout.in_a_row if layout.row_dimension == axis else 1, along)
        others, along = others * along / run, run
    words = max(
        sum(element_bits(operand_type.element) for operand_type in _operand_types(operation)) / 32,
        values,
    )
    kept = layout.per_thread if is_scan else others
    yield Step(pipe, (along - 1) * others * per_element, (along - 1) * per_element, whole=1)
    for _ in range(lanes):
        yield Step("warp", others * words)
        yield Step(pipe, others * per_element * (2 if is_scan else 1), per_element)
    if is_scan:
        yield Step("warp", others * words * bool(lanes))
        yield Step(pipe, kept * per_element * bool(lanes))
    if not across:
        return
    yield Step("int32", 6)
    yield Step("shared_store", others * values, width=4)
    yield Step("barrier", 1, cycles=25)
    yield Step("shared_load", values * max(others * (1 << across) / 32, 1), width=4)
    for _ in range(across):
        yield Step("warp", words)
        yield Step(pipe, per_element, per_element)
    yield Step("shared_store", values, width=4)
    yield Step("barrier", 1, cycles=25)
    yield Step("shared_load", others * values, width=4)
    if is_scan:
        yield Step(pipe, kept * per_element)


def _operand_types(operation: Operation) -> Sequence[TensorType]:
    return operation.all_types[: max(len(operation.results), 1)]


def is_through_shared(operation: Operation) -> bool:
    """Tell whether a conversion needs other warps' elements: within a warp, lanes exchange them.

    Source: triton/lib/Analysis/Utility.cpp, cvtNeedsSharedMemory.
    """
    before, after = operation.all_types[0], operation.result_type
    if _stays_in_registers(before, after):
        return False
    one, other = spread_of(before), spread_of(after)
    if one is None or other is None:
        return True
    if not any(map(any, (*one.lanes, *one.warps))):  # each thread has all
        return False
    alike = list(map(any, one.lanes)) == list(map(any, other.lanes))
    return one.warps != other.warps or not alike


def through_shared(operation: Operation, warps: int) -> Iterator[Step]:
    """Yield a store and a load in another layout, or an exchange within a warp."""
    before, after = operation.all_types[0], operation.result_type
    one, other = spread_of(before), spread_of(after)
    if _stays_in_registers(before, after) or (one is not None and one == other):
        return
    if operation.name == "ttg.convert_layout" and not is_through_shared(operation):
        assert one is not None
        moves = one.lanes != other.lanes and any(map(any, one.lanes)) if other else False
        words = max(words_of(before, warps), words_of(after, warps))
        yield Step("warp", words * moves)
        yield Step("move", words)
        return
    row_out, row_in = in_a_row(before), in_a_row(after)
    bits = element_bits(before.element)
    out = words_of(before, warps) / max(min(row_out * bits / 32, 4), bits / 32)
    if bits == 16 and before.layout is not None and before.layout.kind == "nvidia_mma":
        out = words_of(before, warps) / 4  # PTX ISA, stmatrix
    back = words_of(after, warps) / max(min(row_in * bits / 32, 4), bits / 32)
    yield Step("int32", 10)
    yield Step("barrier", 1, cycles=25)
    yield Step("shared_store", out, width=4)
    yield Step("barrier", 1, cycles=25)
    yield Step("shared_load", back, width=4)


def histogram(operation: Operation, warps: int) -> Iterator[Step]:
    """Let lanes count their bins by ballots of each element's bits; then warps add theirs.

    Source: triton/lib/Conversion/TritonGPUToLLVM/HistogramOpToLLVM.cpp.
    """
    elements = elements_per_thread(operation.all_types[0], warps)
    bins = math.prod(operation.result_type.shape)
    bits, own = max(bins.bit_length() - 1, 1), max(bins / 32, 1)
    yield Step("warp", elements * bits)
    yield Step("int32", elements * (2 * bits + 4 * own))
    yield Step("shared_atomic", own, width=4)
    yield Step("barrier", 2, 2, cycles=25)
    yield Step("shared_load", own, width=4)


def _stays_in_registers(before: TensorType, after: TensorType) -> bool:
    """Tell whether accumulators become operands in the registers where they are."""
    layout = after.layout
    return layout is not None and layout.kind == "dot_op" and layout.parent == before.layout


def gathered(operation: Operation, warps: int) -> Iterator[Step]:
    """Yield shuffles if a warp has whole rows: each register of the source, for each index."""
    source, axis = operation.all_types[0], operation.attribute("axis") or 0
    layout = spread_of(source)
    if layout is None or any(basis[axis] for basis in layout.warps):
        yield from through_shared(operation, warps)
        return
    elements = elements_per_thread(operation.result_type, warps)
    along = 1 << sum(bool(basis[axis]) for basis in layout.registers)
    yield Step("warp", elements * along)
    yield Step("int32", elements * along)
    yield Step("move", 0.5 * elements * along)


def matrix_product(operation: Operation, warps: int) -> Iterator[Step]:
    """Yield the steps of a product, on tensor cores or by multiplications of its threads."""
    tensors = [kind for kind in operation.all_types if len(kind.shape) >= 2]
    a, b, result = tensors[0], tensors[1], tensors[-1]
    products = math.prod(a.shape) * b.shape[-1]
    if result.layout is not None and result.layout.kind in ("blocked", "linear"):
        pipe = "fp64" if a.element == "f64" else "fp32"
        yield Step(pipe, products / (32 * warps), a.shape[-1], whole=1)
        return
    deep = 256 // max(element_bits(a.element), 8)
    if operation.name == "ttng.warp_group_dot":
        assert result.layout is not None
        columns = result.layout.ints("instrShape")[1]
        count = products / (64 * columns * deep) / max(warps / 4, 1)
        yield Step("uniform", 4 * count, 1)
        yield Step("barrier", 1)
        yield Step("tensor", count, count, opcode="HGMMA", cycles=max(columns / 2, 16.0))
        return
    passes = 3 if operation.attribute("inputPrecision") == 1 and a.element == "f32" else 1
    opcode = "HMMA"
    count = passes * products / (16 * 8 * deep) / warps
    yield Step("tensor", count, a.shape[-1] / deep * passes, opcode=opcode)
