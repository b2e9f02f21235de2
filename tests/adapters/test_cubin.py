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

from solkit.adapters import cubin, launch_recording, sass, triton_compiler
from solkit.analysis.common.instructions import instruction_mix
from solkit.analysis.worker import fake_device
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
        fake_device(device)
        x = torch.randn(1 << 16, device="cuda")
        with launch_recording.recording_launches({}) as seen:
            rows[(4,)](x, x, 1000, BLOCK=256)
            product[(1,)](x, x, x, BLOCK=128, num_warps=2)
        return [triton_compiler.compile_for(launch.kernel, device) for launch in seen.launches]

    return compile_them


@pytest.fixture(
    scope="module", params=[pytest.param("a100", marks=pytest.mark.slow), "h100", "b200"]
)
def both(request, in_child):
    """What Triton made for a device, and the device."""
    device = devices.find(request.param)
    return in_child(compiled(device)), device


def only(functions):
    (function,) = functions.values()
    return function


def architecture(device):
    major, minor = device.compute_capability
    return f"{major}{minor}{'a' if major >= 9 else ''}"


def usages(data, tmp_path):
    path = tmp_path / "kernel.cubin"
    path.write_bytes(data)
    command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [int(group) for group in re.search(r"REG:(\d+) STACK:(\d+)", text).groups()]


def test_registers_and_stack_are_those_that_cuobjdump_tells(both, tmp_path):
    kernels, _ = both
    for kernel in kernels:
        (function,) = cubin.parse_functions(kernel.cubin).values()
        assert [function.registers, function.stack_bytes] == usages(kernel.cubin, tmp_path)
        assert (kernel.registers, kernel.spills) == (function.registers, function.stack_bytes // 4)


@pytest.mark.slow
def test_code_read_together_is_as_nvdisasm_shows_each(both):
    kernels, device = both
    functions = [only(cubin.parse_functions(item.cubin)) for item in kernels]
    together = sass.machine_code(functions, architecture(device))
    for kernel, code in zip(kernels, together, strict=True):
        try:
            (alone,) = sass.parse_listing(sass.disassemble(kernel.cubin)).values()
        except UnsupportedError as error:
            pytest.skip(str(error))
        assert instruction_mix(code) == instruction_mix(alone)
        assert [(i.address, i.opcode, i.predicate, i.lines) for i in code.instructions] == [
            (i.address, i.opcode, i.predicate, i.lines) for i in alone.instructions
        ]
        shapes = [[(b.depth, b.successors) for b in result.blocks] for result in (code, alone)]
        assert shapes[0] == shapes[1]


def test_a_kernel_that_spills_has_a_stack(both):
    _, product = both[0]
    if both[1].compute_capability[0] == 8:  # wgmma's and tcgen05's accumulators lie elsewhere
        assert product.spills > 0


@pytest.mark.slow
def test_one_run_of_nvdisasm_reads_all(both, monkeypatch, tmp_path):
    kernels, device = both
    runs = []

    @functools.wraps(subprocess.run)
    def counted(command, *args, **kwargs):
        runs.append(command[0])
        return run(command, *args, **kwargs)

    run = subprocess.run
    assert knobs.nvidia.nvdisasm.version  # Triton asks the tool once a process
    monkeypatch.setattr(subprocess, "run", counted)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # a knob would stay set afterwards
    codes = triton_compiler.machine_codes([*kernels, triton_compiler.Compiled()], device)
    assert codes[-1] is None
    assert len(runs) == 1


@pytest.mark.quick("b200")
def test_instructions_of_a_masked_load_are_of_its_line(both):
    """Triton's inline assembly of several lines begins where the load stands, and counts on."""
    rows_kernel, product_kernel = triton_compiler.machine_codes(*both)
    for code, function in ((rows_kernel, rows), (product_kernel, product)):
        first = function.starting_line_number
        last = first + len(function.raw_src) - 1
        places = [place.split(":") for place in instruction_mix(code).lines]
        lines = {int(line) for file, line in places if file == "test_cubin.py"}
        assert first <= min(lines) <= max(lines) <= last


SWITCH = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
  .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .f32 %f<9>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  cvta.to.global.u64 %rd2, %rd1;
  cases: .branchtargets L0, L1, L2, L3, L4;
  setp.gt.u32 %p1, %r1, 4;
  @%p1 bra END;
  brx.idx %r1, cases;
L0: st.global.u32 [%rd2], 7; bra END;
L1: ld.global.f32 %f1, [%rd2]; sin.approx.f32 %f2, %f1; st.global.f32 [%rd2], %f2; bra END;
L2: bar.sync 0; ld.global.f32 %f1, [%rd2+4]; ex2.approx.f32 %f2, %f1; bra OUT;
L3: bar.sync 0; ld.global.f32 %f1, [%rd2+8]; lg2.approx.f32 %f2, %f1; bra OUT;
L4: red.global.add.u32 [%rd2+100], 5; bra END;
OUT: st.global.f32 [%rd2+16], %f2;
END: ret;
}
"""


def test_each_target_of_an_indirect_branch_is_read(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(SWITCH)
    command = [knobs.nvidia.ptxas.path, "-arch=sm_80", "-o", str(tmp_path / "k.cubin"), str(path)]
    subprocess.run(command, check=True)
    data = (tmp_path / "k.cubin").read_bytes()
    (together,) = sass.machine_code([only(cubin.parse_functions(data))], "80")
    (alone,) = sass.parse_listing(sass.disassemble(data)).values()
    bare = [line for line in sass.disassemble(data).splitlines() if "//##" not in line]
    (untold,) = sass.parse_listing(
        "\n".join(re.sub(r"\(\*.*\*\)", "", item) for item in bare)
    ).values()
    for code in (together, alone, untold):
        names = [instruction.name for instruction in code.instructions]
        assert any(name in ("BRX", "BRXU") for name in names)
        assert names.count("MUFU") == 3  # sine, power and logarithm
        assert names.count("LDG") == 3
        assert "RED" in names
        assert code.loops == 0


@pytest.mark.parametrize("data", [b"", b"no ELF", b"\x7fELF\x02" + bytes(200)])
def test_what_is_no_cubin_is_an_error(data):
    with pytest.raises(cubin.CubinError):
        cubin.parse_functions(data)


def test_a_cubin_that_cannot_be_read_says_why_and_costs_no_other(both):
    kernels, device = both
    broken = triton_compiler.Compiled(cubin=b"no ELF")
    first, second = triton_compiler.machine_codes([broken, kernels[0]], device)
    assert isinstance(first, str)
    assert instruction_mix(second).total > 0
