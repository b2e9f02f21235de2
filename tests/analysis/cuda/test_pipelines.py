"""Stages of pipelines of asynchronous copies, from assembly as NVRTC writes it."""

import pytest

from solkit.analysis.cuda.pipelines import stages_of

COPY, COMMIT, USE = "cp.async.cg.shared.global [%r1], [%rd1], 16;", "cp.async.commit_group;", (
    "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r3];"
)  # fmt: skip


def wait(groups):
    return f"cp.async.wait_group {groups};"


def loop(*lines):
    return ["$L__BB0_2:", *lines, "@%p1 bra $L__BB0_2;"]


def ptx(*lines):
    body = "\n".join(f"\t{line}" if line[0] != "$" else line for line in lines)
    return (
        f".visible .entry other(\n)\n{{\n\t{wait(7)}\n}}\n.visible .entry k(\n)\n{{\n{body}\n}}\n"
    )


@pytest.mark.parametrize(
    ("lines", "stages"),
    [
        # copies three tiles ahead, then waits until three are under way
        ([COMMIT, COMMIT, COMMIT, *loop(COPY, COMMIT, wait(3), USE)], 4),
        # waits until one is under way, copies another one, and uses the tile meanwhile
        ([COMMIT, COMMIT, *loop(wait(1), COPY, COMMIT, USE), wait(0)], 3),
        ([COMMIT, COMMIT, wait(1), *loop(COPY, COMMIT, USE, wait(1)), wait(0)], 3),
        # the copy that is needed at once
        (loop(COPY, COMMIT, wait(0), USE), 1),
        ([USE], 1),
        (["mbarrier.init.shared.b64 [%r1], 1;"] * 8 + loop("cp.async.bulk.shared;", USE), 4),
    ],
)
def test_stages(lines, stages):
    assert stages_of(ptx(*lines), "k") == stages


def test_braces_of_inline_assembly_do_not_end_a_kernel():
    inline = "// begin inline asm\n{\n.reg .pred p;\n}\n// end inline asm"
    barriers = [f"{inline}\nmbarrier.init.shared.b64 [%r1], 1;"] * 6
    copy = "cp.async.bulk.shared [%r1], [%rd1, {%r2, %r3}], [%r4];"
    assert stages_of(ptx(*barriers, *loop(copy, USE)), "k") == 3


def test_a_kernel_that_is_not_there():
    assert stages_of(ptx(wait(3)), "m") == 1
