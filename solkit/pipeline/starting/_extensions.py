"""Functions that a Python file binds from C++, as the C++ text declares them.

The text stands in the file's strings (`load_inline`), or in files that it names (`load`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_DECLARED = re.compile(r"\b(\w+)\s*\(([^(){};]*\bTensor\b[^(){};]*)\)\s*[{;]")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_BOUND = re.compile(r"\.def\(\s*\"(\w+)\"\s*,\s*&?\s*(?:\w+::)*(\w+)")
_SOURCES = (".cpp", ".cc", ".cxx", ".cu")
KINDS = {
    "bool": r"\bbool\b",
    "float": r"\b(float|double)\b",
    "int": r"\b(int|long|size_t|u?int\d+_t)\b",
}
CPP_DTYPES = {
    "float": "float32",
    "double": "float64",
    "at::Half": "float16",
    "c10::Half": "float16",
    "at::BFloat16": "bfloat16",
    "c10::BFloat16": "bfloat16",
    "int": "int32",
    "int32_t": "int32",
    "int64_t": "int64",
    "long": "int64",
    "half": "float16",
    "__half": "float16",
    "bf16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "__nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "char": "int8",
    "int8_t": "int8",
    "uint8_t": "uint8",
    "unsigned char": "uint8",
    "unsigned int": "uint32",
    "uint32_t": "uint32",
    "bool": "bool",
}


@dataclass(frozen=True)
class CppParameter:
    """A parameter of a function in C++.

    Attributes:
        name: of the parameter.
        kind: "Tensor", "int", "float" or "bool"; empty for others.
        rank: dimensions that the function's text asks for.
        dtype: in PyTorch's words; empty if the text names none.
    """

    name: str
    kind: str
    rank: int = 0
    dtype: str = ""


def bound_functions(path: str, tree: ast.Module) -> Mapping[str, tuple[CppParameter, ...]]:
    """Return the functions of C++ texts that take tensors, by the names that Python calls."""
    functions: dict[str, tuple[CppParameter, ...]] = {}
    names: list[tuple[str, str]] = []
    for text in _texts(path, tree):
        plain = COMMENT.sub(" ", text)
        declarations = list(_DECLARED.finditer(plain))
        ends = [match.start() for match in declarations[1:]] + [len(plain)]
        for match, end in zip(declarations, ends):
            read = tuple(_parameters(match[2], plain[match.end() : end]))
            if match[1] not in functions or any(p.rank or p.dtype for p in read):
                functions[match[1]] = read
        names += _BOUND.findall(plain)
    return {**functions, **{own: functions[cpp] for own, cpp in names if cpp in functions}}


def _texts(path: str, tree: ast.Module) -> Iterator[str]:
    folder = Path(path).resolve().parent
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "Tensor" in node.value
        ):
            yield node.value
        parts = node.args if isinstance(node, ast.Call) else [node]
        values = (part.value for part in parts if isinstance(part, ast.Constant))
        words = [value for value in values if isinstance(value, str)]
        if words and words[-1].endswith(_SOURCES) and "\n" not in words[-1]:
            file = folder.joinpath(*words)
            if file.is_file():
                yield file.read_text(errors="replace")


def _parameters(text: str, body: str) -> Iterator[CppParameter]:
    for part in re.split(r",(?![^<]*>)", text):
        words = re.findall(r"\w+", part.partition("=")[0])
        name, declared = (words[-1], part.rpartition(words[-1])[0]) if words else ("", "")
        if re.search(r"\bTensor\b", declared) and "<" not in declared:
            sizes = re.findall(rf"\b{name}\.(?:size|stride)\(\s*(\d)\s*\)", body)
            ranks = re.findall(rf"\b{name}\.(?:dim|ndimension)\(\)\s*==\s*(\d)", body)
            element = re.search(rf"\b{name}\.(?:mutable_|const_)?data_ptr<([\w:]+)>", body)
            rank = max([*(int(size) + 1 for size in sizes), *map(int, ranks)], default=0)
            dtype = CPP_DTYPES.get(element[1], "") if element is not None else ""
            yield CppParameter(name, "Tensor", rank, dtype)
        else:
            kinds = (kind for kind, words_of in KINDS.items() if re.search(words_of, declared))
            yield CppParameter(name, next(kinds, "") if "<" not in declared else "")
