"""Follow the host code of a CUDA extension on fake tensors, to learn what it launches and returns.

An interpreter of the C++ that launchers are written in: declarations, arithmetic on sizes,
conditions, loops, calls of torch (which run on the fake tensors), ``AT_DISPATCH_*`` and
``<<<grid, block, shared>>>``. It works on tokens, as they stand. What it cannot know it takes for
`UNKNOWN`, which makes everything computed from it unknown too; a condition that is unknown ends the
walk with a `HostError` that names the line.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from solkit.analysis.cuda_source import Function, Source, Token, closing, split_arguments, tokens_of
from solkit.errors import SolkitError

__all__ = ["UNKNOWN", "HostCall", "HostError", "HostLaunch", "call_host", "is_unknown"]


class HostError(SolkitError):
    """Host code that is not understood; the message names the line of the CUDA source."""


class _Unknown:
    """A value that cannot be known without a GPU; whatever is done with it stays unknown."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


def is_unknown(value: Any) -> bool:
    """Whether a value, or one within it, is not known."""
    several = isinstance(value, list | tuple)
    return any(map(is_unknown, value)) if several else value is UNKNOWN


@dataclass(frozen=True)
class HostLaunch:
    """One launch as the host code makes it.

    Attributes:
        kernel: as C++ names it, template arguments included: ``"softmax<float, 256>"``.
        grid: blocks in x, y and z; ``None`` where that could not be evaluated.
        block: threads in x, y and z; ``None`` likewise.
        shared_bytes: dynamic shared memory; ``None`` likewise.
        line: ``file:line`` of the CUDA source.
    """

    kernel: str
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    shared_bytes: int | None
    line: str


@dataclass
class HostCall:
    """What a call of a host function did.

    Attributes:
        launches: in order.
        result: what it returned; `UNKNOWN` where that is not known.
        undeclared: names that the source uses and does not declare, with their lines.
    """

    launches: list[HostLaunch] = field(default_factory=list)
    result: Any = UNKNOWN
    undeclared: dict[str, None] = field(default_factory=dict)


def call_host(source: Source, name: str, args: Sequence[Any], call: HostCall) -> None:
    """Call a host function of a source; `call` fills up on the way, also where it fails.

    Args:
        source: which defines it.
        name: of the function.
        args: Python's, tensors being fake ones.
        call: what is seen goes here.

    Raises:
        HostError: the source has no such function, or it could not be followed to its end.
    """
    function = source.functions.get(name)
    if function is None:
        raise HostError(f"no function {name} is defined")
    call.result = _Machine(source, call).call(function, list(args), {})


# --------------------------------------------------------------------------------- values


@dataclass(frozen=True)
class _Pointer:
    """``x.data_ptr<float>()``."""

    type: str


@dataclass(frozen=True)
class _Dim3:
    x: int
    y: int = 1
    z: int = 1


@dataclass(frozen=True)
class _Type:
    """A C++ type that a template parameter stands for."""

    name: str


@dataclass(frozen=True)
class _Lambda:
    body: tuple[Token, ...]
    parameters: tuple[tuple[Token, ...], ...]


