"""Tuned configurations of a program's launches, as a *tuned folder* keeps them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from solkit.core.kernel_programs import Binding
from solkit.core.launches import Launch
from solkit.core.outcomes import canonical
from solkit.core.reports import Ratio
from solkit.core.values import Value

Launcher = Literal["autotuner", "inductor", "jit"]
"""What chose a launch's configuration: Triton's autotuner, torch.compile, or the caller."""

_EXACT = 16
"""Sizes up to this one are buckets of their own: block sizes of small launches follow them."""


@dataclass(frozen=True)
class TunerChoice:
    """Choice of one of Triton's autotuners for one of its keys.

    Attributes:
        tuner: the function's place, and a digest of the list of configurations.
        key: of the launch, as text.
        config: the configuration, as Triton writes it.
    """

    tuner: str
    key: str
    config: str


@dataclass(frozen=True)
class LaunchBucket:
    """Arguments that tell launches of a program apart, by parameter; none of them is tuned.

    Attributes:
        constants: compile-time constants.
        scalars: integers that the launch passes: sizes and strides.
        shapes: of tensors, in elements.
        dtypes: of tensors, in Triton's notation: ``"bf16"``.
    """

    constants: Mapping[str, Value] = field(default_factory=dict)
    scalars: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def holds(self, other: LaunchBucket) -> bool:
        """Tell whether a launch is in this bucket; names that only the launch has do not matter.

        Constants and dtypes must be equal, and so must sizes up to 16. Larger ones must round up to
        the same power of two and both be multiples of 16 or neither, as Triton specialises them.
        Constants that the launch lacks follow from what it has: heuristics compute them later.
        """
        constants = {name: other.constants.get(name, v) for name, v in self.constants.items()}
        return (
            canonical(constants) == canonical(self.constants)  # 1, 1.0 and True compile apart
            and other.dtypes == {**other.dtypes, **self.dtypes}
            and all(_alike(n, other.scalars.get(name)) for name, n in self.scalars.items())
            and all(_alike_shapes(s, other.shapes.get(name)) for name, s in self.shapes.items())
        )

    def distance(self, other: LaunchBucket) -> float:
        """Return how far sizes of a launch in this bucket are from its own, in factors of two."""
        pairs = [(n, other.scalars[name]) for name, n in self.scalars.items()]
        for name, shape in self.shapes.items():
            pairs += zip(shape, other.shapes[name], strict=True)
        return math.fsum(abs(math.log2(a / b)) for a, b in pairs if a > 0 and b > 0)


PLAIN_LAUNCH = ("num_warps", "num_stages")
"""What may change of a plain launch: its host code may use a block's size, as in a grid."""


def applicable_parameters(launcher: str, tiles: Iterable[str] = ()) -> tuple[str, ...] | None:
    """Return the parameters that `solkit.apply` may change of a launch; ``None`` for all.

    Args:
        launcher: what chose the launch's configuration.
        tiles: constants that only say which program computes an element.
    """
    return (*PLAIN_LAUNCH, *tiles) if launcher == "jit" else None


