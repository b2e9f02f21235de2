"""`solkit calibrate` and what `solkit devices` shows of it, on the calibrations that ship."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from solkit import calibrate as measuring
from solkit.cli import app
from solkit.errors import WorkerError
from solkit.roofline import calibration, devices, nvml

run = CliRunner().invoke


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    """A machine with an H100, whose measuring gives the record that ships."""
    monkeypatch.setenv("SOLKIT_CALIBRATIONS", str(tmp_path / "mine"))
    monkeypatch.setenv("COLUMNS", "140")
    h100 = replace(devices.find("h100"), source="nvml", uuid="GPU-1")
    (result,) = [c for c in calibration.shipped() if c.gpu.key == "h100-sxm"]
    monkeypatch.setattr(nvml, "live_device", lambda _: h100)
    monkeypatch.setattr(measuring, "calibrate", lambda *_, **__: result)
    return result


def test_it_is_measured_shown_and_kept(recorded):
    result = run(app, ["calibrate"])
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert rows["tensor.bf16"][1:5] == ["1071", "809.9", "76", "%"]
    assert rows["fp32"][1:5] == ["66.91", "65.99", "99", "%"]
    assert "power cap 100%" in result.stdout
    assert "launch.graph: 949 ns" in result.stdout
    assert "sfu.sin: measured up to 0.5 % above the analytic peak" in result.stdout
    own, faults = calibration.own()
    assert (own, faults) == ((recorded,), ())


@pytest.mark.usefixtures("recorded")
def test_json_and_a_file_of_ones_own(tmp_path):
    out = tmp_path / "deep/h100.json"
    result = run(app, ["calibrate", "--quick", "--out", str(out), "--json", "-"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads(out.read_text())
    assert calibration.own() == ((), ())
    again = run(app, ["calibrate", "--out", str(out)])
    assert again.exit_code == 2
    assert "never overwritten" in again.output


@pytest.mark.usefixtures("recorded")
def test_a_failure_keeps_nothing(monkeypatch):
    def fail(*_, **__):
        raise WorkerError("it hung")

    monkeypatch.setattr(measuring, "calibrate", fail)
    result = run(app, ["calibrate"])
    assert result.exit_code == 1
    assert "it hung" in result.output
    assert calibration.own() == ((), ())


@pytest.mark.slow
def test_devices_lists_calibrations_with_their_origin(recorded):
    calibration.save(recorded)
    page = run(app, ["devices"]).stdout
    rows = [line.split() for line in page[page.index("Calibrations") :].splitlines()]
    origins = [row[-1] for row in rows if row[:1] == ["h100-sxm"] and "580.159.04" in row]
    assert sorted(origins) == ["SolKit", "you"]
    listed = json.loads(run(app, ["devices", "--json", "-"]).stdout)["calibrations"]
    assert (listed[0]["from"], listed[0]["gpu"]["key"]) == ("you", "h100-sxm")


@pytest.mark.usefixtures("recorded")
def test_a_broken_file_is_told_and_does_not_stop_the_list():
    folder = calibration.folder()
    folder.mkdir()
    (folder / "half.json").write_text("{")
    result = run(app, ["devices"])
    assert result.exit_code == 0
    assert "half.json is not a calibration" in result.output
