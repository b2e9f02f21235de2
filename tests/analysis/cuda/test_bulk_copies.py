"""Bulk copies (TMA), waits and elected threads of PTX, against counts by hand."""

from __future__ import annotations

import pytest

from solkit.adapters.launch_recording import PackedArgument, TensorArgument
from solkit.adapters.triton_compiler import Compiled
from solkit.analysis.cuda.ptx_kernel import read_kernel
from solkit.analysis.cuda.requests import cuda_requests
from solkit.analysis.interpreter.thread_groups import Grid
from solkit.core import Occupancy
from solkit.roofline import devices

ROWS, COLUMNS = 100, 96
TILE_ROWS, TILE_COLUMNS = 32, 64
DESCRIPTOR_BYTES = 128
TENSOR_BYTES = 2 * ROWS * COLUMNS
RESIDENT = Occupancy(0.5, "shared", 8, 1.0, 1.0)

WAIT = """
	// begin inline asm
	{
	.reg .pred       P1;
	LAB_WAIT:
	mbarrier.try_wait.parity.shared::cta.b64 P1, [%r20], %r21;
	@P1 bra DONE;
	bra     LAB_WAIT;
	DONE:
	}
	// end inline asm
"""
ELECTED = """
	mov.u32 	%r8, 0;
	// begin inline asm
	{
.reg .b32 %rx;
.reg .pred %px;
     elect.sync %rx|%px, %r9;
@%px mov.s32 %r8, 1;
}
	// end inline asm
	setp.eq.s32 	%p1, %r8, 0;
"""
LOAD = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry tiles(
	.param .align 64 .b8 tiles_param_0[128],
	.param .u64 tiles_param_1
)
{
	.reg .pred 	%p<9>;
	.reg .b32 	%r<30>;
	.reg .b64 	%rd<9>;
	.shared .align 128 .b8 buffer[16384];
	mov.b64 	%rd1, tiles_param_0;
	cvta.param.u64 	%rd2, %rd1;
	mov.u32 	%r9, -1;
	mov.u32 	%r1, %tid.x;
	mov.u32 	%r20, buffer;
	mov.u32 	%r21, 0;
"""


def requests_of(body, arguments, blocks=4, threads=128, cluster=(1, 1, 1)):
    compiled = Compiled(shared_bytes=16384, ptx=HEAD + body + "\n\tret;\n}\n", entry="tiles")
    grid = Grid((blocks, 1, 1), (threads, 1, 1), cluster)
    return cuda_requests(compiled, arguments, ("A", "B"), grid, devices.find("h100"), RESIDENT)


def tensor(storage, block=(TILE_ROWS, TILE_COLUMNS)):
    return TensorArgument(storage, TENSOR_BYTES, 0, (ROWS, COLUMNS), (COLUMNS, 1), 2, block=block)


TILES = f"""
	setp.ge.s32 	%p2, %r1, 32;
	@%p2 bra 	$L__BB0_9;
	mov.u32 	%r11, %ctaid.x;
	shl.b32 	%r12, %r11, 5;
	mov.u32 	%r13, 0;
$L__BB0_3:
	{WAIT}
	{ELECTED}
	@%p1 bra 	$L__BB0_5;
	{LOAD} [%r20], [%rd2, {{%r13, %r12}}], [%r20];
$L__BB0_5:
	add.s32 	%r13, %r13, {TILE_COLUMNS};
	setp.lt.s32 	%p4, %r13, {COLUMNS};
	@%p4 bra 	$L__BB0_3;
$L__BB0_9:
"""


def test_tiles_are_read_once_by_an_elected_thread_and_cut_at_the_tensors_ends():
    seen = requests_of(TILES, [tensor(1), None])
    (access,) = seen.accesses
    assert (access.kind, access.path, access.argument) == ("load", "tma", "A")
    tiles = [(rows, columns) for rows in range(0, ROWS, 32) for columns in range(0, COLUMNS, 64)]
    inside = sum(min(32, ROWS - r) * min(64, COLUMNS - c) * 2 for r, c in tiles)
    assert access.requests == len(tiles)
    assert access.requested_bytes == access.unique_bytes == inside == TENSOR_BYTES
    assert access.sectors == TENSOR_BYTES // 32
    assert seen.guesses == ()


@pytest.mark.parametrize("first", [0, 64])
def test_a_copy_by_a_warp_in_the_middle_of_a_block_is_seen_in_large_launches(first):
    picked = f"and.b32 %r2, %r1, -32;\n\tsetp.ne.s32 	%p2, %r2, {first};"
    body = TILES.replace("setp.ge.s32 	%p2, %r1, 32;", picked)
    repeated = "mov.u32 %r10, %ctaid.x;\n\tand.b32 %r11, %r10, 3;"
    body = body.replace("mov.u32 	%r11, %ctaid.x;", repeated)
    seen = requests_of(body, [tensor(1), None], blocks=4096)
    (access,) = seen.accesses
    assert access.requests == pytest.approx(4096 * 2, rel=0.1)
    assert access.requested_bytes == pytest.approx(1024 * TENSOR_BYTES)
    assert access.unique_bytes == TENSOR_BYTES


def test_rows_of_bytes_are_copied_without_a_descriptor_and_written_back():
    body = f"""
	ld.param.u64 	%rd3, [tiles_param_1];
	cvta.to.global.u64 	%rd4, %rd3;
	mov.u32 	%r11, %ctaid.x;
	mul.wide.s32 	%rd5, %r11, 2048;
	add.s64 	%rd6, %rd4, %rd5;
	mov.u32 	%r14, 2048;
	{ELECTED}
	setp.ge.s32 	%p2, %r1, 32;
	or.pred 	%p3, %p1, %p2;
	@%p3 bra 	$L__BB0_9;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd6], %r14, [%r20];
	cp.async.bulk.global.shared::cta.bulk_group [%rd6], [%r20], %r14;
