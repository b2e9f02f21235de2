"""Reward functions with TRL's signature."""

from __future__ import annotations

import inspect

import pytest

from solkit.core import Configuration
from solkit.integrations.grading import Reward
from solkit.integrations.rl import as_reward_function, completion_code, completion_text

CODE = "def kernel(x):\n    return x\n"
FENCED = f"I rewrote it.\n```python\nold = 1\n```\nBetter:\n```python\n{CODE}```\nDone."


class Evaluator:
    """Rewards a candidate by its length, and notes the batches."""

    def __init__(self):
        self.asked = []

    def reward(self, sources):
        self.asked.append(list(sources))
        return [Reward(len(str(source)) / 1000, "correct") for source in sources]


def test_a_batch_is_rewarded_in_order_and_at_once():
    evaluator, seen = Evaluator(), []
    reward = as_reward_function(evaluator, tell=seen.append)
    result = reward(["p"] * 4, [FENCED, "", CODE + CODE, "  \n"], trainer_state=None, other=[1] * 4)
    assert result == [len(CODE) / 1000, 0.0, 2 * len(CODE) / 1000, 0.0]
    assert evaluator.asked == [[CODE, CODE + CODE]]
    assert [item.verdict for item in seen[0]] == ["correct", "does_not_compile"] * 2
    assert reward.__name__ == "solkit_reward"
    assert [*inspect.signature(reward).parameters][:2] == ["prompts", "completions"]


def test_equal_candidates_are_read_once():
    evaluator = Evaluator()
    reward = as_reward_function(evaluator, lambda text: Configuration(text, "k", params={"B": 1}))
    assert len(set(reward([], ["a", "b", "a", "a"]))) == 1
    assert [item.path for item in evaluator.asked[0]] == ["a", "b"]


def test_conversations_and_texts_are_read():
    messages = [{"role": "user", "content": "no"}, {"role": "assistant", "content": FENCED}]
    assert completion_text(messages) == completion_text(FENCED) == FENCED
    assert (completion_text([]), completion_text([{"role": "assistant", "content": None}])) == (
        "",
        "",
    )
    assert completion_code(FENCED) == CODE
    assert completion_code("/etc/passwd") == "/etc/passwd\n"  # a text, not a path
    assert completion_code("\n \n") is None


def test_a_reader_of_ones_own_gives_configurations():
    evaluator = Evaluator()

    def read(text):
        return Configuration("k.py", "kernel", params={"BLOCK": int(text)}) if text else None

    assert as_reward_function(evaluator, read)([], ["64", ""])[1] == 0
    assert [item.params for item in evaluator.asked[0]] == [{"BLOCK": 64}]


def test_errors_that_are_not_a_candidates_fault_are_raised():
    class Broken(Evaluator):
        def reward(self, sources):
            raise RuntimeError(f"the GPU is busy; {len(sources)} wait")

    with pytest.raises(RuntimeError, match="busy; 1 wait"):
        as_reward_function(Broken())([], [CODE])
