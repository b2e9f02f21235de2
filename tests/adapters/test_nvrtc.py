import pytest

from solkit.adapters import nvrtc, sass
from solkit.adapters.cubin import parse_functions
from solkit.errors import UnsupportedError

SOURCE = """#include <cuda_fp16.h>
template <typename T> __global__ void scale(T* x) { x[threadIdx.x] *= T(3); }
"""


@pytest.fixture
def tools():
    try:
        return nvrtc.find_toolkit()
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_instances_of_a_template_are_found_in_the_cubin(architecture):
    expected = ["scale<float>", "scale<__half>"]
    cubin = nvrtc.compile_cuda(SOURCE, "a.cu", expected, [f"-arch={architecture}"])
    assert list(cubin.names) == expected
    assert set(parse_functions(cubin.binary)) == set(cubin.names.values())
    codes = sass.parse_listing(sass.disassemble(cubin.binary))
    opcodes = {kernel: {instruction.name for instruction in codes[name].instructions}
               for kernel, name in cubin.names.items()}  # fmt: skip
    assert "FMUL" in opcodes["scale<float>"]
    assert opcodes["scale<__half>"] & {"HMUL2", "HFMA2"}


@pytest.mark.usefixtures("tools")
def test_what_was_compiled_is_compiled_no_more(monkeypatch):
    arguments = (SOURCE, "a.cu", ["scale<double>"], ["-arch=sm_80"])
    first = nvrtc.compile_cuda(*arguments)

    def never(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr(nvrtc, "_ask_process", never)
    assert nvrtc.compile_cuda(*arguments) == first
    with pytest.raises(AssertionError, match="again"):
        nvrtc.compile_cuda(SOURCE + "\n", *arguments[1:])


@pytest.mark.usefixtures("tools")
def test_errors_are_the_compilers():
    with pytest.raises(
        nvrtc.CudaCompileError, match=r'b\.cu\(1\): error: .*"nothing" is undefined'
    ):
        nvrtc.compile_cuda("__device__ int f() { return nothing; }", "b.cu", [], ["-arch=sm_80"])
    with pytest.raises(nvrtc.CudaCompileError, match="no_such"):
        nvrtc.compile_cuda(SOURCE, "c.cu", ["no_such<float>"], ["-arch=sm_80"])


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nvrtc, "_wheel_folders", list)
    monkeypatch.setattr(nvrtc, "_toolkit_folders", list)
    monkeypatch.setattr(nvrtc.ctypes.util, "find_library", lambda _: None)
    with pytest.raises(UnsupportedError, match=r"pip install 'solkit\[cuda\]'"):
        nvrtc.find_toolkit.__wrapped__()


def test_a_crash_of_nvrtc_is_not_the_sources_fault(monkeypatch, tmp_path):
    crashing = tmp_path / "process.py"
    crashing.write_text("import ctypes; ctypes.string_at(0)")
    monkeypatch.setattr(nvrtc.nvrtc_process, "__file__", str(crashing))
    monkeypatch.setattr(nvrtc, "find_toolkit", lambda: nvrtc.Toolkit("libnvrtc.so", ()))
    with pytest.raises(UnsupportedError, match="NVRTC ended with exit code -11"):
        nvrtc.compile_cuda(SOURCE, "a.cu", [], [str(tmp_path)])


def test_the_newest_wheel_is_taken_whole(monkeypatch, tmp_path):
    for version in ("cu12", "cu13"):
        (tmp_path / version / "lib").mkdir(parents=True)
        (tmp_path / version / "lib" / f"libnvrtc.so.{version[2:]}").touch()
        (tmp_path / version / "include").mkdir()
        (tmp_path / version / "include" / "cuda_fp16.h").touch()
    folders = [tmp_path / "cu13", tmp_path / "cu12"]
    monkeypatch.setattr(nvrtc, "_wheel_folders", lambda: folders)
    result = nvrtc.find_toolkit.__wrapped__()
    assert result.library == str(tmp_path / "cu13/lib/libnvrtc.so.13")
    assert result.includes[0] == str(tmp_path / "cu13/include")
