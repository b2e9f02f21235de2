"""Compile CUDA C++ device code with NVRTC, NVIDIA's run-time compiler; no GPU is needed.

`libnvrtc` comes with the CUDA builds of torch, with the CUDA toolkit, or from PyPI:
``pip install 'solkit[cuda]'``. It runs in a process of its own (`nvrtc_process`).
"""

from __future__ import annotations

import base64
import ctypes.util
import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.adapters import nvrtc_process
from solkit.adapters.triton_cache import cached_result
from solkit.errors import SolkitError, UnsupportedError


class CudaCompileError(SolkitError):
    """The source does not compile; the message is the compiler's."""


@dataclass(frozen=True)
class Cubin:
    """A compiled source.

    Attributes:
        binary: the cubin.
        names: the mangled name of each requested function, by the expression that requested it.
        ptx: the assembly that the cubin was made from.
    """

    binary: bytes
    names: Mapping[str, str]
    ptx: str


@dataclass(frozen=True)
class Toolkit:
    """The paths of NVRTC and its headers.

    Attributes:
        library: `libnvrtc`.
        includes: folders with CUDA's headers; may be empty.
    """

    library: str
    includes: tuple[str, ...]


@functools.cache
def find_toolkit() -> Toolkit:
    """Return the NVRTC of this machine: from PyPI's wheels, else the CUDA toolkit's.

    Raises:
        UnsupportedError: there is none.
    """
    for folders in (_wheel_folders(), _toolkit_folders()):
        for folder in folders:
            for path in sorted(folder.glob("lib*/libnvrtc.so.*[0-9]")):
                return Toolkit(str(path), _header_folders([folder, *folders]))
    named = ctypes.util.find_library("nvrtc")
    if named is None:
        raise UnsupportedError(
            "CUDA C++ is compiled with NVRTC, which is not here: pip install 'solkit[cuda]'"
        )
    return Toolkit(named, _header_folders(_toolkit_folders()))


def _header_folders(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return distinct folders with headers; NVRTC's own come first, as versions may differ."""
    candidates = [
        folder / "include" / inner for folder in dict.fromkeys(folders) for inner in ("", "cccl")
    ]
    return tuple(str(f) for f in candidates if (f / "cuda_fp16.h").exists() or (f / "cub").exists())


def _wheel_folders() -> list[Path]:
    """``nvidia/cu13``, newest first, then older wheels: ``nvidia/cuda_nvrtc`` and its siblings."""
    package = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (package.submodule_search_locations or [])] if package else []
    names = ("cu1[0-9]", "cuda_nvrtc", "cuda_runtime", "cuda_cccl")
    return [folder for root in roots for name in names for folder in sorted(root.glob(name))[::-1]]


def _toolkit_folders() -> list[Path]:
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [Path(folder) for folder in (*named, "/usr/local/cuda")]


def compile_cuda(text: str, name: str, functions: Sequence[str], options: Sequence[str]) -> Cubin:
    """Compile device code; the result is kept in Triton's cache.

    Args:
        text: the source.
        name: the source's name in messages.
        functions: the requested kernels, as C++ names them: ``"softmax<float, 256>"``.
        options: NVRTC's, including ``"-arch=sm_90"``.

    Raises:
        UnsupportedError: NVRTC is missing, or crashed.
        CudaCompileError: NVRTC refuses the source.
    """
    tools = find_toolkit()
    options = [*options, *(f"-I{folder}" for folder in tools.includes)]
    request = {"text": text, "name": name, "functions": list(functions), "options": options}

    def answer() -> list[bytes]:
        return [json.dumps(_ask_process(tools.library, request)).encode()]

    key = repr(("solkit nvrtc", _library_stamp(tools.library), request)).encode()
    (content,) = cached_result(key, ["cubin.json"], answer)
    parts = json.loads(content)
    return Cubin(base64.b64decode(parts["binary"]), parts["names"], parts["ptx"])


def _library_stamp(library: str) -> tuple[Any, ...]:
    """Tells one NVRTC from another."""
    path = Path(library)
    return library, *((path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else ())


def _ask_process(library: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a process that loads only NVRTC."""
    folder = Path(library).parent
    own = {"LD_LIBRARY_PATH": str(folder)} if folder.is_absolute() else {}
    done = subprocess.run(
        [sys.executable, "-I", nvrtc_process.__file__],
        input=json.dumps({"library": library, **request}).encode(),
        capture_output=True,
        env={**os.environ, **own},  # its libnvrtc-builtins is the one beside it
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise UnsupportedError(f"NVRTC ended with exit code {done.returncode} {last}".strip())
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise CudaCompileError(answer["error"])
    return answer
