"""Parts that all emitters share: requests, and how a kernel's names become a format's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from solkit.core import TimedParams, Value
from solkit.core.quantities import settings_text
from solkit.errors import InputError, UnknownDeviceError
from solkit.tuner.tuning_results import TuningResult


@dataclass(frozen=True)
class Request:
    """Correspondence of a kernel's names and a format's.

    Attributes:
        names: by the format's name, the kernel's name of a size or parameter.
        constants: by the format's name, a value that the kernel does not have.
        drop: parameters of the kernel that are left out, as the format has no place for them.
        thin: whether batch sizes that a neighbour serves as well are left out.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Value] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    thin: bool = True

    def check(self, form: str, valid: Sequence[str]) -> None:
        """Refuse names that the format does not have; an empty list knows all.

        Raises:
            InputError: one is unknown.
        """
        for name in (*self.names, *self.constants):
            if valid and name not in valid:
                raise InputError(f"{form} has no {name!r}; it has: {', '.join(valid)}")


@dataclass(frozen=True)
class File:
    """A file to write.

    Attributes:
        path: in the destination, a folder; empty if the destination is the file itself.
        text: its content.
    """

    path: str
    text: str


@dataclass(frozen=True)
class Files:
    """Files that an emitter made, and what the user should know, a sentence each."""

    files: tuple[File, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Emitter:
    """A form in which tuned parameters are written.

    Attributes:
        name: for `--format` and `--emit`.
        about: a description, for listings.
        files: makes the files; at least one finding is given, each with parameters to use.
        one_kernel: whether the findings must be one kernel's.
    """

    name: str
    about: str
    files: Callable[[Sequence[TuningResult], Request], Files]
    one_kernel: bool = True


def chosen_of(finding: TuningResult) -> TimedParams:
    """Return the parameters to use, which every finding that an emitter gets has."""
    assert finding.chosen is not None
    return finding.chosen


def shape_text(finding: TuningResult) -> str:
    """Return a shape in words: ``M=4096, dtype=bfloat16``."""
    return settings_text(finding.shape, "its only shape")


def gpu_driver_name(finding: TuningResult) -> str:
    """Return the GPU's name from its driver, if it is recorded, else from the catalogue."""
    if finding.row is not None and finding.row.device_name:
        return finding.row.device_name
    from solkit.roofline.devices import aliases, find

    try:
        device = find(finding.key.device)
    except UnknownDeviceError:
        return finding.key.device
    drivers = [alias for alias in aliases(device.key) if alias.startswith("NVIDIA ")]
    return drivers[0] if drivers else re.sub(r" SXM\d .*", "", device.name)


def source_of(
    finding: TuningResult, name: str, request: Request, others: Sequence[str] = ()
) -> str | None:
    """Return the kernel's name for what a format calls `name`; ``None`` if it has none."""
    candidates = (request.names[name],) if name in request.names else (name, *others)
    held = {**finding.shape, **chosen_of(finding).params}
    return next((candidate for candidate in candidates if candidate in held), None)


def looked_up(
    form: str, finding: TuningResult, name: str, request: Request, others: Sequence[str] = ()
) -> Value:
    """Return a size or parameter by the format's name.

    Args:
        form: the format, for messages.
        finding: whose sizes and parameters are looked up.
        name: the format's name for it.
        request: what the user says; it comes first.
        others: names that kernels commonly have for it.

    Raises:
        InputError: there is none; names what there is.
    """
    if name in request.constants:
        return request.constants[name]
    source = source_of(finding, name, request, others)
    if source is not None:
        return {**finding.shape, **chosen_of(finding).params}[source]
    sizes = ", ".join(finding.shape) or "no sizes"
    params = ", ".join(chosen_of(finding).params) or "no parameters"
    if name in request.names:
        raise InputError(
            f"{form}: {finding.kernel} has no {request.names[name]!r}, which --map {name}=... "
            f"names; its sizes are {sizes}; its parameters are {params}"
        )
    raise InputError(
        f"{form} needs {name}; the sizes of {finding.kernel} are {sizes}, its parameters {params}: "
        f"say which one it is (--map {name}=NAME), or give its value (--set {name}=VALUE)"
    )
