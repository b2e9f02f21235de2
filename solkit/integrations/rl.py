"""Rewards for reinforcement learning, with the signature that TRL's trainers call.

::

    from solkit.integrations.rl import as_reward_function

    with Evaluator("problem.py") as evaluator:
        trainer = GRPOTrainer(model, reward_funcs=as_reward_function(evaluator), ...)

A reward is the SOL score of a kernel that was measured and found correct, and 0 for everything
else: what is wrong, what cheats, what a recording does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from solkit.core import Configuration, canonical
from solkit.integrations.evaluator import Evaluator
from solkit.integrations.grading import Reward
from solkit.pipeline.evaluation import Given

Completion = str | Sequence[Mapping[str, Any]]
"""A text, or the messages of a conversation: `TRL's two forms of data <https://hf.co/docs/trl>`."""

Tell = Callable[[Sequence[Reward]], None]

_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


class RewardFunction(Protocol):
    """Function that TRL calls."""

    __name__: str

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Completion], **columns: Any
    ) -> list[float]:
        """Return the reward of each completion; other columns of the data set are ignored."""


def as_reward_function(
    evaluator: Evaluator,
    read: Callable[[str], Given | None] | None = None,
    tell: Tell | None = None,
) -> RewardFunction:
    """Return a reward function for TRL; a batch is ranked and measured together.

    Args:
        evaluator: it stays open.
        read: gives the candidate in a completion's text, or ``None`` if there is none; the fenced
            code by default (`completion_code`).
        tell: receives each batch's rewards with verdicts, gaps and reasons, for a log.

    Returns:
        A function. It raises what `Evaluator.reward` raises.
    """
    reading = read or completion_code

    def solkit_reward(
        prompts: Sequence[Any], completions: Sequence[Completion], **columns: Any
    ) -> list[float]:
        del prompts, columns
        rewards = _candidate_rewards(
            evaluator, [reading(completion_text(completion)) for completion in completions]
        )
        if tell is not None:
            tell(rewards)
        return [reward.value for reward in rewards]

    return solkit_reward


def completion_text(completion: Completion) -> str:
    """Return a completion's text; of a conversation the last message's."""
    if isinstance(completion, str):
        return completion
    return str(completion[-1].get("content") or "") if completion else ""


def completion_code(text: str) -> str | None:
    """Return the last fenced block of an answer, else the whole answer; ``None`` if it is blank."""
    blocks: list[str] = _FENCED.findall(text)
    code = (blocks[-1] if blocks else text).strip("\n")
    return f"{code}\n" if code.strip() else None  # a text without a line break would be a path


def _candidate_rewards(evaluator: Evaluator, candidates: Sequence[Given | None]) -> list[Reward]:
    """Return the rewards in order; no candidate earns nothing.

    A model that has learnt gives the same answer many times: equal ones are read once.
    """
    distinct = {
        _candidate_key(candidate): candidate for candidate in candidates if candidate is not None
    }
    rewards = dict(zip(distinct, evaluator.reward(distinct.values()), strict=True))
    nothing = Reward(0.0, "does_not_compile", reasons=("The answer holds no candidate.",))
    return [
        nothing if candidate is None else rewards[_candidate_key(candidate)]
        for candidate in candidates
    ]


def _candidate_key(candidate: Given) -> str:
    """Tells candidates apart."""
    if not isinstance(candidate, Configuration):
        return str(candidate)
    return f"{candidate.path} {canonical(candidate.shape)} {canonical(candidate.params)}"
