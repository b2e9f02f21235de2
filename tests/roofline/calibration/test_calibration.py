"""The record, where it lies, and which one applies to a device."""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from solkit.core import Conditions, Work
from solkit.errors import InputError
from solkit.roofline import calibration, devices
from solkit.roofline.bound import bound
from solkit.roofline.calibration import Calibration, Reading, Regime
from solkit.roofline.calibration.record import Gpu, Software

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
H100 = devices.find("h100")
PEAK = 132 * 256 * 1.98e9  # fp32 FLOP/s of an H100 SXM: 132 SMs of 128 lanes, two operations each


def reading(name, value, ceiling=None, regime=Regime.BURST, unit="FLOP/s", clock=1980.0):
    return Reading(
        name=name, ceiling=ceiling, regime=regime, unit=unit, value=value, low=value, high=value,
        samples=5, timer="events", sm_clock_mhz=clock,
    )  # fmt: skip


def record(*readings, created=NOON, uuid="GPU-1", driver="1.2", key="h100-sxm", sms=132):
    return Calibration(
        schema="solkit.calibration/1",
        created=created,
        seconds=70,
        quick=False,
        gpu=Gpu(
            key=key, name="NVIDIA H100 80GB HBM3", uuid=uuid, sm_count=sms,
            max_sm_clock_mhz=1980, max_memory_clock_mhz=2619,
        ),
        software=Software(
            solkit="0", driver=driver, cuda="13", torch="2", triton="3", python="3", platform="x"
        ),
        idle=Conditions(samples=0),
        readings=readings,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SOLKIT_CALIBRATIONS", str(tmp_path / "mine"))
    return tmp_path / "mine"


# ----------------------------------------------------------------------------------- store


def test_a_saved_calibration_is_read_back_whole(folder):
    kept = record(reading("fp32", 6e13, "fp32"))
    path = calibration.save(kept)
    assert path.parent == folder
    assert calibration.read(path) == kept
    assert json.loads(path.read_text())["schema"] == "solkit.calibration/1"


def test_none_is_ever_lost(folder):
    for minute in range(3):
        calibration.save(record(created=NOON + timedelta(minutes=minute)))
    path = calibration.save(record(driver="1.3"))
    with pytest.raises(InputError, match="never overwritten"):
        calibration.save(record(), path)
    assert calibration.read(path).software.driver == "1.3"
    assert len(list(folder.iterdir())) == 4  # and nothing half-written beside them
    own, faults = calibration.own()
    assert [c.created.minute for c in own] == [2, 1, 0, 0]
    assert faults == ()


def test_what_is_broken_is_told_and_left_out(folder):
    whole = calibration.save(record())
    (folder / "cut.json").write_bytes(whole.read_bytes()[:300])
    (folder / "other.json").write_text('{"schema": "else/1"}')
    own, faults = calibration.own()
    assert len(own) == 1
    assert len(faults) == 2
    assert "cut.json" in faults[0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"value": 0}, "readings: value: expected a number above 0, not 0.0"),
        ({"value": "Infinity"}, "readings: value: expected a number above 0, not inf"),
        ({"low": "NaN"}, "readings: low, high: expected numbers, not nan"),
        ({"samples": 0}, "readings: samples: expected a number above 0, not 0"),
        ({"regime": "hurried"}, "readings: regime: 'hurried' is not a valid Regime"),
    ],
)
def test_a_figure_that_none_can_be_is_named(change, why):
    path = calibration.save(record(reading("fp32", 6e13, "fp32")))
    document = json.loads(path.read_text())
    document["readings"][0] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=f"{path.name} is not a calibration: {why}"):
        calibration.read(path)


