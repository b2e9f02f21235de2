"""A proposer that asks a language model, whichever way it is reached.

What it asks is made by `briefing`, what comes back is read by `answers`; in between is
`solkit.llm.retry`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from solkit.core import Brief, Proposal
from solkit.errors import InputError
from solkit.llm.budget import Budget
from solkit.llm.client import Chat, Request
from solkit.llm.retry import ParsedAnswer, Retries, RetryingChat, UnreadableAnswer
from solkit.llm.transcript import Transcript
from solkit.tuner.proposers.answers import Answer, Reader
from solkit.tuner.proposers.prompt_briefing import PROMPT_VERSION, messages_for
from solkit.tuner.proposers.untrusted_source import RefusedError

_FIRST_SEED = 1 << 31  # seeds stay below, since some servers take 32 bits with a sign


@dataclass(frozen=True)
class Sampling:
    """Settings by which answers are drawn.

    Attributes:
        samples: answers per brief.
        temperature: 0 for the most probable answer.
        seed: of the first; each further answer has the next.
        max_tokens: the longest answer.
    """

    samples: int = 4
    temperature: float = 0.7
    seed: int = 0
    max_tokens: int = 8192

    def __post_init__(self) -> None:
        if self.samples < 1 or self.max_tokens < 1 or not 0 <= self.temperature <= 2:
            raise InputError(
                f"{self}: expected at least one sample and one token, and a temperature of 0 to 2"
            )


class LanguageModel:
    """A `Proposer` behind a `Chat`.

    Args:
        chat: the model.
        budget: charged for every attempt; shared with other proposers if you like.
        exchanges: where every attempt is recorded.
        sampling: how answers are drawn.
        retries: of failed attempts.
        prompt: version of the prompts.
        tell: gets sentences for the user: once that source leaves the machine, and refusals.
        sleep: waits; for tests.
    """

    def __init__(
        self,
        chat: Chat,
        *,
        budget: Budget | None = None,
        exchanges: Transcript | None = None,
        sampling: Sampling | None = None,
        retries: Retries | None = None,
        prompt: str = PROMPT_VERSION,
        tell: Callable[[str], None] = lambda _text: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = chat.name
        self._prompt, self._sampling = prompt, sampling or Sampling()
        self._asking = RetryingChat(
            chat,
            prompt,
            budget=budget,
            exchanges=exchanges,
            retries=retries,
            tell=tell,
            sleep=sleep,
        )

    @property
    def budget(self) -> Budget:
        """Budget that has been spent."""
        return self._asking.budget

    def close(self) -> None:
        """Close the connection, or end the local model."""
        self._asking.close()

    def propose(self, brief: Brief) -> Iterator[Proposal]:
        """Ask for as many answers as `Sampling.samples`; yield those that are proposals.

        Each answer is asked for when it is taken. One that repeats an earlier one of the same brief
        is left out.

        Raises:
            BudgetSpentError: the next answer may cost more than is left.
            ModelGoneError: the model gives no text.
            InputError: the brief's file cannot be read by rule.
        """
        reader = _answer_reader(brief)
        messages = messages_for(brief, reader.entry, self._prompt)
        seen: set[str] = set()
        for number in range(self._sampling.samples):
            request = Request(
                model=self.name,
                messages=messages,
                max_tokens=self._sampling.max_tokens,
                temperature=self._sampling.temperature,
                seed=(self._sampling.seed + number) % _FIRST_SEED,
            )
            answer = self._asking.ask(request, lambda text: _read_or_none(reader, text))
            if answer is not None and answer.source not in seen:
                seen.add(answer.source)
                yield self._proposal_of_answer(answer, request)

    def _proposal_of_answer(self, answer: Answer, request: Request) -> Proposal:
        origin = f"prompt {self._prompt}, exchange {request.digest[:12]}"
        why = f"Written by {self.name} ({origin}); nothing has run it."
        return Proposal(answer.source, "llm", answer.intent, why=why)


def _answer_reader(brief: Brief) -> Reader:
    try:
        return Reader(brief.source, brief.reference)
    except RefusedError as error:
        raise InputError(f"{brief.name}: no model can be asked about it: {error.why}") from None


def _read_or_none(reader: Reader, text: str) -> ParsedAnswer[Answer] | UnreadableAnswer:
    answer = reader.read(text)
    if isinstance(answer, Answer):
        return ParsedAnswer(answer)
    return UnreadableAnswer(answer.reason.value, answer.why)
