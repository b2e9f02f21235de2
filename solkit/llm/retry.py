"""Asking a model until it answers, whichever way it is reached.

A budget, retries and a record, the same for an endpoint, a local model and a replay, whatever is
asked and however its answers are read.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from solkit.errors import ModelGoneError
from solkit.llm.budget import Budget, Reservation, Spent
from solkit.llm.client import Answered, Chat, Failure, Reply, Request, Trouble, is_this_machine
from solkit.llm.endpoint import DEFAULT_KEY_VARIABLE, Endpoint
from solkit.llm.local import LocalModel
from solkit.llm.transcript import Exchange, Transcript

_SURROGATES = re.compile("[\ud800-\udfff]")
_MOST_WORDLESS = 3  # such answers in a row

T = TypeVar("T")


@dataclass(frozen=True)
class Retries:
    """Limits of the repeats of a failed attempt.

    Attributes:
        attempts: at the most, the first included.
        first_s: before the second attempt; doubles each time, with up to a quarter of jitter.
        most_s: before any attempt, and the longest ``Retry-After`` that is waited for.
    """

    attempts: int = 5
    first_s: float = 1.0
    most_s: float = 60.0


@dataclass(frozen=True)
class UnreadableAnswer:
    """An answer that is refused.

    Attributes:
        reason: a word.
        why: a sentence.
    """

    reason: str
    why: str


@dataclass(frozen=True)
class ParsedAnswer(Generic[T]):
    """An answer as it was understood."""

    value: T


class RetryingChat:
    """Asks a `Chat`.

    Args:
        chat: the model.
        prompt: version of the prompts, for the record.
        budget: charged for every attempt; shared with others if you like.
        exchanges: where every attempt is recorded.
        retries: of failed attempts.
        tell: gets sentences for the user: once that source leaves the machine, and refusals.
        sleep: waits; for tests.
    """

    def __init__(
        self,
        chat: Chat,
        prompt: str,
        *,
        budget: Budget | None = None,
        exchanges: Transcript | None = None,
        retries: Retries | None = None,
        tell: Callable[[str], None] = lambda _text: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = chat.name
        self._chat, self._prompt, self._tell, self._sleep = chat, prompt, tell, sleep
        self._budget = budget or Budget()
        self._exchanges, self._retries = exchanges or Transcript(), retries or Retries()
        self._told: set[str] = set()
        self._wordless = 0  # answers in a row that held no text

    @property
    def budget(self) -> Budget:
        """Budget of the chat, with the money and tokens spent."""
        return self._budget

    def close(self) -> None:
        """Close the connection, or end the local model."""
        self._chat.close()

    def ask(
        self, request: Request, read: Callable[[str], ParsedAnswer[T] | UnreadableAnswer]
    ) -> T | None:
        """Return one answer, after as many attempts as it takes; ``None`` if it is refused.

        Args:
            request: what is asked.
            read: understands an answer's text.

        Raises:
            BudgetSpentError: the next answer may cost more than is left.
            ModelGoneError: no attempt gave text.
        """
        for attempt in range(self._retries.attempts):
            answered, spent = self._attempt_and_pay(request)
            if isinstance(answered, Reply):
                self._wordless = 0
                return self._read_reply(request, answered, spent, read)
            self._record_exchange(request, answered, spent)
            is_last = attempt + 1 == self._retries.attempts
            if is_last or not answered.trouble.may_pass:
                self._give_up_answer(answered)
                return None
            self._wait_before_retry(answered, attempt, request.seed)
        return None

    def _give_up_answer(self, failure: Failure) -> None:
        """Leave one answer out if the next may be better.

        Raises:
            ModelGoneError: it would not be.
        """
        self._wordless += 1
        is_nonsense = failure.trouble in (Trouble.NONSENSE, Trouble.OVERSIZED)
        if not is_nonsense or self._wordless >= _MOST_WORDLESS:
            raise ModelGoneError(f"{self.name}: {failure.why}")
        self._tell(f"An answer of {self.name} is refused: {failure.why}")

    def _attempt_and_pay(self, request: Request) -> tuple[Answered, Spent]:
        """Make one attempt, and pay for it."""
        self._tell_host()
        held = self._budget.reserve(request.most_tokens_in, request.max_tokens)
        try:
            answered = self._chat.ask(request)
        except BaseException:
            self._budget.release(held)
            raise
        return _without_surrogates(answered), self._settle_cost(held, answered)

    def _settle_cost(self, held: Reservation, answered: Answered) -> Spent:
        if isinstance(answered, Reply):
            spent = self._budget.settle(held, answered.tokens_in, answered.tokens_out)
        elif answered.trouble.may_cost:
            spent = self._budget.settle(held, None, None)
        else:
            return self._budget.release(held)
        if spent.is_estimate:
            text = "does not say what an answer cost: the worst case is charged"
            self._tell_once(f"{self.name} {text}")
        return spent

    def _read_reply(
        self,
        request: Request,
        reply: Reply,
        spent: Spent,
        read: Callable[[str], ParsedAnswer[T] | UnreadableAnswer],
    ) -> T | None:
        reading = read(reply.text)
        if isinstance(reading, ParsedAnswer):
            self._record_exchange(request, reply, spent)
            return reading.value
        self._record_exchange(request, reply, spent, f"{reading.reason}: {reading.why}")
        self._tell(f"An answer of {self.name} is refused: {reading.why}")
        return None

    def _record_exchange(
        self, request: Request, answered: Answered, spent: Spent, refused: str = ""
    ) -> None:
        self._exchanges.add(
            Exchange(
                digest=request.digest,
                request=request,
                answer=answered,
                spent=spent,
                prompt=self._prompt,
                host=self._chat.host,
                refused=refused,
            )
        )

    def _wait_before_retry(self, failure: Failure, attempt: int, seed: int) -> None:
        """Wait before the next attempt, as long as the server wants.

        Raises:
            ModelGoneError: that is longer than anybody waits.
        """
        wished_s = failure.retry_after_s or 0.0
        if wished_s > self._retries.most_s:
            text = f"wants to be left alone for {wished_s:.0f} s, over {self._retries.most_s:g} s"
            raise ModelGoneError(f"{self.name} {text}: {failure.why}")
        jitter = 1 + random.Random(f"{seed}:{attempt}").random() / 4
        backoff_s = self._retries.first_s * 2**attempt * jitter
        if self._chat.is_live:
            self._sleep(min(max(wished_s, backoff_s), self._retries.most_s))

    def _tell_host(self) -> None:
        host = self._chat.host
        if host:
            where = "on this machine" if is_this_machine(host) else "so they leave this machine"
            self._tell_once(f"Kernel sources and facts are sent to {host}, {where}.")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)


def open_chat(
    model: str,
    url: str | None = None,
    *,
    key_variable: str | None = DEFAULT_KEY_VARIABLE,
) -> Chat:
    """Open the model that a user names: behind an endpoint if there is a URL, else on this machine.

    Args:
        model: its name there, or a folder, a GGUF file or a hub id in the cache here.
        url: of the endpoint, as for the `openai` client.
        key_variable: the environment variable with the endpoint's key; ``None`` for no key.

    Raises:
        InputError: the URL, the key or the path is unusable.
        UnsupportedError: a package is missing.
    """
    if url is not None:
        return Endpoint(url, model, key_variable=key_variable)
    return LocalModel(model)


def _without_surrogates(answered: Answered) -> Answered:
    """Replace what UTF-8 cannot hold in an answer by U+FFFD, which no code may have."""
    if isinstance(answered, Reply):
        return replace(answered, text=_SURROGATES.sub("\ufffd", answered.text))
    return replace(answered, why=_SURROGATES.sub("\ufffd", answered.why))
