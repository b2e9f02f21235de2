"""What CUDA C++ kernels ask for, against a count of every thread of every block in plain Python."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from solkit.adapters.launch_recording import TensorArgument
from solkit.adapters.nvrtc import compile_cuda
from solkit.adapters.triton_compiler import Compiled
from solkit.analysis.cuda.requests import cuda_requests
from solkit.analysis.interpreter import launch_requests as module
from solkit.analysis.interpreter.thread_groups import Grid
from solkit.roofline import devices
from solkit.roofline.kernel.dram_traffic import dram_traffic
from solkit.roofline.kernel.occupancy import occupancy

H100 = devices.find("h100")

SOURCE = r"""
extern "C" {
__global__ void copy(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = x[i];
}
__global__ void strided(const float* x, float* y, int n, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i * stride];
}
__global__ void vectors(const float4* x, float4* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
__global__ void grid_stride(const float* __restrict__ x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = 2.0f * x[i];
}
__global__ void transposed(const float* x, float* y, int rows, int columns) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  if (r < rows && c < columns) y[c * rows + r] = x[r * columns + c];
}
__global__ void rows(const float* x, float* y, int m, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= m) return;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += x[r * n + k];
  y[r] = sum;
}
__global__ void triangle(const float* x, float* y, int n) {
  float sum = 0;
  for (int k = threadIdx.x; k <= blockIdx.x; k += blockDim.x) sum += x[blockIdx.x * n + k];
  atomicAdd(y + blockIdx.x, sum);
}
__global__ void branches(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = 0;
  if (threadIdx.x % 3 == 0) v = x[i]; else if (threadIdx.x & 64) v = x[2 * n + i];
  if (blockIdx.x % 4 == 1) y[i] = v;
}
__global__ void remainders(const float* x, float* y, int n, int width) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int row = i / width, column = i % width;
    y[i] = x[row * 2 * width + column];
  }
}
__global__ void histogram(const float* x, int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[(int)(x[i] * 256.0f)], 1);
}
__global__ void gather(const float* x, const int* rows, float* y, int width) {
  int row = rows[blockIdx.x];
  y[blockIdx.x * width + threadIdx.x] = x[row * width + threadIdx.x];
}
__constant__ float weights[64];
__global__ void elsewhere(const float* x, const int* order, float* y) {
  float own[32];
  for (int i = 0; i < 32; i++) own[i] = x[i * 128 + threadIdx.x];
  for (int i = 0; i < 32; i++) y[i * 128 + threadIdx.x] = own[order[i]] * weights[threadIdx.x % 64];
}
__global__ void copies(const float4* x, float4* y, int n) {
  __shared__ float4 buffer[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  unsigned to = __cvta_generic_to_shared(buffer + threadIdx.x);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(x + i));
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group 0;");
  __syncthreads();
  y[i] = buffer[127 - threadIdx.x];
}
#define T 16
__global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
  __shared__ float left[T][T], right[T][T];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty, column = blockIdx.x * T + tx;
  float sum = 0;
  for (int k = 0; k < K; k += T) {
    left[ty][tx] = row < M && k + tx < K ? a[row * K + k + tx] : 0;
    right[ty][tx] = column < N && k + ty < K ? b[(k + ty) * N + column] : 0;
    __syncthreads();
    for (int i = 0; i < T; i++) sum += left[ty][i] * right[i][tx];
    __syncthreads();
  }
  if (row < M && column < N) c[row * N + column] = sum;
}
__global__ void unguarded(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = i < n ? x[i] : 0.0f;
}
__global__ void neighbours(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = x[i - 1] + x[i];
}
__global__ void as_said(const float* x, const int* lengths, float* y) {
  if (threadIdx.x < lengths[0]) y[threadIdx.x] = x[threadIdx.x];
}
__global__ void partly_copied(const float4* x, float4* y, int n) {
  __shared__ float4 buffer[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  unsigned to = __cvta_generic_to_shared(buffer + threadIdx.x);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::
    "r"(to), "l"(x + i), "r"(i < n ? 16 : 0));
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  if (i < n) y[i] = buffer[127 - threadIdx.x];
}
#define TILES(name, width)                                                       \
__global__ void name(const float* x, float* y, int n) {                          \
  __shared__ float tile[32][width];                                              \
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;      \
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = x[(r + j) * n + c]; \
  __syncthreads();                                                               \
  c = blockIdx.y * 32 + threadIdx.x; r = blockIdx.x * 32 + threadIdx.y;          \
  for (int j = 0; j < 32; j += 8) y[(r + j) * n + c] = tile[threadIdx.x][threadIdx.y + j]; \
}
TILES(tiles, 32)
TILES(padded_tiles, 33)
}
"""
NAMES = (
    "copy strided vectors grid_stride transposed rows triangle branches remainders histogram "
    "gather elsewhere copies product tiles padded_tiles unguarded neighbours as_said "
    "partly_copied"
).split()


@pytest.fixture(scope="module")
def compiled(compiler):  # noqa: ARG001 - skips without one
    return compile_cuda(SOURCE, "kernels.cu", NAMES, ["-arch=sm_90", "-lineinfo"])


@pytest.fixture
def requests_of(compiled):
    """What a launch asks for."""

    def run(name, arguments, names, grid, block, shared_bytes=0):
        grid, block = (tuple([*item, 1, 1][:3]) for item in (grid, block))
        warps = -(-math.prod(block) // 32)
        resident = occupancy(H100, 32, shared_bytes, warps, math.prod(grid), 1)
        binary = Compiled(ptx=compiled.ptx, entry=compiled.names[name], shared_bytes=shared_bytes)
        return cuda_requests(binary, arguments, names.split(), Grid(grid, block), H100, resident)

    return run


def tensor(number, elements, element_bytes=4, contents=None):
    return TensorArgument(
        number, elements * element_bytes, 0, (elements,), (1,), element_bytes, contents
    )


def by_hand(grid, block, accesses):
    """Requests, sectors and bytes of each site: a request is what a warp's lanes ask for n-th.

    `accesses` gives, for a block and a thread, (site, address, bytes) in the order of the program.
    """
    sizes = [tuple([*item, 1, 1][:3]) for item in (grid, block)]
    totals = defaultdict(lambda: [0, 0, 0])
    for at in itertools.product(*map(range, sizes[0][::-1])):
        warps = defaultdict(set)
        threads = itertools.product(*map(range, sizes[1][::-1]))
        for number, thread in enumerate(threads):
            order = defaultdict(int)
            for site, address, size in accesses(at[::-1], thread[::-1]):
                warps[number // 32, site, order[site]].add(address // 32)
                order[site] += 1
                totals[site][2] += size
        for (_, site, _), sectors in warps.items():
            totals[site][0] += 1
            totals[site][1] += len(sectors)
    return {site: tuple(total) for site, total in totals.items()}


def counted(asks):
    """The same of a asks, lines of one argument and kind together."""
    totals = defaultdict(lambda: np.zeros(3))
    for access in asks.accesses:
        figures = (access.requests, access.sectors, access.requested_bytes)
        totals[f"{access.kind} {access.argument}"] += figures
    return {site: tuple(total.tolist()) for site, total in totals.items()}


def check(asks, expected, within=0.0):
    result = counted(asks)
    assert result.keys() == expected.keys()
    for site, figures in expected.items():
        assert result[site] == pytest.approx(figures, rel=within), site


@pytest.mark.parametrize("n", [1000, 40_000])  # followed whole, and in part
def test_a_copy(requests_of, n):
    grid = -(-n // 256)

    def accesses(block, thread):
        i = block[0] * 256 + thread[0]
        if i < n:
            yield from (("load x", 4 * i, 4), ("store y", 4 * i, 4))

    asks = requests_of("copy", (tensor(1, n), tensor(2, n), n), "x y n", (grid,), (256,))
    check(asks, by_hand((grid,), (256,), accesses), 0.0 if n < 2000 else 2e-3)
    assert asks.guesses == ()
    dram = dram_traffic(asks.reuse, H100.l2_bytes)
    assert (dram.read, dram.written) == pytest.approx((4 * n, 4 * n), rel=0.05)
    load, store = asks.accesses
    assert load.line.endswith(f"kernels.cu:{line_of('y[i] = x[i];')}")
    assert (load.vector_bytes, store.unique_bytes) == (4, pytest.approx(4 * n, rel=0.01))


def line_of(text):
    return next(i for i, line in enumerate(SOURCE.splitlines(), 1) if text in line)


def test_strides_and_vectors(requests_of):
    n, stride = 20_000, 5

    def accesses(block, thread):
        i = block[0] * 128 + thread[0]
        if i < n:
            yield from (("load x", 4 * i * stride, 4), ("store y", 4 * i, 4))

    arguments = (tensor(1, n * stride), tensor(2, n), n, stride)
    asks = requests_of("strided", arguments, "x y n stride", (157,), (128,))
    check(asks, by_hand((157,), (128,), accesses), 5e-3)
    (load, store) = asks.accesses
    assert load.efficiency == pytest.approx(0.2, rel=0.02)
    assert store.efficiency == 1.0
    asks = requests_of("vectors", (tensor(1, 4 * n), tensor(2, 4 * n), n), "x y n", (157,), (128,))
    load, store = asks.accesses
    assert load.vector_bytes == store.vector_bytes == 16
    assert (load.requests, load.sectors) == pytest.approx((625, 16 * 625), rel=5e-3)


@pytest.mark.parametrize("n", [100_003, 1 << 20])
def test_strides_of_the_grid(requests_of, n):
    asks = requests_of("grid_stride", (tensor(1, n), tensor(2, n), n), "x y n", (80,), (256,))
    # whole warps at multiples of 128 bytes, but for the last one
    sectors, requests = -(-n // 8), -(-n // 32)
    for access in asks.accesses:
        assert access.sectors == pytest.approx(sectors, rel=5e-3)
        assert access.requests == pytest.approx(requests, rel=5e-3)
    assert sum(a.requests for a in asks.accesses) == pytest.approx(2 * requests, rel=5e-3)
    assert asks.operations == {"fp32": pytest.approx(n, rel=5e-3)}
    assert asks.steps <= -(-n // (80 * 256))
    assert asks.loop_requests > 0.5 * requests


def test_a_transpose_in_two_dimensions(requests_of):
    rows, columns = 200, 300
    grid, block = (-(-columns // 32), -(-rows // 8)), (32, 8)

    def accesses(block, thread):
        c, r = block[0] * 32 + thread[0], block[1] * 8 + thread[1]
        if r < rows and c < columns:
            yield ("load x", 4 * (r * columns + c), 4)
            yield ("store y", 4 * (c * rows + r), 4)

    arguments = (tensor(1, rows * columns), tensor(2, rows * columns), rows, columns)
    asks = requests_of("transposed", arguments, "x y rows columns", grid, block)
    check(asks, by_hand(grid, block, accesses), 0.03)
    store = asks.accesses[1]
    # 8 rows of a block side by side fill a sector of each column
    assert store.block_sectors == pytest.approx(store.sectors / 8, rel=0.02)


def test_each_thread_along_a_row(requests_of):
    m, n = 1024, 1001

    def accesses(block, thread):
        r = block[0] * 64 + thread[0]
        yield from (("load x", 4 * (r * n + k), 4) for k in range(64))

    arguments = (tensor(1, m * n), tensor(2, m), m, n)
    asks = requests_of("rows", arguments, "x y m n", (16,), (64,))
    of_64 = by_hand((16,), (64,), accesses)["load x"]
    result = counted(asks)["load x"]
    assert result == pytest.approx([figure * n / 64 for figure in of_64], rel=5e-3)
    assert dram_traffic(asks.reuse, H100.l2_bytes).read == pytest.approx(4 * m * n, rel=0.05)
    load = asks.accesses[0]
    assert load.unique_bytes == pytest.approx(4 * m * n, rel=0.05)
    # neighbours in a sector are asked for while L1 still has it
    assert asks.l2_read_bytes == pytest.approx(4 * m * n, rel=0.3)


def test_loops_of_different_lengths(requests_of):
    n = 600

    def accesses(block, thread):
        for k in range(thread[0], block[0] + 1, 64):
            yield ("load x", 4 * (block[0] * n + k), 4)
        yield ("atomic y", 4 * block[0], 4)

    asks = requests_of("triangle", (tensor(1, n * n), tensor(2, n), n), "x y n", (n,), (64,))
    check(asks, by_hand((n,), (64,), accesses), 0.03)
    assert asks.imbalance > 1.5


def test_threads_that_part(requests_of):
    n = 4096 * 2

    def accesses(block, thread):
        i = block[0] * 128 + thread[0]
        if thread[0] % 3 == 0:
            yield ("load x", 4 * i, 4)
        elif thread[0] & 64:
            yield ("load x ", 4 * (2 * n + i), 4)
        if block[0] % 4 == 1:
            yield ("store y", 4 * i, 4)

    arguments = (tensor(1, 3 * n), tensor(2, n), n)
    asks = requests_of("branches", arguments, "x y n", (64,), (128,))
    expected = by_hand((64,), (128,), accesses)
    expected["load x"] = tuple(a + b for a, b in zip(expected["load x"], expected.pop("load x ")))
    check(asks, expected)


@pytest.mark.parametrize(("n", "width", "within"), [(5000, 48, 0.0), (1 << 16, 48, 0.02)])
def test_divisions_of_what_a_loop_counts(requests_of, n, width, within):
    def accesses(_, thread):
        for i in range(thread[0], n, 128):
            yield ("load x", 4 * (i // width * 2 * width + i % width), 4)
            yield ("store y", 4 * i, 4)

    asks = requests_of(
        "remainders", (tensor(1, 2 * n + 96), tensor(2, n), n, width), "x y n width", (1,), (128,)
    )
    check(asks, by_hand((1,), (128,), accesses), within)


def test_bins_that_data_choose(requests_of):
    n = 1 << 16
    arguments = (tensor(1, n), tensor(2, 256), n)
    asks = requests_of("histogram", arguments, "x bins n", (n // 256,), (256,))
    load, atomic = asks.accesses
    assert (load.sectors, atomic.kind, atomic.argument) == (n // 8, "atomic", "bins")
    assert atomic.requests == n // 32
    assert any("places that depend on data" in guess for guess in asks.guesses)
    # 32 lanes drawn from 32 sectors: 32 (1 - (31/32)^32) of them
    assert atomic.sectors == pytest.approx(n // 32 * 32 * (1 - (31 / 32) ** 32), rel=1e-3)


def test_indices_whose_contents_are_known(requests_of):
    width, rows = 64, np.array([3, 3, 0, 7] * 50, np.int32)

    def accesses(block, thread):
        yield ("load rows", 4 * block[0], 4)
        yield ("load x", 4 * (int(rows[block[0]]) * width + thread[0]), 4)
        yield ("store y", 4 * (block[0] * width + thread[0]), 4)

    x, y = tensor(1, 8 * width), tensor(3, 200 * width)
    asks = requests_of(
        "gather", (x, tensor(2, 200, 4, rows), y, width), "x rows y width", (200,), (64,)
    )
    check(asks, by_hand((200,), (64,), accesses))
    assert asks.guesses == ()
    assert next(a for a in asks.accesses if a.argument == "x").unique_bytes == 3 * 4 * width
    unknown = requests_of("gather", (x, tensor(2, 200), y, width), "x rows y width", (200,), (64,))
    assert any("taken to be in order" in guess for guess in unknown.guesses)


def test_constant_and_local_memory_are_said(requests_of):
    arguments = (tensor(1, 4096), tensor(2, 32, 4, np.arange(32, dtype=np.int32)), tensor(3, 4096))
    asks = requests_of("elsewhere", arguments, "x order y", (1,), (128,))
    results = {guess.partition(": ")[2] for guess in asks.guesses}
    assert results == {
        "what is read of constant memory is not counted.",
        "an array in local memory is counted as spilled registers are.",
    }
    sectors = {f"{access.kind} {access.argument}": access.sectors for access in asks.accesses}
    assert sectors == {"load x": 512, "load order": 32 * 4, "store y": 512}


def test_copies_straight_to_shared_memory(requests_of):
    n = 1024
    asks = requests_of(
        "copies", (tensor(1, 4 * n), tensor(2, 4 * n), n), "x y n", (8,), (128,), 2048
    )
    copy, _ = asks.accesses
    assert (copy.kind, copy.path, copy.argument) == ("load", "async", "x")
    assert (copy.requests, copy.sectors, copy.vector_bytes) == (n // 32, n // 2, 16)
    assert asks.l2_read_bytes == 16 * n  # past L1
    shared = {access.kind: (access.requests, access.wavefronts) for access in asks.shared}
    assert shared == {"copy": (n // 32, n // 8), "load": (n // 32, n // 8)}
    assert asks.guesses == ()


@pytest.mark.parametrize("sizes", [(50, 70, 45), (130, 150, 200)])
def test_a_product_of_tiles(requests_of, sizes):
    M, N, K = sizes
    grid, block = (-(-N // 16), -(-M // 16)), (16, 16)

    def accesses(at, thread):
        (tx, ty, _), row, column = thread, at[1] * 16 + thread[1], at[0] * 16 + thread[0]
        for k in range(0, K, 16):
            if row < M and k + tx < K:
                yield ("load a", 4 * (row * K + k + tx), 4)
            if column < N and k + ty < K:
                yield ("load b", 4 * ((k + ty) * N + column), 4)
        if row < M and column < N:
            yield ("store c", 4 * (row * N + column), 4)

    arguments = (tensor(1, M * K), tensor(2, K * N), tensor(3, M * N), M, N, K)
    asks = requests_of("product", arguments, "a b c M N K", grid, block, 2048)
    check(asks, by_hand(grid, block, accesses), 0.0 if M == 50 else 0.05)
    rounds, blocks = -(-K // 16), math.prod(grid)
    assert asks.operations == {"fp32": 2 * 16**3 * rounds * blocks}
    assert asks.barriers == 2 * rounds
    # 32 loads of shared memory and 16 multiply-adds a round, and what leads to the loads of a and b
    assert 48 * rounds < asks.instructions < 3 * 48 * rounds
    assert asks.steps == rounds
    # 8 warps, each two rows of a tile; of `left` four at once, half a warp at a time
    of_line = defaultdict(int)
    for access in asks.shared:
        of_line[access.kind] += access.wavefronts
        assert access.conflicts == 1.0
    assert of_line["store"] == 2 * 8 * rounds * blocks
    assert of_line["load"] == 8 * rounds * blocks * (16 + 4 * 2)


@pytest.mark.parametrize(("name", "conflicts"), [("tiles", 32.0), ("padded_tiles", 1.0)])
def test_bank_conflicts(requests_of, name, conflicts):
    n = 256
    asks = requests_of(
        name, (tensor(1, n * n), tensor(2, n * n), n), "x y n", (8, 8), (32, 8), 4224
    )
    store, load = sorted(asks.shared, key=lambda access: access.kind, reverse=True)
    assert (store.kind, load.kind) == ("store", "load")
    assert store.requests == load.requests == n * n // 32
    assert (store.conflicts, load.conflicts) == (1.0, conflicts)
    assert [access.sectors for access in asks.accesses] == [n * n // 8] * 2
    assert asks.steps == 1.0  # four loads, asked for together
    assert asks.barriers == 1.0


def test_sampled_blocks_tell_of_all(requests_of, monkeypatch):
    M, N, K = 140, 150, 100
    arguments = (tensor(1, M * K), tensor(2, K * N), tensor(3, M * N), M, N, K)
    launch = ("product", arguments, "a b c M N K", (10, 9), (16, 16), 2048)
    sampled = requests_of(*launch)
    monkeypatch.setattr(module, "_SMALL", 1 << 30)
    whole = requests_of(*launch)
    assert sampled.programs_sampled < whole.programs_sampled == 90
    check(sampled, counted(whole), 0.03)
    for name in ("l2_read_bytes", "l1_wavefronts"):
        assert getattr(sampled, name) == pytest.approx(getattr(whole, name), rel=0.05), name
    one, all_ = (dram_traffic(item.reuse, H100.l2_bytes) for item in (sampled, whole))
    assert (one.read, one.written) == pytest.approx((all_.read, all_.written), rel=0.05)
    assert sampled.operations == pytest.approx(whole.operations, rel=0.01)


def outside(asks):
    return {f"{access.kind} {access.argument}": access.outside_bytes for access in asks.accesses}


@pytest.mark.parametrize("n", [1000, 300_000])  # followed whole, and in part
def test_what_leaves_a_tensor_says_how_far(requests_of, n):
    grid = -(-n // 256)
    arguments = (tensor(1, n), tensor(2, n), n)
    result = outside(requests_of("unguarded", arguments, "x y n", (grid,), (256,)))
    # the last thread is 256 * grid - 1, the last element n - 1
    assert result == {"load x": 0, "store y": 4 * (256 * grid - n)}
    asks = requests_of("neighbours", arguments, "x y n", (8,), (256,))
    assert {access.outside_bytes for access in asks.accesses if access.kind == "load"} == {4}
    assert {access.outside_bytes for access in asks.accesses if access.kind == "store"} == {0}


def test_what_stays_inside_or_is_not_known_to_leave_says_nothing(requests_of):
    n = 1000
    plain = requests_of("copy", (tensor(1, n), tensor(2, n), n), "x y n", (4,), (256,))
    lengths = np.full(1, 256, np.int32)  # what is in memory may be another number by then
    arguments = (tensor(1, 200), tensor(3, 1, contents=lengths), tensor(2, 200))
    result = requests_of("as_said", arguments, "x lengths y", (1,), (256,))
    sized = (tensor(1, 4 * n), tensor(2, 4 * n), n)  # the last block copies 104 of 128
    copied = requests_of("partly_copied", sized, "x y n", (8,), (128,))
    assert not any({**outside(plain), **outside(result), **outside(copied)}.values())