@dataclass(frozen=True)
class Speedup:
    """Time in use over the tuned time: above 1 if it is faster; `low` to `high` holds 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class TunedEntry:
    """One launch's tuned configuration.

    Attributes:
        kernel: name of the launched function.
        program: `KernelProgram.digest`: the kernel's text with that of all it calls.
        launcher: what chose the configuration in use.
        bucket: launches that it is for.
        in_use: the configuration in use when it was recorded, as far as it was varied.
        params: the tuned one; what it lacks stays as the launcher has it.
        speedup: what a head-to-head of the two showed; ``None`` if there was none.
        verified: whether outputs of both were compared and agree.
        calls: how often the recorded program launched it.
        source: the recorded kernel file, relative to the folder; empty if there is none.
        tiles: constants among `params` that only say which program computes an element.
        on_trial: whether a program that compares both has yet to show that it is faster there.
    """

    kernel: str
    program: str
    launcher: Launcher
    bucket: LaunchBucket
    in_use: Mapping[str, Value]
    params: Mapping[str, Value]
    speedup: Speedup | None = None
    verified: bool = False
    calls: int = 0
    source: str = ""
    tiles: tuple[str, ...] = ()
    on_trial: bool = False

    @property
    def changes(self) -> dict[str, Value]:
        """Parameters whose values differ from those in use."""
        missing, before = object(), complete_params(self.in_use)
        return {n: value for n, value in self.params.items() if before.get(n, missing) != value}


@dataclass(frozen=True)
class TunedFolder:
    """Contents of a tuned folder.

    Attributes:
        device: the GPU's key in the catalogue.
        torch, triton: versions that it was tuned with; empty if unknown.
        entries: the tuned launches.
        programs: digests of all programs that were looked at, tuned or not.
    """

    device: str
    torch: str = ""
    triton: str = ""
    entries: tuple[TunedEntry, ...] = ()
    programs: tuple[str, ...] = ()

    def known_programs(self) -> frozenset[str]:
        """Return digests of programs for which another search is of no use."""
        return frozenset(self.programs) | {entry.program for entry in self.entries}

    def extended(self, other: TunedFolder) -> TunedFolder:
        """Return this with what another folder has of programs that this one does not know."""
        own = self.known_programs()
        entries = (entry for entry in other.entries if entry.program not in own)
        programs = tuple(sorted(own | other.known_programs()))
        return replace(self, entries=(*self.entries, *entries), programs=programs)


@dataclass(frozen=True)
class AppliedChoice:
    """Fate of tuned entries at one kind of launch in this process.

    Attributes:
        kernel: the kernel's name.
        launcher: what would have chosen the configuration.
        params: the tuned configuration; empty if there was none to apply.
        applied: whether the launch got it.
        why: why not; empty if it did.
    """

    kernel: str
    launcher: Launcher
    params: Mapping[str, Value]
    applied: bool
    why: str = ""


@dataclass(frozen=True)
class VerifiedKernels:
    """Kernels of a tuned folder whose entries were tried together in the whole program.

    Attributes:
        kernels: their names.
        ratio: the program's time with them over its time without; ``None`` if it failed with them.
        kept: whether they gain: the interval ends below `solkit.integrations.verifying.GAIN`.
        why: how the program failed; else empty.
    """

    kernels: tuple[str, ...]
    ratio: Ratio | None
    kept: bool
    why: str = ""


def bucket_of_launch(launch: Launch, tuned: Collection[str]) -> LaunchBucket:
    """Return the bucket of a recorded launch.

    Args:
        launch: with its arguments.
        tuned: names of parameters that tuning sets.
    """
    rest = {name: arg for name, arg in launch.arguments.items() if name not in tuned}
    tensors = {name: arg.tensor for name, arg in rest.items() if arg.tensor is not None}
    constants = {name for name in rest if launch.signature.get(name, "constexpr") == "constexpr"}
    return LaunchBucket(
        {n: rest[n].value for n in rest if n in constants and rest[n].kind == "constant"},
        {n: int(arg.value) for n, arg in rest.items() if n not in constants and _is_size(arg)},  # type: ignore[arg-type]
        {name: tensor.shape for name, tensor in tensors.items()},
        {name: tensor.dtype for name, tensor in tensors.items()},
    )


def complete_params(params: Mapping[str, Value]) -> dict[str, Value]:
    """Return parameters with those options that are left out at Triton's defaults (NVIDIA GPUs)."""
    set_ones = {name: value for name, value in params.items() if value is not None}
    return {"num_warps": 4, "num_stages": 3, "num_ctas": 1, **set_ones}


def _is_size(arg: Binding) -> bool:
    is_scalar = arg.kind in ("scalar", "constant")
    return is_scalar and isinstance(arg.value, int) and not isinstance(arg.value, bool)


def _alike(tuned: int, live: int | None) -> bool:
    if live is None or tuned == live:
        return tuned == live
    if min(tuned, live) <= _EXACT:
        return False
    return (tuned - 1).bit_length() == (live - 1).bit_length() and bool(tuned % 16) == bool(
        live % 16
    )


def _alike_shapes(tuned: tuple[int, ...], live: tuple[int, ...] | None) -> bool:
    same_rank = live is not None and len(tuned) == len(live)
    return same_rank and all(map(_alike, tuned, live or ()))
