"""Kernels given as a cubin or as PTX: what is known of them, and what is said to be missing."""

from __future__ import annotations

import ctypes
import lzma
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from solkit import kernelfiles
from solkit.adapters import binary_kernels, fake_cuda
from solkit.adapters.binary_kernels import BinaryLaunch, read_binary
from solkit.adapters.cubin import architecture
from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus, Depth
from solkit.errors import KernelFileError, ParamsError
from solkit.kernelfiles._binary import parse_launch
from solkit.kernelfiles.seeding import seeded_workload
from solkit.roofline import devices

DATA = Path(__file__).parents[1] / "adapters/data"
N = 1 << 20
PTX = (DATA / "doubled.ptx").read_text(encoding="utf-8")
TOML = """
sizes = { N = 1048576 }
args = { x = "fp32[N]", out = "fp32[N]", n = "N" }
outputs = ["out"]
grid = ["cdiv(N, 256)"]
block = [256]
"""
IN_A_LINE = f"grid={N // 256}; block=256; args=fp32[{N}], fp32[{N}], {N}; outputs=1"


def clustered(text):
    """The kernel with a block's rank in its cluster in place of its number."""
    text = text.replace("sm_80", "sm_90").replace("version 7.0", "version 8.0")
    return text.replace("mov.u32 %r2, %ctaid.x", "mov.u32 %r2, %cluster_ctarank")


@pytest.fixture
def ptx(tmp_path):
    path = tmp_path / "doubled.ptx"
    path.write_text(PTX)
    return path


@pytest.fixture
def softmax(tmp_path):
    path = tmp_path / "softmax.cubin"
    path.write_bytes(lzma.decompress((DATA / "cutile_softmax_90.cubin.xz").read_bytes()))
    return path


def analysed(path, name="h100", **params):
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(str(path))
    return analyse(seeded_workload(loaded, {}, params), devices.find(name), {})


