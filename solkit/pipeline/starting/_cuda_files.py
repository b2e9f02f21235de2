"""A kernel file for a ``.cu`` file: its text, a function of tensors that launches, what is open."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from solkit.errors import KernelFileError
from solkit.pipeline.starting._extensions import COMMENT, CPP_DTYPES, KINDS

_KERNEL = re.compile(
    r"(?:template\s*<([^<>]*)>\s*)?__global__\b[^;{}()]*(?:\([^()]*\)[^;{}()]*)*?"
    r"\b(\w+)\s*\(([^{};]*?)\)\s*\{"
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_LAUNCH = r"\b{name}\s*(<[^;{{}}()]*?>)?\s*<<<(.*?)>>>"
_CPP = {"Tensor": "torch::Tensor", "int": "int64_t", "float": "double", "bool": "bool"}
_PYTHON = {"int": "1", "float": "1.0", "bool": "False"}
_QUALIFIERS = re.compile(r"\b(const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b")


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a kernel.

    Attributes:
        name: of the parameter.
        kind: "Tensor" for a pointer, "int", "float" or "bool"; empty for others.
        element: the type that a pointer points to.
        is_written: the type is no pointer to constants.
    """

    name: str
    kind: str
    element: str = ""
    is_written: bool = False


@dataclass(frozen=True)
class CudaKernel:
    """A kernel of a ``.cu`` file.

    Attributes:
        name: of the kernel.
        parameters: what it takes; pointers are tensors.
        template: template arguments of the launch, brackets included; empty without any.
        launch: the place and the text of what a launch says between its brackets; empty if the
            file launches none.
        constants: the statements that set numbers which the template arguments name.
        locals: the statements that set what the launch names between its brackets.
    """

    name: str
    parameters: tuple[_Parameter, ...]
    template: str
    launch: str
    constants: tuple[str, ...]
    locals: tuple[str, ...]


def cuda_kernels(path: str) -> dict[str, CudaKernel]:
    """Return the kernels of a file by name; those that it launches come first.

    Raises:
        KernelFileError: it has none.
    """
    kernels: list[CudaKernel] = []
    for file in (Path(path), *_included_files(Path(path))):
        text = COMMENT.sub(_blank, file.read_text(errors="replace"))
        kernels += [_read_kernel(file.name, text, match) for match in _KERNEL.finditer(text)]
    if not kernels:
        message = "has no __global__ function, nor have the files that it includes"
        raise KernelFileError(f"{message}; name the file with the kernel", path)
    kernels.sort(key=lambda kernel: not kernel.launch)
    return {kernel.name: kernel for kernel in kernels}


def _included_files(file: Path) -> Iterator[Path]:
    for name in _INCLUDE.findall(file.read_text(errors="replace")):
        if (file.parent / name).is_file():
            yield file.parent / name


def _blank(comment: re.Match[str]) -> str:
    return "\n" * comment[0].count("\n")


def _read_parameter(text: str, types: Mapping[str, str]) -> _Parameter:
    words = re.findall(r"\w+", text.partition("=")[0])
    name = words[-1] if words else ""
    declared = text.rpartition(name)[0]
    kind = next((kind for kind, pattern in KINDS.items() if re.search(pattern, declared)), "")
    if "*" not in text:
        return _Parameter(name, kind if "<" not in declared else "")
    element = " ".join(_QUALIFIERS.sub(" ", declared.partition("*")[0]).split())
    return _Parameter(name, "Tensor", types.get(element, element), "const" not in declared)


def _read_kernel(file: str, text: str, match: re.Match[str]) -> CudaKernel:
    parts = [part for part in re.split(r",(?![^<]*>)", match[3]) if part.strip()]
    launched = re.search(_LAUNCH.format(name=match[2]), text, re.DOTALL)
    template_arguments = (
        launched[1].strip("<> ").split(",") if launched is not None and launched[1] else []
    )
    names = [
        words[-1] for part in (match[1] or "").split(",") if (words := re.findall(r"\w+", part))
    ]
    types = {name: value.strip() for name, value in zip(names, template_arguments)}
    parameters = tuple(_read_parameter(part, types) for part in parts)
    if launched is None:
        return CudaKernel(match[2], parameters, "", "", (), ())
    line = text.count("\n", 0, launched.start()) + 1
    said = " ".join(launched[2].split())
    before = text[: launched.start()]
    statements = tuple(_definitions(before, re.findall(r"[A-Za-z_]\w*", said)))
    numbers = tuple(
        statement
        for statement in _definitions(before, re.findall(r"[A-Za-z_]\w*", launched[1] or ""))
        if re.search(r"=\s*\d+\s*;$", statement)
    )
    place = f"{file}:{line} has <<<{said}>>>"
    return CudaKernel(match[2], parameters, launched[1] or "", place, numbers, statements)


