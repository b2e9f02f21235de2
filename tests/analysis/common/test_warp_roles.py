"""Roles of warps in small programs that are written by hand."""

from __future__ import annotations

from solkit.adapters.sass import parse_listing
from solkit.analysis.common import warp_roles as module
from solkit.analysis.common.warp_roles import warp_roles
from solkit.analysis.common.warp_throughput import paces_of

LOAD = "UTMALDG.2D [UR8], [UR4], desc[URZ]"
PRODUCT = "HGMMA.64x64x16.F32 R24, gdesc[UR4], R24"


def code(text):
    """A function of one instruction a line; a line that ends in a colon is a label."""
    lines, address = ["\t.section .text.f,"], 0
    for line in text.strip().splitlines():
        if line.strip().endswith(":"):
            lines.append(line.strip())
        else:
            lines.append(f"        /*{address:04x}*/                   {line.strip()} ;")
            address += 16
    return parse_listing("\n".join(lines))["f"]


def loop(label, *instructions, condition="@P1"):
    return "\n".join([f"{label}:", *instructions, f"{condition} BRA `({label})"])


def names(text):
    return [role.name for role in warp_roles(code(text))]


SPECIALISED = "\n".join(
    ["@P0 BRA `(.P)", loop(".C", PRODUCT), "EXIT", ".P:", loop(".L", LOAD), "EXIT"]
)


def test_parts_with_loops_of_their_own_that_do_different_things_are_roles():
    producer, consumer = reversed(warp_roles(code(SPECIALISED)))
    assert (producer.name, producer.bulk_copies, producer.tensor) == ("loads", 1, 0)
    assert (consumer.name, consumer.bulk_copies, consumer.tensor) == ("products", 0, 1)


def test_copies_to_several_blocks_are_counted_apart():
    text = SPECIALISED.replace("UTMALDG.2D", "UTMALDG.2D.MULTICAST")
    assert sum(role.multicasts for role in warp_roles(code(text))) == 1


def test_an_elected_thread_inside_the_loop_of_all_is_no_role():
    inner = ["@P0 BRA `(.S)", LOAD, ".S:", PRODUCT]
    assert names("\n".join([loop(".L", *inner), "EXIT"])) == []


def test_two_versions_of_one_loop_are_no_roles():
    one, other = loop(".A", LOAD, PRODUCT), loop(".B", LOAD, LOAD, PRODUCT)
    assert names("\n".join(["@P0 BRA `(.B)", one, "EXIT", other, "EXIT"])) == []


def test_a_loop_that_all_run_before_the_branch_is_no_role():
    first = loop(".A", LOAD, PRODUCT)
    tail = ["@P0 BRA `(.B)", loop(".S", "UTMASTG.2D [UR8], [UR4]"), "EXIT"]
    assert names("\n".join([first, *tail, loop(".B", LOAD), "EXIT"])) == []


def test_parts_one_after_another_are_roles_if_they_change_their_registers():
    parts = [
        *("@P0 BRA `(.B)", "USETMAXREG.DEALLOC.CTAPOOL 0x18", loop(".A", LOAD), ".B:"),
        *("@P2 BRA `(.E)", "USETMAXREG.TRY_ALLOC.CTAPOOL 0xe8", loop(".C", PRODUCT), ".E:"),
        "EXIT",
    ]
    assert names("\n".join(parts)) == ["loads", "products"]


def test_kernels_without_bulk_copies_have_no_roles():
    assert names(SPECIALISED.replace(LOAD, "LDG.E R2, desc[UR4][R2.64]")) == []


def test_the_pace_is_that_of_the_slowest_role():
    slow = [f"FADD R{n}, R{n}, R1" for n in range(2, 40)]
    text = SPECIALISED.replace(LOAD, "\n".join([LOAD, *slow]))
    alone = "\n".join(["@P0 BRA `(.P)", ".P:", loop(".L", LOAD, *slow), "EXIT"])
    by_depth = [{pace.depth: pace.cycles for pace in paces_of(code(t))} for t in (text, alone)]
    assert by_depth[0][1] == by_depth[1][1]


def test_instructions_are_read_once_however_many_branches_share_them(monkeypatch):
    """A kernel of 4,055 instructions and 292 branches took half a second."""
    counts, real = [], module.instruction_kind
    monkeypatch.setattr(module, "instruction_kind", lambda i: counts.append(1) or real(i))
    parts = [f"@P0 BRA `(.X{n})\n{LOAD}\n.X{n}:\nFADD R2, R2, R1" for n in range(50)]
    function = code("\n".join([*parts, "EXIT"]))
    assert module.roles_of(function) == []
    assert len(counts) == len(list(function.instructions))
