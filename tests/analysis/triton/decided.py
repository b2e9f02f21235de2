"""Kernels whose work loaded numbers decide, and what Triton's interpreter counts of them."""

import importlib.util
from pathlib import Path

import torch
import triton
import triton.language as tl


@triton.jit
def experts_kernel(
    x, w, out, tokens, experts, padded, N, K, valid, TOP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """As vLLM's fused MoE: three loaded numbers decide what a program does."""
    tile, column = tl.program_id(0), tl.program_id(1)
    if tile * BM >= tl.load(padded):
        return
    slot = tl.load(tokens + tile * BM + tl.arange(0, BM))
    inside = slot < valid
    expert = tl.load(experts + tile)
    n, k = column * BN + tl.arange(0, BN), tl.arange(0, BK)
    if expert == -1:
        at = out + slot[:, None] * N + n[None, :]
        tl.store(at, tl.zeros((BM, BN), tl.float16), inside[:, None])
        return
    left = x + (slot // TOP)[:, None] * K + k[None, :]
    right = w + expert * K * N + k[:, None] * N + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(left, inside[:, None], 0.0), tl.load(right), total)
        left += BK
        right += BK * N
    tl.store(out + slot[:, None] * N + n[None, :], total.to(tl.float16), inside[:, None])


@triton.jit
def row_kernel(starts, columns, values, x, out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    end = tl.load(starts + row + 1)
    for first in range(tl.load(starts + row), end, BLOCK):
        at = first + tl.arange(0, BLOCK)
        column = tl.load(columns + at, at < end, 0)
        total += tl.load(values + at, at < end, 0.0) * tl.load(x + column, at < end, 0.0)
    tl.store(out + row, tl.sum(total))


@triton.jit
def walking_kernel(starts, values, out, M, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = tl.load(starts + row, row < M, 0)
    end = tl.load(starts + row + 1, row < M, 0)
    total = tl.zeros((ROWS,), tl.float32)
    while tl.max(end - here, 0) > 0:
        total += tl.load(values + here, here < end, 0.0)
        here += 1
    tl.store(out + row, total, row < M)


@triton.jit
def pages_kernel(q, cache, table, lengths, out, PAGES, PAGE: tl.constexpr, D: tl.constexpr):
    sequence = tl.program_id(0)
    length = tl.load(lengths + sequence)
    d, within = tl.arange(0, D), tl.arange(0, PAGE)
    query = tl.load(q + sequence * D + d)
    total = tl.zeros((PAGE,), tl.float32)
    for page in range(0, tl.cdiv(length, PAGE)):
        place = tl.load(table + sequence * PAGES + page)
        inside = page * PAGE + within < length
        keys = tl.load(
            cache + place * PAGE * D + within[:, None] * D + d[None, :], inside[:, None], 0.0
        )
        total += tl.sum(keys * query[None, :], 1)
    tl.store(out + sequence, tl.sum(total))


@triton.jit
def lengths_kernel(x, starts, out, D: tl.constexpr, BLOCK: tl.constexpr):
    """As attention over sequences of different lengths: most blocks of a short one have no work."""
    first = tl.load(starts + tl.program_id(1))
    end = tl.load(starts + tl.program_id(1) + 1)
    if tl.program_id(0) * BLOCK >= end - first:
        return
    row, d = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    at, inside = row[:, None] * D + d[None, :], (row < end)[:, None]
    tl.store(out + at, tl.load(x + at, inside, 0.0), inside)


@triton.jit
def flag_kernel(flag, x, out, n, BLOCK: tl.constexpr):
    if tl.load(flag) == 0:
        return
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n), at < n)


@triton.jit
def counted_kernel(starts, x, out, G, D: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """Each program finds its tile of a group by counting the tiles of all groups."""
    g = tl.arange(0, GROUPS)
    low = tl.load(starts + g, g < G, 0)
    high = tl.load(starts + g + 1, g < G, 0)
    tiles = (high - low + BLOCK - 1) // BLOCK
    until = tl.cumsum(tiles, 0)
    group = tl.sum((until <= tl.program_id(0)).to(tl.int32), 0)
    if group < G:
        before = tl.sum(tl.where(g < group, tiles, 0), 0)
        row = tl.load(starts + group) + (tl.program_id(0) - before) * BLOCK + tl.arange(0, BLOCK)
        inside = (row < tl.load(starts + group + 1))[:, None]
        at = row[:, None] * D + tl.arange(0, D)[None, :]
        tl.store(out + at, tl.load(x + at, inside, 0.0), inside)


@triton.jit
def root_kernel(x, out, n, BLOCK: tl.constexpr):
    """The tiles of a triangle in one row of programs: a root finds each one's row."""
    pid = tl.program_id(0)
    row = ((tl.sqrt(8.0 * pid + 1.0) - 1.0) * 0.5).to(tl.int32)
    row = tl.where(row * (row + 1) // 2 > pid, row - 1, row)
    column = pid - row * (row + 1) // 2
    i, j = row * BLOCK + tl.arange(0, BLOCK), column * BLOCK + tl.arange(0, BLOCK)
    inside = (i < n)[:, None] & (j < n)[None, :]
    at = i[:, None] * n + j[None, :]
    tl.store(out + at, tl.load(x + at, inside), inside)
    if row != column:
        tl.store(out + j[None, :] * n + i[:, None], tl.load(x + at, inside), inside)


@triton.jit
def either_kernel(left, right, out, n, m, BLOCK: tl.constexpr):
    tiles = tl.cdiv(n, BLOCK)
    tile = tl.program_id(0)
    if tile < tiles:
        source, target, size, first = left, out, n, tile * BLOCK
    else:
        source, target, size, first = right, out + n, m, (tile - tiles) * BLOCK
    at = first + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, at < size), at < size)


@triton.jit
def serving_kernel(counter, x, out, tiles, BLOCK: tl.constexpr):
    tile = tl.atomic_add(counter, 1)
    while tile < tiles:
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at))
        tile = tl.atomic_add(counter, 1)