$L__BB0_9:
"""
    flat = TensorArgument(7, 4 * 2048, 0, (8192,), (1,), 1)
    seen = requests_of(body, [None, flat])
    assert {a.kind: (a.requests, a.requested_bytes) for a in seen.accesses} == {
        "load": (4, 8192),
        "store": (4, 8192),
    }


def test_a_tile_of_an_unknown_tensor_is_said_and_not_counted():
    seen = requests_of(TILES, [None, None])
    assert seen.accesses == ()
    assert any("bulk copy (TMA) whose tensor is not known" in guess for guess in seen.guesses)


def test_packed_parameters_give_pointers_numbers_and_descriptors():
    body = """
	ld.param.v2.u32 	{%r3, %r4}, [tiles_param_1];
	mul.lo.s32 	%r5, %r3, %r4;
	mul.wide.s32 	%rd5, %r5, 4;
	ld.param.u64 	%rd3, [tiles_param_0];
	cvta.to.global.u64 	%rd4, %rd3;
	add.s64 	%rd6, %rd4, %rd5;
	mul.wide.s32 	%rd7, %r1, 4;
	add.s64 	%rd8, %rd6, %rd7;
	st.global.u32 	[%rd8], %r1;
"""
    flat = TensorArgument(7, 4096, 0, (1024,), (1,), 4)
    struct = PackedArgument(bytes(DESCRIPTOR_BYTES), {0: flat})
    sizes = PackedArgument((3).to_bytes(4, "little") + (64).to_bytes(4, "little"))
    (access,) = requests_of(body, [struct, sizes], blocks=1).accesses
    assert (access.argument, access.requested_bytes, access.outside_bytes) == ("A", 512, 0)
    beyond = PackedArgument((3).to_bytes(4, "little") + (512).to_bytes(4, "little"))
    (access,) = requests_of(body, [struct, beyond], blocks=1).accesses
    assert access.outside_bytes == 4 * (3 * 512 + 128) - 4096


def test_blocks_of_a_cluster_know_their_place():
    body = """
	mov.u32 	%r3, %cluster_ctarank;
	mov.u32 	%r4, %clusterid.x;
	shl.b32 	%r5, %r4, 10;
	shl.b32 	%r6, %r3, 7;
	add.s32 	%r7, %r5, %r6;
	add.s32 	%r10, %r7, %r1;
	ld.param.u64 	%rd3, [tiles_param_1];
	cvta.to.global.u64 	%rd4, %rd3;
	mul.wide.s32 	%rd5, %r10, 4;
	add.s64 	%rd6, %rd4, %rd5;
	st.global.u32 	[%rd6], %r1;
"""
    flat = TensorArgument(7, 4 * 1280, 0, (1280,), (1,), 4)
    (access,) = requests_of(body, [None, flat], blocks=4, cluster=(2, 1, 1)).accesses
    assert access.unique_bytes == 4 * 128 * 4
    assert access.outside_bytes == 0  # the last element is 1024 + 128 + 127


def test_waiting_at_a_barrier_is_no_loop():
    kernel = read_kernel(HEAD + WAIT + WAIT + "\n\tret;\n}\n", "tiles")
    assert kernel.flow.loops == ()


def test_variables_of_headers_that_a_kernel_does_not_use_are_left_out():
    text = ".global .align 4 .u32 of_a_header = 1;\n.global .align 4 .u32 used;\n" + HEAD
    kernel = read_kernel(text + "\tmov.u64 %rd3, used;\n\tret;\n}\n", "tiles")
    assert kernel.symbols.keys() == {"buffer", "used"}


@pytest.mark.parametrize("blocks", [4, 4096])
def test_what_some_warps_of_a_block_store_is_counted_whole(blocks):
    body = f"""{ELECTED}
	setp.lt.s32 	%p2, %r1, 128;
	@%p2 bra 	$L__BB0_9;
	mov.u32 	%r11, %ctaid.x;
	shl.b32 	%r12, %r11, 7;
	add.s32 	%r13, %r12, %r1;
	ld.param.u64 	%rd3, [tiles_param_1];
	mul.wide.s32 	%rd4, %r13, 4;
	add.s64 	%rd5, %rd3, %rd4;
	st.global.u32 	[%rd5+-512], %r1;
$L__BB0_9:"""
    storage_bytes = 512 * blocks
    written = TensorArgument(2, storage_bytes, 0, (128 * blocks,), (1,), 4)
    seen = requests_of(body, [tensor(1), written], blocks=blocks, threads=256)
    (store,) = seen.accesses
    assert store.requested_bytes == store.unique_bytes == storage_bytes


def test_a_copy_of_adjacent_bytes_ends_where_the_last_block_has_less():
    body = f"""{ELECTED}
	ld.param.u64 	%rd3, [tiles_param_1];
	mov.u32 	%r11, %ctaid.x;
	mul.wide.s32 	%rd5, %r11, 2048;
	add.s64 	%rd6, %rd3, %rd5;
	setp.eq.s32 	%p4, %r11, 3;
	selp.b32 	%r14, 512, 2048, %p4;
	setp.ge.s32 	%p2, %r1, 32;
	or.pred 	%p3, %p1, %p2;
	@%p3 bra 	$L__BB0_9;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd6], %r14, [%r20];
$L__BB0_9:
"""
    flat = TensorArgument(7, 3 * 2048 + 512, 0, (6656,), (1,), 1)
    seen = requests_of(body, [None, flat])
    (access,) = seen.accesses
    assert (access.requests, access.requested_bytes, access.unique_bytes) == (4, 6656, 6656)
    assert seen.guesses == ()
