"""Machine code as the two disassemblers write it; `data/rows.cu` was compiled for sm_90."""

from pathlib import Path

import pytest

from solkit.adapters import sass

DATA = Path(__file__).with_name("data")
ROWS = "_Z4rowsPKfPfii"


def code(text):
    """A function `f` of these lines."""
    lines = "\n".join(text)
    (result,) = sass.parse_listing(f"Function : f\n{lines}").values()
    return result


def listing(*instructions):
    return [f"/*{16 * i:04x}*/ {instruction} ;" for i, instruction in enumerate(instructions)]


@pytest.fixture(scope="module", params=["nvdisasm", "cuobjdump"])
def rows(request):
    return sass.parse_listing((DATA / f"rows.{request.param}.txt").read_text())[ROWS]


def test_loops_of_both_disassemblers(rows):
    assert rows.loops == 2
    by_depth = [0, 0, 0]
    for block in rows.blocks:
        by_depth[block.depth] += len(block.instructions)
    assert by_depth == [13, 22, 8]  # counted by hand


def test_what_no_path_leads_to_is_left_out(rows):
    assert max(instruction.address for instruction in rows.instructions) == 0x2A0  # the EXIT


def test_operands_predicates_and_modifiers(rows):
    by_address = {instruction.address: instruction for instruction in rows.instructions}
    load = by_address[0x150]
    assert (load.name, load.modifiers) == ("LDG", ("E", "CONSTANT"))
    assert load.operands == ("R3", "desc[UR6][R2.64]")
    assert by_address[0x210].predicate == "!P0"
    assert by_address[0x220].predicate == ""


def test_source_lines():
    rows = sass.parse_listing((DATA / "rows.nvdisasm.txt").read_text())[ROWS]
    source = (DATA / "rows.cu").read_text().splitlines()
    (multiply,) = (instruction for instruction in rows.instructions if instruction.name == "FFMA")
    file, _, line = multiply.lines[0].rpartition(":")
    assert file == "rows.cu"
    assert "fmaf" in source[int(line) - 1]


def test_lines_of_inlined_calls_run_from_the_inside_out():
    text = [
        '//## File "a.cuh", line 3 inlined at "b.cu", line 9',
        '//## File "b.cu", line 9',
        "/*0000*/ FADD R0, R1, R2 ;",
        '//## File "b.cu", line 10',
        "/*0010*/ EXIT ;",
    ]
    add, end = code(text).instructions
    assert add.lines == ("a.cuh:3", "b.cu:9")
    assert end.lines == ("b.cu:10",)


def test_a_conditional_exit_goes_on():
    ended = code(listing("@P0 EXIT", "FADD R0, R1, R2", "EXIT", "NOP"))
    assert [instruction.name for instruction in ended.instructions] == ["EXIT", "FADD", "EXIT"]


def test_a_call_returns_and_its_function_is_reached():
    called = code(
        listing("CALL.REL.NOINC 0x30", "EXIT", "NOP", "FADD R0, R1, R2", "RET.REL R2 0x0")
    )
    assert [instruction.name for instruction in called.instructions] == [
        "CALL",
        "EXIT",
        "FADD",
        "RET",
    ]
    assert called.loops == 0


def test_a_branch_that_takes_its_condition_as_operand_may_fall_through():
    text = listing("FADD R0, R0, R1", "BRA.U UP0, 0x0", "EXIT")
    assert code(text).loops == 1
    assert [block.depth for block in code(text).blocks] == [1, 0]


def test_two_loops_with_one_head_are_one_loop():
    text = listing("FADD R0, R0, R1", "@P0 BRA 0x0", "FMUL R0, R0, R1", "@P1 BRA 0x0", "EXIT")
    assert code(text).loops == 1
    assert [block.depth for block in code(text).blocks] == [1, 1, 0]


def test_a_jump_into_the_middle_makes_no_loop():
    text = listing("@P0 BRA 0x20", "FADD R0, R0, R1", "FMUL R0, R0, R1", "@P1 BRA 0x10", "EXIT")
    assert code(text).loops == 0


def test_several_functions_and_none():
    two = "Function : f\n/*0000*/ EXIT ;\nFunction : g\n/*0000*/ FADD R0, R1, R2 ;\n/*0010*/ EXIT ;"
    functions = sass.parse_listing(two)
    assert {name: len(list(function.instructions)) for name, function in functions.items()} == {
        "f": 1, "g": 2,
    }  # fmt: skip
    assert sass.parse_listing("nothing of the kind") == {}
