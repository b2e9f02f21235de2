"""Defaults: the command line before the environment, that before pyproject.toml."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from solkit.cli import _project, app
from solkit.errors import InputError


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel file in a folder of a project, which is not the current folder."""
    monkeypatch.delenv("SOLKIT_DEVICE", raising=False)
    monkeypatch.delenv("SOLKIT_SHAPES", raising=False)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = tmp_path / "kernels" / "softmax.py"
    path.touch()
    return path


def project(kernel, text):
    """Write the pyproject.toml above a kernel."""
    (kernel.parents[1] / "pyproject.toml").write_text(text)


def test_the_command_line_goes_first_then_the_environment_then_the_project(kernel, monkeypatch):
    assert _project.device_setting(None, str(kernel)) is None
    project(kernel, '[tool.solkit]\ndevice = "h200"\nshapes = ["M=8", { M = 16, N = 4 }]')
    assert _project.device_setting(None, str(kernel)) == "h200"
    assert _project.shape_settings(None, str(kernel)) == [{"M": 8}, {"M": 16, "N": 4}]
    assert _project.one_shape_setting(None, str(kernel)) == {"M": 8}
    monkeypatch.setenv("SOLKIT_DEVICE", "a100")
    monkeypatch.setenv("SOLKIT_SHAPES", "M=1;M=2,N=3")
    assert _project.device_setting(None, str(kernel)) == "a100"
    assert _project.shape_settings(None, str(kernel)) == [{"M": 1}, {"M": 2, "N": 3}]
    assert _project.device_setting("b200", str(kernel)) == "b200"
    assert _project.shape_settings(["M=5"], str(kernel)) == [{"M": 5}]


def test_a_gpu_of_this_machine_goes_before_the_project(kernel):
    project(kernel, '[tool.solkit]\ndevice = "h200"')
    assert _project.device_setting(None, str(kernel), on="cuda:0") is None


def test_the_nearest_file_with_a_table_counts(kernel):
    project(kernel, '[tool.solkit]\ndevice = "h200"')
    (kernel.parent / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert _project.device_setting(None, str(kernel)) == "h200"
    (kernel.parent / "pyproject.toml").write_text('[tool.solkit]\ndevice = "h100"\n')
    assert _project.device_setting(None, str(kernel)) == "h100"
    assert _project.device_setting(None) == "h200"  # from the current folder upwards


def test_shapes_of_a_pattern_are_for_its_files_alone(kernel):
    project(kernel, '[tool.solkit.shapes]\n"kernels/soft*.py" = ["M=7"]')
    other = kernel.with_name("matmul.py")
    other.touch()
    assert _project.shape_settings(None, str(kernel)) == [{"M": 7}]
    assert _project.shape_settings(None, str(other)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("devise = 'h100'", r"no key devise; its keys are: device, shapes"),
        ("device = 5", r"device is 5; expected a name"),
        ("device = 'h1000'", r"device: .*h1000.*h100"),
        ("shapes = 'M=1'", r"shapes is 'M=1'; expected a list"),
        ("shapes = ['M']", r"shapes: 'M' in 'M' is not NAME=VALUE"),
        ("shapes = [3]", r"shapes has 3; expected"),
        ("shapes = [{ M = [1] }]", r"shapes has .*; expected"),
        ("[", "is not valid TOML"),
    ],
)
def test_an_invalid_setting_names_the_file_the_key_and_valid_ones(kernel, text, expected):
    project(kernel, f"[tool.solkit]\n{text}")
    with pytest.raises(InputError, match=expected) as raised:
        _project.shape_settings(None, str(kernel))
    assert str(kernel.parents[1] / "pyproject.toml") in str(raised.value)


def test_an_unknown_gpu_in_the_environment_is_named(kernel, monkeypatch):
    monkeypatch.setenv("SOLKIT_DEVICE", "h1000")
    with pytest.raises(InputError, match=r"SOLKIT_DEVICE: .*h1000"):
        _project.device_setting(None, str(kernel))


def test_a_command_takes_the_project_s_device_and_shapes(kernel):
    kernel.write_text(
        "import torch\ndef reference(x): return x + 1\n"
        "def inputs(M=64, device='cuda'): return torch.empty(M, device=device)\n"
    )
    project(kernel, '[tool.solkit]\ndevice = "h200"\nshapes = ["M=1048576"]')
    done = CliRunner().invoke(app, ["bound", str(kernel)])
    assert done.exit_code == 0, done.output
    assert "H200" in done.output
    assert "M=1048576" in done.output
