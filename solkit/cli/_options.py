"""What several commands take: arguments and options, and how the words behind them are read."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.errors import ParamsError, ShapeError

if TYPE_CHECKING:
    from solkit.core import Value

__all__ = [
    "CustomKernel",
    "Device",
    "Explain",
    "Json",
    "Kernel",
    "Precision",
    "PrecisionOption",
    "Reference",
    "Sandbox",
    "Shapes",
    "TimingProtocol",
    "TimingProtocolOption",
    "Trace",
    "Tracebacks",
    "parse_params",
    "parse_settings",
    "parse_shapes",
]


class Precision(str, enum.Enum):
    """What `solkit.pipeline` takes as precision."""

    TOLERANCE = "tolerance"
    DECLARED = "declared"
    TF32 = "tf32"
    BF16 = "bf16"
    FP8 = "fp8"


class TimingProtocol(str, enum.Enum):
    """The names in `solkit.measure.protocols`, which takes time to load."""

    COLD = "cold"
    WARM = "warm"
    COLD_GRAPH = "cold-graph"
    WARM_GRAPH = "warm-graph"
    REPLAY = "replay"


Kernel = Annotated[
    str, typer.Argument(metavar="KERNEL", help="The kernel file, or a problem folder.")
]
Device = Annotated[
    str | None,
    typer.Option(help="The target GPU: see `solkit devices`. Default: the one present."),
]
Reference = Annotated[
    str | None, typer.Option(metavar="FILE", help="The file that holds the reference.")
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(metavar="M=4096,N=1000", help="Sizes of one workload; may be repeated."),
]
PrecisionOption = Annotated[
    Precision, typer.Option(help="What fp32 contractions may be computed in.")
]
TimingProtocolOption = Annotated[
    TimingProtocol, typer.Option(help="How calls are timed: see docs/measuring.md.")
]
Trace = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Append measurements there instead of to this month's file in your data folder.",
    ),
]
Sandbox = Annotated[
    bool,
    typer.Option("--sandbox", help="Run the kernel's code under bubblewrap: docs/measuring.md."),
]
CustomKernel = Annotated[
    bool,
    typer.Option("--custom-kernel", help="Leaving the work to cuBLAS, cuDNN or torch is cheating."),
]
Json = Annotated[
    str | None, typer.Option(metavar="FILE|-", help="Write JSON; `-`: to stdout, alone.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Show which ops and lines each resource's amount is of.")
]
Tracebacks = Annotated[bool, typer.Option("--verbose", help="Show tracebacks.")]


def parse_shapes(texts: Sequence[str] | None) -> list[dict[str, Value]] | None:
    """Every ``--shape``; ``None`` where there is none, so that the file's own are taken."""
    return [parse_settings(text, "--shape") for text in texts or ()] or None


def parse_params(texts: Sequence[str] | None, option: str = "--params") -> dict[str, Value] | None:
    """All of an option that may be repeated; ``None`` where there is none."""
    return parse_settings(",".join(texts), option) if texts else None


def parse_settings(text: str, option: str) -> dict[str, Value]:
    """Read ``"M=4096,dtype=bfloat16"``.

    Values are integers, floats, ``true``, ``false`` and ``None`` where they look so, else words;
    ``torch.bfloat16`` is the word ``bfloat16``.

    Args:
        text: what stands behind the option.
        option: ``"--shape"``, or one that takes parameters.

    Raises:
        ShapeError, ParamsError: a part is not NAME=VALUE, or a name comes twice.
    """
    fault = ShapeError if option == "--shape" else ParamsError
    settings: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name.isidentifier() and equals and value) or "=" in value:
            raise fault(f"{option}: {part!r} in {text!r} is not NAME=VALUE, as in M=4096,N=1000")
        if name in settings:
            raise fault(f"{option}: {name} is given twice in {text!r}")
        settings[name] = _value(value)
    return settings


def _value(word: str) -> Value:
    named: dict[str, Value] = {"true": True, "false": False, "none": None}
    if word.lower() in named:
        return named[word.lower()]
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(word)
    return word.removeprefix("torch.")
