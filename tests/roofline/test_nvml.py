"""Live GPUs, replayed from the answers that NVML gives: see data/nvml_*.json."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from solkit.core import ClockKind
from solkit.errors import UnknownDeviceError, UnsupportedError
from solkit.roofline import devices, nvml

DATA = Path(__file__).parent / "data"
GPU_A = "GPU-a0000000-0000-0000-0000-000000000000"
GPU_B = "GPU-b0000000-0000-0000-0000-000000000000"
MIG_3G = "MIG-c0000000-0000-0000-0000-000000000000"
MIG_1G = "MIG-d0000000-0000-0000-0000-000000000000"


class Replay:
    """Stands for the pynvml module; a handle is a GPU's (or a slice's) table in the recording.

    A function with no recorded answer raises NVMLError_NotSupported, as NVML does.
    """

    def __init__(self, recording):
        self.recording, self.started = recording, 0

    def __getattr__(self, name):
        if name.startswith(("NVML_", "NVMLError")):
            return getattr(pynvml, name)
        return lambda handle: self.answer(handle, name)

    def answer(self, handle, name):
        if name not in handle["answers"]:
            raise pynvml.NVMLError_NotSupported
        got = handle["answers"][name]
        return SimpleNamespace(**got) if isinstance(got, dict) else got

    def nvmlInit(self):  # noqa: N802
        if "init_error" in self.recording:
            raise getattr(pynvml, self.recording["init_error"])
        self.started += 1

    def nvmlShutdown(self):  # noqa: N802
        self.started -= 1

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return self.recording["driver"]

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.recording["gpus"])

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.recording["gpus"][index]

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return handle["uuid"]

    def nvmlDeviceGetMaxClockInfo(self, handle, domain):  # noqa: N802
        clocks = vars(self.answer(handle, "nvmlDeviceGetMaxClockInfo"))
        return clocks[{pynvml.NVML_CLOCK_SM: "sm", pynvml.NVML_CLOCK_MEM: "memory"}[domain]]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):  # noqa: N802
        return 7 if "mig" in handle else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):  # noqa: N802
        if index >= len(handle["mig"]) or handle["mig"][index] is None:
            raise pynvml.NVMLError_NotFound
        return handle["mig"][index]


@pytest.fixture
def machine(monkeypatch):
    """Become the machine of a recording; returns the replayed library."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    replays = []

    def become(name):
        replay = Replay(json.loads((DATA / f"nvml_{name}.json").read_text()))
        replays.append(replay)
        monkeypatch.setattr(nvml, "_nvml_bindings", lambda: replay)
        return replay

    yield become
    assert all(replay.started == 0 for replay in replays), "NVML was not shut down"


def uuids():
    return [device.uuid for device in nvml.live_devices()]


def test_an_h100(machine):
    machine("h100_sxm")
    (h100,) = nvml.live_devices()
    assert (h100.key, h100.name, h100.source) == ("h100-sxm", "NVIDIA H100 80GB HBM3", "nvml")
    assert (h100.sm_count, h100.clock_mhz, h100.uuid) == (132, 1980, GPU_A)
    assert h100.clock_kind is ClockKind.MAXIMUM
    assert h100.memory_bytes == 81559 * 2**20
    assert h100.l2_bytes == 50 * 2**20
    assert h100.ceilings["tensor.bf16"].value == pytest.approx(1070.5e12, rel=1e-4)
    assert h100.ceilings["dram"].value == pytest.approx(3.35232e12, rel=1e-6)
    assert h100.datasheet == devices.find("h100").datasheet
    assert h100.notes == ("Power limit 700 W.", "ECC on.")
    assert nvml.live_device() == nvml.live_device(0) == h100
    assert nvml.driver_version() == "580.95.05"


def test_the_drivers_figures_win_over_the_catalogues(machine):
    answers = machine("h100_sxm").recording["gpus"][0]["answers"]
    answers["nvmlDeviceGetNumGpuCores"] = 120 * 128
    answers["nvmlDeviceGetMaxClockInfo"] = {"sm": 1755, "memory": 2000}
    answers["nvmlDeviceGetMemoryBusWidth"] = 4096
    h100 = nvml.live_device()
    assert h100.ceilings["fp32"].value == pytest.approx(120 * 256 * 1755e6)
    assert h100.ceilings["dram"].value == pytest.approx(2000e6 * 2 * 4096 / 8)
    assert h100.datasheet["fp32"].value == pytest.approx(66.9e12 * 120 / 132)


def test_a_figure_that_nvml_refuses_is_the_catalogues_with_a_note(machine):
    answers = machine("h100_sxm").recording["gpus"][0]["answers"]
    for name in [name for name in answers if name != "nvmlDeviceGetName"]:
        del answers[name]
    h100, known_find = nvml.live_device(), devices.find("h100")
    assert h100.ceilings == known_find.ceilings
    assert (h100.sm_count, h100.memory_bytes) == (known_find.sm_count, known_find.memory_bytes)
    assert [note.split(":")[0] for note in h100.notes] == [
        f"NVML does not report the {figure}"
        for figure in (
            "SM count",
            "maximum SM clock",
            "memory size",
            "maximum memory clock",
            "memory bus width",
        )
    ]


