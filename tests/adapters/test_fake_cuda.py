from __future__ import annotations

import errno
import importlib
import linecache
import os
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
from torch.utils import cpp_extension
from torch.utils._python_dispatch import _disable_current_modes

from solkit.adapters import fake_cuda
from solkit.adapters.fake_cuda.contents import recall_contents
from solkit.adapters.fake_cuda.device import guard_works
from solkit.adapters.fake_cuda.extensions import WhenImported
from solkit.adapters.versions import warn_if_untested
from solkit.errors import UnsupportedError
from solkit.processes import jobs as worker
from solkit.roofline import devices


def cuda(*shape, **options):
    return torch.randn(*shape, device="cuda", **options)


def gradients_of_shape(outputs, *inputs):
    outputs.sum().backward()
    return [tuple(tensor.grad.shape) for tensor in inputs]


def test_torch_cuda_reports_the_device(in_child):
    def answers():
        properties = torch.cuda.get_device_properties(0)
        return (
            torch.cuda.is_available(),
            torch.cuda.device_count(),
            torch.cuda.get_device_capability(),
            torch.cuda.get_device_name(),
            properties.multi_processor_count,
            properties.L2_cache_size,
            properties.shared_memory_per_block_optin,
        )

    available, count, capability, name, sms, l2, shared = in_child(answers)
    assert (available, count, capability, sms) == (True, 1, (9, 0), 132)
    assert "H100" in name
    # 227 KiB and 50 MiB: NVIDIA H100 whitepaper
    assert (shared, l2) == (227 * 1024, 50 * 1024 * 1024)


@pytest.mark.parametrize("sizes", [(7, 33, 32), (64, 512, 511), (2, 512, 4096), (40, 1, 300000)])
def test_ops_without_a_fake_kernel_have_their_shapes_at_all_sizes(in_child, sizes):
    def answers():
        packed, tau = torch.geqrf(cuda(*sizes))
        least, most = torch._aminmax(cuda(*sizes), 1)
        return [
            (t.shape, t.device.type) for t in (packed, tau, least, most)
        ], packed.mT.is_contiguous()

    batch, m, n = sizes
    shapes = [sizes, (batch, min(m, n)), (batch, n), (batch, n)]
    assert in_child(answers) == ([(shape, "cuda") for shape in shapes], True)


def test_products_write_to_a_given_tensor_also_where_only_the_allocating_op_has_a_fake_kernel(
    in_child,
):
    def answers():
        narrow = cuda(2, 16, 48).bfloat16(), cuda(2, 48, 32).bfloat16()
        wide, small = cuda(2, 16, 32), cuda(0)
        same = torch.bmm(*narrow, out_dtype=torch.float32, out=wide) is wide
        torch.ops.aten.adaptive_avg_pool2d.out(cuda(3, 4, 12, 12), [5, 7], out=small)
        with pytest.raises(RuntimeError):
            torch.bmm(narrow[0], narrow[0], out_dtype=torch.float32, out=cuda(2, 16, 16))
        return same, tuple(wide.shape), wide.dtype == torch.float32, tuple(small.shape)

    assert in_child(answers) == (True, (2, 16, 32), True, (3, 4, 5, 7))


def test_another_device_reports_its_own_figures(in_child):
    def answers():
        return torch.cuda.get_device_capability(), torch.cuda.is_bf16_supported()

    assert in_child(answers, device="a100-80gb-sxm") == ((8, 0), True)
    assert in_child(answers, device="t4") == ((7, 5), False)


@pytest.mark.parametrize(
    ("device", "own", "other"),
    [("b200", "nvidia-smi", "rocm-smi"), ("mi300x", "/opt/rocm/bin/rocm-smi", "nvidia-smi")],
)
def test_the_vendors_command_names_the_device_and_others_are_missing(in_child, device, own, other):
    def answers():
        run = subprocess.run([own, "-L"], capture_output=True, text=True, check=True)
        by_shell = subprocess.getoutput(own)
        try:
            subprocess.run([other], check=False)
        except FileNotFoundError as error:
            lacking = error.errno, error.filename
        result = subprocess.run(other, shell=True, capture_output=True, text=True, check=False)
        return run.stdout, by_shell, lacking, result.returncode, result.stderr

    line, by_shell, missing, code, errors = in_child(answers, device=device)
    name = devices.find(device).name
    assert line.strip() == by_shell == f"GPU 0: {name}"
    assert missing == (errno.ENOENT, other)
    assert code == 127
    assert f"{other}: command not found" in errors


