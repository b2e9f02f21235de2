"""The record of what a model was asked and what it answered, and its replay without a network.

One JSON line an attempt, written and flushed before the answer is used. It holds no key: only
messages, text, tokens and cost.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Literal, Union

from pydantic import BaseModel, ConfigDict, ValidationError

from solkit.errors import InputError, TraceError
from solkit.llm.budget import Spent
from solkit.llm.client import Answered, Failure, Reply, Request


class Exchange(BaseModel):
    """One attempt.

    Attributes:
        format: of the line.
        digest: `Request.digest`.
        request: the messages and settings.
        answer: the reply, or why there is none.
        spent: tokens and cost.
        prompt: version of the prompts.
        host: where the messages went; empty for a local model.
        refused: why the answer is no proposal; empty if it is one, or nothing was answered.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["solkit.exchange/1"] = "solkit.exchange/1"
    digest: str
    request: Request
    answer: Union[Reply, Failure]
    spent: Spent
    prompt: str
    host: str
    refused: str = ""


class Transcript:
    """Appends exchanges to a file; the folder must exist.

    Args:
        path: the file; ``None`` keeps no record.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)

    def add(self, exchange: Exchange) -> None:
        """Append one.

        Raises:
            TraceError: it cannot be written.
        """
        if self._path is None:
            return
        line = exchange.model_dump_json() + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise TraceError(f"{self._path}: an exchange could not be saved: {error}") from error


def read_exchanges(path: str | Path) -> tuple[Exchange, ...]:
    """Return all exchanges of a file, in order. A last line that was cut off is left out.

    Raises:
        InputError: the file is missing, or a line is not an exchange.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the exchanges: {error}") from error
    *whole, _cut = text.split("\n")
    exchanges = []
    for number, line in enumerate(whole, 1):
        try:
            exchanges.append(Exchange.model_validate_json(line))
        except ValidationError as error:
            why = error.errors(include_input=False, include_url=False)[0]["msg"]
            raise InputError(f"{path}:{number}: not an exchange: {why}") from error
    return tuple(exchanges)


class ReplayedChat:
    """A chat that answers from a record: the same answers in the same order, failures too.

    Args:
        path: a file of `Transcript`.

    Raises:
        InputError: the file cannot be read.
    """

    is_live = False

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._answers: dict[str, deque[Answered]] = {}
        every = read_exchanges(path)
        for exchange in every:
            self._answers.setdefault(exchange.digest, deque()).append(exchange.answer)
        self.name = every[0].request.model if every else ""
        self.host = ""

    def ask(self, request: Request) -> Answered:
        """Return the next recorded answer to this request.

        Raises:
            InputError: there is none.
        """
        answers = self._answers.get(request.digest)
        if not answers:
            reason = "all its answers were given" if answers is not None else "it was never asked"
            raise InputError(f"{self._path}: no answer to request {request.digest[:12]}: {reason}")
        return answers.popleft()

    def close(self) -> None:
        """Nothing to free."""