def test_a_geforce_gets_its_boards_maximum_clock(machine):
    answers = machine("mixed").recording["gpus"][1]["answers"]
    assert nvml.live_device().clock_mhz == 3105
    assert nvml.live_device().clock_kind is ClockKind.MAXIMUM
    assert nvml.live_device().notes == ("Power limit 450 W.",)  # GeForce: no ECC to speak of
    del answers["nvmlDeviceGetMaxClockInfo"]
    rtx = next(device for device in nvml.live_devices() if device.key == "rtx-4090")
    assert (rtx.clock_mhz, rtx.clock_kind) == (2520, ClockKind.BOOST)


def test_ecc_off_is_noted(machine):
    machine("mixed")
    assert "ECC off." in nvml.live_device(1).notes


# -------------------------------------------------------------------------------------- MIG


def test_a_mig_slice_is_bounded_as_a_slice(machine):
    machine("h100_mig")
    big, small = nvml.live_devices()[:2]
    whole = devices.find("h100")
    assert (big.uuid, small.uuid) == (MIG_3G, MIG_1G)
    assert small.name == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert (small.key, small.sm_count, small.memory_bytes) == ("h100-sxm", 16, 9984 * 2**20)
    assert (big.sm_count, big.memory_bytes) == (60, 40448 * 2**20)
    assert small.ceilings["tensor.bf16"].value == pytest.approx(16 * 4096 * 1980e6)
    assert small.ceilings["l2"].value == pytest.approx(16 * 64 * 1980e6)
    assert small.ceilings["dram"].value == pytest.approx(whole.ceilings["dram"].value / 8)
    assert big.ceilings["dram"].value == pytest.approx(whole.ceilings["dram"].value / 2)
    assert (small.l2_bytes, big.l2_bytes) == (whole.l2_bytes // 8, whole.l2_bytes // 2)
    assert small.datasheet["fp32"].value == pytest.approx(66.9e12 * 16 / 132)
    assert small.datasheet["dram"].value == pytest.approx(3.35e12 / 8)
    assert "A MIG slice: 16 of 132 SMs, and 1/8 of the bandwidth" in small.notes[-1]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [MIG_3G, MIG_1G, GPU_A]),
        ("0", [GPU_A]),
        ("1", [MIG_3G]),
        ("1,0", [MIG_3G, GPU_A]),
        (MIG_1G, [MIG_1G]),
        (f"{MIG_1G},{MIG_3G}", [MIG_1G, MIG_3G]),
        (GPU_B, [MIG_3G]),
        ("GPU-a", [GPU_A]),
        ("0,7,1", [GPU_A]),
        ("-1", []),
        ("0,-1,1", [GPU_A]),
        ("", []),
        ("0,0", []),
        ("GPU-", []),
        ("NoDevFiles", []),
    ],
)
def test_cuda_visible_devices(machine, monkeypatch, visible, expected):
    machine("h100_mig")
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert uuids() == expected


def test_a_gpu_in_mig_mode_without_slices_is_no_device(machine, monkeypatch):
    machine("h100_mig").recording["gpus"][1]["mig"] = []
    assert uuids() == [GPU_A]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert uuids() == []


def test_cuda_puts_the_fastest_first(machine, monkeypatch):
    machine("mixed")
    assert [device.key for device in nvml.live_devices()] == ["rtx-4090", "t4"]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert [device.key for device in nvml.live_devices()] == ["t4", "rtx-4090"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert nvml.live_device(0).key == "rtx-4090"


# ----------------------------------------------------------------------------------- errors


def test_a_gpu_that_the_catalogue_lacks(machine):
    machine("unknown")
    with pytest.raises(UnknownDeviceError, match=r"'NVIDIA H900'.*h100-sxm"):
        nvml.live_devices()


def test_an_index_that_is_not_there(machine):
    machine("h100_sxm")
    with pytest.raises(UnknownDeviceError, match=r"no GPU 1 .* 0: NVIDIA H100 80GB HBM3"):
        nvml.live_device(1)


def test_no_driver(machine):
    machine("no_driver")
    assert nvml.live_devices() == ()
    assert nvml.driver_version() is None
    with pytest.raises(UnknownDeviceError, match="NVML sees none"):
        nvml.live_device()


def test_a_driver_that_does_not_work(machine):
    machine("no_driver").recording["init_error"] = "NVMLError_LibRmVersionMismatch"
    with pytest.raises(UnsupportedError, match="does not start"):
        nvml.live_devices()
    assert nvml.driver_version() is None


def test_a_gpu_that_falls_off_the_bus(machine):
    replay = machine("h100_sxm")

    def lost(_):
        raise pynvml.NVMLError_GpuIsLost

    replay.nvmlDeviceGetMigMode = lost
    with pytest.raises(UnsupportedError, match="NVML failed"):
        nvml.live_devices()


def test_the_bindings_have_all_that_is_asked_of_them():
    names = set(
        re.findall(r"\bnvml[A-Z]\w+|\bNVML_\w+|\bNVMLError_\w+", Path(nvml.__file__).read_text())
    )
    assert len(names) > 20
    assert all(hasattr(pynvml, name) for name in names)
    fields = {name for name, _ in pynvml.c_nvmlDeviceAttributes._fields_}
    assert fields >= {"multiprocessorCount", "memorySizeMB"}