def test_ptx_is_followed_with_the_arguments_of_its_launch(in_child, ptx):
    ptx.with_suffix(".launch.toml").write_text(TOML)
    analysis = in_child(analysed, ptx)
    assert analysis.status is AnalysisStatus.COMPLETE, analysis.notes
    (kernel,) = analysis.kernels
    assert kernel.facts.depth is Depth.COMPILED
    assert (kernel.launch.grid, kernel.launch.num_warps) == ((N // 256, 1, 1), 8)
    load, store = kernel.facts.requests.accesses
    assert (load.argument, store.argument) == ("x", "out")
    assert load.requested_bytes == store.requested_bytes == 4 * N
    assert kernel.facts.requests.operations["fp32"] == N
    assert kernel.facts.registers > 0
    assert kernel.model is not None


def test_a_launch_in_one_line_is_that_of_a_file(in_child, ptx):
    (kernel,) = in_child(lambda: analysed(ptx, launch=IN_A_LINE)).kernels
    assert kernel.demand.dram_read_bytes == kernel.demand.dram_write_bytes == 4 * N


def test_of_a_cubin_the_report_says_what_is_not_known(in_child, softmax):
    sizes = read_binary(str(softmax), "rows_of_128").parameter_sizes()
    listed = ", ".join("fp32[1024, 1024]" if size == 8 else "1024" for size in sizes)
    launch = f"kernel=rows_of_128; grid=1024; args={listed}"  # its threads stand in the cubin
    analysis = in_child(lambda: analysed(softmax, launch=launch))
    (kernel,) = analysis.kernels
    assert kernel.facts.depth is Depth.MACHINE
    assert kernel.facts.registers > 0
    assert kernel.facts.instructions.total > 100
    assert kernel.occupancy is not None
    assert kernel.facts.requests is kernel.model is None
    assert any("its time is not modelled" in note for note in analysis.notes)


def test_machine_code_of_another_gpu_is_no_verdict(in_child, softmax):
    def child():
        sizes = read_binary(str(softmax), "rows_of_128").parameter_sizes()
        listed = ", ".join("fp32[1024, 1024]" if size == 8 else "1024" for size in sizes)
        return analysed(softmax, "b200", launch=f"kernel=rows_of_128; grid=1024; args={listed}")

    analysis = in_child(child, device="b200")
    (kernel,) = analysis.kernels
    assert kernel.error is None
    assert any("is for sm_90" in note and "sm_100" in note for note in analysis.notes)


def test_ptx_on_a_gpu_of_another_vendor_is_no_verdict(in_child, ptx):
    analysis = in_child(lambda: analysed(ptx, "mi300x", launch=IN_A_LINE), device="mi300x")
    (kernel,) = analysis.kernels
    assert kernel.error is None
    assert any("is code of NVIDIA's, AMD" in note for note in analysis.notes), analysis.notes


def test_ptx_that_is_wrong_is_the_kernels_fault(in_child, ptx):
    ptx.write_text(PTX.replace("add.f32 %f2", "add.f33 %f2"))
    (kernel,) = in_child(lambda: analysed(ptx, launch=IN_A_LINE)).kernels
    assert kernel.error.startswith("ptxas: ")
    assert ".f33" in kernel.error


def test_without_a_launch_both_ways_to_give_one_are_named(in_child, ptx):
    def child():
        ways = r"doubled\.launch\.toml beside it, or of solkit score --launch"
        with pytest.raises(ParamsError, match=ways + r".* takes \d arguments \(of 8, "):
            analysed(ptx)

    in_child(child)


def test_a_file_without_the_kernel_names_those_that_it_has(ptx):
    with pytest.raises(KernelFileError, match="no kernel 'tripled'; its kernels are: doubled"):
        read_binary(str(ptx), "tripled")


def test_a_part_of_a_launch_that_is_not_known_names_the_valid_ones():
    with pytest.raises(KernelFileError, match="'girth=3'; expected NAME=VALUE of: args, block"):
        parse_launch("grid=1; girth=3", "k.cubin")


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ("grid=4; block=256; args=fp32[4], fp32[4]", r"takes 3 arguments \(of 8, 8, 4 bytes\)"),
        ("grid=4; block=256; args=fp32[4], fp32[4], fp32[4]", "takes 4 bytes there"),
        ("grid=4; block=-1; args=fp32[4], fp32[4], 4", "block = -1; expected one to three"),
        ("grid=0; block=32; args=fp32[4], fp32[4], 4", "grid = 0; expected one to three"),
        ("grid=1,1,1,1; block=32; args=fp32[4], fp32[4], 4", "grid = 1, 1, 1, 1; expected one"),
    ],
)
@pytest.mark.quick("3 arguments", "block=-1")
def test_a_launch_that_does_not_fit_is_refused_before_it_is_made(in_child, ptx, launch, message):
    def child():
        with pytest.raises(KernelFileError, match=message):
            analysed(ptx, launch=launch)

    in_child(child)


def test_numbers_are_as_wide_as_their_parameters_in_ptx(ptx):
    ptx.write_text(PTX.replace(".param .u32 n", ".param .align 4 .b8 n[12], .param .f64 scale"))
    assert read_binary(str(ptx)).parameter_sizes() == (8, 8, 12, 8)


def test_a_cluster_that_ptx_declares_is_that_of_its_launch(in_child, ptx):
    own = "u32 n)\n.explicitcluster\n.reqnctapercluster 2, 1, 1"
    ptx.write_text(clustered(PTX).replace("u32 n)", own))

    def dram_bytes(grid):
        (kernel,) = analysed(ptx, launch=IN_A_LINE.replace(f"grid={N // 256}", grid)).kernels
        return kernel.error or kernel.demand.dram_read_bytes

    assert read_binary(str(ptx)).cluster() == (2, 1, 1)
    assert in_child(dram_bytes, "grid=64") == 2 * 256 * 4  # two ranks, whatever the block
    assert "(65, 1, 1) does not divide into clusters of (2, 1, 1)" in in_child(
        dram_bytes, "grid=65"
    )


