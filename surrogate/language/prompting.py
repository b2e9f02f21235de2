"""A forecaster by prompt: a language model says which of two candidates is faster, and how sure.

The model gives a probability for each of some bins of the speed-up. Each pair is asked in both
orders, since models favour what they read first, and both answers are averaged. What a model calls
80 % may come true more rarely: `Calibration` is learned from pairs whose times are known.

Prompts are files; see `solkit.llm.prompts`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from solkit.core import Device, KernelAnalysis, canonical
from solkit.core.quantities import binary_bytes, duration, significant
from solkit.errors import InputError
from solkit.llm.client import Message, Request, without_thought
from solkit.llm.prompts import fence_python, load_prompt
from solkit.llm.retry import ParsedAnswer, RetryingChat, UnreadableAnswer
from solkit.surrogate.features import Array, Problem
from solkit.surrogate.language.kernel_text import kernel_text
from solkit.surrogate.table import Entry

PROMPT_VERSION = "v1"

_MOST_ANSWER = 20_000  # characters
_SUM_OFF = 0.02  # that probabilities may miss 1 by
_LEAST = 1e-3  # no bin is impossible
_MOST_TEXT = 12_000  # characters of a kernel
_TEMPERATURES = np.geomspace(0.25, 16.0, 49)


@dataclass(frozen=True)
class Bin:
    """A range of A's speed-up over B.

    Attributes:
        name: as the model writes it.
        least: time of B over time of A from which on it holds.
        centre: of the bin, in log2.
    """

    name: str
    least: float
    centre: float


BINS = (
    Bin("A takes over 2 times as long", 0.0, -1.5),
    Bin("A takes 1.2 to 2 times as long", 1 / 2, -0.6),
    Bin("A takes 1.05 to 1.2 times as long", 1 / 1.2, -0.16),
    Bin("equal within 5 %", 1 / 1.05, 0.0),
    Bin("B takes 1.05 to 1.2 times as long", 1.05, 0.16),
    Bin("B takes 1.2 to 2 times as long", 1.2, 0.6),
    Bin("B takes over 2 times as long", 2.0, 1.5),
)
"""Bins from A much slower to A much faster; mirrored, they are those of B over A."""

_CENTRES = np.array([bucket.centre for bucket in BINS])


def bin_of_speed_up(speed_up: float) -> int:
    """Return the place in `BINS` of a speed-up of A over B: time of B over time of A."""
    return max(place for place, bucket in enumerate(BINS) if speed_up >= bucket.least)


# --------------------------------------------------------------------------------- calibration


@dataclass(frozen=True)
class Calibration:
    """Worth of a model's probabilities: p ** (1 / temperature), scaled to add up to 1.

    Guo et al., "On calibration of modern neural networks" (2017).

    Attributes:
        temperature: above 1 if the model is too sure of itself.
    """

    temperature: float = 1.0

    def of(self, probabilities: Array) -> Array:
        """Return calibrated probabilities, (..., bins)."""
        powered = np.maximum(probabilities, _LEAST) ** (1 / self.temperature)
        return np.asarray(powered / powered.sum(axis=-1, keepdims=True))

    @staticmethod
    def fit(probabilities: Array, true: Sequence[int]) -> Calibration:
        """Return the temperature at which known outcomes are most likely.

        Args:
            probabilities: probabilities, (pairs, bins).
            true: the bin that came true, (pairs,).

        Raises:
            InputError: there are no pairs.
        """
        if not len(probabilities):
            raise InputError("a calibration needs pairs whose times are known; got none")
        rows = np.arange(len(probabilities))

        def negative_log_likelihood(temperature: float) -> float:
            likely = Calibration(temperature).of(np.asarray(probabilities))[rows, np.asarray(true)]
            return float(-np.log(likely).mean())

        return Calibration(float(min(_TEMPERATURES, key=negative_log_likelihood)))


# ------------------------------------------------------------------------------------- answers


def read_answer(text: str) -> ParsedAnswer[Array] | UnreadableAnswer:
    """Return an answer's probabilities, (bins,); it raises for no text."""
    text = without_thought(text).strip()
    if len(text) > _MOST_ANSWER:
        return UnreadableAnswer("oversized", f"the answer has {len(text)} characters")
    try:
        answer = json.loads(
            _strip_code_fence(text),
            object_pairs_hook=_reject_repeated_keys,
            parse_constant=_reject_constant,
        )
    except (ValueError, RecursionError) as error:
        return UnreadableAnswer("no_json", f"the answer is not one JSON object: {error}")
    names = [bucket.name for bucket in BINS]
    if not isinstance(answer, dict) or set(answer) != set(names):
        return UnreadableAnswer("other_keys", "the answer's keys are not the bins")
    values = [answer[name] for name in names]
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        return UnreadableAnswer("no_numbers", "a probability is no number")
    if any(not 0 <= v <= 1 for v in values) or abs(sum(values) - 1) > _SUM_OFF:
        why = "the values are no probabilities that add up to 1"
        return UnreadableAnswer("no_probabilities", why)
    probabilities = np.array(values, float)
    return ParsedAnswer(probabilities / probabilities.sum())