def test_nvidia_smi_answers_what_it_is_asked_for(in_child):
    def answers():
        query = "--query-gpu=name,clocks.max.sm,memory.total,power.draw --format=csv"
        plain = [s.strip() for s in subprocess.getoutput(f"nvidia-smi {query}").splitlines()]
        bare = subprocess.check_output(["nvidia-smi", *f"{query},noheader,nounits".split()])
        apart = [
            subprocess.getoutput("nvidia-smi --query-gpu='index, count' --format=csv,noheader"),
            subprocess.getoutput("nvidia-smi --query-gpu index,count --format csv,noheader"),
            subprocess.check_output(["nvidia-smi", "--query-gpu=index, count", "--format=csv"]),
        ]
        numbers = triton.testing.nvsmi(["clocks.max.sm", "count"])
        return plain, bare.decode().strip(), numbers, apart

    plain, bare, numbers, apart = in_child(answers, device="h100")
    assert apart == ["0, 1", "0, 1", b"index, count\n0, 1\n"]
    name = devices.find("h100").name
    assert plain == [
        "name, clocks.max.sm [MHz], memory.total [MiB], power.draw",
        f"{name}, 1980 MHz, 81920 MiB, [N/A]",  # 80 GiB; 1980 MHz: see the catalogue
    ]
    assert bare == f"{name}, 1980, 81920, [N/A]"
    assert numbers == [1980, 1]


def test_nvml_reports_the_device(in_child):
    def answers():
        import pynvml

        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        kinds = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
        clocks = [pynvml.nvmlDeviceGetMaxClockInfo(gpu, kind) for kind in kinds]
        memory = pynvml.nvmlDeviceGetMemoryInfo(gpu).total
        capability = pynvml.nvmlDeviceGetCudaComputeCapability(gpu)
        pynvml.nvmlShutdown()
        return pynvml.nvmlDeviceGetName(gpu), clocks, memory, capability

    expected = (devices.find("h100").name, [1980, 2619], 80 << 30, (9, 0))
    assert in_child(answers, device="h100") == expected


def test_the_accelerator_is_the_fake_gpu(in_child):
    def answers():
        place = torch.accelerator.current_accelerator()
        with torch.accelerator.device_index(0):
            torch.accelerator.synchronize()
        return (
            torch.accelerator.is_available(),
            torch.accelerator.device_count(),
            torch.accelerator.current_device_index(),
            torch.get_device_module() is torch.cuda,
            torch.zeros(2, device=place).is_cuda,
        )

    assert in_child(answers) == (True, 1, 0, True, True)


def test_other_programs_run_as_ever(in_child):
    assert in_child(lambda: subprocess.getoutput("echo 'a b' | cat")) == "a b"


def test_the_guard_works_in_this_build(in_child):
    assert in_child(lambda: fake_cuda._state.guarded)


def test_a_process_that_has_seen_a_real_gpu_is_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # restored after the test
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UnsupportedError, match='start it with CUDA_VISIBLE_DEVICES=""'):
        fake_cuda.install(devices.find("h100"))
    assert not fake_cuda._state.installed


@pytest.mark.skipif(torch.version.cuda is not None, reason="a CUDA build has a guard")
def test_a_missing_guard_is_noticed():
    assert not guard_works()


