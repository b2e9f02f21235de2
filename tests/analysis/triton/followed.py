"""Kernels whose accesses are counted in two ways, and the interpreter's way of counting them."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n), at < n)


@triton.jit
def strided_kernel(x, out, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * stride))


@triton.jit
def gather_kernel(x, rows, out, D, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    row = tl.load(rows + program)
    at = tl.arange(0, BLOCK)
    tl.store(out + program * D + at, tl.load(x + row * D + at, at < D), at < D)


@triton.jit
def product_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        left = tl.load(
            a + rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K), 0.0
        )
        right = tl.load(
            b + inner[:, None] * N + columns[None, :],
            (inner[:, None] < K) & (columns[None, :] < N),
            0.0,
        )
        sums = tl.dot(left, right, sums)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(tl.float16), inside)


@triton.jit
def triangle_kernel(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, row + 1, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + at, at <= row, 0.0)
    tl.store(out + row, tl.sum(total))


@triton.jit
def strides_of_the_grid_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    total = tl.zeros((BLOCK,), tl.float32)
    while at < n:
        where = at + tl.arange(0, BLOCK)
        total += tl.load(x + where, where < n, 0.0)
        at += BLOCK * tl.num_programs(0)
    tl.atomic_add(out, tl.sum(total))


@triton.jit
def rows_by_hand_kernel(x, out, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    while row < rows:
        column = 0
        while (column < columns) & (row < rows):
            where = column + tl.arange(0, BLOCK)
            inside = where < columns
            place = row * columns + where
            tl.store(out + place, tl.load(x + place, inside), inside)
            column += BLOCK
        row += tl.num_programs(0)


@triton.jit
def whole_tiles_kernel(x, out, n, BLOCK: tl.constexpr):
    tile = tl.program_id(0)
    while (tile + 1) * BLOCK <= n:
        place = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + place, tl.load(x + place))
        tile += tl.num_programs(0)


@triton.jit
def until_equal_kernel(x, out, blocks, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    while block != blocks + tl.program_id(0):
        place = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + place, tl.load(x + place))
        block += tl.num_programs(0)


@triton.jit
def down_to_kernel(x, out, blocks, BLOCK: tl.constexpr):
    block = blocks - 1
    while not (block == -1):  # noqa: SIM201 - compiled otherwise
        place = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + place, tl.load(x + place))
        block -= 1


@triton.jit
def merged_kernel(x, y, out, m, n, BLOCK: tl.constexpr):
    """Go on while either has elements left; the first ends before the second, or after it."""
    left, right = 0, 0
    while (left < m) or (right < n):
        here = left + tl.arange(0, BLOCK)
        there = right + tl.arange(0, BLOCK)
        a = tl.load(x + here, here < m, 0.0)
        b = tl.load(y + there, there < n, 0.0)
        tl.store(out + here, a + b)
        left += BLOCK
        right += BLOCK


@triton.jit
def persistent_kernel(x, out, tiles, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, PROGRAMS):
        row, half = tile // 2, tile % 2
        if half == 0:
            at = row * 2 * BLOCK + tl.arange(0, BLOCK)
        else:
            at = row * 2 * BLOCK + BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def early_kernel(x, out, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    if start >= n:
        return
    at = start + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n), at < n)


@triton.jit
def stencil_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + at - 1, (at > 0) & (at < n), 0.0)
    right = tl.load(x + at + 1, at + 1 < n, 0.0)
    tl.store(out + at, left + right, at < n)


@triton.jit
def transposing_kernel(x, out, N, M: tl.constexpr):
    column = tl.program_id(0)
    row = tl.arange(0, M)
    tl.store(out + column * M + row, tl.load(x + row * N + column))


@triton.jit
def winding_kernel(x, out, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, BLOCK):
        total += tl.load(x + (start // 48) * 48 + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def window_kernel(x, out, n, width, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, (at <= first) & (at > first - width), 0.0)
    tl.store(out + first + tl.arange(0, BLOCK), total)


@triton.jit
def carried_mask_kernel(x, out, n, BLOCK: tl.constexpr):
    inside = (tl.arange(0, BLOCK) + tl.program_id(0)) < n
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, inside, 0.0)
        inside = at + BLOCK < n - 64
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def hashed_kernel(x, out, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.uint32)
    slot = ((at * 2654435761) >> 16) % 1000
    tl.store(out + at, tl.load(x + slot, slot < 300), slot < 300)


@triton.jit
def unsigned_bound_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) - 16
    inside = at.to(tl.uint32) < n.to(tl.uint32)
    tl.store(out + at, tl.load(x + at, inside), inside)


@triton.jit
def padded_rows_kernel(x, rows, out, n, BLOCK: tl.constexpr, D: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + at, at < n, other=-1)
    column = tl.arange(0, D)[None, :]
    valid = (row >= 0)[:, None]
    loaded = tl.load(x + row[:, None] * D + column, valid, 0.0)
    tl.store(out + at[:, None] * D + column, loaded, valid)


@triton.jit
def one_does_more_kernel(x, out, total, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))
    if tl.program_id(0) == 0:
        sums = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n, BLOCK):
            sums += tl.load(x + start + tl.arange(0, BLOCK))
        tl.store(total, tl.sum(sums))


@triton.jit
def second_axis_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(tl.program_id(1) + 1):
        total += tl.load(x + k * n + at)
    tl.store(out + tl.program_id(1) * n + at, total)


@triton.jit
def last_one_adds_kernel(x, parts, counts, out, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(parts + tl.program_id(0) * BLOCK + at, tl.load(x + tl.program_id(0) * BLOCK + at))
    if tl.atomic_add(counts, 1) == PARTS - 1:
        tl.store(out + at, tl.load(parts + at))


@triton.jit
def pipelined_gather_kernel(x, rows, out, n, BLOCK: tl.constexpr, D: tl.constexpr):
    column = tl.arange(0, D)
    total = tl.zeros((D,), tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=3):
        row = tl.load(rows + start + tl.arange(0, BLOCK))
        total += tl.sum(tl.load(x + row[:, None] * D + column[None, :]), 0)
    tl.store(out + column, total)


@triton.jit
def picked_rows_kernel(x, rows, out, n, K: tl.constexpr, D: tl.constexpr, PART: tl.constexpr):
    places, column = tl.arange(0, K), tl.arange(0, D)
    row = tl.load(rows + tl.program_id(0) * K + places)
    total = tl.zeros((D,), tl.float32)
    for start in range(0, n, PART):
        at = start + tl.arange(0, PART)
        picked = tl.sum(tl.where(places[None, :] == at[:, None], row[None, :], 0), 1)
        inside = (at < n)[:, None] & (column < D)[None, :]
        total += tl.sum(tl.load(x + picked[:, None] * D + column[None, :], inside, 0.0), 0)
    tl.store(out + tl.program_id(0) * D + column, total)


@triton.jit
def sampled_kernel(image, points, out, H, W, P: tl.constexpr, C: tl.constexpr):
    point, channel = tl.arange(0, P), tl.arange(0, C)
    pair = point[:, None] * 2 + tl.arange(0, 2)[None, :]
    y, x = tl.split(tl.load(points + tl.program_id(0) * P * 2 + pair))
    row = tl.minimum((y * H).to(tl.int32), H - 1)
    column = tl.maximum((x * W).to(tl.int32), 0)
    value = tl.load(image + (row * W + column)[:, None] * C + channel[None, :])
    tl.store(out + tl.program_id(0) * C + channel, tl.sum(value, 0))


@triton.jit
def named_tiles_kernel(x, y, tiles, out, N, BLOCK: tl.constexpr):
    tile = tl.load(tiles + tl.program_id(0))
    row, column = tl.arange(0, 16), tl.arange(0, BLOCK)
    total = tl.zeros((16, 16), tl.float32)
    for start in tl.range(0, N, BLOCK, num_stages=3):
        at = (tile * 16 + row[:, None]) * N + start + column[None, :]
        other = tl.load(y + row[None, :] * N + start + column[:, None])
        total += tl.dot(tl.load(x + at), other)
    tl.store(out + tl.program_id(0) * 256 + row[:, None] * 16 + row[None, :], total)


@triton.jit
def scaled_kernel(a, sa, b, sb, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    row, column = tl.arange(0, M), tl.arange(0, N)
    sums = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        inner, block = k + tl.arange(0, BK), k // 32 + tl.arange(0, BK // 32)
        left = tl.load(a + row[:, None] * K + inner[None, :])
        right = tl.load(b + inner[:, None] * N + column[None, :])
        of_left = tl.load(sa + row[:, None] * (K // 32) + block[None, :])
        of_right = tl.load(sb + column[:, None] * (K // 32) + block[None, :])
        sums = tl.dot_scaled(left, of_left, "e4m3", right, of_right, "e4m3", sums)
    tl.store(c + row[:, None] * N + column[None, :], sums)


@triton.jit
def special_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    powers = libdevice.exp2(tl.load(x + at))
    asm: tl.constexpr = "{ .reg .f32 h; mul.f32 h, $1, 0f3F000000; tanh.approx.f32 $0, h; }"
    tl.store(out + at, tl.inline_asm_elementwise(asm, "=f,f", [powers], tl.float32, True, 1))


@triton.jit
def reshaped_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.trans(tl.reshape(tl.arange(0, BLOCK), (BLOCK // 16, 16)))
    tl.store(out + tl.program_id(0) * BLOCK + at, tl.load(x + at), at < n)


def cuda(device, *shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device=device)


def copy(device, n=5000, block=1024, warps=4, offset=0):
    x, out = cuda(device, n + offset)[offset:], cuda(device, n)
    copy_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block, num_warps=warps)


def strided(device, n=4096, stride=8):
    x, out = cuda(device, n * stride), cuda(device, n)
    strided_kernel[(n // 1024,)](x, out, stride, BLOCK=1024)


@triton.jit
def tuple_kernel(tensors, strides, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(tensors[1] + at * strides[1], tl.load(tensors[0] + at * strides[0]))


@triton.jit
def waiting_kernel(flag, BLOCK: tl.constexpr):
    tl.atomic_add(flag, 1, sem="release")
    while tl.atomic_add(flag, 0, sem="acquire") != BLOCK:
        pass


def waiting(device, blocks=100):
    waiting_kernel[(blocks,)](cuda(device, 1, dtype=torch.int32), BLOCK=blocks)


def strided_by_tuple(device, n=4096):
    tuple_kernel[(n // 1024,)]((cuda(device, n * 8), cuda(device, n)), (8, 1), BLOCK=1024)


def strided_short(device, n, x, behind=0):
    x, out = cuda(device, x + behind)[:x], cuda(device, n)
    strided_kernel[(n // 1024,)](x, out, 2, BLOCK=1024)


@triton.jit
def shifted_kernel(x, out, n, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at + by, at < n), at < n)


def shifted(device, by, n=3000, offset=0):
    x, out = cuda(device, n + offset)[offset:], cuda(device, n)
    shifted_kernel[(triton.cdiv(n, 1024),)](x, out, n, by, BLOCK=1024)


@triton.jit
def any_row_kernel(x, out, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    sums = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        others = (at < n)[None, :] & (at[None, :] != rows[:, None])
        values = tl.load(x + at, tl.max(others.to(tl.int32), axis=0) > 0, 0.0)
        sums += tl.sum(tl.where(others, values[None, :], 0.0), axis=1)
    tl.store(out + rows, sums, rows < n)


def any_row(device, n=3000, short=0):
    x, out = cuda(device, n - short), cuda(device, n)
    any_row_kernel[(triton.cdiv(n, 4),)](x, out, n, ROWS=4, BLOCK=1024)


def gather(device, rows=64, D=200, table=1000):
    x, out = cuda(device, table, D), cuda(device, rows, D)
    chosen = (torch.arange(rows, device=device) * 37) % 11
    gather_kernel[(rows,)](x, chosen, out, D, BLOCK=256)


def product(device, M=100, N=130, K=150, tiles=(64, 64, 32)):
    dtype = torch.float16
    a, b, c = (cuda(device, *s, dtype=dtype) for s in ((M, K), (K, N), (M, N)))
    grid = (triton.cdiv(M, tiles[0]), triton.cdiv(N, tiles[1]))
    product_kernel[grid](a, b, c, M, N, K, *tiles, num_stages=3)


def triangle(device, n=100, block=32):
    triangle_kernel[(n,)](cuda(device, n, n), cuda(device, n), n, BLOCK=block)


def strides_of_the_grid(device, n=30_000):
    strides_of_the_grid_kernel[(7,)](cuda(device, n), cuda(device, 1), n, BLOCK=512)


def rows_by_hand(device, rows=40, columns=5000):
    x, out = cuda(device, rows, columns), cuda(device, rows, columns)
    rows_by_hand_kernel[(3,)](x, out, rows, columns, BLOCK=128)


def whole_tiles(device, n=30_000):
    whole_tiles_kernel[(7,)](cuda(device, n), cuda(device, n), n, BLOCK=512)


def until_equal(device, blocks=84):
    x, out = cuda(device, (blocks + 7) * 256), cuda(device, (blocks + 7) * 256)
    until_equal_kernel[(7,)](x, out, blocks, BLOCK=256)


def down_to(device, blocks=60):
    down_to_kernel[(1,)](cuda(device, blocks * 256), cuda(device, blocks * 256), blocks, BLOCK=256)


def merged(device, m=9000, n=14_000):
    x, y, out = cuda(device, m), cuda(device, n), cuda(device, max(m, n) + 128)
    merged_kernel[(1,)](x, y, out, m, n, BLOCK=128)


def persistent(device, tiles=101):
    x, out = cuda(device, (tiles + 1) * 256), cuda(device, (tiles + 1) * 256)
    persistent_kernel[(8,)](x, out, tiles, BLOCK=256, PROGRAMS=8)


def early(device, n=3000):
    early_kernel[(7,)](cuda(device, n), cuda(device, n), n, BLOCK=512)


def stencil(device, n=3000):
    stencil_kernel[(triton.cdiv(n, 512),)](cuda(device, n), cuda(device, n), n, BLOCK=512)


def transposing(device, M=256, N=40):
    transposing_kernel[(N,)](cuda(device, M, N), cuda(device, N, M), N, M=M)


def winding(device, n=20_000):
    winding_kernel[(3,)](cuda(device, n + 64), cuda(device, 3), n, BLOCK=32)


def window(device, n=768, width=256):
    window_kernel[(n // 64,)](cuda(device, n), cuda(device, n), n, width, BLOCK=64)


def carried_mask(device, n=3000):
    carried_mask_kernel[(3,)](cuda(device, n + 64), cuda(device, 3 * 64), n, BLOCK=64)


def hashed(device, n=4096):
    hashed_kernel[(n // 256,)](cuda(device, 1000), cuda(device, n), BLOCK=256)


def unsigned_bound(device, n=3000):
    grid = (triton.cdiv(n + 16, 256),)
    unsigned_bound_kernel[grid](cuda(device, n), cuda(device, n), n, BLOCK=256)


def padded_rows(device, n=100):
    rows = torch.arange(n, device=device) * 7 % 50
    padded_rows_kernel[(4,)](cuda(device, 50, 32), rows, cuda(device, 128, 32), n, BLOCK=32, D=32)


def one_does_more(device, n=128 * 256):
    one_does_more_kernel[(256,)](cuda(device, n), cuda(device, n), cuda(device, 1), n, BLOCK=128)


def second_axis(device, blocks=4096, rows=8):
    x, out = cuda(device, rows, blocks * 32), cuda(device, rows, blocks * 32)
    second_axis_kernel[(blocks, rows)](x, out, blocks * 32, BLOCK=32)


def last_one_adds(device, parts=4):
    counts = torch.zeros(1, dtype=torch.int32, device=device)
    x, kept, out = cuda(device, parts * 256), cuda(device, parts * 256), cuda(device, 256)
    last_one_adds_kernel[(parts,)](x, kept, counts, out, BLOCK=256, PARTS=parts)


def pipelined_gather(device, n=128):
    rows = torch.arange(n, device=device) * 31 % 200
    pipelined_gather_kernel[(1,)](cuda(device, 200, 64), rows, cuda(device, 64), n, BLOCK=16, D=64)


def picked_rows(device, programs=8, n=13):
    rows = torch.arange(programs * 16, device=device) * 31 % 200
    rows = torch.where(torch.arange(programs * 16, device=device) % 16 < n, rows, 10**6)
    x, out = cuda(device, 200, 64), cuda(device, programs, 64)
    picked_rows_kernel[(programs,)](x, rows, out, n, K=16, D=64, PART=8)


def sampled(device, programs=64, size=100):
    image, points = cuda(device, size, size, 32), cuda(device, programs, 16, 2)
    out = cuda(device, programs, 32)
    sampled_kernel[(programs,)](image, points, out, size, size, P=16, C=32)


def named_tiles(device, n=512):
    tiles = torch.tensor([0, 1, 0, 1], device=device)
    x, y = cuda(device, 2, 16, n), cuda(device, 16, n)
    named_tiles_kernel[(4,)](x, y, tiles, cuda(device, 4, 256), n, BLOCK=64)


def scaled(device, K=256):
    eight = torch.float8_e4m3fn
    a, b = cuda(device, 128, K, dtype=eight), cuda(device, K, 128, dtype=eight)
    sa, sb = (cuda(device, 128, K // 32, dtype=torch.uint8) for _ in "ab")
    scaled_kernel[(1,)](a, sa, b, sb, cuda(device, 128, 128), K, M=128, N=128, BK=128)


def special(device, n=4096):
    special_kernel[(n // 512,)](cuda(device, n), cuda(device, n), BLOCK=512)


def reshaped(device, n=900):
    reshaped_kernel[(4,)](cuda(device, 1024), cuda(device, 4096), n, BLOCK=1024)


CASES = {
    **{f.__name__: f for f in (copy, strided, gather, product, triangle, strides_of_the_grid)},
    **{f.__name__: f for f in (rows_by_hand, whole_tiles, until_equal, down_to, merged)},
    **{f.__name__: f for f in (persistent, early, stencil, transposing, winding)},
    **{f.__name__: f for f in (window, carried_mask, hashed, unsigned_bound, padded_rows)},
    **{f.__name__: f for f in (one_does_more, pipelined_gather, reshaped)},
}


def interpreted():
    """Bytes that each case's loads, stores and atomics ask for, where Triton interprets them."""
    from triton.runtime import interpreter

    requests = {"load": 0, "store": 0, "atomic": 0}
    builder = interpreter.interpreter_builder

    def counting(kind, original, mask_at):
        def call(*args, **kwargs):
            pointers, mask = args[0], args[mask_at] if len(args) > mask_at else None
            size = max(pointers.get_element_ty().primitive_bitwidth // 8, 1)
            let = pointers.data.size if mask is None else int(mask.data.sum())
            requests[kind] += let * size
            return original(*args, **kwargs)

        return call

    load, store, atomic = (
        builder.create_masked_load,
        builder.create_masked_store,
        builder.create_atomic_rmw,
    )
    builder.create_masked_load = counting("load", load, 1)
    builder.create_masked_store = counting("store", store, 2)

    def add(op, pointers, value, mask, *rest):
        requests["atomic"] += (
            int(mask.data.sum()) * pointers.get_element_ty().primitive_bitwidth // 8
        )
        return atomic(op, pointers, value, mask, *rest)

    builder.create_atomic_rmw = add
    results = {}
    for name, launch in CASES.items():
        requests.update(dict.fromkeys(requests, 0))
        launch("cpu")
        results[name] = dict(requests)
    return results
