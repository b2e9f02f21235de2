"""The catalogue against the vendor's figures, and what names it accepts."""

import dataclasses
import functools
import subprocess
import sys

import pytest
from pydantic import TypeAdapter

from solkit.core import ClockKind
from solkit.errors import UnknownDeviceError
from solkit.roofline import devices

KEYS = [device.key for device in devices.catalogue()]


@functools.cache
def figures():
    """(key, pipe, what the rates give at a clock, the vendor's figure, exception or None)."""
    results = []
    for device in devices.catalogue():
        sku = devices.find_sku(device.key)[1]
        excused = {pipe: e for e in sku.datasheet_exceptions for pipe in e.pipes}
        for pipe, figure in device.datasheet.items():
            results.append((device, pipe, figure, excused.get(pipe)))
    return results


def at_clock(device, pipe, clock_mhz):
    ceiling = device.ceilings[pipe]
    return ceiling.value if pipe == "dram" else ceiling.value * clock_mhz / ceiling.clock_mhz


def deviation(device, pipe, figure, clock_mhz):
    return abs(at_clock(device, pipe, clock_mhz) / figure.value - 1)


def test_the_catalogue_has_no_key_and_no_pipe_that_nothing_reads():
    tables = devices._read_tables()
    assert TypeAdapter(devices._Catalogue).validate_python(tables) == devices._load()


@pytest.mark.parametrize("key", KEYS)
def test_rates_give_the_datasheet_at_its_clock(key):
    deviations = {
        pipe: deviation(device, pipe, figure, device.datasheet_clock_mhz)
        for device, pipe, figure, exception in figures()
        if device.key == key and exception is None
    }
    assert {pipe: value for pipe, value in deviations.items() if not value <= 0.01} == {}


@pytest.mark.parametrize("key", KEYS)
def test_each_exception_is_one_and_agrees_where_its_clock_is_published(key):
    for device, pipe, figure, exception in figures():
        if device.key != key or exception is None:
            continue
        assert deviation(device, pipe, figure, device.datasheet_clock_mhz) > 0.01, pipe
        assert len(exception.cause) > 10, pipe
        if exception.clock_mhz:
            assert figure.clock_mhz == exception.clock_mhz, pipe
            assert deviation(device, pipe, figure, exception.clock_mhz) <= 0.01, pipe


def test_every_exception_names_a_figure():
    for device in devices.catalogue():
        for exception in devices.find_sku(device.key)[1].datasheet_exceptions:
            assert set(exception.pipes) <= set(device.datasheet)


def test_every_gpu_of_the_issue_is_there():
    assert set(KEYS) >= {
        "h100-sxm", "h100-pcie", "h100-nvl", "h200", "h20", "b200", "gb200",
        "a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-40gb", "a100-pcie-80gb",
        "l40s", "l4", "a10", "rtx-a6000", "rtx-6000-ada", "t4", "v100-sxm2-16gb",
        "rtx-3090", "rtx-4090", "rtx-5090", "rtx-pro-6000-blackwell",
        "h200-nvl", "gh200-96gb", "gh200-144gb", "v100s-pcie-32gb", "a30", "a40", "a10g", "l40",
        "l20", "h800-sxm", "h800-pcie", "h20-3e", "rtx-3080", "rtx-4080", "rtx-5080",
        "rtx-pro-6000-server", "rtx-pro-6000-max-q", "b300", "gb300",
        "mi300x", "mi308x", "mi325x", "mi355x",
    }  # fmt: skip


def test_a_clock_that_nothing_confirms_is_a_boost_clock():
    unconfirmed = (
        "h200-nvl gh200-96gb gh200-144gb h800-sxm h800-pcie h20-3e v100s-pcie-32gb a30 a40 l40 l20 "
        "rtx-3080 rtx-4080 rtx-5080 rtx-pro-6000-server rtx-pro-6000-max-q b300 gb300 mi300x "
        "mi308x mi325x mi355x"
    )
    for key in unconfirmed.split():
        device, sku = devices.find(key), devices.find_sku(key)[1]
        assert device.clock_kind is ClockKind.BOOST
        assert device.clock_mhz == sku.datasheet_clock_mhz
    assert devices.find("a10g").clock_kind is ClockKind.MAXIMUM  # Amazon's guide sets it
    assert devices.find("gh200").clock_mhz == 1980


