"""Compile CUDA C++ device code with NVRTC, NVIDIA's run-time compiler; no GPU is needed.

The only module that talks to `libnvrtc`. It comes with the CUDA builds of torch, with the CUDA
toolkit, or from PyPI: ``pip install 'solkit[cuda]'``. Functions and options: NVRTC's user guide.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton.runtime.cache import get_cache_manager

from solkit.errors import SolkitError, UnsupportedError

__all__ = ["Cubin", "CudaCompileError", "Toolkit", "compile_cuda", "toolkit"]


_KEPT = ("code.cubin", "names.json", "code.ptx")
"""Files of the cache."""


class CudaCompileError(SolkitError):
    """The source does not compile; the message is the compiler's."""


@dataclass(frozen=True)
class Cubin:
    """What NVRTC made of a source.

    Attributes:
        binary: the cubin.
        names: what each requested function is called in it, by the expression that asked for it.
        ptx: the assembly that it was made from.
    """

    binary: bytes
    names: Mapping[str, str]
    ptx: str


@dataclass(frozen=True)
class Toolkit:
    """Where NVRTC and the headers lie.

    Attributes:
        library: `libnvrtc`.
        includes: folders with CUDA's headers; empty where there are none.
        version: (major, minor) of NVRTC.
    """

    library: str
    includes: tuple[str, ...]
    version: tuple[int, int]


@functools.cache
def toolkit() -> Toolkit:
    """The NVRTC of this machine: from PyPI's wheels, else the CUDA toolkit's.

    Raises:
        UnsupportedError: there is none.
    """
    for folders in (_wheel_folders(), _toolkit_folders()):
        found = [path for each in folders for path in each.glob("lib*/libnvrtc.so.*[0-9]")]
        if found:
            return _toolkit(str(min(found)), folders)
    named = ctypes.util.find_library("nvrtc")
    if named is None:
        raise UnsupportedError(
            "CUDA C++ is compiled with NVRTC, which is not here: pip install 'solkit[cuda]'"
        )
    return _toolkit(named, _toolkit_folders())


def _toolkit(library: str, folders: Sequence[Path]) -> Toolkit:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library(library).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    headers = [folder / "include" / inner for folder in folders for inner in ("", "cccl")]
    known = [each for each in headers if (each / "cuda_fp16.h").exists() or (each / "cub").exists()]
    return Toolkit(library, tuple(map(str, known)), (major.value, minor.value))


def _wheel_folders() -> list[Path]:
    """``nvidia/cu13`` and, as older wheels have it, ``nvidia/cuda_nvrtc`` and its siblings."""
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
        name: what messages call it.
        functions: the kernels wanted, as C++ names them: ``"softmax<float, 256>"``.
        options: NVRTC's, ``"-arch=sm_90"`` among them.

    Raises:
        UnsupportedError: there is no NVRTC here.
        CudaCompileError: NVRTC refuses the source.
    """
    tools = toolkit()
    told = (tools.version, text, name, tuple(functions), tuple(options))
    cache = get_cache_manager(hashlib.sha256(f"solkit nvrtc {told}".encode()).hexdigest())
    kept = [cache.get_file(name) for name in _KEPT]
    if None not in kept:
        binary, names, ptx = (Path(path) for path in kept if path is not None)
        return Cubin(binary.read_bytes(), json.loads(names.read_text()), ptx.read_text())
    includes = [f"-I{folder}" for folder in tools.includes]
    cubin = _compile(_library(tools.library), text, name, functions, [*options, *includes])
    kinds = (cubin.binary, json.dumps(dict(cubin.names)), cubin.ptx)
    for name, content in zip(_KEPT, kinds):
        cache.put(content, name, binary=isinstance(content, bytes))
    return cubin


def _compile(
    nvrtc: ctypes.CDLL, text: str, name: str, functions: Sequence[str], options: Sequence[str]
) -> Cubin:
    program = ctypes.c_void_p()
    _check(nvrtc, "nvrtcCreateProgram", ctypes.byref(program), *_bytes(text, name), 0, None, None)
    try:
        for function in functions:
            _check(nvrtc, "nvrtcAddNameExpression", program, *_bytes(function))
        flags = (ctypes.c_char_p * len(options))(*_bytes(*options))
        if nvrtc.nvrtcCompileProgram(program, len(options), flags):
            raise CudaCompileError(_output(nvrtc, "ProgramLog", program).decode(errors="replace"))
        names = {function: _lowered(nvrtc, program, function) for function in functions}
        ptx = _output(nvrtc, "PTX", program).rstrip(b"\0").decode(errors="replace")
        return Cubin(_output(nvrtc, "CUBIN", program), names, ptx)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _lowered(nvrtc: ctypes.CDLL, program: Any, function: str) -> str:
    name = ctypes.c_char_p()
    where = ctypes.byref(name)
    _check(nvrtc, "nvrtcGetLoweredName", program, *_bytes(function), where)
    return (name.value or b"").decode()


def _output(nvrtc: ctypes.CDLL, what: str, program: Any) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, f"nvrtcGet{what}Size", program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    _check(nvrtc, f"nvrtcGet{what}", program, buffer)
    return buffer.raw.rstrip(b"\0") if what == "ProgramLog" else buffer.raw


def _check(nvrtc: ctypes.CDLL, function: str, *args: Any) -> None:
    result = getattr(nvrtc, function)(*args)
    if result:
        message = nvrtc.nvrtcGetErrorString(result).decode()
        raise CudaCompileError(f"{function}: {message}")


def _bytes(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


@functools.cache
def _library(path: str) -> ctypes.CDLL:
    for builtins in Path(path).parent.glob("libnvrtc-builtins.so.*[0-9]"):
        ctypes.CDLL(
            str(builtins)
        )  # NVRTC looks for it by name: 13.0 does not look in its own folder
    library = ctypes.CDLL(path)
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library