class _ReturnError(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _BreakError(Exception):
    pass


class _ContinueError(Exception):
    pass


_DTYPES = {
    **dict.fromkeys(("kFloat32", "kFloat", "Float"), torch.float32),
    **dict.fromkeys(("kFloat64", "kDouble", "Double"), torch.float64),
    **dict.fromkeys(("kFloat16", "kHalf", "Half"), torch.float16),
    **dict.fromkeys(("kBFloat16", "BFloat16"), torch.bfloat16),
    **dict.fromkeys(("kInt32", "kInt", "Int"), torch.int32),
    **dict.fromkeys(("kInt64", "kLong", "Long"), torch.int64),
    **dict.fromkeys(("kInt16", "kShort", "Short"), torch.int16),
    **dict.fromkeys(("kInt8", "kChar", "Char"), torch.int8),
    **dict.fromkeys(("kUInt8", "kByte", "Byte"), torch.uint8),
    **dict.fromkeys(("kBool", "Bool"), torch.bool),
}
_CPP_TYPES = {
    torch.float32: "float", torch.float64: "double", torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16", torch.int32: "int", torch.int64: "long long",
    torch.int16: "short", torch.int8: "signed char", torch.uint8: "unsigned char",
    torch.bool: "bool",
}  # fmt: skip
_SIZES = {
    "char": 1, "int8_t": 1, "uint8_t": 1, "bool": 1, "short": 2, "half": 2, "__half": 2,
    "Half": 2, "BFloat16": 2, "__nv_bfloat16": 2, "int16_t": 2, "uint16_t": 2, "int": 4,
    "unsigned": 4, "float": 4, "int32_t": 4, "uint32_t": 4, "half2": 4, "__half2": 4,
    "__nv_bfloat162": 4, "long": 8, "double": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8,
    "float2": 8, "int2": 8, "float4": 16, "int4": 16, "double2": 16,
}  # fmt: skip
"""Bytes; CUDA C++ Programming Guide, built-in vector types."""

_INTEGERS = frozenset(
    "int unsigned long short char int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t "
    "uint64_t size_t ssize_t uint ptrdiff_t".split()
)
_FLOATS = frozenset({"float", "double"})
_QUALIFIERS = frozenset(
    "const constexpr static volatile register inline signed unsigned long extern typename".split()
)
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"})
_MATH: Mapping[str, Callable[..., Any]] = {
    "min": min, "max": max, "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor,
    "floorf": math.floor, "sqrt": math.sqrt, "sqrtf": math.sqrt, "abs": abs, "pow": math.pow,
    "powf": math.pow, "log2": math.log2, "log2f": math.log2, "exp": math.exp, "log": math.log,
    "round": round, "make_tuple": lambda *a: a, "make_pair": lambda *a: a, "tuple": lambda *a: a,
    "move": lambda a: a, "dim3": lambda *a: _Dim3(*a), "make_optional": lambda a: a,
}  # fmt: skip
_SUCCESS = 0  # cudaError_t
_CONSTANTS = {
    "true": True, "false": False, "nullptr": 0, "NULL": 0, "nullopt": None, "kCUDA": "cuda",
    "INFINITY": math.inf, "M_PI": math.pi, "FLT_MAX": 3.4028234663852886e38,
    "INT_MAX": 2**31 - 1, "None": None, "cudaSuccess": _SUCCESS,
}  # fmt: skip
_STEPS = 100_000
"""Statements beyond which host code is given up."""


# ------------------------------------------------------------------------------ the walk


class _Machine:
    """Runs functions of one source."""

    def __init__(self, source: Source, seen: HostCall) -> None:
        self.source = source
        self.seen = seen
        self.steps = 0
        self.globals: dict[str, Any] = {}
        for tokens in source.constants:
            with contextlib.suppress(HostError):  # one that no launcher uses, or that one will miss
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
        except _ReturnError as returned:
            return returned.value
        except RecursionError:
            raise HostError(f"{function.name} calls itself") from None
        return None


class _Walk:
    """Runs tokens in a scope, from left to right."""

    def __init__(self, machine: _Machine, tokens: Sequence[Token], scope: dict[str, Any]) -> None:
        self.machine = machine
        self.tokens = tokens
        self.scope = scope
        self.at = 0

    # -------------------------------------------------------------------- tokens

    def text(self, ahead: int = 0) -> str:
        """The token there; empty past the end and for strings."""
        index = self.at + ahead
        if index >= len(self.tokens) or self.tokens[index].kind == "string":
            return ""
        return self.tokens[index].text

    def kind(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.tokens[index].kind if index < len(self.tokens) else ""

    def accept(self, text: str) -> bool:
        if self.text() != text:
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.text()!r}")

    def inside(self) -> Sequence[Token]:
        """The tokens between the bracket here and its partner; goes past it."""
        end = closing(self.tokens, self.at)
        found = self.tokens[self.at + 1 : end]
        self.at = end + 1
        return found

    def error(self, message: str) -> HostError:
        token = self.tokens[min(self.at, len(self.tokens) - 1)] if self.tokens else None
        source = self.machine.source
        place = f"{source.place(token.start)}: " if token else ""
        return HostError(f"{place}{message}")

    def within(self, tokens: Sequence[Token]) -> _Walk:
        """A walk over other tokens in the same scope."""
        return _Walk(self.machine, tokens, self.scope)

    # ---------------------------------------------------------------- statements

    def run(self) -> None:
        """All statements."""
        while self.at < len(self.tokens):
            self.statement()

    def statement(self) -> None:
        self.machine.steps += 1
        if self.machine.steps > _STEPS:
            raise self.error(f"more than {_STEPS} steps")
        if self.kind() == "directive" or self.accept(";"):
            self.at += self.kind() == "directive"
            return
        known = {
            "{": self.block, "if": self.conditional, "for": self.loop, "while": self.loop,
            "return": self.leave, "switch": self.choose,
        }  # fmt: skip
        if self.text() in known:
            known[self.text()]()
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
        """Past one statement."""
        if self.text() == "{":
            self.at = closing(self.tokens, self.at) + 1
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
                self.at = closing(self.tokens, self.at) + 1 if opens else self.at + 1

    def conditional(self) -> None:
        self.expect("if")
        self.accept("constexpr")
        holds = self.condition(self.inside())
        if holds:
            self.statement()
        else:
            self.skip()
        if self.accept("else"):
            if holds:
                self.skip()
            else:
                self.statement()

    def condition(self, tokens: Sequence[Token]) -> bool:
        value = self.within(tokens).expression() if tokens else True
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
        first, check, step = _three(head) if counts else ((), head, ())
        if counts and not check and not step:
            raise self.error("a loop over a range is not followed")
        self.within(first).run()
        while self.condition(check):
            self.machine.steps += 1
            self.at = body
            try:
                self.statement()
            except _BreakError:
                break
            except _ContinueError:
                pass
            if self.machine.steps > _STEPS:
                raise self.error(f"more than {_STEPS} steps")
            self.within(step).run()
        self.at = end

    def choose(self) -> None:
        """``switch``: from the case that fits to its ``break``."""
        self.expect("switch")
        wanted = self.within(self.inside()).expression()
        body = self.inside()
        if wanted is UNKNOWN:
            raise self.error("the value of a switch is not known")
        starts = [i for i, token in enumerate(body) if token.text in ("case", "default")]
        chosen = None
        for start in starts:
            walk = self.within(body[start + 1 :])
            if body[start].text == "default":
                chosen = chosen if chosen is not None else start + 2
            elif walk.ternary() == wanted:
                chosen = start + 1 + walk.at + 1
                break
        if chosen is None:
            return
        rest = [t for i, t in enumerate(body[chosen:], chosen) if not _is_label(body, i)]
        with contextlib.suppress(_BreakError):
            self.within(rest).run()

    def leave(self) -> None:
        self.expect("return")
        raise _ReturnError(None if self.text() in (";", "") else self.expression())

    def alias(self) -> None:
        """``using T = float;``."""
        if self.text() == "using" and self.text(2) == "=":
            name = self.text(1)
            end = next(i for i, t in enumerate(self.tokens) if i > self.at and t.text == ";")
            self.scope[name] = self.type_of(self.tokens[self.at + 3 : end])
        self.skip()

    # -------------------------------------------------------------- declarations

    def is_declaration(self) -> bool:
        return self._declarator() is not None

    def _declarator(self) -> int | None:
        """How far ahead the name is that is declared here."""
        ahead, typed = 0, False
        while self.text(ahead) in _QUALIFIERS:
            typed = typed or self.text(ahead) in _INTEGERS
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
        """The value that a variable starts with."""
        names = {token.text for token in kind}
        if self.text() == "[":
            while self.text() == "[":
                self.inside()
            self.at += self.text() == "="
            return self.ternary() if self.text() == "{" else UNKNOWN
        if self.accept("="):
            return _converted(self.ternary(), names)
        if self.text() in ("(", "{"):
            args = self.arguments()
            if "dim3" in names:
                return _dim3(args)
            if names & {"vector", "array", "IntArrayRef"}:
                return args if len(args) != 1 or not isinstance(args[0], list) else args[0]
            return _converted(args[0], names) if len(args) == 1 else UNKNOWN
        if "cudaDeviceProp" in names:
            return _properties()
        if "TensorOptions" in names:
            return {}
        return [] if "vector" in names else UNKNOWN

    def type_of(self, tokens: Sequence[Token]) -> _Type:
        """A type with the names that stand for types replaced."""
        texts: list[str] = []
        for token in tokens:
            value = self.scope.get(token.text)
            texts.append(value.name if isinstance(value, _Type) else token.text)
        return _Type(re.sub(r"(?<=\w) (?=\W)|(?<=\W) ", "", " ".join(texts)))

    # --------------------------------------------------------------- expressions

    def expression(self) -> Any:
        value = self.assignment()
        while self.accept(","):
            value = self.assignment()
        return value

    def assignment(self) -> Any:
        name, operator = self.text(), self.text(1)
        if self.kind() == "name" and operator == "=":
            self.at += 2
            value = self.assignment()
            self.scope[name] = int(value) if _narrows(self.scope.get(name), value) else value
            return self.scope[name]
        if self.kind() == "name" and operator in _COMPOUND:
            self.at += 2
            value = self.assignment()
            self.scope[name] = _binary(operator[:-1], self.scope.get(name, UNKNOWN), value)
            return self.scope[name]
        value = self.ternary()
        if self.text() == "=":  # an element or a field, which is not kept
            self.at += 1
            return self.assignment()
        return value

    def ternary(self) -> Any:
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        first = self.assignment()
        self.expect(":")
        second = self.assignment()
        if condition is UNKNOWN:
            return first if _same(first, second) else UNKNOWN
        return first if condition else second

    def binary(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while operator := self._operator(_LEVELS[level]):
            value = _binary(operator, value, self.binary(level + 1))
        return value

    def _operator(self, level: tuple[str, ...]) -> str:
        text = self.text()
        if text == ">" and self.text(1) == ">" and self.kind(2) != "":
            adjacent = self.tokens[self.at].end == self.tokens[self.at + 1].start
            text = ">>" if adjacent and self.text(2) != ">" else ">"
        if text not in level or self.kind() != "mark":
            return ""
        self.at += len(text) if text == ">>" else 1
        return text

    def unary(self) -> Any:
        operator = self.text()
        if operator in ("-", "+", "!", "~") and self.kind() == "mark":
            self.at += 1
            return _unary(operator, self.unary())
        if operator in ("*", "&"):
            self.at += 1
            if operator == "&" and isinstance(self.scope.get(self.text()), int):
                self.scope[self.text()] = UNKNOWN  # whoever gets its address may write to it
            return self.unary()
        if operator in ("++", "--"):
            self.at += 1
            name = self.text()
            self.at += 1
            self.scope[name] = _binary(operator[0], self.scope.get(name, UNKNOWN), 1)
            return self.scope[name]
        if operator == "(" and (end := self._cast()):
            kind = self.tokens[self.at + 1 : end]
            self.at = end + 1
            value = self.unary()
            pointed = any(token.text == "*" for token in kind)
            names = {token.text for token in kind}
            return _Pointer(self._pointee(kind)) if pointed else _converted(value, names)
        return self.postfix(self.primary())

    def _pointee(self, kind: Sequence[Token]) -> str:
        bare = [token for token in kind if token.text not in ("*", "const")]
        return self.type_of(bare).name

    def _cast(self) -> int | None:
        """Where the bracket here closes, if it holds a type alone and a value follows."""
        end = closing(self.tokens, self.at)
        inner = self.tokens[self.at + 1 : end]
        if not inner or not all(t.kind == "name" or t.text in ("*", "&", "::") for t in inner):
            return None
        following = self.tokens[end + 1] if end + 1 < len(self.tokens) else None
        if following is None or following.text in (")", "]", "}", ",", ";", "?", ":"):
            return None
        names = [token.text for token in inner if token.kind == "name"]
        known = set(names) & (_INTEGERS | _FLOATS | set(_SIZES)) or inner[-1].text == "*"
        stands = any(isinstance(self.scope.get(name), _Type) for name in names)
        return end if known or stands else None

    def primary(self) -> Any:
        kind, text = self.kind(), self.text()
        if kind == "string":
            self.at += 1
            return self.tokens[self.at - 1].text.strip('"')
        if kind == "number":
            self.at += 1
            return _number(text)
        if text == "(":
            return self.within(self.inside()).expression()
        if text == "{":
            return self.arguments()
        if text == "[":
            return self.closure()
        if kind == "name":
            return self.named()
        raise self.error(f"{text!r} is not understood")

    def closure(self) -> _Lambda:
        """``[&](int n) { ... }``."""
        self.inside()
        parameters = split_arguments(self.inside(), angles=True) if self.text() == "(" else []
        while self.text() not in ("{", ""):
            self.at += 1
        return _Lambda(tuple(self.inside()), tuple(parameters))

    def arguments(self) -> list[Any]:
        """The values between the brackets here."""
        walk = self.within(self.inside())
        values: list[Any] = []
        while walk.at < len(walk.tokens):
            values.append(walk.assignment())
            if walk.at < len(walk.tokens):
                walk.expect(",")
        return values

    def named(self) -> Any:
        """A variable, a constant, a call or a launch."""
        start = self.at
        path = [self.text()]
        self.at += 1
        while self.text() == "::" and self.kind(1) == "name":
            path.append(self.text(1))
            self.at += 2
        template: Sequence[Token] = ()
        if self.text() == "<" and (end := self._template_end(0)) is not None:
            template = self.tokens[self.at + 1 : self.at + end]
            self.at += end + 1
        if self.text() == "<<<":
            return self.launch(path[-1], template, start)
        if path[-1] == "sizeof":
            return self.size_of(self.inside())
        if path[-1] in _CASTS:
            value = self.arguments()[0]
            pointed = any(token.text == "*" for token in template)
            names = {token.text for token in template}
            return _Pointer(self._pointee(template)) if pointed else _converted(value, names)
        if len(path) == 1 and path[0] in self.scope and not isinstance(self.scope[path[0]], _Type):
            value = self.scope[path[0]]
            if self.text() == "(" and isinstance(value, _Lambda):
                return self.invoke(value, self.arguments())
            return value
        if self.text() in ("(", "{"):
            return self.called(path, template)
        return self.constant(path)

    def _template_end(self, ahead: int) -> int | None:
        """How far ahead the ``>`` is, if template arguments stand between it and the ``<`` here."""
        depth = 0
        for index in range(ahead, len(self.tokens) - self.at):
            text, kind = self.text(index), self.kind(index)
            depth += (text == "<") - (text == ">")
            if not depth:
                after = self.text(index + 1)
                named = self.kind(index + 1) == "name"
                return index if after in ("(", "::", "<<<", "{", "*", "&") or named else None
            if kind not in ("name", "number") and text not in _IN_TEMPLATES:
                return None
        return None

    def constant(self, path: Sequence[str]) -> Any:
        name = path[-1]
        if name in self.machine.globals:
            return self.machine.globals[name]
        if len(path) == 1 and name in self.machine.source.macros:
            body = self.machine.source.macros[name]
            return self.within(tokens_of(body)).expression() if body.strip() else UNKNOWN
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in _DTYPES and path[0] in ("torch", "at", "c10"):
            return _DTYPES[name]
        if len(path) == 1 and name not in self.scope and name.islower():
            place = self.machine.source.place(self.tokens[self.at - 1].start)
            self.machine.seen.undeclared.setdefault(f"{name} ({place})")
        return UNKNOWN

    def size_of(self, tokens: Sequence[Token]) -> Any:
        if any(token.text == "*" for token in tokens):
            return 8
        kind = self.type_of([token for token in tokens if token.text != "const"]).name
        return _SIZES.get(kind.rpartition("::")[2].split(" ")[-1], UNKNOWN)

    # --------------------------------------------------------------------- calls

    def called(self, path: Sequence[str], template: Sequence[Token]) -> Any:
        name, source = path[-1], self.machine.source
        if name.startswith("AT_DISPATCH"):
            return self.dispatch()
        if name in source.macros and name not in source.functions:
            return self.macro(source.macros[name], split_arguments(self.inside()))
        if path[-1] == "numeric_limits" or _is_check(name):
            self.inside()
            return UNKNOWN
        args = self.arguments()
        if name in source.functions and not source.functions[name].is_kernel:
            function = source.functions[name]
            return self.machine.call(function, args, self.bound(function, template))
        if name in _INTEGERS | _FLOATS and len(args) == 1:
            return _converted(args[0], {name})
        if name == "get" and path[0] == "std":
            return _element(args[0], self.within(template).expression())
        if name == "TensorOptions":
            return dict(args[0]) if args and isinstance(args[0], dict) else {}
        if path[0] in ("torch", "at") and name in ("dtype", "device"):
            return {name: args[0]} if args[0] is not UNKNOWN else {}
        if path[0] in ("torch", "at") and len(path) == 2:
            return self.torch_call(name, args)
        if name.startswith("cuda") and len(path) == 1:
            return _SUCCESS
        if name in ("getCurrentDeviceProperties", "getDeviceProperties"):
            return _properties()
        if name in _MATH and path[0] in ("std", name):
            return _guarded(_MATH[name], args)
        return UNKNOWN

    def bound(self, function: Function, template: Sequence[Token]) -> dict[str, Any]:
        """What the template parameters of a host function stand for."""
        names = [part[-1].text for part in split_arguments(function.template)]
        given = split_arguments(template, angles=True)
        return {name: self.template_argument(part) for name, part in zip(names, given)}

    def template_argument(self, tokens: Sequence[Token]) -> Any:
        before = dict(self.machine.seen.undeclared)
        value = self.within(tokens).expression()
        self.machine.seen.undeclared = before  # a type is none
        return self.type_of(tokens) if value is UNKNOWN else value

    def macro(self, body: str, args: Sequence[Sequence[Token]]) -> Any:
        """A function-like macro, whose arguments are evaluated before and not after."""
        parameters = re.match(r"\(([^)]*)\)", body)
        if parameters is None:
            return UNKNOWN
        names = [name.strip() for name in parameters[1].split(",")]
        tokens = tokens_of(body[parameters.end() :])
        if any(token.text in ("do", "if", ";") for token in tokens):
            return UNKNOWN  # a check
        values = dict(zip(names, (self.within(arg).assignment() for arg in args)))
        return _Walk(self.machine, tokens, {**self.scope, **values}).expression()

    def dispatch(self) -> Any:
        """``AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "name", [&] { ... })``."""
        dtype: Any = UNKNOWN
        for part in split_arguments(self.inside()):
            while part[0].text == "(" and closing(part, 0) == len(part) - 1:
                part = part[1:-1]
            if part[0].text == "[":
                body = self.within(part).closure().body
            elif part[0].kind != "string":
                dtype = self.within(part).expression()
        if dtype not in _CPP_TYPES:
            raise self.error("the type that AT_DISPATCH chooses by is not known")
        kind = _Type(_CPP_TYPES[dtype])
        with contextlib.suppress(_ReturnError):  # which leaves the lambda alone
            _Walk(self.machine, body, {**self.scope, "scalar_t": kind}).run()
        return UNKNOWN

    def invoke(self, function: _Lambda, args: Sequence[Any]) -> Any:
        names = [part[-1].text for part in function.parameters]
        try:
            _Walk(self.machine, function.body, {**self.scope, **dict(zip(names, args))}).run()
        except _ReturnError as returned:
            return returned.value
        return UNKNOWN

    def torch_call(self, name: str, args: list[Any]) -> Any:
        """``torch::empty({n, m}, x.options())``, on fake tensors."""
        function = getattr(torch, name, None)
        if name in _FILLING:  # whatever it is filled with, its shape is known
            args = [0.0 if arg is UNKNOWN else arg for arg in args]
        if function is None or any(map(is_unknown, args)):
            return UNKNOWN
        options = {k: v for arg in args if isinstance(arg, dict) for k, v in arg.items()}
        positional = [arg for arg in args if not isinstance(arg, dict)]
        if name in _CREATING:
            dtype = [arg for arg in positional if isinstance(arg, torch.dtype)]
            positional = [arg for arg in positional if not isinstance(arg, torch.dtype)]
            options |= {"dtype": dtype[0]} if dtype else {}
        return self.run_torch(function, positional, options)

    def run_torch(
        self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        try:
            return function(*args, **options)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            raise self.error(str(error).splitlines()[0]) from error

    # ------------------------------------------------------------------- members

    def postfix(self, value: Any) -> Any:
        while True:
            if self.text() in (".", "->"):
                self.at += 1
                value = self.member(value)
            elif self.text() == "[":
                value = _element(value, self.within(self.inside()).expression())
            elif self.text() in ("++", "--"):
                name, operator = self.text(-1), self.text()[0]
                self.at += 1
                if name in self.scope:
                    self.scope[name] = _binary(operator, value, 1)
            elif self.text() == "(":
                args = self.arguments()
                value = self.invoke(value, args) if isinstance(value, _Lambda) else UNKNOWN
            else:
                return value

    def member(self, value: Any) -> Any:
        self.accept("template")
        name = self.text()
        self.at += 1
        template: Sequence[Token] = ()
        if self.text() == "<" and (end := self._template_end(0)) is not None:
            template = self.tokens[self.at + 1 : self.at + end]
            self.at += end + 1
        if self.text() != "(":
            return getattr(value, name, UNKNOWN) if not isinstance(value, torch.Tensor) else UNKNOWN
        args = self.arguments()
        if isinstance(value, torch.Tensor):
            return self.tensor_method(value, name, template, args)
        if isinstance(value, dict):
            return _option(value, name, args)
        if isinstance(value, list | tuple | torch.Size):
            return _sequence_method(value, name, args)
        if isinstance(value, torch.device) and name in ("type", "is_cuda"):
            return value.type if name == "type" else value.type == "cuda"
        if name == "has_value":
            return value if value is UNKNOWN else value is not None
        return value if name in ("value", "get", "value_or") else UNKNOWN

    def tensor_method(
        self, tensor: torch.Tensor, name: str, template: Sequence[Token], args: list[Any]
    ) -> Any:
        if name in _POINTERS or name.startswith("packed_accessor"):
            bare = [token for token in template if token.text != "const"]
            return _Pointer(self.type_of(bare).name if bare else _CPP_TYPES.get(tensor.dtype, ""))
        if name in _TENSOR:
            return self.run_torch(_TENSOR[name], (tensor, *args), {})
        method = getattr(tensor, name, None)
        if name == "item" or method is None or any(map(is_unknown, args)):
            return UNKNOWN
        if not callable(method):
            return method
        options = {k: v for arg in args if isinstance(arg, dict) for k, v in arg.items()}
        return self.run_torch(method, [a for a in args if not isinstance(a, dict)], options)

    # ------------------------------------------------------------------ launches

    def launch(self, name: str, template: Sequence[Token], start: int) -> Any:
        begin = self.at + 1
        while self.at < len(self.tokens) and not self._closes_launch():
            opens = self.kind() == "mark" and self.text() in "([{"
            self.at = closing(self.tokens, self.at) + 1 if opens else self.at + 1
        parts = split_arguments(self.tokens[begin : self.at])
        grid, block, *rest = (self.within(part).assignment() for part in parts)
        self.at += 3
        args = self.arguments()
        shared = rest[0] if rest else 0
        self.machine.seen.launches.append(
            HostLaunch(
                self.kernel_name(name, template, args),
                _extent(grid),
                _extent(block),
                shared if isinstance(shared, int) else None,
                self.machine.source.place(self.tokens[start].start),
            )
        )
        return UNKNOWN

    def _closes_launch(self) -> bool:
        return all(self.text(ahead) == ">" for ahead in range(3)) and self.text(3) == "("

    def kernel_name(self, name: str, template: Sequence[Token], args: Sequence[Any]) -> str:
        """With its template arguments, those deduced from the call included."""
        given = [self.spelled(part) for part in split_arguments(template, angles=True)]
        function = self.machine.source.functions.get(name)
        parameters = split_arguments(function.template, angles=True) if function else []
        for parameter in parameters[len(given) :]:
            names = [token.text for token in parameter if token.text != "="]
            deduced = _deduced(names[1], function, args) if len(names) == 2 else None
            if deduced is None:
                break  # the rest has defaults
            given.append(deduced)
        return f"{name}<{', '.join(given)}>" if given else name

    def spelled(self, tokens: Sequence[Token]) -> str:
        value = self.template_argument(tokens)
        if isinstance(value, bool):
            return str(value).lower()
        return value.name if isinstance(value, _Type) else str(value)


_POINTERS = frozenset({"data_ptr", "data", "const_data_ptr", "mutable_data_ptr"})
_CREATING = frozenset({"empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like"})
_FILLING = frozenset({"tensor", "full", "full_like", "scalar_tensor"})
_COMPOUND = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="})
_IN_TEMPLATES = frozenset({"::", ",", "*", "&", "<", ">", "(", ")", "+", "/", "-"})
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
"""C++'s binary operators, the loosest first."""

_TENSOR: Mapping[str, Callable[..., Any]] = {
    "size": lambda t, i: t.shape[i],
    "sizes": lambda t: list(t.shape),
    "strides": lambda t: list(t.stride()),
    "scalar_type": lambda t: t.dtype,
    "dtype": lambda t: t.dtype,
    "options": lambda t: {"dtype": t.dtype, "device": t.device},
    "device": lambda t: t.device,
    "get_device": lambda t: 0,  # noqa: ARG005 - there is one
    "is_cuda": lambda t: True,  # noqa: ARG005 - where the kernel would run
    "type": lambda t: t.dtype,
    "defined": lambda t: True,  # noqa: ARG005
    "has_value": lambda t: True,  # noqa: ARG005 - of an optional that holds it
    "value": lambda t: t,
    "index": lambda t, i: t[tuple(i)] if isinstance(i, list) and not is_unknown(i) else UNKNOWN,
}


# ------------------------------------------------------------------------------- helpers


def _three(head: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token], Sequence[Token]]:
    """The parts of ``for (first; check; step)``."""
    ends = [i for i, token in enumerate(head) if token.text == ";"]
    if len(ends) != 2:
        return (), (), ()
    return head[: ends[0] + 1], head[ends[0] + 1 : ends[1]], head[ends[1] + 1 :]


def _is_label(body: Sequence[Token], index: int) -> bool:
    """Whether a token belongs to ``case 3:`` or ``default:``."""
    start = index
    while start >= 0 and body[start].text not in ("case", "default", ";", "}", "{"):
        start -= 1
    if start < 0 or body[start].text not in ("case", "default"):
        return False
    return all(token.text != ":" for token in body[start:index])


def _is_check(name: str) -> bool:
    """Macros that stop a wrong call: fakes are called rightly."""
    return re.match(r"(TORCH_|AT_|C10_)?(CHECK|ASSERT|INTERNAL_ASSERT)|C10_CUDA", name) is not None


def _number(text: str) -> int | float:
    bare = text.replace("'", "")
    if bare.lower().startswith("0x"):
        return int(bare.rstrip("uUlL"), 16)
    if re.search(r"[.eE]", bare) or bare[-1] in "fF":
        return float(bare.rstrip("fFlL"))
    return int(bare.rstrip("uUlLzZ"))


def _converted(value: Any, names: set[str]) -> Any:
    """A value in a variable of the type that these names make up."""
    if isinstance(value, bool | int | float):
        if names & _FLOATS:
            return float(value)
        if names & _INTEGERS and math.isfinite(value):
            return int(value)
    if "dim3" in names and isinstance(value, int | list):
        return _dim3(value if isinstance(value, list) else [value])
    return value


def _narrows(before: Any, value: Any) -> bool:
    """Whether a float is assigned to what has held an integer."""
    held = isinstance(before, int) and not isinstance(before, bool)
    return held and isinstance(value, float) and math.isfinite(value)


def _same(first: Any, second: Any) -> bool:
    plain = bool | int | float | str
    return isinstance(first, plain) and isinstance(second, plain) and first == second


def _unary(operator: str, value: Any) -> Any:
    if operator == "!":
        return UNKNOWN if value is UNKNOWN else not (value is not None and value)
    if not isinstance(value, int | float):
        return UNKNOWN
    return -value if operator == "-" else value if operator == "+" else ~int(value)


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "<": lambda a, b: a < b, ">": lambda a, b: a > b, "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "%": lambda a, b: int(math.fmod(a, b)),
    "/": lambda a, b: (
        int(a / b) if abs(a) < 2**52 else a // b) if isinstance(a, int) and isinstance(b, int)
        else a / b,
}  # fmt: skip


def _binary(operator: str, left: Any, right: Any) -> Any:
    if operator in ("&&", "||"):
        sides = [side if side is UNKNOWN else bool(side) for side in (left, right)]
        decided = operator == "||"
        if any(side is decided for side in sides):
            return decided
        return UNKNOWN if UNKNOWN in sides else not decided
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(left, _Pointer) or isinstance(right, _Pointer):
        return left if isinstance(left, _Pointer) and operator in "+-" else UNKNOWN
    return _guarded(_OPERATIONS[operator], [left, right])


def _guarded(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """A result that fits the arguments, else unknown."""
    if any(arg is UNKNOWN for arg in args):
        return UNKNOWN
    try:
        return function(*args)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return UNKNOWN


def _dim3(args: Sequence[Any]) -> Any:
    values = [_extent(arg) for arg in args]
    if any(value is None or value[1:] != (1, 1) for value in values) or len(values) > 3:
        only = args[0] if len(args) == 1 else UNKNOWN
        return only if isinstance(only, _Dim3) else UNKNOWN
    return _Dim3(*(value[0] for value in values if value is not None))


def _extent(value: Any) -> tuple[int, int, int] | None:
    """A grid or block in three dimensions."""
    if isinstance(value, _Dim3):
        return value.x, value.y, value.z
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value), 1, 1
    return None


def _element(value: Any, index: Any) -> Any:
    if isinstance(value, list | tuple | torch.Tensor) and isinstance(index, int):
        try:
            return value[index]
        except IndexError:
            return UNKNOWN
    return UNKNOWN


def _option(options: dict[str, Any], name: str, args: Sequence[Any]) -> Any:
    """``options.dtype(torch::kFloat32)``; what is not known of it is left as it was."""
    if not args:
        return options.get(name, UNKNOWN)
    known = name in ("dtype", "device") and args[0] is not UNKNOWN
    return {**options, name: args[0]} if known else options


def _sequence_method(value: Any, name: str, args: Sequence[Any]) -> Any:
    if name in ("size", "numel"):
        return len(value)
    if name in ("push_back", "emplace_back") and isinstance(value, list):
        value.append(args[0])
        return None
    if name in ("vec", "data"):
        return list(value)
    ends = {"back": -1, "front": 0}
    if name in ends or (name in ("at", "operator") and args):
        return _element(value, ends.get(name, args[0] if args else UNKNOWN))
    return UNKNOWN


def _properties() -> Any:
    """``cudaDeviceProp``, as far as launchers look."""
    told = torch.cuda.get_device_properties(0)
    return SimpleNamespace(
        multiProcessorCount=told.multi_processor_count, major=told.major, minor=told.minor,
        maxThreadsPerBlock=1024, warpSize=32, totalGlobalMem=told.total_memory,
    )  # fmt: skip


def _deduced(name: str, function: Function | None, args: Sequence[Any]) -> str | None:
    """What a call makes of a template's type parameter: from a pointer to it."""
    for parameter, arg in zip(function.parameters if function else (), args):
        texts = [token.text for token in parameter]
        if name in texts and "*" in texts and isinstance(arg, _Pointer) and arg.type:
            return arg.type
    return None
