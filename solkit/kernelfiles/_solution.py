"""A solution, as SOL-ExecBench and FlashInfer-Bench call it: source files with an entry point.

It is written out, built and loaded.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from solkit import userdata
from solkit.core.parsing import syntax_tree
from solkit.core.syntax import takes_outputs
from solkit.errors import KernelFileError, UnsupportedError
from solkit.kernelfiles._source import advice_to_install, import_file

COMPILED_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c")
"""Files to compile; the others are included by them."""


def is_fake_device(device: str) -> bool:
    """Tell whether new tensors on that device are fake."""
    return isinstance(torch.empty(0, device=device), FakeTensor)


@dataclass(frozen=True)
class BuildFlags:
    """Options of the compilers and the linker."""

    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Solution:
    """A candidate as source.

    Attributes:
        path: the file that describes it.
        entry_file: the source file with the entry point.
        symbol: the function's name.
        sources: texts by relative path.
        builder: ``"python"`` to import it, ``"torch"`` for `torch.utils.cpp_extension`,
            ``"tvm-ffi"`` for `tvm_ffi.cpp`.
        destination_passing: whether the outputs are arguments after the inputs, to be written.
        flags: for the compilers.
    """

    path: str
    entry_file: str
    symbol: str
    sources: Mapping[str, str]
    builder: str
    destination_passing: bool
    flags: BuildFlags = field(default_factory=BuildFlags)

    def load(self, device: str) -> tuple[Callable[..., Any], ModuleType | None]:
        """Return the entry point, and its Python module.

        CUDA and C++ are built at the first call, so that a failed build counts as the candidate's
        failure. On fake tensors, only torch's builder works: it is fake too and records the
        launches. There, a Python source may also import a package that is not installed (a kernel
        language), as the bound needs no candidate.

        Raises:
            KernelFileError: a Python source fails to import, or lacks the function.
        """
        if self.builder != "python":
            if is_fake_device(device) and self.builder != "torch":
                return self._refusing_function(f"what {self.builder} builds is not followed"), None
            return lambda *args: self._built_module(*args), None
        try:
            module = self._import_entry(
                _temporary_folder() if is_fake_device(device) else self._build_folder()
            )
        except KernelFileError as error:
            cause = error.__cause__
            if isinstance(cause, ModuleNotFoundError) and cause.name and is_fake_device(device):
                advice = advice_to_install(cause)
                why = f"it imports {cause.name}, which is not installed here{advice}"
                return self._refusing_function(why), None
            place = f"{self.path}[{self.entry_file}]"
            raise KernelFileError(error.message, place, error.line) from cause
        function = getattr(module, self.symbol, None)
        if not callable(function):
            raise KernelFileError(f"has no function {self.symbol}", self.entry_file)
        return function, module

    def _import_entry(self, folder: Path) -> ModuleType:
        """Import the entry file so that absolute and relative imports find the other sources."""
        root = folder / f"solution_{self._digest_of_sources}"
        self._write_sources(root)
        sys.path[:0] = [str(root), str(folder)]
        module = ".".join((root.name, *PurePosixPath(self.entry_file).with_suffix("").parts))
        return import_file(str(root / self.entry_file), module)

    def _refusing_function(self, why: str) -> Callable[..., Any]:
        def refuse(*_: Any) -> Any:
            raise UnsupportedError(f"{self.symbol} of {self.entry_file}: {why}")

        return refuse

    @functools.cached_property
    def _built_module(self) -> Callable[..., Any]:
        folder = self._build_folder()
        self._write_sources(folder)
        files = [str(folder / name) for name in self.sources if name.endswith(COMPILED_SUFFIXES)]
        build = _build_with_torch if self.builder == "torch" else _build_with_tvm_ffi
        function: Callable[..., Any] = getattr(build(self, folder, files), self.symbol)
        return function

    def _write_sources(self, folder: Path) -> None:
        """Write the sources; unchanged files keep their date, so that no build is repeated."""
        for name, text in self.sources.items():
            file = folder / name
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")

    def _build_folder(self) -> Path:
        """Return a folder that outlives the process, as building CUDA takes a minute."""
        folder = userdata.cache_folder("solutions") / self._digest_of_sources
        if not userdata.has_room(folder):
            return Path(tempfile.mkdtemp())
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def _digest_of_sources(self) -> str:
        texts = (text for pair in self.sources.items() for text in pair)
        parts = self.builder, repr(self.flags), *texts
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def is_python_file(path: str) -> bool:
    """Tell whether a solution is a Python file; else it is a JSON.

    Raises:
        KernelFileError: it is neither.
    """
    suffix = Path(path).suffix
    if suffix not in (".py", ".json") or Path(path).is_dir():
        raise KernelFileError(
            "is not a solution: expected the JSON of one, or a Python file with run(); "
            "sources in other languages stand in a JSON",
            path,
        )
    return suffix == ".py"


def of_python_file(path: str, arguments: int) -> Solution:
    """Read a plain Python file as a solution: its ``run`` takes inputs, and maybe outputs.

    Args:
        path: the file.
        arguments: the problem's number of inputs.
    """
    text = Path(path).read_text(encoding="utf-8")
    name = Path(path).name
    try:
        functions = [node for node in syntax_tree(text).body if isinstance(node, ast.FunctionDef)]
    except SyntaxError as error:
        raise KernelFileError(f"is not valid Python: {error.msg}", path, error.lineno) from error
    runs = [node for node in functions if node.name == "run"]
    if not runs:
        raise KernelFileError("has no function run(); expected def run(<inputs>): ...", path)
    takes = bool(takes_outputs(runs[0], arguments, 0))
    return Solution(path, name, "run", {name: text}, "python", takes)


def _build_with_torch(solution: Solution, folder: Path, files: list[str]) -> Any:
    from torch.utils.cpp_extension import load

    flags = solution.flags
    return load(
        name=f"solkit_{solution._digest_of_sources}",
        sources=files,
        extra_cflags=list(flags.cflags),
        extra_cuda_cflags=list(flags.cuda_cflags),
        extra_ldflags=list(flags.ldflags),
        extra_include_paths=[str(folder), *flags.include_paths],
        build_directory=str(folder),
    )


def _build_with_tvm_ffi(solution: Solution, folder: Path, files: list[str]) -> Any:
    try:
        tvm_ffi: Any = importlib.import_module("tvm_ffi")
    except ImportError as error:
        raise UnsupportedError(
            f"{solution.path} is bound by tvm-ffi: install apache-tvm-ffi to build it"
        ) from error
    library = tvm_ffi.cpp.build(
        name=f"solkit_{solution._digest_of_sources}",
        cpp_files=[file for file in files if not file.endswith(".cu")],
        cuda_files=[file for file in files if file.endswith(".cu")],
        extra_include_paths=[str(folder)],
        extra_ldflags=list(solution.flags.ldflags),
        build_directory=str(folder),
    )
    return tvm_ffi.load_module(library)


def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="solkit-solution-"))