def _strip_code_fence(text: str) -> str:
    lines = text.splitlines()
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1] == "```":
        return "\n".join(lines[1:-1])
    return text


def _reject_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key comes twice")
    return mapping


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


# ---------------------------------------------------------------------------------- forecaster


@dataclass(frozen=True)
class Comparison:
    """Judgement of a model on two candidates.

    Attributes:
        probabilities: of `BINS`, calibrated, (bins,).
        answers: how many orders were answered, 1 or 2.
    """

    probabilities: Array
    answers: int

    @property
    def speed_up_log2(self) -> float:
        """The expected log2 of the first one's speed-up over the second."""
        return float(self.probabilities @ _CENTRES)

    @property
    def faster(self) -> float:
        """The probability that the first is faster; half of what is equal counts."""
        half = len(BINS) // 2
        return float(self.probabilities[half + 1 :].sum() + self.probabilities[half] / 2)


@dataclass(frozen=True)
class PromptedForecaster:
    """Asks a language model how candidates compare.

    Attributes:
        asking: the model, with budget, retries and record.
        calibration: of its answers.
        both: whether each pair is asked in both orders.
        max_tokens: the longest answer.
        seed: of the sampling; the temperature is 0.
        version: of the prompts.
    """

    asking: RetryingChat
    calibration: Calibration = field(default_factory=Calibration)
    both: bool = True
    max_tokens: int = 4096
    seed: int = 0
    version: str = PROMPT_VERSION

    def compare(self, first: Entry, second: Entry) -> Comparison | None:
        """Compare two candidates for one problem; ``None`` if no answer can be used.

        Raises:
            BudgetSpentError: the next answer may cost more than is left.
            ModelGoneError: the model gives no text.
            InputError: they are of different problems, or there are no such prompts.
        """
        answers = self._ask_both_orders(first, second)
        if not answers:
            return None
        return Comparison(self.calibration.of(np.mean(answers, axis=0)), len(answers))

    def order(self, candidates: Sequence[Entry], incumbent: Entry) -> list[int]:
        """Return places of the candidates, the one expected to be fastest first.

        Each is compared with the incumbent. One without an answer stands with the incumbent.

        Raises:
            BudgetSpentError, ModelGoneError, InputError: as `compare`.
        """
        comparisons = [self.compare(candidate, incumbent) for candidate in candidates]
        gains = [comparison.speed_up_log2 if comparison else 0.0 for comparison in comparisons]
        return sorted(range(len(candidates)), key=lambda place: (-gains[place], place))

    def calibrated(self, pairs: Sequence[tuple[Entry, Entry]]) -> PromptedForecaster:
        """Return a forecaster whose probabilities were compared with pairs that were timed.

        Raises:
            InputError: no pair was answered; a time is missing.
        """
        probabilities, true = [], []
        for first, second in pairs:
            if math.isnan(first.time_ms) or math.isnan(second.time_ms):
                raise InputError("a calibration needs pairs whose times are known")
            if answers := self._ask_both_orders(first, second):
                probabilities.append(np.mean(answers, axis=0))
                true.append(bin_of_speed_up(second.time_ms / first.time_ms))
        return replace(self, calibration=Calibration.fit(np.array(probabilities), true))

    def _ask_both_orders(self, first: Entry, second: Entry) -> list[Array]:
        if first.problem != second.problem or first.device != second.device:
            raise InputError("two candidates can be compared only for one problem on one GPU")
        answers = []
        if (answer := self._ask_one_order(first, second)) is not None:
            answers.append(answer)
        if self.both and (answer := self._ask_one_order(second, first)) is not None:
            answers.append(answer[::-1])
        return answers

    def _ask_one_order(self, first: Entry, second: Entry) -> Array | None:
        request = Request(
            model=self.asking.name,
            messages=messages_for(first, second, self.version),
            max_tokens=self.max_tokens,
            temperature=0.0,
            seed=self.seed,
        )
        return self.asking.ask(request, read_answer)