@pytest.mark.quick("<lambda>2", "<lambda>3", "<lambda>6", "<lambda>10")
@pytest.mark.parametrize(
    "build",
    [
        lambda: cuda(3),
        lambda: torch.randn(3).cuda(),
        lambda: torch.randn(3).to("cuda"),
        lambda: torch.tensor([1.0, 2.0], device="cuda"),
        lambda: torch.from_numpy(__import__("numpy").ones(3)).cuda(),
        lambda: cuda(4, 4).t().contiguous(),
        lambda: torch.zeros(3, device="cuda").copy_(torch.ones(3)),
        lambda: F.dropout(cuda(3)),
        lambda: torch.randn(3, device="cuda", generator=torch.Generator("cuda").manual_seed(1)),
        lambda: nn.Linear(8, 8).cuda()(cuda(2, 8)),
        lambda: nn.Linear(8, 8, device="cuda")(cuda(2, 8)),
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to("cuda")(cuda(2, 3, 8, 8)),
        lambda: F.scaled_dot_product_attention(*[cuda(1, 2, 16, 8)] * 3, is_causal=True),
    ],
)
def test_tensors_are_on_the_fake_gpu(in_child, build):
    def device_of():
        tensor = build()
        return isinstance(tensor, torch._subclasses.FakeTensor), tensor.device.type, tensor.is_cuda

    assert in_child(device_of) == (True, "cuda", True)


@pytest.mark.quick("<lambda>-shape0", "<lambda>-shape1")
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.LSTM(8, 16), (5, 2, 16)),
        (lambda: nn.GRU(8, 16, bidirectional=True), (5, 2, 32)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16), (5, 2, 8)),
    ],
)
def test_modules_are_built_under_the_device(in_child, make, shape):
    def output():
        with torch.device("cuda"):
            result = make()(torch.randn(5, 2, 8))
        result = result[0] if isinstance(result, tuple) else result
        return tuple(result.shape), result.device.type

    assert in_child(output) == (shape, "cuda")


def test_tied_weights_stay_one_when_moved(in_child):
    def tied():
        model = nn.ModuleList([nn.Linear(8, 8, bias=False) for _ in range(2)])
        model[1].weight = model[0].weight
        model.cuda()
        return model[0].weight is model[1].weight, model[0].weight.device.type

    assert in_child(tied) == (True, "cuda")


def test_seeds_streams_and_events_do_nothing(in_child):
    def calls():
        torch.manual_seed(0)
        torch.cuda.manual_seed(0)
        torch.cuda.manual_seed_all(0)
        torch.cuda.get_rng_state()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
            end.record()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return start.elapsed_time(end) > 0

    assert in_child(calls)


def test_addresses_are_unique_per_storage_and_follow_offsets(in_child):
    def addresses():
        x, y = cuda(64), cuda(64)
        return x.data_ptr(), y.data_ptr(), x[4:].data_ptr(), x.view(8, 8).data_ptr()

    x, y, shifted, view = in_child(addresses)
    assert x != y
    assert x % 512 == y % 512 == 0  # the CUDA caching allocator's alignment
    assert shifted - x == 4 * 4
    assert view == x


def test_backward_reaches_every_leaf(in_child):
    def run():
        x, w = cuda(4, 8, requires_grad=True), cuda(8, 2, requires_grad=True)
        hidden = torch.relu(x @ w)
        return gradients_of_shape(hidden * hidden, x, w)

    assert in_child(run) == [(4, 8), (8, 2)]


def test_backward_calls_each_custom_function_once_with_zeros_for_missing_gradients(in_child):
    def run():
        seen = []

        class Two(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, left, right):
                (x,) = ctx.saved_tensors
                seen.append((left is None, right is None))
                return left + right + 0 * x

        x = cuda(4, requires_grad=True)
        used, _ = Two.apply(x)
        (used * used + used).sum().backward()
        return seen, tuple(x.grad.shape)

    assert in_child(run) == ([(False, False)], (4,))


def test_attention_has_gradients(in_child):
    def run():
        q, k, v = (cuda(1, 2, 16, 8, requires_grad=True) for _ in range(3))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5)
        return tuple(out.shape), gradients_of_shape(out, q, k, v)

    assert in_child(run) == ((1, 2, 16, 8), [(1, 2, 16, 8)] * 3)