def _definitions(text: str, names: list[str]) -> Iterator[str]:
    """Yield the last statement that sets each of some variables."""
    for name in dict.fromkeys(names):
        statements = re.findall(
            rf"^[ \t]*((?:[\w:]+[ \t]+)+{name}\s*[({{=][^;]*;)", text, re.MULTILINE
        )
        yield from (" ".join(statement.split()) for statement in statements[-1:])


def cuda_file_text(path: str, out: str, kernel: CudaKernel) -> str:
    """Return a kernel file that launches a kernel of a ``.cu`` file, with TODOs."""
    name, module = Path(path).name, re.sub(r"\W|^(?=\d)", "_", Path(path).stem)
    folder = os.path.relpath(Path(path).parent, Path(out).parent)
    title = f"Kernel file for {name}: fill in each TODO, then run `solkit score {Path(out).name}`."
    names = [parameter.name for parameter in kernel.parameters]
    unknown = [parameter.name for parameter in kernel.parameters if not parameter.kind]
    tensors = [p for p in kernel.parameters if p.kind == "Tensor"]
    declared = ", ".join(f"{_CPP.get(p.kind, 'int64_t')} {p.name}" for p in kernel.parameters)
    passed = ", ".join(
        f"({p.element}*){p.name}.data_ptr()" if p.kind == "Tensor" else p.name
        for p in kernel.parameters
    )
    todo = f"grid and block in LAUNCH{f', as {kernel.launch}' if kernel.launch else ''}"
    if unknown:
        todo += f", and the types of {', '.join(unknown)}"
    lines = [
        f'"""{title}"""',
        "",
        "from pathlib import Path",
        "",
        "import torch",
        "from torch.utils.cpp_extension import load_inline",
        "",
        f'FOLDER = Path(__file__).resolve().parent / "{folder}"',
        f'CUDA = (FOLDER / "{name}").read_text()',
        f'DECLARED = "void launch({declared})"',
        'LAUNCH = """{',
        *(f"    {statement}" for statement in kernel.constants),
        *(f"    // {statement}" for statement in kernel.locals),
        "    dim3 grid(1), block(256);",
        f"    {kernel.name}{kernel.template}<<<grid, block>>>({passed});",
        '}"""',
        "extension = load_inline(",
        f'    name="{module}",',
        '    cpp_sources=[f"#include <torch/extension.h>\\n{DECLARED};"],',
        "    cuda_sources=[CUDA, DECLARED + LAUNCH],",
        '    functions=["launch"],',
        "    extra_include_paths=[str(FOLDER)],",
        ")",
    ]
    if words := ", ".join(f'"{p.name}"' for p in tensors if p.is_written):
        lines.append(f"OUTPUTS = ({words},)  # the kernel may write them")
    reference = f"TODO: reference(): compute in PyTorch what {kernel.name}() computes"
    lines += ["", "", f"def reference({', '.join(names)}):"]
    lines += [f'    raise NotImplementedError("{reference}")', "", ""]
    lines += ['def inputs(N=1048576, device="cuda"):']
    for parameter in tensors:
        dtype = CPP_DTYPES.get(parameter.element, "float32")
        maker = "randn" if dtype in ("float16", "bfloat16", "float32", "float64") else "zeros"
        call = f"torch.{maker}(N, dtype=torch.{dtype}, device=device)"
        lines.append(f"    {parameter.name} = {call}  # TODO: its elements")
    for parameter in kernel.parameters:
        if parameter.kind != "Tensor":
            value = _PYTHON.get(parameter.kind, "1")
            lines.append(f"    {parameter.name} = {value}  # TODO: choose a value")
    lines += [f"    return ({', '.join(names)},)", "", "", f"def kernel({', '.join(names)}):"]
    lines += [f'    raise NotImplementedError("TODO: kernel(): {todo}; then delete this line")']
    return "\n".join([*lines, f"    extension.launch({', '.join(names)})", ""])
