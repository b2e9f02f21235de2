"""Brief that a proposer is given, and proposals that it answers with."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field

from solkit.core.devices import Device
from solkit.core.measurement import Verdict
from solkit.core.reports import Result
from solkit.core.values import Value


class Checked(str, enum.Enum):
    """Verdict on a proposal's results before it costs GPU time."""

    RIGHT = "right"
    """Triton's interpreter gives the reference's results, in fp32 and against fp64."""
    WRONG = "wrong"
    """Other results than the reference's, or an error."""
    UNCHECKED = "unchecked"
    """The interpreter cannot run it, or nobody has tried: the bench decides."""


@dataclass(frozen=True)
class EntryPoint:
    """Function of a kernel file that its callers call.

    Attributes:
        path: the file.
        signature: its parameters, without an object's and without those that may be tuned. A
            default that is no literal is an ellipsis.
        init: those of its object's ``__init__``; ``None`` if it has no object.
    """

    path: str
    signature: inspect.Signature
    init: inspect.Signature | None = None


@dataclass(frozen=True)
class Tried:
    """Fate of an earlier proposal for the same kernel.

    Attributes:
        kind: `Proposal.kind`.
        intent: `Proposal.intent`.
        verdict: of the bench; ``None`` if it did not get there.
        gap: its time over the speed of light; ``None`` if it was not timed.
        gain: its parent's time over its own; ``None`` likewise.
        why: why it failed, or was not measured; a sentence.
    """

    kind: str
    intent: str
    verdict: Verdict | None = None
    gap: float | None = None
    gain: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Brief:
    """All that a proposer is told. It is made of facts.

    Attributes:
        source: the parent's file.
        name: of that file, for messages.
        device: the GPU to write for, with its ceilings.
        shape: the sizes that are measured; every size.
        reference: the text of the file with the reference, if `source` lacks one.
        definition: path of the benchmark's definition, if the reference is a text in it.
        params: the parameters that the parent runs with.
        result: the parent's bound, its launches with their facts, and its gap taken apart; ``None``
            if it could not be analysed.
        advice: what SolKit's rules advise, each a sentence.
        tried: what was tried before, oldest first.
    """

    source: str
    name: str
    device: Device
    shape: Mapping[str, Value]
    reference: str | None = None
    params: Mapping[str, Value] = field(default_factory=dict)
    result: Result | None = None
    advice: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()
    definition: str | None = None


@dataclass(frozen=True)
class Proposal:
    """A variant of a kernel file.

    Attributes:
        source: the whole file.
        kind: what was done, in one word or two: the rewrite's name, or ``"llm"``. How often a kind
            has paid decides how often it is tried.
        intent: what it is meant to gain, in one sentence.
        checked: what is known of its results.
        why: what was found wrong, or why it is unchecked.
    """

    source: str
    kind: str
    intent: str
    checked: Checked = Checked.UNCHECKED
    why: str = ""
