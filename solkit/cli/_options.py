"""Arguments and options that several commands share, and how values are parsed."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solkit.errors import InputError, ParamsError, ShapeError

if TYPE_CHECKING:
    from solkit.core import Value


class Precision(str, enum.Enum):
    """Precision of `solkit.pipeline`."""

    TOLERANCE = "tolerance"
    DECLARED = "declared"
    TF32 = "tf32"
    BF16 = "bf16"
    FP8 = "fp8"


class TimingProtocol(str, enum.Enum):
    """The names in `solkit.measure.timing.protocols`, which loads slowly."""

    COLD = "cold"
    WARM = "warm"
    COLD_GRAPH = "cold-graph"
    WARM_GRAPH = "warm-graph"
    REPLAY = "replay"


class FactsDepth(str, enum.Enum):
    """Depths whose facts are stored: see `solkit.core.Depth`."""

    CAPTURED = "captured"
    LOWERED = "lowered"
    COMPILED = "compiled"


def device_names() -> list[str]:
    """Return the catalogue's names, for shell completion."""
    from solkit.roofline.devices import catalogue

    return [device.key for device in catalogue()]


ADVANCED = "Advanced options"
"""The panel of options that few need, in help pages."""


def advanced(*names: str, **settings: Any) -> Any:
    """Return an option that help shows in the panel of advanced ones; arguments are typer's."""
    return typer.Option(*names, rich_help_panel=ADVANCED, **settings)


Kernel = Annotated[
    str, typer.Argument(metavar="KERNEL", help="The kernel file, or a problem folder.")
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=device_names,
        help="Target GPU, named as in `solkit devices`. Default: the project's or this machine's, "
        "else an H100.",
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        metavar="cuda:N",
        help="GPU of this machine to measure on. Default: its first GPU of the target's model.",
    ),
]
Gpus = Annotated[
    str | None,
    typer.Option(
        metavar="all|N|cuda:0,...",
        help="Measure on several GPUs of this machine, a worker process each.",
    ),
]
GpuQueues = Annotated[
    list[str] | None,
    typer.Option(
        metavar="cuda:N", help="GPU to measure on; repeatable, a queue each. Default: the first."
    ),
]
Ray = Annotated[
    str | None,
    advanced(
        "--ray",
        metavar="auto|ADDRESS",
        help="Measure on the GPUs of a Ray cluster (host:port): docs/tuning.md.",
    ),
]
Solution = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The candidate, if KERNEL is a problem without one."),
]
Reference = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The file with the reference, if KERNEL has none."),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(metavar="M=4096,N=1000", help="A shape; repeatable. Default: the file's."),
]
Shape = Annotated[
    str | None, typer.Option(metavar="M=4096,N=1000", help="The shape. Default: the file's first.")
]
Params = Annotated[
    list[str] | None,
    typer.Option(metavar="BLOCK=1024", help="Parameters of the candidate; repeatable."),
]
Measure = Annotated[
    bool | None,
    typer.Option("--measure/--no-measure", help="Default: measure if this machine has the target."),
]
PrecisionOption = Annotated[
    Precision, advanced(help="The precision that fp32 contractions may use.")
]
TimingProtocolOption = Annotated[
    TimingProtocol, advanced(help="How calls are timed: docs/measuring.md.")
]
TimeLimit = Annotated[
    float, advanced(min=0.1, metavar="SECONDS", help="Wall time for one candidate at one shape.")
]
StudyLimit = Annotated[
    float,
    advanced(
        min=0.1,
        metavar="SECONDS",
        help="Wall time to trace a file or compile its kernels at one shape.",
    ),
]
Log = Annotated[
    str | None,
    advanced(
        metavar="FILE",
        help="Append outcomes to FILE. Default: this month's file in your data folder.",
    ),
]
Sandbox = Annotated[
    bool, advanced("--sandbox", help="Run the kernel's code under bubblewrap: docs/measuring.md.")
]
CustomKernel = Annotated[
    bool,
    advanced(
        "--custom-kernel", help="Treat leaving the work to cuBLAS, cuDNN or torch as cheating."
    ),
]
Json = Annotated[
    str | None, typer.Option(metavar="FILE|-", help="Write JSON to FILE; `-` is stdout.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Show the ops and lines behind each resource.")
]
InUse = Annotated[
    list[str] | None,
    typer.Option(metavar="BLOCK=512", help="Parameters in use; default: the file's own."),
]
Resume = Annotated[
    str | None, typer.Option(metavar="FILE", help="Go on with the run that FILE holds.")
]
Recorded = Annotated[
    str | None,
    typer.Option(metavar="FILE|STORE", help="Replay a recording instead of timing: needs no GPU."),
]
Prior = Annotated[
    bool, advanced("--prior/--no-prior", help="Rank candidates before the first measurement.")
]
Workers = Annotated[
    int, advanced(min=0, metavar="N", help="Compiling processes; 0: all cores but one.")
]
Tracebacks = Annotated[bool, advanced("--verbose", help="Show tracebacks.")]


def parse_shapes(texts: Sequence[str] | None) -> list[dict[str, Value]] | None:
    """Return every ``--shape``; ``None`` without one: the file's own shapes are used."""
    return [parse_settings(text, "--shape") for text in texts or ()] or None


def parse_params(texts: Sequence[str] | None, option: str = "--params") -> dict[str, Value] | None:
    """Return all values of a repeatable option; ``None`` if it was not given."""
    return parse_settings(",".join(texts), option) if texts else None


_MOST_ZEROS = 18  # sizes are 64-bit integers


def parse_settings(text: str, option: str) -> dict[str, Value]:
    """Read ``"M=4096,dtype=bfloat16"``.

    A value is an integer (``1e6`` is one, too), a float, ``true``, ``false`` or ``None`` if it
    looks like one, else a word; ``torch.bfloat16`` is the word ``bfloat16``.

    Args:
        text: the option's value.
        option: ``"--shape"``, or an option that takes parameters.

    Raises:
        ShapeError, ParamsError: a part is not NAME=VALUE, or a name appears twice.
    """
    fault = ShapeError if option == "--shape" else ParamsError
    settings: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name.isidentifier() and equals and value) or "=" in value:
            raise fault(f"{option}: {part!r} in {text!r} is not NAME=VALUE, as in M=4096,N=1000")
        if name in settings:
            raise fault(f"{option}: {name} is given twice in {text!r}")
        settings[name] = _parse_setting(value)
    return settings


def _power_of_ten(word: str) -> int:
    """``1e6`` as an integer.

    Raises:
        ValueError: it is not written so.
    """
    digits, _, exponent = word.lower().partition("e")
    if not exponent.removeprefix("+").isdigit() or int(exponent) > _MOST_ZEROS:
        raise ValueError(word)
    return int(f"{digits}{'0' * int(exponent)}")


def _parse_setting(word: str) -> Value:
    named: dict[str, Value] = {"true": True, "false": False, "none": None}
    if word.lower() in named:
        return named[word.lower()]
    for number in (int, _power_of_ten, float):
        with contextlib.suppress(ValueError):
            return number(word)
    return word.removeprefix("torch.")


def parse_pair(option: str, text: str) -> tuple[str, str]:
    """Read ``NAME=VALUE``.

    Raises:
        InputError: it has another form.
    """
    name, equals, value = (piece.strip() for piece in text.partition("="))
    if not (name.isidentifier() and equals and value):
        raise InputError(f"{option}: {text!r} is not NAME=VALUE")
    return name, value
