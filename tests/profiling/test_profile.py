"""From a trace to a profile: rows, bounds and savings by hand."""

from __future__ import annotations

import pytest

import solkit
from solkit.errors import InputError, JobDiedError, UnknownDeviceError, UnsupportedError
from solkit.profiling import units
from solkit.roofline import devices
from solkit.roofline.calibration import calibrated

DRAM = devices.find("h100").ceilings["dram"].value
BF16 = devices.find("h100").ceilings["tensor.bf16"].value
N = 4096
MM_US = 1e6 * 2 * N**3 / BF16  # 128 us
RELU_US = 1e6 * 2 * 2 * N * N / DRAM  # 20.0 us


def matrix(size=N):
    return ("c10::BFloat16", [size, size])


@pytest.fixture
def run(trace):
    """1000 us: two products of 200, one ReLU of 100 in two kernels, and what has no bound."""
    for i in range(2):
        trace.op("aten::linear", 10 * i, 10 * i + 9, matrix(), matrix(), ("", []))
        mm = trace.op("aten::mm", 10 * i + 1, 10 * i + 8, matrix(), matrix())
        start = 100 + 200 * i
        trace.kernel(start, start + 200, launch=10 * i + 2, op=mm, name="void gemm<1>()")
    relu = trace.op("aten::relu", 30, 39, matrix())
    trace.kernel(500, 540, launch=31, op=relu, name="first")
    trace.kernel(540, 600, launch=32, op=relu, name="second")
    custom = trace.op("vllm::moe_forward", 40, 49, matrix())
    trace.kernel(600, 800, launch=41, op=custom, name="moe")
    copy = trace.op("aten::copy_", 50, 59, matrix(), matrix())
    memcpy = {"name": "Memcpy HtoD (Pageable -> Device)", "category": "gpu_memcpy"}
    trace.kernel(800, 900, launch=51, op=copy, **memcpy)
    trace.kernel(900, 1000, launch=61, name="ncclDevKernel_AllReduce(args)")
    trace.kernel(1000, 1100, launch=62, call="cudaGraphLaunch", name="in a graph")
    return trace


def test_rows_times_bounds_and_savings(run):
    result = solkit.profile(run.write())
    assert result.device.key == "h100-sxm"
    assert (result.span_ms, result.busy_ms, result.steps) == (1.0, 1.0, 0)
    mm, relu = result.ops
    assert (mm.name, mm.inputs, mm.calls) == ("aten::mm", ("bf16[4096, 4096]",) * 2, 2)
    assert mm.time_ms == pytest.approx(0.4)
    assert mm.bound.limiter == "tensor.bf16"
    assert mm.bound.time_ms == pytest.approx(MM_US / 1e3)
    assert mm.gap == pytest.approx(200 / MM_US)
    assert relu.gap == pytest.approx(100 / RELU_US)
    assert relu.time_ms == pytest.approx(0.1)
    assert [kernel.name for kernel in relu.kernels] == ["second", "first"]
    # queued ahead on one stream: Amdahl's law
    assert mm.saving_ms == pytest.approx(mm.excess_ms) == pytest.approx(0.4 - 2 * MM_US / 1e3)
    assert relu.saving_ms == pytest.approx(0.1 - RELU_US / 1e3)
    assert result.saving_ms == pytest.approx(mm.saving_ms + relu.saving_ms)
    share, speedup = 0.1, 100 / RELU_US
    amdahl = 1 / ((1 - share) + share / speedup)
    assert result.speedup(relu.saving_ms) == pytest.approx(amdahl)


def test_what_has_no_bound_is_named_with_its_time_and_the_reason(run):
    kernels_by_name = {kernel.name: kernel for kernel in solkit.profile(run.write()).unbounded}
    assert {name: kernel.reason for name, kernel in kernels_by_name.items()} == {
        "moe": "this torch has no such op, or one with other arguments",
        "Memcpy HtoD (Pageable -> Device)": "a copy that leaves the GPU",
        "ncclDevKernel_AllReduce(args)": "communication between GPUs",
        "in a graph": "launched by a CUDA graph, which keeps no ops",
    }
    assert kernels_by_name["moe"].op == "vllm::moe_forward"
    assert kernels_by_name["moe"].time_ms == pytest.approx(0.2)


