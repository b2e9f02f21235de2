"""A warp's own pace, against issue times counted by hand."""

from __future__ import annotations

import pytest

from solkit.adapters.sass import Block, Code, Instruction
from solkit.analysis.common.warp_throughput import MEMORY_CYCLES, paces_of
from solkit.core import Pace


def block(text: str, depth: int = 0, successors: tuple[int, ...] = ()) -> Block:
    """A block of one instruction a line: ``@P0 FADD R1, R2, R3``."""
    results = []
    for number, line in enumerate(line.strip() for line in text.strip().splitlines()):
        words = line.split(maxsplit=1)
        predicate = words[0][1:] if line.startswith("@") else ""
        opcode, *rest = words[1].split(maxsplit=1) if predicate else words
        operands = tuple(part.strip() for part in rest[0].split(",")) if rest else ()
        results.append(Instruction(16 * number, predicate, opcode, operands))
    return Block(tuple(results), successors, depth)


def pace(*blocks: Block, depth: int = 0) -> Pace:
    results = {pace.depth: pace for pace in paces_of(Code("f", blocks, 0))}
    return results[depth]


def test_independent_arithmetic_issues_every_cycle() -> None:
    text = "\n".join(f"FFMA R{n}, R100, R101, R102" for n in range(8))
    assert pace(block(text)).cycles == 8


def test_dependent_arithmetic_waits_four_cycles_each() -> None:
    text = "\n".join(["FFMA R0, R0, R1, R2"] * 4)
    assert pace(block(text)).cycles == 3 * 4 + 1  # issued at 0, 4, 8 and 12


def test_a_result_used_as_a_predicate_takes_longer() -> None:
    assert pace(block("ISETP.GE.AND P0, PT, R0, R1, PT\n@P0 FADD R2, R3, R4")).cycles == 12 + 1


def test_loads_that_are_under_way_together_cost_one_trip() -> None:
    loads = [f"LDG.E R{n}, desc[UR4][R{20 + 2 * n}.64]" for n in range(4)]
    result = pace(block("\n".join([*loads, "FADD R8, R0, R1", "FADD R9, R2, R3"])))
    # loads at 0, 4, 8 and 12; the first sum waits for the load of 4, the next for that of 12
    assert result.trips == pytest.approx((MEMORY_CYCLES + 4 - 16 + 7) / MEMORY_CYCLES, abs=1e-3)
    assert result.cycles == 4 * 4 + 2


def test_a_load_after_its_forerunners_use_costs_another_trip() -> None:
    text = "LDG.E R0, [R20.64]\nFADD R8, R8, R0\nLDG.E R1, [R22.64]\nFADD R8, R8, R1"
    assert pace(block(text)).trips == pytest.approx(
        2 * (MEMORY_CYCLES - 4) / MEMORY_CYCLES, abs=1e-3
    )


def test_a_load_whose_address_was_loaded_waits_for_it() -> None:
    text = "LDG.E.64 R2, [R20.64]\nLDG.E R4, [R2.64]\nFADD R5, R4, R4"
    assert pace(block(text)).trips == pytest.approx(
        2 * (MEMORY_CYCLES - 4) / MEMORY_CYCLES, abs=1e-3
    )


def test_every_register_of_a_wide_load_is_awaited() -> None:
    text = "LDG.E.128 R4, [R20.64]\nFADD R0, R7, R7"
    assert pace(block(text)).trips > 0.9
    assert pace(block("LDG.E.64 R4, [R20.64]\nFADD R0, R7, R7")).trips == 0


def test_a_load_in_front_of_much_work_costs_less() -> None:
    work = "\n".join(["FADD R8, R8, R9"] * 100)  # 4 cycles each
    result = pace(block(f"LDG.E R0, [R20.64]\n{work}\nFADD R1, R0, R0"))
    assert result.trips == pytest.approx((MEMORY_CYCLES - 4 - 99 * 4 - 1) / MEMORY_CYCLES, abs=1e-3)


def test_a_loop_is_counted_in_its_steady_state() -> None:
    # each round uses the load of the round before: the wait is in the loop, from the second on
    loop = block("FADD R8, R8, R0\nLDG.E R0, [R20.64]", depth=1)
    result = pace(block("MOV R8, RZ"), loop, depth=1)
    assert result.trips == pytest.approx((MEMORY_CYCLES - 4) / MEMORY_CYCLES, abs=1e-3)
    assert result.cycles == 5


def test_stages_of_asynchronous_copies_hide_their_trips() -> None:
    def loop(outcome: str) -> Block:
        return block(f"LDGSTS [R2], [R4.64]\nLDGDEPBAR\nDEPBAR.LE SB0, {outcome}", depth=1)

    one, all_of_them = pace(loop("0x1"), depth=1), pace(loop("0x0"), depth=1)
    assert all_of_them.trips == pytest.approx((MEMORY_CYCLES - 4) / MEMORY_CYCLES, abs=1e-3)
    assert 0 < one.trips < all_of_them.trips  # waits for the group before


def test_a_spilled_word_comes_from_local_memory() -> None:
    result = pace(block("LDL R0, [R1]\nFADD R2, R0, R0"))
    assert result.trips == 0
    assert result.local_trips == pytest.approx((41 - 4) / 41, abs=1e-3)


def test_wgmma_is_awaited_by_its_group() -> None:
    text = "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24\nWARPGROUP.DEPBAR.LE gsb0, 0x0"
    assert pace(block(text)).cycles == 60 + 64 + 4  # 64 x 128 takes 64 cycles, after 60


def test_results_of_reductions_in_memory_are_not_awaited() -> None:
    text = "RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5\nFADD R2, R2, R3"
    assert pace(block(text)).trips == 0
    text = "ATOMG.E.ADD.STRONG.GPU PT, R6, desc[UR4][R2.64], R5\nFADD R2, R6, R3"
    assert pace(block(text)).trips > 0.9


def test_a_fence_of_the_gpu_is_a_trip() -> None:
    assert pace(block("MEMBAR.SC.GPU")).trips == pytest.approx(1)
    assert pace(block("MEMBAR.ALL.CTA")).trips == 0


def test_called_functions_are_left_out() -> None:
    # a division's slow path: reached by a call alone
    blocks = (
        block("FADD R0, R1, R2\nCALL.REL.NOINC `(slow)", successors=(2, 1)),
        block("FADD R3, R4, R5\nEXIT"),
        block("\n".join(["FADD R0, R0, R2"] * 500)),
        block("RET.REL.NODEC R4 `(f)"),
    )
    assert pace(*blocks).cycles == 1 + 8 + 1 + 2