def test_autograd_grad_of_inner_tensors_and_of_gradients(in_child):
    def run():
        x = cuda(4, requires_grad=True)
        y = x * x
        (inner,) = torch.autograd.grad((y * y).sum(), y)
        (first,) = torch.autograd.grad(y.pow(2).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        unused = torch.autograd.grad(y.sum(), [cuda(3, requires_grad=True)], allow_unused=True)
        return tuple(inner.shape), tuple(second.shape), unused

    assert in_child(run) == ((4,), (4,), (None,))


def test_values_that_follow_from_the_program_are_known(in_child):
    def values():
        offsets = torch.tensor([0, 3, 4], device="cuda").cumsum(0)
        steps = torch.linspace(0, 1, 3, device="cuda")
        results = [offsets[-1].item(), steps.tolist(), (torch.arange(9) > 5).sum().item()]
        return results, torch.tensor([1, 0, 2]).nonzero().tolist(), fake_cuda.guesses_so_far()

    assert in_child(values) == ([7, [0.0, 0.5, 1.0], 3], [[0], [2]], ())


@pytest.mark.quick("<lambda>-1.0-float32", "<lambda>-value4-mask")
@pytest.mark.parametrize(
    ("read", "value", "words"),
    [
        (lambda: cuda(4).max().item(), 1.0, "float32"),
        (lambda: (cuda(4) > 0).all().item(), True, "bool"),
        (lambda: (cuda(4, 8) > 0).sum().item(), 32, "mask"),
        (lambda: torch.equal(cuda(4), cuda(4)), True, "equal"),
        (lambda: tuple(cuda(4)[cuda(4) > 0].shape), (4,), "mask"),
    ],
)
def test_other_values_are_guessed_and_told_with_the_line(in_child, read, value, words):
    def guess():
        return read(), fake_cuda.guesses_so_far()

    got, guesses = in_child(guess)
    assert got == value
    assert any(words in sentence for sentence in guesses)
    path, line = guesses[0].split(": ")[0].rsplit(":", 1)
    assert path == __file__
    assert read.__code__.co_firstlineno <= int(line) <= read.__code__.co_firstlineno + 1
    assert linecache.getline(path, int(line))


def test_random_integers_are_told_when_they_are_read(in_child):
    def read():
        value = torch.randint(3, 7, (5,), device="cuda").max().item()
        return 3 <= value < 7, fake_cuda.guesses_so_far()

    in_range, guesses = in_child(read)
    assert in_range
    assert "a GPU draws others" in guesses[0]


DEFERRED = """
import subprocess
import sys, torch
stand_in = sys.modules["torch._dynamo"]
assert torch._dynamo.disable(len) is len
{use}
real = sys.modules["torch._dynamo"]
assert real is torch._dynamo is not stand_in, real
assert real.source is sys.modules["torch._dynamo.source"]
assert type(real.source.__spec__.loader).__name__ == "SourceFileLoader"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        "from torch._dynamo.source import ConstantSource",  # a part first: was imported midway
        "torch._dynamo.reset()",
    ],
)
def test_a_deferred_compiler_is_imported_whole_when_it_is_used(use):
    worker.call("builtins:exec", DEFERRED.format(use=use))  # the server has deferred it


def test_what_a_kernel_may_have_written_is_unknown(in_child):
    def values():
        launched = torch.zeros(2, device="cuda")
        view = launched[1:]
        fake_cuda.forget_contents(launched)
        return (
            recall_contents(launched),
            recall_contents(view),
            recall_contents(torch.zeros(2, device="cuda")) is not None,
        )

    assert in_child(values) == (None, None, True)


def test_unknown_contents_of_a_large_tensor_are_no_array(in_child):
    def read():
        assert torch.arange(3, device="cuda").numpy(force=True).tolist() == [0, 1, 2]
        with pytest.raises(UnsupportedError, match="unknown contents"):
            cuda(1 << 27).numpy(force=True)
        return True

    assert in_child(read)


def test_guesses_are_watched_apart(in_child):
    def watch():
        cuda(1).item()
        with fake_cuda.watching_guesses() as inner:
            (cuda(1) > 0).item()
        return len(inner), len(fake_cuda.guesses_so_far())

    assert in_child(watch) == (1, 2)


def test_without_the_guard_tensors_stand_on_the_cpu(in_child):
    def fallback():
        fake_cuda._use_cpu_tensors()
        with fake_cuda.fake_tensors():
            x = torch.randn(4, device="cuda").cuda().to("cuda:0")
            y = x.new_zeros(4, device=torch.device("cuda"))
            with fake_cuda.watching_guesses() as guesses:
                return x.is_cuda, (x + y).device.type, len(guesses)

    assert in_child(fallback) == (True, "cpu", 1)  # and it is told


@pytest.mark.parametrize(
    ("version", "warned"),
    [("2.10.1", 1), ("2.12.0+cu130", 0), ("2.15.0a0+git", 0), ("3.0", 1), ("main", 1)],
)
def test_untested_versions_are_named(version, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_untested("torch", version)
        warn_if_untested("torch", version)  # once a process
    assert len(caught) == warned
    assert all(version in str(warning.message) for warning in caught)


def test_queries_of_torch_cuda_need_no_gpu(in_child):
    def answers():
        torch.cuda.set_sync_debug_mode("warn")
        torch.cuda.ExternalStream(0).synchronize()
        properties = torch.cuda.get_device_properties(0)
        return (
            torch.cuda.memory_stats()["num_ooms"],
            torch.cuda.utilization(),
            torch.cuda.can_device_access_peer(0, 1),
            torch.cuda.get_allocator_backend(),
            torch.cuda.graph_pool_handle(),
            torch.version.cuda is not None,
            # 5120 bits of HBM3 at 2619 MHz: NVIDIA H100 datasheet
            properties.memory_bus_width,
            torch.cuda.clock_rate(),
        )

    *first, clock = in_child(answers)
    assert first == [0, 0, False, "native", (0, 0), True, 5120]
    assert 1000 < clock < 3000  # MHz


def test_allclose_is_guessed(in_child):
    def compared():
        return torch.allclose(cuda(4), cuda(4)), fake_cuda.guesses_so_far()

    close, guesses = in_child(compared)
    assert close
    assert "guessed" in " ".join(guesses)


def test_extensions_are_not_built_and_fail_when_called(in_child):
    def build():
        from torch.utils.cpp_extension import load_inline

        extension = load_inline("name", cpp_sources="void f();", cuda_sources="", functions=["f"])
        with pytest.raises(UnsupportedError, match="compiled CUDA extension, not analysed"):
            extension.f(cuda(2))
        return True

    assert in_child(build)


def test_operators_of_an_extension_are_called_as_its_functions(in_child):
    def check():
        from torch.utils.cpp_extension import load_inline

        text = """TORCH_LIBRARY(strange, m) { m.def("twice", twice); m.def("plus(Tensor x)"); }
        TORCH_LIBRARY_IMPL(strange, CUDA, m) { m.impl("plus", &plus); }"""
        os.environ["TORCH_CUDA_ARCH_LIST"] = "8.0 9.0a+PTX"
        load_inline("name", cpp_sources=text, cuda_sources="", is_python_module=False)
        torch.library.register_fake("strange::plus")(lambda x: x)
        calls = []
        with fake_cuda.extension_calls(lambda *call: calls.append(call[:3])):
            torch.ops.strange.twice(1)
            torch.ops.strange.plus.default(2)
        assert [call[1:] for call in calls] == [("twice", (1,)), ("plus", (2,))]
        assert "-gencode=arch=compute_90a,code=sm_90a" in calls[0][0].flags

    in_child(check)


LOG = """Error building extension 'name': [1/2] nvcc -O3 cuda.cu
FAILED: cuda.cuda.o
/tmp/build/name/cuda.cu(3): error: no such type
cuda.cu(9): error: nor this
cuda.cu(12): error: nor that"""


def test_conditions_may_be_bytes_as_on_a_gpu(in_child):
    def shapes():
        with fake_cuda.fake_tensors():
            x, mask = torch.empty(4, 3, device="cuda"), torch.ones(4, 1, device="cuda").byte()
            chosen = torch.where(mask, x, 0.0), x.where(mask, x), torch.where(mask, x, x[:1])
            return [tuple(tensor.shape) for tensor in chosen]

    assert in_child(shapes) == [(4, 3)] * 3


def test_extensions_are_built_where_that_is_wanted(in_child):
    def build():
        built = []

        def real(name, cpp_sources, cuda_sources=None):
            built.append((name, cpp_sources, cuda_sources))
            if name == "broken":
                raise RuntimeError(LOG)

        cpp_extension.load_inline = real
        WhenImported()  # as if it were imported now
        cpp_extension.load_inline("name", "c", cuda_sources="d")
        with fake_cuda.building_extensions():
            extension = cpp_extension.load_inline("name", "a", cuda_sources=["b"])
            with pytest.raises(fake_cuda.BuildError) as error:
                cpp_extension.load_inline("broken", "a")
        with pytest.raises(UnsupportedError, match="not analysed"):  # by its source, as ever
            extension.f(cuda(2))
        return built, str(error.value), error.value.log

    built, result, log = in_child(build)
    assert log == LOG
    assert built == [("name", "a", ["b"]), ("broken", "a", None)]
    assert result == "cuda.cu(3): error: no such type / cuda.cu(9): error: nor this"


FULL_DISK = """Error building extension 'name': [1/2] c++ -c main.cpp -o main.o
FAILED: main.o
/tmp/ccXoHvB1.s: Assembler messages:
/tmp/ccXoHvB1.s: Error: can't close main.o: No space left on device"""


def test_an_error_of_the_assemblers_is_told():
    text = str(fake_cuda.BuildError(FULL_DISK))
    assert text == "ccXoHvB1.s: Error: can't close main.o: No space left on device"


def test_what_builds_extensions_finds_nvcc_though_torch_says_it_was_built_without(
    in_child, monkeypatch, tmp_path
):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))

    def build():
        cpp_extension.load_inline = lambda name: None  # noqa: ARG005
        cpp_extension.CUDA_HOME = None
        WhenImported()
        with fake_cuda.building_extensions():
            cpp_extension.load_inline("name")
        return cpp_extension._join_cuda_home("bin", "nvcc")

    assert in_child(build) == str(tmp_path / "bin" / "nvcc")