def test_every_number_has_a_sign_a_unit_and_a_source():
    for device in devices.catalogue():
        assert device.memory_bytes > 2**30
        assert device.l2_bytes >= 4 * 2**20
        for pipe, ceiling in [*device.ceilings.items(), *device.datasheet.items()]:
            assert ceiling.value > 0
            assert ceiling.clock_mhz > 0
            assert ceiling.unit == {
                "dram": "B/s", "l2": "B/s", "last_level": "B/s",
                "int32": "op/s", "sfu": "op/s", "issue": "op/s",
                "tensor.int8": "op/s", "tensor.int4": "op/s",
            }.get(pipe, "FLOP/s")  # fmt: skip
            assert len(ceiling.source) > 10


@pytest.mark.parametrize("device", devices.catalogue(), ids=lambda d: d.key)
def test_every_gpu_has_its_scalar_pipes_and_says_whose_figures_they_are(device):
    unit = "CU" if device.vendor == "AMD" else "SM"
    for pipe in ("fp32", "fp16", "fp64", "int32", "sfu", "l2"):
        source = device.ceilings[pipe].source
        assert f"/clk/{unit} × {device.sm_count} {unit}s × " in source
        assert source.endswith(")")
        assert "tensor" not in source.replace("tensor.fp64", "")


# CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions": results a clock and SM
# of fp16, bf16, fp32 and special functions. A multiply-add is two operations.
GUIDE = {
    (7, 0): (128, None, 64, 16),
    (7, 5): (128, None, 64, 16),
    (8, 0): (256, 128, 64, 16),
    (8, 6): (128, 128, 128, 16),
    (8, 9): (128, 128, 128, 16),
    (9, 0): (256, 256, 128, 16),
}


IN_GUIDE = [
    d for d in devices.catalogue() if d.vendor == "NVIDIA" and d.compute_capability in GUIDE
]


@pytest.mark.parametrize("device", IN_GUIDE, ids=lambda d: d.key)
def test_scalar_rates_are_the_programming_guides(device):
    fp16, bf16, fp32, sfu = GUIDE[device.compute_capability]
    clocks = device.sm_count * device.clock_mhz * 1e6
    assert device.ceilings["fp16"].value == 2 * fp16 * clocks
    assert device.ceilings["fp32"].value == 2 * fp32 * clocks
    assert device.ceilings["sfu"].value == sfu * clocks
    assert ("bf16" in device.ceilings) == (bf16 is not None)
    if bf16 is not None:
        assert device.ceilings["bf16"].value == 2 * bf16 * clocks
    # 64 integer multiply-adds, and 64 additions of three operands on the other pipe
    assert device.ceilings["int32"].value == (64 * 2 + 64 * 2) * clocks


def test_an_h100_does_not_exceed_its_integer_ceiling():
    measured = 185  # operations a clock and SM, in a mix of multiply-adds and additions
    h100 = devices.find("h100")
    assert measured * h100.sm_count * h100.clock_mhz * 1e6 < h100.ceilings["int32"].value


def test_amd_has_its_own_memory_levels_and_boost_clocks():
    mi300x = devices.find("AMD Instinct MI300X")
    assert mi300x.vendor == "AMD"
    assert mi300x.clock_kind is ClockKind.BOOST
    assert mi300x.l2_bytes == 8 * 4 * 2**20  # 8 XCDs
    assert mi300x.last_level_bytes == mi300x.cached_bytes == 256 * 2**20
    assert mi300x.ceilings["last_level"].value == 17.2e12
    # 8 XCDs x 2 KiB a clock
    assert mi300x.ceilings["l2"].value == pytest.approx(8 * 2048 * 2100e6, rel=1e-3)
    assert mi300x.ceilings["tensor.fp8"].value == pytest.approx(2614.9e12, rel=1e-3)
    mi308x = devices.find("mi308x")
    assert mi308x.l2_bytes == 4 * 4 * 2**20  # 4 XCDs
    assert mi308x.ceilings["l2"].value == pytest.approx(4 * 2048 * 1420e6)
    assert mi308x.ceilings["tensor.bf16"].value == 80 * 2048 * 1420e6
    assert devices.find("h100").cached_bytes == devices.find("h100").l2_bytes
    bf16 = devices.find("mi325x").ceilings["tensor.bf16"].value
    assert bf16 == mi300x.ceilings["tensor.bf16"].value