@pytest.mark.parametrize(
    ("compilers", "own"),
    [("$again", "again"), ("$again", "BB0_1"), ("%r", "r"), ("%p", "%q"), ("%rd", "%ptr")],
)
@pytest.mark.quick("$again-BB0_1", "%r-r")
def test_ptx_that_a_person_wrote_is_followed_under_its_own_names(in_child, ptx, compilers, own):
    looped = "mov.u32 %r4, 0;\n$again:\n ld.global.f32\n %f1,\n [%rd5];\n add.u32 %r4, %r4, 1;"
    looped += "\n setp.lt.u32 %p1, %r4, 3; /* three; in all */\n @%p1 bra $again;"
    text = PTX.replace("ld.global.f32 %f1, [%rd5];", looped).replace("$done:\n", "$done: ")
    ptx.write_text(text.replace(compilers, own))
    (kernel,) = in_child(lambda: analysed(ptx, launch=IN_A_LINE)).kernels
    load, store = kernel.facts.requests.accesses
    assert (load.requested_bytes, store.requested_bytes) == (3 * 4 * N, 4 * N)


def test_a_cubin_says_how_it_must_be_launched(softmax):
    binary = read_binary(str(softmax), "rows_of_128")
    assert architecture(softmax.read_bytes()) == 90
    assert binary.threads() == (256, 1, 1)
    assert binary.parameter_sizes() == (8, 4, 4, 4, 4) * 2  # a pointer, two sizes, two strides


def cuda_config(kernel, how):
    """The launch as bytes, read by the offsets that cuda.h gives a 64-bit program."""
    config = binary_kernels._launch_config(kernel, how, 0x1234)
    sizes = struct.unpack_from("<7I4xQQI", bytes(config))
    attribute = bytes(config.attributes.contents)
    assert len(attribute) == 72
    return sizes[:7], sizes[7], sizes[9], struct.unpack_from("<I4x3I", attribute)


def test_a_cluster_is_an_attribute_of_the_launch_unless_the_kernel_has_one(ptx):
    how = BinaryLaunch((6, 1, 1), (128, 1, 1), (2, 1, 1), 4096)
    shape = (6, 1, 1, 128, 1, 1, 4096)
    assert cuda_config(read_binary(str(ptx)), how) == (shape, 0x1234, 1, (4, 2, 1, 1))
    alone = BinaryLaunch((6, 1, 1), (128, 1, 1), shared_bytes=4096)
    assert cuda_config(read_binary(str(ptx)), alone)[2] == 0
    text = clustered(PTX).replace("u32 n)", "u32 n)\n.reqnctapercluster 2, 1, 1")
    ptx.write_text(text)
    assert cuda_config(read_binary(str(ptx)), how)[2] == 0


class Driver:
    """A driver that notes what it loads."""

    def __init__(self):
        self.images = []

    def __getattr__(self, name):
        return self.load if name == "cuModuleLoadData" else lambda *_: 0

    def load(self, _, image):
        self.images.append(image.value)
        return 0


def test_a_kernel_is_loaded_once_and_never_taken_for_one_that_is_gone(monkeypatch):
    driver, how = Driver(), BinaryLaunch((1, 1, 1), (128, 1, 1))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: driver)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    texts = [f"{PTX}// {number}\n".encode() for number in range(20)]
    for text in texts:
        kernel = binary_kernels.BinaryKernel("k.ptx", text, "doubled")
        for _ in range(2):
            binary_kernels.launch(kernel, how, {"x": 0, "out": 0, "n": 1})
        del kernel
    assert driver.images == texts


@pytest.mark.gpu
def test_a_launch_makes_clusters_on_a_gpu(ptx):
    """Without a cluster each block has rank 0; in clusters of 2 they are 0 and 1."""
    ptx.write_text(clustered(PTX))
    line = IN_A_LINE.replace(f"grid={N // 256}", "grid=2; cluster=2")
    workload = kernelfiles.load(str(ptx)).workload({}, {"launch": line})
    (out,) = workload.run_kernel()
    torch.testing.assert_close(out[:512], 2 * workload.args[0][:512])


@pytest.mark.gpu
def test_ptx_computes_on_a_gpu_what_it_says(ptx):
    import torch

    loaded = kernelfiles.load(str(ptx))
    workload = loaded.workload({}, {"launch": IN_A_LINE})
    (out,) = workload.run_kernel()
    torch.testing.assert_close(out, 2 * workload.args[0])