def test_a_module_that_is_not_there_is_none_though_it_would_be_changed(tmp_path, monkeypatch):
    """As `cuda.tile` where another wheel brings the package `cuda`; it may be installed later."""
    (tmp_path / "made_up_wheels").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    finder = WhenImported({"made_up_wheels.tile": lambda module: setattr(module, "changed", True)})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match=r"made_up_wheels\.tile"):
        importlib.import_module("made_up_wheels.tile")
    (tmp_path / "made_up_wheels" / "tile.py").write_text("")
    importlib.invalidate_caches()
    assert importlib.import_module("made_up_wheels.tile").changed


def test_a_failing_op_prints_nothing(in_child, capfd):
    def fail():
        with pytest.raises(RuntimeError):
            cuda(2, 3) @ cuda(2, 3)

    in_child(fail)
    assert "".join(capfd.readouterr()) == ""


def test_memory_may_be_pinned(in_child):
    assert in_child(lambda: tuple(torch.randn(3).pin_memory().cuda().shape)) == (3,)


def test_a_compiled_class_stays_a_class(in_child):
    def compiled_class():
        @torch.compile
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(_, x):
                return 2 * x

        return isinstance(Doubled, type), tuple(Doubled.apply(cuda(3)).shape)

    assert in_child(compiled_class) == (True, (3,))


