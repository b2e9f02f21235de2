"""The JSON records of problem folders: definition, workloads and solution.

SOL-ExecBench's schema is a changed copy of FlashInfer-Bench's. Both have these members.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from solkit.errors import KernelFileError

_NAME = re.compile(r"[A-Za-z_]\w*")
Name = Annotated[str, Field(min_length=1)]
Size = Annotated[int, Field(ge=0)]
ForeignLanguage = Literal["cute_dsl", "cutile", "gluon", "helion", "tilelang"]
"""Kernel languages inside of Python; both benchmarks' solutions may be in any."""
DType = Literal[
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float4_e2m1",
    "float4_e2m1fn_x2",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
]


class Record(BaseModel):
    """One JSON object; unknown members are ignored, as in the benchmarks."""

    model_config = ConfigDict(frozen=True)


class ConstAxis(Record):
    """An axis of one size."""

    type: Literal["const"]
    value: Size


class VarAxis(Record):
    """An axis whose size each workload gives."""

    type: Literal["var"]


class ExprAxis(Record):
    """An axis whose size follows from others (SOL-ExecBench only)."""

    type: Literal["expr"]
    expression: Name


class TensorSpec(Record):
    """An input or output: its axes, outermost first; ``None`` for a Python scalar.

    An axis is a name, a number, or arithmetic over names (``"hidden_size / 2"``).
    """

    shape: tuple[Name, ...] | None
    dtype: DType
    description: str | None = None


class Definition(Record):
    """Problem to compute: ``run`` in `reference` takes `inputs` and returns `outputs`."""

    name: Name
    axes: Mapping[Name, Any]
    inputs: Mapping[Name, TensorSpec]
    outputs: Mapping[Name, TensorSpec]
    reference: Name
    op_type: str | None = None
    constraints: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_consistent(self) -> Definition:
        both = set(self.inputs) & set(self.outputs)
        if both:
            raise ValueError(f"{', '.join(sorted(both))} is both an input and an output")
        for name, spec in {**self.inputs, **self.outputs}.items():
            for axis in spec.shape or ():
                if not self.axes.keys() >= set(_NAME.findall(axis)):
                    valid = ", ".join(self.axes)
                    raise ValueError(f"{name} has axis {axis!r}; the axes are: {valid}")
        return self

    @property
    def var_axes(self) -> tuple[str, ...]:
        """The axes that a workload must give."""
        return tuple(name for name, axis in self.axes.items() if axis.type == "var")


class RandomInput(Record):
    """Drawn afresh."""

    type: Literal["random"] = "random"


class ScalarInput(Record):
    """A literal value."""

    type: Literal["scalar"]
    value: bool | int | float


class SafetensorsInput(Record):
    """A tensor in a file."""

    type: Literal["safetensors"]
    path: Name
    tensor_key: Name


class CustomInput(Record):
    """Made by a function in the reference's text (SOL-ExecBench only)."""

    type: Literal["custom"]


Input = Annotated[
    Union[RandomInput, ScalarInput, SafetensorsInput, CustomInput], Field(discriminator="type")
]


class WorkloadRecord(Record):
    """Sizes for the variable axes, and the origin of each input."""

    uuid: Name
    axes: Mapping[Name, Size]
    inputs: Mapping[Name, Input]


class SourceFile(Record):
    """A source file of a solution; without `content` it lies beside the solution's file."""

    path: Name
    content: str = ""

    @model_validator(mode="after")
    def _stays_in_its_folder(self) -> SourceFile:
        if Path(self.path).is_absolute() or ".." in Path(self.path).parts:
            raise ValueError(f"path {self.path!r} leaves the solution's folder")
        return self


class SolutionRecord(Record):
    """A solution without its ``spec``."""

    definition: Name
    sources: Annotated[tuple[SourceFile, ...], Field(min_length=1)]

    def texts(self, path: str) -> dict[str, str]:
        """Return the sources by path; those without content are read from files beside `path`.

        Raises:
            KernelFileError: a file is missing.
        """
        return {
            file.path: file.content or _read_source_beside(path, file.path) for file in self.sources
        }


def _read_source_beside(path: str, name: str) -> str:
    file = Path(path).parent / name
    if not file.is_file():
        raise KernelFileError(f"source {name!r} has no content, and there is no {file}", path)
    return file.read_text(encoding="utf-8")


def split_entry(entry_point: str, sources: Mapping[str, str], path: str) -> tuple[str, str]:
    """``"main.py::run"`` as a file among `sources` and a function's name.

    Raises:
        KernelFileError: it has another form, or names no source.
    """
    file, separator, symbol = entry_point.partition("::")
    if not separator or not symbol.isidentifier():
        raise KernelFileError(
            f"spec.entry_point is {entry_point!r}; expected FILE::FUNCTION, as main.py::run", path
        )
    if file not in sources:
        listed = ", ".join(sources)
        raise KernelFileError(f"spec.entry_point names {file!r}; the sources are: {listed}", path)
    return file, symbol


# ------------------------------------------------------------------------------- reading JSON

R = TypeVar("R", bound=Record)


def read_json(kind: type[R], path: str) -> R:
    """Return a file with one record.

    Raises:
        KernelFileError: it is missing or invalid; names the member and the valid values.
    """
    return parse_record(kind, _read_record_text(path), path)


def parse_lines(kind: type[R], path: str) -> tuple[R, ...]:
    """Return a file with one record per line.

    Raises:
        KernelFileError: as for `read_json`, with the line.
    """
    lines = enumerate(_read_record_text(path).splitlines(), start=1)
    return tuple(parse_record(kind, line, path, number) for number, line in lines if line.strip())


def parse_record(kind: type[R], text: str, path: str, line: int | None = None) -> R:
    """Parse one record from its JSON.

    Raises:
        KernelFileError: it is invalid; names the member and the valid values.
    """
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise KernelFileError(_explain_first_fault(error), path, line) from error


def _read_record_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise KernelFileError(f"cannot be read: {error.strerror}", path) from error


def _explain_first_fault(error: ValidationError) -> str:
    """Return the first fault, and the number of others."""
    first, *others = error.errors()
    place = ".".join(map(str, first["loc"]))
    value = first["input"]
    shown = f", got {value!r}" if isinstance(value, (str, int, float, bool)) else ""
    if len(shown) > 200:
        shown = ""
    more = f" (and {len(others)} more)" if others else ""
    return f"{place + ': ' if place else ''}{first['msg']}{shown}{more}"