# ------------------------------------------------------------------------------------- prompts


def messages_for(first: Entry, second: Entry, version: str = PROMPT_VERSION) -> tuple[Message, ...]:
    """Return the conversation that asks how two candidates compare.

    Raises:
        InputError: there is no such version.
    """
    bins = "\n".join(f'- "{bucket.name}"' for bucket in BINS)
    rules = load_prompt(__package__, version, "system.md").substitute(bins=bins)
    text = load_prompt(__package__, version, "user.md").substitute(
        device="\n".join(_device_lines(first.device)),
        problem="\n".join(_problem_lines(first.problem)),
        first="\n".join(_candidate_lines(first)),
        second="\n".join(_candidate_lines(second)),
    )
    return Message("system", rules), Message("user", text)


def _device_lines(device: Device) -> Iterator[str]:
    yield f"- {device.name}: {device.sm_count} SMs, {binary_bytes(device.l2_bytes)} of L2"
    for name, ceiling in sorted(device.ceilings.items()):
        yield f"- {name}: {significant(ceiling.value)} {ceiling.unit}"


def _problem_lines(problem: Problem) -> Iterator[str]:
    yield f"- Speed of light: {duration(problem.sol_ms)}, limited by {problem.limiter}"
    yield f"- Sizes: {canonical(problem.shape)}"
    for name, amount in sorted(_problem_amounts(problem).items()):
        yield f"- {name}: {significant(amount)}"


def _problem_amounts(problem: Problem) -> Mapping[str, float]:
    moved = {"bytes read at least": problem.read_bytes, "bytes written": problem.write_bytes}
    return moved | {f"operations, {pipe}": n for pipe, n in problem.operations.items()}


def _candidate_lines(entry: Entry) -> Iterator[str]:
    yield f"Parameters: {canonical(entry.params)}"
    for kernel in entry.kernels:
        yield from _launch_lines(kernel)
    text = kernel_text(entry.source)
    cut = text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "\n... (cut)"
    yield fence_python(cut)


def _launch_lines(kernel: KernelAnalysis) -> Iterator[str]:
    launch, facts = kernel.launch, kernel.facts
    grid = " x ".join(map(str, launch.grid))
    yield f"- Launch {launch.name}: grid {grid}, {launch.num_warps} warps, {launch.count} times"
    if facts.registers is not None:
        yield f"  registers {facts.registers}, spills {facts.spills or 0}"
    if facts.shared_bytes is not None:
        yield f"  shared memory {binary_bytes(facts.shared_bytes)} a block"
    if kernel.occupancy is not None:
        yield f"  occupancy {kernel.occupancy.fraction:.0%}, {kernel.occupancy.waves:.1f} waves"
    if kernel.model is not None:
        yield f"  modelled time {duration(kernel.model.time_ms)}"