def test_objects_of_a_compiled_class_are_called(in_child):
    def called():
        @torch.compile(dynamic=False)
        class Twice:
            def __call__(self, x):
                return 2 * x

        return Twice()(3)

    assert in_child(called) == 6


def test_streams_that_libraries_take_when_imported_are_there(in_child):
    assert in_child(lambda: torch._C._cuda_getCurrentRawStream(0)) == 0


@pytest.mark.slow
def test_inductors_interface_asks_the_fakes_though_it_was_loaded_before():
    code = """
from torch._dynamo.device_interface import CudaInterface
from solkit.adapters import fake_cuda
from solkit.roofline.devices import find
fake_cuda.install(find("h100"))
print(CudaInterface.get_device_properties(0).multi_processor_count)
print(CudaInterface.Worker.get_device_properties(0).multi_processor_count)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "132\n132\n", ran.stderr


def test_attention_of_real_tensors_takes_masks_of_true_and_false(in_child):
    def largest_error():
        with _disable_current_modes():
            query, key, value = torch.arange(60.0).sin().view(3, 1, 5, 4)
            kept = torch.ones(5, 5, dtype=torch.bool).tril()
            scores = (query @ key.mT / 2).masked_fill(~kept, -float("inf"))
            result = F.scaled_dot_product_attention(query, key, value, kept)
            return (result - torch.softmax(scores, -1) @ value).abs().max().item()

    assert in_child(largest_error) < 1e-6
