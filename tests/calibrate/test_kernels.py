"""What the kernels compile to, and what they do in Triton's interpreter."""

import re
import subprocess
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest

from solkit.adapters.triton_compiler import Specialisation, compile_kernel, gpu_target
from solkit.calibrate import kernels, probes
from solkit.calibrate.pipes import CHAINS, PIPES, THREADS, UNROLL
from solkit.roofline import devices

H100 = devices.find("h100")


def machine_code(kernel, signature, constants, warps=8):
    from triton import knobs

    names = list(signature)
    pointers = [i for i, name in enumerate(names) if signature[name].startswith("*")]
    built = compile_kernel(
        Specialisation(
            kernel,
            signature,
            {(names.index(name),): value for name, value in constants.items()},
            {(i,): [["tt.divisibility", 16]] for i in pointers},
            {"num_warps": warps},
        ),
        gpu_target(H100),
    )
    cubin = next(path for name, path in built.metadata_group.items() if name.endswith(".cubin"))
    command = [knobs.nvidia.nvdisasm.path, "-ndf", "-c", str(cubin)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9_.]*)", text)


@pytest.mark.quick("int32.add")
@pytest.mark.parametrize("name", PIPES)
def test_no_instruction_of_a_pipe_is_optimised_away(name):
    """Per loop and thread: all pairs in each of `CHAINS` chains, whatever ptxas would like."""
    pipe, pairs = PIPES[name], 16  # of `UNROLL`: to compile sooner
    names = list(kernels.alu_kernel.arg_names)
    constants = dict(zip(names[3:], probes._alu_arguments(pipe)[1:], strict=True))
    constants["PAIRS"] = pairs
    signature = {"sink": "*fp32", "loops": "i32", "constant": "fp32"} | dict.fromkeys(
        constants, "constexpr"
    )
    code = machine_code(kernels.alu_kernel, signature, constants)
    expected = Counter([pipe.first.sass, pipe.second.sass])
    for pattern, count in expected.items():
        seen = sum(re.match(pattern, instruction) is not None for instruction in code)
        want = count * pairs * CHAINS
        assert want <= seen <= want + 8  # a few more outside the loop


def test_operations_are_those_of_all_instructions():
    per_program = {
        name: pipe.operations / (UNROLL * CHAINS * THREADS) for name, pipe in PIPES.items()
    }
    assert per_program == {
        "fp32": 4, "fp64": 4, "int32.mad": 4, "int32.add": 2, "int32.logic": 2,
        "int32.mad+logic": 3, "issue": 2, "sfu.ex2": 2, "sfu.rsqrt": 2, "sfu.sin": 2,
    }  # fmt: skip


@pytest.mark.slow
def test_memory_moves_in_16_bytes_and_reads_pass_l1_by():
    sizes = {"chunks": "i32", "passes": "i32", "CHUNK": "constexpr"}
    chunk = {"CHUNK": 4096}
    read = machine_code(kernels.read_kernel, {"source": "*fp32", "sink": "*fp32", **sizes}, chunk)
    write = machine_code(kernels.write_kernel, {"target": "*fp32", "value": "fp32", **sizes}, chunk)
    loads = {instruction for instruction in read if instruction.startswith("LDG")}
    assert loads == {"LDG.E.128.STRONG.GPU"}
    assert {i for i in write if i.startswith("STG")} == {"STG.E.128"}


def test_memory_kernels_touch_every_byte_once_a_round(interpreted):
    """In the interpreter: 4 programs, 2 passes, 8 chunks; then 3 passes, which wrap around."""
    code = """
        import torch
        from solkit.calibrate.kernels import copy_kernel, empty_kernel, read_kernel, write_kernel
        x, y, sums = torch.arange(512.0), torch.zeros(512), torch.zeros(4)
        read_kernel[(4,)](x, sums, 8, 2, CHUNK=64)
        assert torch.equal(sums, x.view(8, 64).sum(1).view(2, 4).sum(0)), sums
        write_kernel[(4,)](y, 1.0, 8, 2, CHUNK=64)
        assert torch.equal(y.view(2, 256).amin(1), torch.tensor([1.0, 2.0])), y
        write_kernel[(4,)](y, 1.0, 8, 3, CHUNK=64)
        assert torch.equal(y.view(2, 256).amax(1), torch.tensor([3.0, 2.0])), y
        copy_kernel[(4,)](x, y, 8, 2, CHUNK=64)
        assert torch.equal(x, y)
        empty_kernel[(1,)]()
    """
    interpreted(Path(__file__).parent, "builtins:exec", dedent(code))
