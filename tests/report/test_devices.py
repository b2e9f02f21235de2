import io
import json

from rich.console import Console

from solkit.core import ClockKind
from solkit.report import devices
from solkit.roofline.devices import catalogue


def page(known_value, live, width=80):
    file = io.StringIO()
    devices.render(known_value, live, Console(file=file, width=width, highlight=False))
    return file.getvalue()


def test_a_row_of_the_table(make):
    text = page([make.device()], [])
    row = next(line for line in text.splitlines() if line.startswith("h100-sxm"))
    assert row.split() == ["h100-sxm", "9.0", "132", "1980", "max", "3.35", "-", "1070", "-", "-"]
    assert text.startswith("In this machine\nno GPU that SolKit can use\n")


def test_boost_clock_and_live_notes(make):
    live = make.device(clock_kind=ClockKind.BOOST, source="nvml", notes=("ECC is off.",))
    text = page([], [live])
    assert "1980 boost" in text
    assert "h100-sxm: ECC is off." in text


def test_the_whole_catalogue_fits_and_is_there():
    known_catalogue = catalogue()
    shown = {width: page(known_catalogue, [], width) for width in (80, 120, 160)}
    for width, text in shown.items():
        assert max(len(line) for line in text.splitlines()) <= width
        assert all(device.key in text for device in known_catalogue)
    assert "NVIDIA" not in shown[80]
    wide = page(known_catalogue, [], 250)
    assert all(device.name in wide for device in known_catalogue)


def test_json(make):
    live = make.device(source="nvml", uuid="GPU-1")
    data = json.loads(devices.dumps(catalogue(), [live]))
    assert data["schema"] == "solkit.devices/1"
    (here,) = data["machine"]
    assert (here["source"], here["uuid"], here["clock_kind"]) == ("nvml", "GPU-1", "maximum")
    assert here["compute_capability"] == [9, 0]
    assert here["ceilings"]["dram"] == {
        "value": 3.352e12, "unit": "B/s", "clock_mhz": 2619, "source": "NVML",
    }  # fmt: skip
    known_devices_by_key = {device["key"]: device for device in data["catalogue"]}
    assert set(known_devices_by_key) == {device.key for device in catalogue()}
    assert "h100" in known_devices_by_key["h100-sxm"]["aliases"]
