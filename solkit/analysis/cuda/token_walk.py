"""A walk over the tokens of host code, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from solkit.adapters.launch_recording import Argument
from solkit.analysis.cuda.source import Function, Source, Token, closing_bracket
from solkit.analysis.cuda.values import UNKNOWN
from solkit.errors import SolkitError

if TYPE_CHECKING:
    from typing_extensions import Self


class HostError(SolkitError):
    """Host code that is not understood; the message names the line of the CUDA source."""


@dataclass(frozen=True)
class HostLaunch:
    """One launch of the host code.

    Attributes:
        kernel: its C++ name with template arguments: ``"softmax<float, 256>"``.
        grid: blocks in x, y and z; ``None`` (like the next two) if it could not be evaluated.
        block: threads in x, y and z.
        shared_bytes: dynamic shared memory.
        line: ``file:line`` of the CUDA source.
        arguments: of the first of equal launches; ``None`` for unknown ones.
    """

    kernel: str
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    shared_bytes: int | None
    line: str
    arguments: tuple[Argument, ...] = field(default=(), compare=False)


@dataclass
class HostCall:
    """Result and effects of a call of a host function.

    Attributes:
        launches: in order.
        result: what it returned, or `UNKNOWN`.
        undeclared: names that the source uses but does not declare, with their lines.
        unseen: calls of functions that no source defines but that get at memory, each a sentence.
        remarks: about what stands for another thing, each a sentence.
    """

    launches: list[HostLaunch] = field(default_factory=list)
    result: Any = UNKNOWN
    undeclared: dict[str, None] = field(default_factory=dict)
    unseen: dict[str, None] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)


class Returned(Exception):  # noqa: N818 - no error: it carries a value out of nested statements
    """``return``."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Machine(Protocol):
    """Runs the functions of one source; what expressions need of it."""

    source: Source
    seen: HostCall
    steps: int
    globals: dict[str, Any]

    def call(self, function: Function, args: list[Any], types: dict[str, Any]) -> Any:
        """Bind arguments and run the body."""


class Walk:
    """A walk over tokens in a scope, from left to right."""

    def __init__(self, machine: Machine, tokens: Sequence[Token], scope: dict[str, Any]) -> None:
        self.machine = machine
        self.tokens = tokens
        self.scope = scope
        self.at = 0
        self.place: tuple[Any, Any] | None = None
        """Owner of the last field or element that was read, and the name or index there."""

    def text(self, ahead: int = 0) -> str:
        """Return the token's text; empty past the end and for strings."""
        index = self.at + ahead
        if index >= len(self.tokens) or self.tokens[index].kind == "string":
            return ""
        return self.tokens[index].text

    def kind(self, ahead: int = 0) -> str:
        """Return the token's kind; empty past the end."""
        index = self.at + ahead
        return self.tokens[index].kind if index < len(self.tokens) else ""

    def accept(self, text: str) -> bool:
        """Skip a token if it is this one."""
        if self.text() != text:
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        """Skip this token.

        Raises:
            HostError: there is another one.
        """
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.text()!r}")

    def inside(self) -> Sequence[Token]:
        """Return the tokens between the bracket here and its partner; skips them."""
        end = closing_bracket(self.tokens, self.at)
        tokens = self.tokens[self.at + 1 : end]
        self.at = end + 1
        return tokens

    def error(self, message: str) -> HostError:
        """Return an error that names the line here."""
        token = self.tokens[min(self.at, len(self.tokens) - 1)] if self.tokens else None
        source = self.machine.source
        place = f"{source.place(token.start)}: " if token else ""
        return HostError(f"{place}{message}")

    def within(self, tokens: Sequence[Token], scope: dict[str, Any] | None = None) -> Self:
        """Return a walk over other tokens, in the same scope by default."""
        return type(self)(self.machine, tokens, self.scope if scope is None else scope)

    def run(self) -> None:
        """Run the tokens as statements."""
        raise NotImplementedError