@triton.jit
def serving_in_halves_kernel(counters, x, out, tiles, BLOCK: tl.constexpr):
    half = tl.program_id(0) % 2
    tile = tl.atomic_add(counters + half, 1) * 2 + half
    while tile < tiles:
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at))
        tile = tl.atomic_add(counters + half, 1) * 2 + half


@triton.jit
def bins_kernel(x, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    loaded = tl.load(x + at, at < n, 0)
    tl.atomic_add(counts + loaded, tl.full((BLOCK,), 1, tl.int32), at < n, sem="relaxed")


@triton.jit
def manners_kernel(x, out, total, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, cache_modifier=".cg")
    b = tl.load(x + n + at, eviction_policy="evict_last")
    c = tl.load(x + 2 * n + at, volatile=True)
    tl.store(out + at, a + b + c, cache_modifier=".wt")
    old = tl.atomic_max(total + tl.program_id(0), 7, sem="release", scope="cta")
    tl.store(out + n + tl.program_id(0), old.to(tl.float32))


def cuda(device, *shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype, device=device)


def integers(device, values):
    return torch.tensor(values, dtype=torch.int32, device=device)


STARTS = (0, 5, 5, 75, 76, 140, 300, 301, 301)


def aligned_slots(device, chosen, count, block):
    """`moe_align_block_size` with integer operations of torch: slots by expert, in whole blocks."""
    flat = chosen.flatten()
    sizes = torch.bincount(flat, minlength=count)
    blocks = (sizes + block - 1) // block
    until = blocks.cumsum(0)
    most = flat.numel() + count * (block - 1)
    tokens = torch.full((most // block * block,), flat.numel(), dtype=torch.int32, device=device)
    order = flat.argsort(stable=True)
    rank = torch.arange(flat.numel(), device=device) - (sizes.cumsum(0) - sizes)[flat[order]]
    tokens[((until - blocks) * block)[flat[order]] + rank] = order.to(torch.int32)
    tiles = torch.arange(tokens.numel() // block, device=device)
    experts = torch.searchsorted(until, tiles, right=True).clamp(max=count - 1)
    return tokens, experts.to(torch.int32), (until[-1:] * block).to(torch.int32)


def experts(device, T=96, TOP=2, E=8, N=64, K=64):
    chosen = (torch.arange(T * TOP, device=device) * 5 % 13 % E).view(T, TOP)
    tokens, of_tile, padded = aligned_slots(device, chosen, E, 16)
    half = {"dtype": torch.float16}
    x, w, out = (
        cuda(device, T, K, **half),
        cuda(device, E, K, N, **half),
        cuda(device, T * TOP, N, **half),
    )
    grid = (tokens.numel() // 16, N // 32)
    experts_kernel[grid](
        x, w, out, tokens, of_tile, padded, N, K, T * TOP, TOP=TOP, BM=16, BN=32, BK=32
    )


def rows_of_matrix(device):
    starts, count = integers(device, STARTS), STARTS[-1]
    columns = torch.arange(count, dtype=torch.int32, device=device) * 7 % 64
    grid = (len(STARTS) - 1,)
    row_kernel[grid](
        starts, columns, cuda(device, count), cuda(device, 64), cuda(device, 8), BLOCK=32
    )


def walking(device):
    starts = integers(device, STARTS)
    walking_kernel[(2,)](starts, cuda(device, 301), cuda(device, 8), 8, ROWS=4)


def pages(device, lengths=(40, 1, 97)):
    table = torch.arange(3 * 8, dtype=torch.int32, device=device).flip(0).view(3, 8)
    sizes = cuda(device, 3, 32), cuda(device, 24, 16, 32)
    pages_kernel[(3,)](
        sizes[0], sizes[1], table, integers(device, lengths), cuda(device, 3), 8, PAGE=16, D=32
    )


def lengths(device):
    starts = integers(device, STARTS)
    x, out = cuda(device, 301, 32), cuda(device, 301, 32)
    lengths_kernel[(10, 8)](x, starts, out, D=32, BLOCK=16)


def raised_flag(device):
    flag_kernel[(4,)](integers(device, [1]), cuda(device, 900), cuda(device, 900), 900, BLOCK=256)


def lowered_flag(device):
    flag_kernel[(4,)](integers(device, [0]), cuda(device, 900), cuda(device, 900), 900, BLOCK=256)


def counted(device):
    x, out = cuda(device, 301, 32), cuda(device, 301, 32)
    counted_kernel[(40,)](integers(device, STARTS), x, out, 7, D=32, GROUPS=8, BLOCK=16)


def root(device, n=300):
    tiles = triton.cdiv(n, 32)
    grid = (tiles * (tiles + 1) // 2,)
    root_kernel[grid](cuda(device, n, n), cuda(device, n, n), n, BLOCK=32)


def either(device, n=1000, m=300):
    grid = (triton.cdiv(n, 128) + triton.cdiv(m, 128),)
    either_kernel[grid](cuda(device, n), cuda(device, m), cuda(device, n + m), n, m, BLOCK=128)


def serving(device, tiles=37):
    x, out = cuda(device, tiles, 128), cuda(device, tiles, 128)
    serving_kernel[(8,)](integers(device, [0]), x, out, tiles, BLOCK=128)


def serving_in_halves(device, tiles=37):
    x, out = cuda(device, tiles * 128), cuda(device, tiles * 128)
    serving_in_halves_kernel[(8,)](integers(device, [0, 0]), x, out, tiles, BLOCK=128)


def bins(device, n=4000):
    x = torch.arange(n, dtype=torch.int32, device=device)
    x = torch.where(x % 2 == 0, 3, x % 16)
    bins_kernel[(triton.cdiv(n, 256),)](x.to(torch.int32), integers(device, [0] * 16), n, BLOCK=256)


def manners(device, n=512):
    manners_kernel[(4,)](
        cuda(device, 3 * n), cuda(device, 2 * n), integers(device, [0] * 4), n, BLOCK=128
    )


CASES = {
    **{f.__name__: f for f in (experts, rows_of_matrix, walking, pages, lengths, raised_flag)},
    **{f.__name__: f for f in (lowered_flag, counted, root, either, serving, bins)},
    "serving_in_halves": serving_in_halves,
}


def interpreted():
    """As `followed.interpreted`, of these cases."""
    place = Path(__file__).with_name("followed.py")
    spec = importlib.util.spec_from_file_location("followed", place)
    followed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(followed)
    followed.CASES = CASES
    return followed.interpreted()


@triton.jit
def finite_kernel(x, out, N: tl.constexpr, BLOCK: tl.constexpr):
    """Adds up rows at once, and one by one where a sum is not finite."""
    c = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(N):
        total += tl.load(x + row * BLOCK + c)
    if tl.sum(total * 0.0, 0) == 0.0:
        tl.store(out + c, total)
    else:
        for row in range(N):
            tl.atomic_add(out + c, tl.load(x + row * BLOCK + c))


def finite_data(device, rows=64):
    finite_kernel[(1,)](cuda(device, rows, 128), cuda(device, 128), N=rows, BLOCK=128)


@triton.jit
def waiting_kernel(flag, x, out, tries, BLOCK: tl.constexpr):
    """Waits for another program's sign, and counts how often it looked."""
    seen = 0
    while tl.load(flag, volatile=True) < 1:
        seen += 1
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))
    tl.store(tries + tl.program_id(0), seen)


def waiting(device):
    flag = torch.zeros(1, dtype=torch.int32, device=device)
    tries = torch.empty(4, dtype=torch.int32, device=device)
    waiting_kernel[(4,)](flag, cuda(device, 512), cuda(device, 512), tries, BLOCK=128)


@triton.jit
def locked_kernel(x, out, lock, n, BLOCK: tl.constexpr):
    """Sums rows under a lock: the first writes, all others add."""
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, i < n, 0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(lock + 1) == 0:
        tl.atomic_xchg(lock + 1, 1)
    else:
        row += tl.load(out + i, i < n, 0.0)
    tl.store(out + i, row, i < n)
    tl.atomic_xchg(lock, 0)


def locked(device, rows=40, n=1000):
    lock = torch.zeros(2, dtype=torch.int32, device=device)
    locked_kernel[(rows,)](cuda(device, rows, n), cuda(device, n), lock, n, BLOCK=1024)


@triton.jit
def sorted_kernel(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.sort((tl.load(x + i) << 32) | i.to(tl.int64))
    tl.store(out + (key & 0xFFFFFFFF), (key >> 32).to(tl.int16))


def sorted_places(device, n=4096):
    keys = torch.empty(n, dtype=torch.int64, device=device)
    sorted_kernel[(n // 256,)](keys, cuda(device, n, dtype=torch.int16), BLOCK=256)


def hidden(device, *shape):
    """Integers that are not known."""
    return torch.empty(shape, dtype=torch.int32, device=device)


def hidden_experts(device, T=96, TOP=2, E=8, N=64, K=64):
    half = {"dtype": torch.float16}
    x, w = cuda(device, T, K, **half), cuda(device, E, K, N, **half)
    tokens, of_tile, padded = hidden(device, 20 * 16), hidden(device, 20), hidden(device, 1)
    experts_kernel[(20, N // 32)](
        x, w, cuda(device, T * TOP, N, **half), tokens, of_tile, padded, N, K, T * TOP,
        TOP=TOP, BM=16, BN=32, BK=32,
    )  # fmt: skip


def hidden_rows(device, rows=8, count=1024):
    values, columns = cuda(device, count), hidden(device, count)
    starts = hidden(device, rows + 1)
    row_kernel[(rows,)](starts, columns, values, cuda(device, 64), cuda(device, rows), BLOCK=32)


def hidden_walk(device, rows=8, count=1024):
    values = cuda(device, count)
    walking_kernel[(2,)](hidden(device, rows + 1), values, cuda(device, rows), rows, ROWS=4)


def hidden_pages(device):
    table, lengths = hidden(device, 3, 8), hidden(device, 3)
    q, cache, out = cuda(device, 3, 32), cuda(device, 24, 16, 32), cuda(device, 3)
    pages_kernel[(3,)](q, cache, table, lengths, out, 8, PAGE=16, D=32)


def hidden_flag(device):
    flag_kernel[(4,)](hidden(device, 1), cuda(device, 900), cuda(device, 900), 900, BLOCK=256)


def hidden_lengths(device):
    x, out = cuda(device, 301, 32), cuda(device, 301, 32)
    lengths_kernel[(10, 8)](x, hidden(device, 9), out, D=32, BLOCK=16)


def hidden_groups(device):
    x, out = cuda(device, 301, 32), cuda(device, 301, 32)
    counted_kernel[(40,)](hidden(device, 9), x, out, 8, D=32, GROUPS=8, BLOCK=16)
