"""Requests to a service: a model for each kind of job.

Sources are texts of kernel files (docs/kernel_files.md). Over HTTP a path is refused, for it would
name a file of the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from solkit.errors import InputError

Setting = bool | int | float | str | None
Settings = Annotated[dict[str, Setting], Field(max_length=64)]
Source = Annotated[str, Field(min_length=1, description="The text of a kernel file.")]
Problem = Annotated[
    Source | None, Field(description="The text of the file with the reference, if it is another.")
]
Shapes = Annotated[
    list[Settings] | None,
    Field(max_length=64, description="Sizes to override, a workload each; the file's by default."),
]
Shape = Annotated[
    Settings | None, Field(description="Sizes to override; the file's first shape by default.")
]
Params = Annotated[Settings, Field(description="Parameters of the candidate to override.")]
DeviceName = Annotated[
    str | None, Field(description="A GPU of the catalogue; the service's own by default.")
]
GpuSeconds = Annotated[float, Field(gt=0, le=3600, description="Budget of GPU seconds.")]


class Ask(BaseModel):
    """A request."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Candidate(Ask):
    """A kernel file, and parameters to override."""

    source: Source
    params: Params = {}


Candidates = Annotated[list[Candidate], Field(min_length=1, max_length=1000)]


class Bound(Ask):
    """The speed of light of a problem."""

    problem: Source
    shapes: Shapes = None
    device: DeviceName = None
    precision: Literal["tolerance", "declared", "tf32", "bf16", "fp8"] = "tolerance"


class Score(Ask):
    """Bound, analysis, verdict, time and score of a kernel."""

    source: Source
    problem: Problem = None
    shapes: Shapes = None
    params: Params = {}


class Analyse(Score):
    """Launches of a kernel, with compiled code and gap; nothing is measured."""

    device: DeviceName = None


class Rank(Ask):
    """Which candidates deserve GPU time; nothing is measured."""

    candidates: Candidates
    problem: Problem = None
    whole_spaces: bool = Field(
        default=True, description="Each file's whole space, or the parameters given alone."
    )
    shape: Shape = None
    budget: int = Field(default=10, ge=1, le=10_000, description="How many may be measured.")
    most: int = Field(default=50, ge=1, le=20_000, description="How many places are told.")
    depth: Literal["captured", "lowered", "compiled"] = "lowered"
    device: DeviceName = None


class Compare(Ask):
    """Which of several kernels is faster, timed in turns."""

    base: Candidate
    candidates: Annotated[list[Candidate], Field(min_length=1, max_length=16)]
    problem: Problem = None
    shape: Shape = None


class Evaluate(Ask):
    """Grades of candidates for a search loop: `solkit.integrations.evaluator.Evaluator`."""

    problem: Source
    candidates: Candidates
    shape: Shape = None
    stage: Literal["1", "2", "both"] = Field(
        default="both", description="1: forecast alone; 2: measured in any case; both: cascade."
    )
    reward: bool = Field(default=False, description="Rewards instead; stage is ignored.")
    most: int | None = Field(default=None, ge=0, description="How many are measured at the most.")
    search: str = Field(
        default="",
        max_length=100,
        description="Candidates of one search are held against its best.",
    )


class Tune(Ask):
    """Faster parameters for a kernel, under a budget."""

    source: Source
    problem: Problem = None
    shape: Shape = None
    params: Params = {}
    gpu_seconds: GpuSeconds = 60.0
    seed: int = 0


class Evolve(Tune):
    """Faster variants of a kernel, under a budget."""

    gpu_seconds: GpuSeconds = 120.0


class Profile(Ask):
    """Which op of a model is worth working on. It names a file, so it is not offered over HTTP."""

    path: str = Field(description="A Chrome trace of PyTorch's profiler, or a Python script.")
    arguments: list[str] = []
    device: DeviceName = None


KINDS: dict[str, type[Ask]] = {
    "bound": Bound,
    "analyse": Analyse,
    "score": Score,
    "rank": Rank,
    "compare": Compare,
    "evaluate": Evaluate,
    "tune": Tune,
    "evolve": Evolve,
    "profile": Profile,
}


def refuse_paths(ask: Ask) -> None:
    """Raise if a source is a path.

    Raises:
        InputError: one has a single line, as no kernel file has.
    """
    for name, text in _request_sources(ask):
        if "\n" not in text:
            raise InputError(
                f"{name}: expected the text of a kernel file, which has several lines; "
                f"got {text[:80]!r}"
            )


def _request_sources(ask: Ask, place: str = "") -> Iterator[tuple[str, str]]:
    for name in type(ask).model_fields:
        value = getattr(ask, name)
        if name in ("source", "problem") and value is not None:
            yield f"{place}{name}", value
        elif isinstance(value, Ask):
            yield from _request_sources(value, f"{place}{name}.")
        elif name == "candidates":
            for at, candidate in enumerate(value):
                yield from _request_sources(candidate, f"{place}candidates[{at}].")