def test_b200s_l2_rate_is_not_proven_and_hoppers_is():
    assert "l2" in devices.find("b200").unproven
    assert devices.find("h100").unproven == ()


def test_a_launch_floor_belongs_to_the_very_gpu_it_was_measured_on():
    assert devices.find("h100-sxm").launch_us == 1.2
    assert [d.key for d in devices.catalogue() if d.launch_us] == ["h100-sxm"]  # not its `like`s


# From NVIDIA's sheets by hand: (SMs, FLOP per clock and SM, MHz), (MHz, transfers, bits).
@pytest.mark.parametrize(
    ("key", "pipe", "expected"),
    [
        ("h100-sxm", "tensor.bf16", 132 * 4096 * 1980e6),
        ("h100-sxm", "dram", 2619e6 * 2 * 5120 / 8),
        ("h100-sxm", "sfu", 132 * 16 * 1980e6),
        ("h100-sxm", "l2", 132 * 64 * 1980e6),
        ("h200", "tensor.fp8", 132 * 8192 * 1980e6),
        ("b200", "dram", 3996e6 * 2 * 7680 / 8),
        ("a100-sxm-80gb", "tensor.tf32", 108 * 1024 * 1410e6),
        ("a100-pcie-40gb", "dram", 1215e6 * 2 * 5120 / 8),
        ("l4", "tensor.fp16", 58 * 1024 * 2040e6),
        ("t4", "tensor.int8", 40 * 2048 * 1590e6),
        ("rtx-a6000", "tensor.bf16", 84 * 1024 * 2100e6),
        ("rtx-3090", "tensor.bf16", 82 * 512 * 1695e6),
    ],
)
def test_ceilings_by_hand(key, pipe, expected):
    assert devices.find(key).ceilings[pipe].value == pytest.approx(expected, rel=1e-12)


def test_the_h100s_headline_figures():
    h100 = devices.find("h100")
    assert h100.ceilings["tensor.bf16"].value == pytest.approx(1070e12, rel=1e-3)
    assert h100.ceilings["dram"].value == pytest.approx(3.352e12, rel=1e-3)
    assert (h100.clock_mhz, h100.datasheet_clock_mhz) == (1980, 1830)
    assert h100.clock_kind is ClockKind.MAXIMUM
    assert h100.source == "catalogue"
    assert h100.compute_capability == (9, 0)
    assert h100.limits.shared_per_block_bytes == 227 * 1024


@pytest.mark.parametrize("key", ["rtx-3090", "rtx-4090", "rtx-5090"])
def test_geforce_halves_fp32_accumulation_and_has_no_known_maximum_clock(key):
    gpu = devices.find(key)
    assert gpu.ceilings["tensor.fp16_acc16"].value == 2 * gpu.ceilings["tensor.fp16"].value
    assert gpu.clock_kind is ClockKind.BOOST
    assert gpu.clock_mhz == gpu.datasheet_clock_mhz


def test_one_compute_capability_two_rates():
    h20, h100 = devices.find("h20"), devices.find("h100")
    assert h20.compute_capability == h100.compute_capability
    per_sm = [d.ceilings["tensor.bf16"].value / d.sm_count / d.clock_mhz for d in (h20, h100)]
    assert per_sm[1] == pytest.approx(4 * per_sm[0])


def test_a_pipe_that_a_gpu_lacks_is_absent():
    assert "tensor.fp8" not in devices.find("a100").ceilings
    assert "tensor.bf16" not in devices.find("t4").ceilings
    assert "tensor.int8" not in devices.find("v100").ceilings
    assert "tensor.fp64" not in devices.find("h20").ceilings
    assert "tensor.fp4" in devices.find("b200").ceilings