def test_an_op_that_cannot_be_replayed_hands_its_kernels_to_the_one_around_it(trace):
    """A convolution of cuDNN has no meta function; what else ran in the outer one counts too."""
    image, weight = ("c10::BFloat16", [8, 64, 56, 56]), ("c10::BFloat16", [64, 64, 3, 3])
    outer = trace.op("aten::convolution", 0, 90, image, weight, ("", []), args={})
    arguments = trace.events[-1]["args"]
    lists = [["[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]]
    for values in lists:
        arguments["Concrete Inputs"] += values
        arguments["Input Dims"] += [[] for _ in values]
        arguments["Input Strides"] += [[] for _ in values]
        kinds = ["Scalar" if value in ("False", "1") else "ScalarList" for value in values]
        arguments["Input type"] += kinds
    inner = trace.op("aten::cudnn_convolution", 10, 40, image, weight)
    trace.kernel(100, 160, launch=20, op=inner, name="conv")
    trace.kernel(160, 200, launch=50, op=outer, name="epilogue")
    (row,) = solkit.profile(trace.write()).ops
    assert (row.name, row.calls) == ("aten::convolution", 1)
    assert row.time_ms == pytest.approx(0.1)
    assert [kernel.name for kernel in row.kernels] == ["conv", "epilogue"]


def test_a_target_is_no_less_than_a_launch(trace):
    """ReLU of 16 bytes: the bound is next to nothing, but launching a kernel takes 1 us."""
    for start, launch in ((10, 0.0), (13, 0.5)):
        op = trace.op("aten::relu", launch, launch + 0.3, ("float", [4]))
        trace.kernel(start, start + 3, launch=launch, op=op)
    (row,) = solkit.profile(trace.write()).ops
    assert row.bound.time_ms < 1e-4
    launch_ms = calibrated(devices.find("h100")).launch_us / 1e3
    assert row.target_ms == launch_ms
    assert row.saving_ms == pytest.approx(2 * (3e-3 - launch_ms))


def test_a_kernel_below_its_bound_saves_nothing(trace):
    """Its input was still in L2."""
    op = trace.op("aten::relu", 0, 9, matrix())
    trace.kernel(10, 15, launch=1, op=op)
    (row,) = solkit.profile(trace.write()).ops
    assert row.gap == pytest.approx(5 / RELU_US)
    assert (row.saving_ms, row.excess_ms) == (0, 0)


def test_without_shapes_it_says_how_to_record_them(trace):
    op = trace.op("aten::mm", 0, 9)
    trace.kernel(10, 15, launch=1, op=op)
    result = solkit.profile(trace.write())
    assert result.ops == ()
    assert result.notes == (
        "No op's arguments were recorded, so nothing has a bound: profile with record_shapes=True.",
    )
    assert result.unbounded[0].reason.endswith("profile with record_shapes=True")


def test_a_device_of_ones_own_a_slice_and_several_gpus(trace):
    trace.gpus = [trace.gpus[0] | {"numSms": 60}]
    trace.kernel(0, 10)
    trace.kernel(0, 20, device=3)
    trace.kernel(20, 25, device=0)
    result = solkit.profile(trace.write(), device="a100")
    assert result.device.key.startswith("a100")
    assert result.notes[-1] == "Only the busiest GPU is reported; there are 1 more: 0."
    trace.kernel(30, 90, device=0)
    notes = solkit.profile(trace.write()).notes
    assert "has 60 SMs" in notes[1]
    assert notes[1].endswith("which has 132.")


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        ([], "names no GPU: say which it was recorded on with --device"),
        ([{"id": 0, "name": ""}], "names no GPU"),
        ([{"id": 0, "name": "AMD Instinct MI250X"}], "unknown device 'AMD Instinct MI250X'"),
    ],
)
def test_a_gpu_that_is_not_known_is_asked_for(trace, gpus, said):
    trace.gpus = gpus
    trace.kernel(0, 10)
    with pytest.raises(UnknownDeviceError, match=said):
        solkit.profile(trace.write())


def test_a_trace_of_the_cpu_alone(trace):
    trace.op("aten::mm", 0, 9, matrix(), matrix())
    with pytest.raises(InputError, match=r"nothing ran on a GPU.*ProfilerActivity\.CUDA"):
        solkit.profile(trace.write())


def test_arguments_are_for_scripts(trace):
    trace.kernel(0, 10)
    with pytest.raises(InputError, match="a trace takes no arguments, got --epochs 3"):
        solkit.profile(trace.write(), ["--epochs", "3"])


def test_a_script_needs_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr("solkit.roofline.nvml.live_devices", lambda: ())
    with pytest.raises(UnsupportedError, match=r"this machine has none; a trace saved"):
        solkit.profile(tmp_path / "train.py")


@pytest.mark.slow
def test_an_op_that_ends_its_process_costs_no_other_its_bound(run, monkeypatch):
    """The jobs that hold it are halved until it is alone."""
    call, requests = units.worker.call, []

    def dying(function, device, chains, **limits):
        requests.append(len(chains))
        if any(chain[0][0].name == "aten::relu" for chain in chains):
            raise JobDiedError("its process died of SIGSEGV")
        return call(function, device, chains, **limits)

    monkeypatch.setattr(units.worker, "call", dying)
    result = solkit.profile(run.write())
    assert [op.name for op in result.ops] == ["aten::mm"]
    reasons = {kernel.name: kernel.reason for kernel in result.unbounded}
    assert reasons["first"] == "replaying it failed: its process died of SIGSEGV"
    assert max(requests) == 3
