"""Whether extensions can be built."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from solkit.measure.benches.trusted import toolchain
from solkit.roofline import devices

TOOLS = ("nvcc", "ninja", "c++")


@pytest.fixture
def machine(tmp_path):
    """One with all tools: its variables."""
    for folder, names in (("tools", TOOLS[1:]), ("cuda/bin", TOOLS[:1])):
        (tmp_path / folder).mkdir(parents=True)
        for name in names:
            tool = tmp_path / folder / name
            tool.touch()
            tool.chmod(0o755)
    return {"PATH": str(tmp_path / "tools"), "CUDA_HOME": str(tmp_path / "cuda")}


def test_all_tools_are_there(machine):
    assert toolchain.missing_tools(machine) == ""
    home = machine.pop("CUDA_HOME")
    machine["PATH"] += f":{home}/bin"
    assert toolchain.missing_tools(machine) == ""  # nvcc is found on the path too
    assert toolchain.missing_tools({**machine, "CXX": "c++"}) == ""


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_is_missing_is_named(machine, tool):
    (path,) = Path(machine["PATH"]).parent.rglob(tool)
    path.unlink()
    result = toolchain.missing_tools(machine)
    assert tool in result
    assert "," not in result


def test_another_compiler_of_the_user_s(machine):
    assert toolchain.missing_tools({**machine, "CXX": "clang++"}).startswith("clang++")


def test_all_processes_build_the_same_in_one_folder(monkeypatch):
    monkeypatch.setenv("PATH", "/somewhere")
    result = toolchain.environment(devices.find("a100-sxm-80gb"), "/tmp/a folder")
    assert result["TORCH_EXTENSIONS_DIR"] == "/tmp/a folder"
    assert result["TORCH_CUDA_ARCH_LIST"] == "8.0"
    assert result["PATH"].split(":") == ["/somewhere", str(Path(sys.executable).parent)]