# ---------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("h100", "h100-sxm"),
        ("H100 SXM", "h100-sxm"),
        ("H100 SXM5 80 GB", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 Tensor Core GPU", "h100-sxm"),
        ("h100_pcie", "h100-pcie"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("H200 141GB HBM3e", "h200"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GB200", "gb200"),
        ("a100", "a100-sxm-80gb"),
        ("A100 40GB", "a100-sxm-40gb"),
        ("A100 40GB SXM", "a100-sxm-40gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA L4", "l4"),
        ("L40S", "l40s"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("RTX 6000 Ada", "rtx-6000-ada"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("rtx4090", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000-blackwell"),
        ("RTX PRO 6000 Blackwell", "rtx-pro-6000-blackwell"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("GH200", "gh200-96gb"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb"),
        ("NVIDIA H800", "h800-sxm"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA L40", "l40"),
        ("Tesla V100S-PCIE-32GB", "v100s-pcie-32gb"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GB300", "gb300"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
        ("rtx 5080", "rtx-5080"),
        ("AMD Instinct MI300X", "mi300x"),
        ("mi355x", "mi355x"),
    ],
)
def test_names_are_forgiving(name, key):
    assert devices.find(name).key == key


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("RTX 4090 D", "rtx-4090"),
        ("RTX 4080 SUPER", "rtx-4080"),
        ("MI300A", "mi300x"),
        ("RTX 4070", "rtx-4080"),
        ("RTX 4090 Laptop GPU", "rtx-4090"),
        ("RTX 3090 Ti", "rtx-3090"),
        ("RTX 6000", "rtx-6000-ada"),
        ("H100 SXM5 96GB", "h100-sxm"),
        ("NVIDIA H100 80GB HBM2e", "h100-sxm"),
        ("Tesla V100-SXM3-32GB", "v100-sxm2-32gb"),
    ],
)
def test_an_unknown_gpu_is_an_error_that_names_the_near_ones(name, near):
    with pytest.raises(UnknownDeviceError) as caught:
        devices.find(name)
    message = str(caught.value)
    assert repr(name) in message
    assert near in message
    assert "solkit devices" in message


@pytest.mark.parametrize("name", ["", "NVIDIA", "80GB"])
def test_a_name_that_says_nothing_is_an_error(name):
    with pytest.raises(UnknownDeviceError, match="unknown device"):
        devices.find(name)


def test_every_key_name_and_alias_finds_its_own_gpu():
    for device in devices.catalogue():
        for name in (device.key, device.name, *devices.aliases(device.key)):
            assert devices.find(name) is device
    assert "h100" in devices.aliases("h100-sxm")
    assert "a100" in devices.aliases("a100-sxm-80gb")


# ----------------------------------------------------------------------------------- clocks


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("NVIDIA H100 80GB HBM3", ["h100-sxm"]),
        ("NVIDIA H100 PCIe", ["h100-pcie"]),
        ("NVIDIA_H100", ["h100-sxm", "h100-pcie", "h100-nvl"]),
        ("h200", ["h200"]),
    ],
)
def test_a_short_name_may_mean_several_gpus(name, keys):
    assert [device.key for device in devices.namesakes(name)] == keys


def test_no_board_exceeds_the_ceilings_at_any_clock():
    sxm, pcie, geforce = (devices.find(key) for key in ("h100-sxm", "h100-pcie", "rtx-4090"))
    assert devices.at_any_clock(sxm) is sxm  # its highest clock is known
    fast = devices.at_any_clock(pcie)
    assert fast.ceilings["fp32"].value == pytest.approx(1.5 * pcie.ceilings["fp32"].value)
    assert fast.ceilings["dram"] == pcie.ceilings["dram"]  # HBM
    memory = devices.at_any_clock(geforce).ceilings["dram"].value
    assert memory == pytest.approx(1.5 * geforce.ceilings["dram"].value)


def test_with_clock_scales_all_but_dram():
    h100 = devices.find("h100")
    slow = devices.with_clock(h100, 990)
    for pipe, ceiling in h100.ceilings.items():
        factor = 1.0 if pipe == "dram" else 0.5
        assert slow.ceilings[pipe].value == pytest.approx(factor * ceiling.value)
    assert slow.ceilings["dram"].clock_mhz == 2619
    assert slow.ceilings["fp32"].clock_mhz == slow.clock_mhz == 990
    unchanged = dataclasses.replace(slow, clock_mhz=h100.clock_mhz, ceilings=h100.ceilings)
    assert unchanged == h100


def test_importing_pulls_nothing_heavy():
    code = (
        "import sys, solkit.roofline.devices, solkit.roofline.nvml;"
        "print({'torch', 'triton', 'pydantic', 'pynvml', 'numpy'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"
