"""Follow the host code of a CUDA extension on fake tensors, to learn what it launches and returns.

An interpreter of the C++ of launchers: declarations, arithmetic on sizes, conditions, loops, calls
of torch (which run on the fake tensors), ``AT_DISPATCH_*`` and ``<<<grid, block, shared>>>``. It
works on tokens. Values that it cannot know are `UNKNOWN`, and so is everything computed from them.
An unknown condition ends the walk with a `HostError` that names the line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence, Set
from typing import Any

from solkit.analysis.cuda.expressions import Expressions
from solkit.analysis.cuda.source import Function, Source, Token, closing_bracket
from solkit.analysis.cuda.token_walk import HostCall, HostError, HostLaunch, Returned
from solkit.analysis.cuda.values import (
    FLOATS,
    INTEGERS,
    UNKNOWN,
    VECTORS,
    Dim3,
    Record,
    converted,
    copied_for_assignment,
    device_properties,
    dim3_of_arguments,
    is_unknown,
    vector_of,
)

__all__ = ["UNKNOWN", "HostCall", "HostError", "HostLaunch", "call_host", "is_unknown"]

_QUALIFIERS = frozenset(
    "const constexpr static volatile register inline signed unsigned long extern typename".split()
)
_STEPS = 100_000
"""The most statements of host code."""


def call_host(source: Source, name: str, args: Sequence[Any], call: HostCall) -> None:
    """Call a host function of a source; `call` is filled on the way, even if it fails.

    Args:
        source: defines it.
        name: of the function.
        args: Python's, with fake tensors.
        call: gets what is seen.

    Raises:
        HostError: the source has no such function, or it could not be followed to its end.
    """
    function = source.functions.get(name)
    if function is None:
        raise HostError(f"no function {name} is defined")
    call.result = _Machine(source, call).call(function, list(args), {})


class _BreakError(Exception):
    pass


class _ContinueError(Exception):
    pass


class _Machine:
    """Runs functions of one source."""

    def __init__(self, source: Source, seen: HostCall) -> None:
        self.source = source
        self.seen = seen
        self.steps = 0
        self.globals: dict[str, Any] = {}
        for tokens in source.constants:
            with contextlib.suppress(HostError):  # a launcher that needs it fails by itself
                _Walk(self, tokens, self.globals).run()

    def call(self, function: Function, args: list[Any], types: dict[str, Any]) -> Any:
        """Bind arguments and run the body."""
        scope: dict[str, Any] = {**types}
        for index, parameter in enumerate(function.parameters):
            names = [token for token in parameter if token.kind == "name"]
            equals = next((i for i, t in enumerate(parameter) if t.text == "="), len(parameter))
            declared = [token.text for token in parameter[:equals] if token.kind == "name"]
            if not names or declared == ["void"]:
                continue
            if index < len(args):
                value = args[index]
            elif equals < len(parameter):
                value = _Walk(self, parameter[equals + 1 :], scope).expression()
            else:
                raise HostError(f"{function.name} lacks its argument {declared[-1]}")
            scope[declared[-1]] = value
        try:
            _Walk(self, function.body, scope).run()
        except Returned as returned:
            return returned.value
        except RecursionError:
            raise HostError(f"{function.name} calls itself") from None
        return None


class _Walk(Expressions):
    """Runs tokens as statements."""

    def run(self) -> None:
        """Run all statements."""
        while self.at < len(self.tokens):
            self.statement()

    def statement(self) -> None:
        self.machine.steps += 1
        if self.machine.steps > _STEPS:
            raise self.error(f"more than {_STEPS} steps")
        if self.kind() == "directive" or self.accept(";"):
            self.at += self.kind() == "directive"
            return
        handlers = {
            "{": self.block, "if": self.conditional, "for": self.loop, "while": self.loop,
            "return": self.leave, "switch": self.choose, "do": self.repeat,
        }  # fmt: skip
        if self.text() in handlers:
            handlers[self.text()]()
        elif self.text() in ("break", "continue"):
            raise _BreakError if self.text() == "break" else _ContinueError
        elif self.text() in ("using", "typedef", "extern"):
            self.alias()
        elif self.is_declaration():
            self.declaration()
        else:
            self.expression()
            self.accept(";")

    def block(self) -> None:
        before = dict(self.scope)
        self.within(self.inside()).run()
        for name in self.scope.keys() - before.keys():
            del self.scope[name]

    def skip(self) -> None:
        """Skip one statement."""
        if self.text() == "{":
            self.at = closing_bracket(self.tokens, self.at) + 1
        elif self.accept("do"):
            self.skip()
            self.skip()
        elif self.text() in ("if", "for", "while", "switch"):
            while self.text() != "(":
                self.at += 1
            self.inside()
            self.skip()
            if self.accept("else"):
                self.skip()
        else:
            while self.at < len(self.tokens) and not self.accept(";"):
                opens = self.kind() == "mark" and self.text() in "([{"
                self.at = closing_bracket(self.tokens, self.at) + 1 if opens else self.at + 1

    def conditional(self) -> None:
        self.expect("if")
        self.accept("constexpr")
        head, body = self.inside(), self.at
        self.skip()
        fails = _only_fails(self.tokens[body : self.at])
        self.at = body
        # a check of what is not known passes, since fakes are called rightly
        holds = self.condition(head, False if fails else None)
        if holds:
            self.statement()
        else:
            self.skip()
        if self.accept("else"):
            if holds:
                self.skip()
            else:
                self.statement()

    def condition(self, tokens: Sequence[Token], otherwise: bool | None = None) -> bool:
        """Return the value of a condition; `otherwise` if it is not known.

        Raises:
            HostError: it is not known, and nothing stands in for it.
        """
        value = self.within(tokens).declared() if tokens else True
        if value is UNKNOWN and otherwise is not None:
            return otherwise
        if value is UNKNOWN:
            written = "".join(token.text for token in tokens)
            raise self.error(f"whether {written} holds is not known")
        return value is not None and bool(value)

    def loop(self) -> None:
        counts = self.text() == "for"
        self.at += 1
        head = self.inside()
        body = self.at
        self.skip()
        end = self.at
        first, check, step = _for_header_parts(head) if counts else ((), head, ())
        if counts and not any(token.text == ";" for token in head):
            self.over_range(head, body)
        else:
            self.within(first).run()
            while self.condition(check) and self.round(body):
                self.within(step).run()
        self.at = end

    def round(self, body: int) -> bool:
        """Run one round of a loop; tell whether another one may follow."""
        self.machine.steps += 1
        self.at = body
        try:
            self.statement()
        except _BreakError:
            return False
        except _ContinueError:
            pass
        if self.machine.steps > _STEPS:
            raise self.error(f"more than {_STEPS} steps")
        return True

    def over_range(self, head: Sequence[Token], body: int) -> None:
        """``for (auto x : values)``.

        Raises:
            HostError: the values are not known.
        """
        colon = next((i for i, token in enumerate(head) if token.text == ":"), len(head))
        values = self.within(head[colon + 1 :]).expression() if colon < len(head) else UNKNOWN
        if not isinstance(values, list | tuple):
            raise self.error("the values that a loop goes over are not known")
        for value in values:
            self.scope[head[colon - 1].text] = value
            if not self.round(body):
                return

    def repeat(self) -> None:
        """``do ... while (...);``."""
        self.expect("do")
        body = self.at
        self.skip()
        self.expect("while")
        head, end = self.inside(), self.at
        while self.round(body) and self.condition(head):
            pass
        self.at = end
        self.accept(";")

    def declared(self) -> Any:
        """Return the value of a condition, which may declare a variable."""
        ahead = self._declarator()
        if ahead is None or self.text(ahead + 1) != "=":
            return self.expression()
        name = self.text(ahead)
        self.declaration()
        return self.scope[name]

    def choose(self) -> None:
        """``switch``: from the case that fits to its ``break``."""
        self.expect("switch")
        selector = self.within(self.inside()).expression()
        body = self.inside()
        if selector is UNKNOWN:
            raise self.error("the value of a switch is not known")
        starts = [i for i, token in enumerate(body) if token.text in ("case", "default")]
        chosen = None
        for start in starts:
            walk = self.within(body[start + 1 :])
            if body[start].text == "default":
                chosen = chosen if chosen is not None else start + 2
            elif walk.ternary() == selector:
                chosen = start + 1 + walk.at + 1
                break
        if chosen is None:
            return
        rest = [t for i, t in enumerate(body[chosen:], chosen) if not _is_label(body, i)]
        with contextlib.suppress(_BreakError):
            self.within(rest).run()

    def leave(self) -> None:
        self.expect("return")
        raise Returned(None if self.text() in (";", "") else self.expression())

    def alias(self) -> None:
        """Interpret ``using T = float;``."""
        if self.text() == "using" and self.text(2) == "=":
            name = self.text(1)
            end = next(i for i, t in enumerate(self.tokens) if i > self.at and t.text == ";")
            self.scope[name] = self.type_of(self.tokens[self.at + 3 : end])
        self.skip()

    # -------------------------------------------------------------- declarations

    def is_declaration(self) -> bool:
        return self._declarator() is not None

    def _declarator(self) -> int | None:
        """Find how far ahead the name is that is declared here."""
        ahead, typed = 0, False
        while self.text(ahead) in _QUALIFIERS:
            typed = typed or self.text(ahead) in INTEGERS
            ahead += 1
        if self.kind(ahead) != "name" or self.text(ahead) in ("new", "delete", "throw", "sizeof"):
            return None
        named = typed and self.text(ahead + 1) in ("=", ";", "(", "{", "[", ",")
        if not named:
            ahead += 1
            while self.text(ahead) == "::" and self.kind(ahead + 1) == "name":
                ahead += 2
            if self.text(ahead) == "<":
                end = self._template_end(ahead)
                if end is None:
                    return None
                ahead = end + 1
            while self.text(ahead) in ("*", "&", "const", "&&", "__restrict__", "::", "int"):
                ahead += 1
        if self.text(ahead) == "[" and self.text(ahead - 1) in ("auto", "&"):
            return ahead
        follows = self.text(ahead + 1) in ("=", ";", "(", "{", "[", ",", ":")
        return ahead if self.kind(ahead) == "name" and follows else None

    def declaration(self) -> None:
        ahead = self._declarator()
        assert ahead is not None
        kind = self.tokens[self.at : self.at + ahead]
        self.at += ahead
        if self.text() == "[":  # auto [a, b] = ...
            names = [token.text for token in self.inside() if token.kind == "name"]
            self.expect("=")
            value = self.expression()
            values = value if isinstance(value, tuple | list) else [UNKNOWN] * len(names)
            self.scope.update(zip(names, values))
            self.accept(";")
            return
        while True:
            name = self.text()
            self.at += 1
            self.scope[name] = self.initial(kind)
            while self.accept("*") or self.accept("&"):
                pass
            if not self.accept(","):
                break
        self.accept(";")

    def initial(self, kind: Sequence[Token]) -> Any:
        """Return the value that a variable starts with."""
        names = {token.text for token in kind}
        if self.text() == "[":
            while self.text() == "[":
                self.inside()
            self.at += self.text() == "="
            return self.ternary() if self.text() == "{" else UNKNOWN
        if self.accept("="):
            value = converted(self.fitting(names, self.ternary()), names)
            value = value if "&" in names else copied_for_assignment(value)
            return list(value) if isinstance(value, list) and "&" not in names else value
        if self.text() in ("(", "{"):
            listed = self.text() == "{"
            args = self.arguments()
            if "dim3" in names:
                return dim3_of_arguments(args)
            if names & VECTORS:
                return args if listed else vector_of(args)
            value = converted(args[0], names) if len(args) == 1 else UNKNOWN
            return self.fitting(names, args) if value is UNKNOWN else value
        if "cudaDeviceProp" in names:
            return device_properties()
        if "TensorOptions" in names:
            return {}
        if "dim3" in names and "*" not in names:
            return Dim3(1)
        return self.fitting(names, [] if "vector" in names else UNKNOWN)

    def fitting(self, names: set[str], value: Any) -> Any:
        """Return a structure made of its fields, in a variable of the type with these names."""
        if "*" in names or names & (VECTORS | {"dim3", "auto", "tuple", "pair"}):
            return value
        declared = next((self.machine.source.fields[n] for n in names & self._structures), None)
        if declared is not None and (value is UNKNOWN or isinstance(value, list)):
            return Record(dict(zip(declared, value if isinstance(value, list) else ())))
        plain = names & (INTEGERS | FLOATS | {"bool", "half", "__half"})
        if isinstance(value, list) and not plain:  # what a constructor gets
            return Record({str(i): element for i, element in enumerate(value)})
        return value

    @property
    def _structures(self) -> Set[str]:
        return self.machine.source.fields.keys()


def _for_header_parts(
    head: Sequence[Token],
) -> tuple[Sequence[Token], Sequence[Token], Sequence[Token]]:
    """Return the parts of ``for (first; check; step)``."""
    ends = [i for i, token in enumerate(head) if token.text == ";"]
    if len(ends) != 2:
        return (), (), ()
    return head[: ends[0] + 1], head[ends[0] + 1 : ends[1]], head[ends[1] + 1 :]


def _is_label(body: Sequence[Token], index: int) -> bool:
    """Tell whether a token is part of ``case 3:`` or ``default:``."""
    start = index
    while start >= 0 and body[start].text not in ("case", "default", ";", "}", "{"):
        start -= 1
    if start < 0 or body[start].text not in ("case", "default"):
        return False
    return all(token.text != ":" for token in body[start:index])


def _only_fails(body: Sequence[Token]) -> bool:
    """Tell whether a statement ends in an error, so that a right call does not reach it."""
    fails = {"throw", "exit", "abort", "AT_ERROR", "TORCH_CHECK", "TORCH_INTERNAL_ASSERT"}
    return any(token.text in fails for token in body)
