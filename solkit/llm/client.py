"""Messages in, text out: what an endpoint, a local model and a recording have in common.

A `Chat` makes one attempt at a time and never raises for what the other side does: it answers with
a `Reply` or a `Failure`. Retries, budgets and records are the caller's
(`solkit.llm.retry`), so they are the same for all.
"""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Protocol, Union

_THOUGHT = ("<think>", "</think>")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TOKENS_A_MESSAGE = 64  # role and separators of the chat template; real ones take under ten


@dataclass(frozen=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: ``"system"``, ``"user"`` or ``"assistant"``.
        content: its text.
    """

    role: str
    content: str


@dataclass(frozen=True)
class Request:
    """Request to a model.

    Attributes:
        model: its name.
        messages: the conversation so far.
        max_tokens: the longest answer, in tokens.
        temperature: 0 for the most probable answer.
        seed: of the sampling.
    """

    model: str
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float
    seed: int

    @property
    def digest(self) -> str:
        """Names the request in a record: SHA-256 of all its fields."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def most_tokens_in(self) -> int:
        """No tokenizer makes more tokens of it: each has at least one byte of the text."""
        sizes = (len(message.content.encode()) + _TOKENS_A_MESSAGE for message in self.messages)
        return sum(sizes) + _TOKENS_A_MESSAGE


class Trouble(str, enum.Enum):
    """Reason why an attempt gave no text."""

    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    """The server failed (HTTP 5xx)."""
    TIME_OUT = "time_out"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    """The server refused the request: a bad key, an unknown model."""
    OVERSIZED = "oversized"
    """The answer was cut: it has too many bytes."""
    NONSENSE = "nonsense"
    """The answer is not a chat completion."""

    @property
    def may_pass(self) -> bool:
        """True if the same request may succeed later."""
        return self in (Trouble.RATE_LIMIT, Trouble.SERVER, Trouble.TIME_OUT, Trouble.UNREACHABLE)

    @property
    def may_cost(self) -> bool:
        """True if the model may have run, and be charged for."""
        return self in (Trouble.TIME_OUT, Trouble.OVERSIZED, Trouble.NONSENSE)


@dataclass(frozen=True)
class Reply:
    """A model's answer.

    Attributes:
        text: as the model wrote it.
        tokens_in, tokens_out: as charged; ``None`` if the other side does not say.
        model: the name that the other side gives.
        finish: why it ended: ``"stop"``, ``"length"`` ...; empty if unknown.
    """

    text: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    model: str = ""
    finish: str = ""


@dataclass(frozen=True)
class Failure:
    """An attempt that gave no text.

    Attributes:
        trouble: its kind.
        why: one sentence; holds no key.
        retry_after_s: how long the server wants to be left alone; ``None`` if it does not say.
    """

    trouble: Trouble
    why: str
    retry_after_s: float | None = None


Answered = Union[Reply, Failure]


class Chat(Protocol):
    """A model that answers messages."""

    name: str
    """The model's name."""
    host: str
    """The host that the messages go to; empty if they stay on this machine."""
    is_live: bool
    """True if an attempt may end otherwise when made later; not so for a recording."""

    def ask(self, request: Request) -> Answered:
        """Make one attempt. It ends in bounded time, whatever the other side does.

        Raises:
            SolkitError: no attempt can succeed: a package is missing, a recording has ended.
        """

    def close(self) -> None:
        """Free what it holds."""


def is_this_machine(host: str) -> bool:
    """Tell whether a host, with or without a port, is this machine."""
    return any(host == name or host.startswith(f"{name}:") for name in _LOOPBACK)


def without_thought(text: str) -> str:
    """Return an answer without the thoughts that some models write ahead of it."""
    start, end = _THOUGHT
    head, separator, rest = text.partition(end)
    return rest if separator and head.lstrip().startswith(start) else text
