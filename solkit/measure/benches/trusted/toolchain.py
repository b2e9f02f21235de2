"""The tools that build a torch extension, where `torch.utils.cpp_extension` looks for them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from solkit.core import Device


def environment(device: Device, folder: str) -> Mapping[str, str]:
    """Return variables that make all processes build for one GPU, in one folder.

    Programs that a wheel such as ninja's installs beside Python are found even if that environment
    is not activated.
    """
    major, minor = device.compute_capability
    beside = str(Path(sys.executable).parent)
    return {
        "TORCH_EXTENSIONS_DIR": folder,
        "TORCH_CUDA_ARCH_LIST": f"{major}.{minor}",  # or the GPU is asked, which not all see
        "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), beside]),
    }


def missing_tools(variables: Mapping[str, str]) -> str:
    """Return the tools that a machine with these environment variables lacks; empty if none."""
    path = variables.get("PATH")
    home = variables.get("CUDA_HOME") or variables.get("CUDA_PATH")
    nvcc = Path(home or "/usr/local/cuda") / "bin" / "nvcc"
    has_nvcc = nvcc.exists() or (home is None and shutil.which("nvcc", path=path) is not None)
    compiler = variables.get("CXX", "c++")
    here = {
        "nvcc (CUDA's compiler; set CUDA_HOME)": has_nvcc,
        "ninja (pip install ninja)": shutil.which("ninja", path=path) is not None,
        f"{compiler} (a C++ compiler; set CXX)": shutil.which(compiler, path=path) is not None,
    }
    return ", ".join(tool for tool, is_here in here.items() if not is_here)