def test_times_of_earlier_versions_are_read():
    path = calibration.save(record())
    path.write_text(path.read_text().replace("T12:00:00.000000+00:00", "T12:00:00Z"))
    assert '12:00:00Z"' in path.read_text()
    assert calibration.read(path) == record()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write"):
        calibration.save(record(), tmp_path / "file" / "x.json")


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("SOLKIT_CALIBRATIONS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert calibration.folder() == tmp_path / "solkit/calibrations"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(calibration.folder()) == "/home/me/.local/share/solkit/calibrations"


def test_fields_of_a_later_version_are_ignored():
    path = calibration.save(record())
    later = {**json.loads(path.read_text()), "novelty": 1}
    path.write_text(json.dumps(later))
    assert calibration.read(path) == record()


# ---------------------------------------------------------------------------------- choice


def test_ones_own_goes_before_the_shipped_one_and_the_same_gpu_before_a_newer():
    assert not calibration.choose(H100).is_own
    calibration.save(record(created=NOON, uuid="GPU-1"))
    calibration.save(record(created=NOON + timedelta(days=1), uuid="GPU-2"))
    calibration.save(record(created=NOON + timedelta(days=2), sms=16))  # a slice
    calibration.save(record(created=NOON + timedelta(days=3), key="h200"))

    def chosen(uuid):
        return calibration.choose(replace(H100, uuid=uuid)).calibration.gpu.uuid

    assert (chosen(None), chosen("GPU-1"), chosen("GPU-2"), chosen("GPU-3")) == (
        "GPU-2", "GPU-1", "GPU-2", "GPU-2",
    )  # fmt: skip


def test_a_device_that_nobody_measured_stays_as_it_is():
    t4 = devices.find("t4")
    assert calibration.choose(t4) is None
    assert calibration.calibrated(t4, "1.2") is t4


def test_the_highest_end_to_end_rate_becomes_the_ceiling():
    calibration.save(
        record(
            reading("fp32", 6.0e13, "fp32"),
            reading("fp32", 6.2e13, "fp32", Regime.SUSTAINED, clock=1700),
            reading("read", 3.1e12, "dram", unit="B/s"),
            reading("read", 9.9e12, None, Regime.WARM, unit="B/s"),
            reading("launch.graph", 8e-7, None, Regime.QUEUED, unit="s"),
        )
    )
    result = calibration.calibrated(H100, "1.2")
    assert result.ceilings == H100.ceilings
    assert result.launch_us == pytest.approx(0.8)
    assert result.notes == H100.notes
    assert {name: c.value for name, c in result.calibrated.items()} == {
        "fp32": 6.2e13, "dram": 3.1e12, "issue": 3.1e13,
    }  # fmt: skip
    assert result.calibrated["fp32"].clock_mhz == 1700
    assert result.calibrated["dram"].clock_mhz == 2619
    assert "2026-01-02 on NVIDIA H100 80GB HBM3, driver 1.2" in result.calibrated["dram"].source


def test_another_driver_is_told():
    calibration.save(record(driver="1.2"))
    (note,) = calibration.calibrated(H100, "1.3").notes
    assert "1.2" in note
    assert "1.3" in note
    assert calibration.calibrated(H100).notes == ()


@pytest.mark.parametrize(
    ("share", "clock", "cause"),
    [
        (1.005, 1990.0, "clock ran at up to 1990 MHz, not 1980"),
        (1.005, 1980.0, "catalogue's rate or clock of fp32"),
        (1.4, 1995.0, "catalogue's rate or clock of fp32"),
    ],
)
def test_what_lies_above_the_peak_is_told_and_not_used(share, clock, cause):
    new_record = record(
        reading("fp32", 0.9 * PEAK, "fp32", Regime.SUSTAINED),
        reading("fp32", share * PEAK, "fp32", clock=clock),
    )
    calibration.save(new_record)
    (doubt,) = calibration.doubts(new_record, H100)
    assert doubt.startswith(f"fp32: measured up to {100 * (share - 1):.1f} % above")
    assert cause in doubt
    used = calibration.calibrated(H100).calibrated
    assert used["fp32"].value == 0.9 * PEAK
    assert used["issue"].value == 0.45 * PEAK


def test_it_feeds_the_calibrated_time_and_never_roofline_or_hard_bound():
    work = Work({"fp32": 1000}, {}, 3 * 10**9, 0, 3 * 10**9, 0)
    calibration.save(record(reading("read", 2e12, "dram", unit="B/s")))
    before, after = bound(work, H100), bound(work, calibration.calibrated(H100))
    assert before.at.calibrated_ms is None
    assert after.at.calibrated_ms == pytest.approx(1.5)  # 3 GB at 2 TB/s
    assert (after.at.roofline_ms, after.at.hard_ms) == (before.at.roofline_ms, before.at.hard_ms)


# --------------------------------------------------------------------------------- shipped


@pytest.mark.parametrize("key", ["h100-sxm", "h200"])
def test_a_shipped_calibration(key):
    device = devices.find(key)
    (result,) = [c for c in calibration.shipped() if c.gpu.key == key]
    assert result.gpu.uuid is None
    assert result.seconds < 90
    assert not result.quick
    assert result.skipped == {}
    used = dict(calibration.calibrated(device).calibrated)
    mixes = [used.pop(f"dram.{mix}").value for mix in ("read", "copy", "write")]
    assert max(mixes) == used["dram"].value
    assert mixes[1] == min(mixes)  # the DRAM turns from reading to writing
    writes = used.pop("l2.write").value  # docs/lab/calibration.md: about half of the reads'
    assert 0.45 < writes / used["l2"].value < 0.6
    assert set(used) <= set(device.ceilings)
    assert {"dram", "l2", "fp32", "issue"} | {k for k in device.ceilings if "tensor" in k} <= set(
        used
    )
    assert all(c.value <= device.ceilings[name].value for name, c in used.items())
    assert all(c.unit == device.ceilings[name].unit for name, c in used.items())
    for name in ("dram", "fp32", "tensor.fp64"):  # what nothing holds down
        assert used[name].value > 0.94 * device.ceilings[name].value
    assert all(r.low <= r.value <= r.high for r in result.readings)


def test_a_reading_by_name():
    new_record = record(
        reading("l2.read", 9e12, None, unit="B/s"),
        reading("l2.read", 7e12, "l2", unit="B/s"),
        reading("l2.read", 8e12, "l2", unit="B/s"),
    )
    assert new_record.find("l2.read", Regime.BURST).value == 8e12
    assert new_record.find("l2.read", Regime.SUSTAINED) is None


def test_room_is_checked_before_anything_is_measured(tmp_path):
    calibration.check_room(tmp_path / "new" / "mine.json")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "mine.json").write_text("{}")
    with pytest.raises(InputError, match=r"mine\.json exists: a calibration is never overwritten"):
        calibration.check_room(tmp_path / "mine.json")
    with pytest.raises(InputError, match=r"cannot write to .*mine\.json: .* names another folder"):
        calibration.check_room(tmp_path / "mine.json" / "below.json")
