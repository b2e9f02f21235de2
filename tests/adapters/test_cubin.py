"""What is read of a cubin directly, beside what NVIDIA's tools say of the same one."""

from __future__ import annotations

import functools
import re
import subprocess

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs

from solkit.adapters import cubin, fake_triton, sass, triton_compiler
from solkit.analysis.common.instructions import mix_of
from solkit.analysis.worker import fake
from solkit.errors import UnsupportedError
from solkit.roofline import devices


@triton.jit
def rows(x, out, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        total += tl.exp(
            tl.load(x + tl.program_id(0) * N + start + at, mask=start + at < N, other=0.0)
        )
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def product(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tile = at[:, None] * BLOCK + at[None, :]
    tl.store(out + tile, tl.dot(tl.load(x + tile), tl.load(y + tile)))


def compiled(device):
    """A kernel with a loop and one with matrix products that spill, for a device."""

    def compile_them():
        fake(device)
        x = torch.randn(1 << 16, device="cuda")
        with fake_triton.recording({}) as seen:
            rows[(4,)](x, x, 1000, BLOCK=256)
            product[(1,)](x, x, x, BLOCK=128, num_warps=2)
        return [triton_compiler.compile_for(each.kernel, device) for each in seen.launches]

    return compile_them


@pytest.fixture(params=["a100", "h100", "b200"])
def both(request, in_child):
    """What Triton made for a device, and the device."""
    device = devices.find(request.param)
    return in_child(compiled(device)), device


def usages(data, tmp_path):
    path = tmp_path / "kernel.cubin"
    path.write_bytes(data)
    command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [int(each) for each in re.search(r"REG:(\d+) STACK:(\d+)", text).groups()]


def test_registers_and_stack_are_those_that_cuobjdump_tells(both, tmp_path):
    kernels, _ = both
    for each in kernels:
        (found,) = cubin.functions(each.cubin).values()
        assert [found.registers, found.stack_bytes] == usages(each.cubin, tmp_path)
        assert (each.registers, each.spills) == (found.registers, found.stack_bytes // 4)


def test_code_read_together_is_as_nvdisasm_shows_each(both):
    kernels, device = both
    together = triton_compiler.machine_codes(kernels, device)
    for each, code in zip(kernels, together, strict=True):
        try:
            (alone,) = sass.parse(sass.disassemble(each.cubin)).values()
        except UnsupportedError as error:
            pytest.skip(str(error))
        assert mix_of(code) == mix_of(alone)
        assert [(i.address, i.opcode, i.predicate, i.lines[-1:]) for i in code.instructions] == [
            (i.address, i.opcode, i.predicate, i.lines[-1:]) for i in alone.instructions
        ]
        shapes = [[(b.depth, b.successors) for b in found.blocks] for found in (code, alone)]
        assert shapes[0] == shapes[1]


def test_a_kernel_that_spills_has_a_stack(both):
    _, product = both[0]
    if both[1].compute_capability[0] == 8:  # wgmma's and tcgen05's accumulators lie elsewhere
        assert product.spills > 0


def test_one_run_of_nvdisasm_reads_all(both, monkeypatch, tmp_path):
    kernels, device = both
    runs = []

    @functools.wraps(subprocess.run)
    def counted(command, *args, **kwargs):
        runs.append(command[0])
        return run(command, *args, **kwargs)

    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", counted)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # a knob would stay set afterwards
    codes = triton_compiler.machine_codes([*kernels, triton_compiler.Compiled()], device)
    assert codes[-1] is None
    assert len(runs) == 1


@pytest.mark.parametrize("data", [b"", b"no ELF", b"\x7fELF\x02" + bytes(200)])
def test_what_is_no_cubin_is_an_error(data):
    with pytest.raises(cubin.CubinError):
        cubin.functions(data)


def test_a_cubin_that_cannot_be_read_says_why_and_costs_no_other(both):
    kernels, device = both
    broken = triton_compiler.Compiled(cubin=b"no ELF")
    first, second = triton_compiler.machine_codes([broken, kernels[0]], device)
    assert isinstance(first, str)
    assert mix_of(second).total > 0
