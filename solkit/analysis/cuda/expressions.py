"""Expressions of host code: arithmetic, calls of torch on fake tensors, launches."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch

from solkit.adapters import fake_cuda
from solkit.adapters.fake_triton import argument_of
from solkit.adapters.launch_recording import Argument, TensorArgument
from solkit.analysis.cuda.cublas import product_of
from solkit.analysis.cuda.source import Function, Token, closing_bracket, split_arguments
from solkit.analysis.cuda.token_walk import HostLaunch, Returned, Walk
from solkit.analysis.cuda.values import (
    CONSTANTS,
    CPP_TYPES,
    DTYPES,
    FLOATS,
    INTEGERS,
    MATH,
    SIZES,
    SUCCESS,
    TENSOR_METHODS,
    UNKNOWN,
    VECTORS,
    Address,
    Dim3,
    Kernel,
    Lambda,
    Pointer,
    Record,
    Type,
    are_same_plain_values,
    binary_of,
    converted,
    copied_for_assignment,
    device_properties,
    element_of,
    extent_of,
    is_null_pointer,
    is_unknown,
    literal_number,
    narrows_to_integer,
    option_of,
    sequence_method,
    unary_of,
    unknown_if_unfit,
    vector_of,
)

_UNSEEN: Any = object()
"""The result of a call of a function that nothing is known of."""

_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"})


_LAUNCHERS = frozenset(
    {
        *("cudaLaunchKernel", "cudaLaunchCooperativeKernel"),
        *("cudaLaunchKernelEx", "cudaLaunchKernelExC"),
    }
)
"""Functions of CUDA's runtime that launch a kernel."""


class Expressions(Walk):
    """Evaluates tokens; subclasses implement `run` for statements."""

    def type_of(self, tokens: Sequence[Token]) -> Type:
        """Return a type with aliases, template parameters and constants in brackets replaced."""
        texts: list[str] = []
        for place, token in enumerate(tokens):
            value = self.scope.get(token.text)
            is_argument = place > 0 and tokens[place - 1].text in ("<", ",")
            if isinstance(value, bool | int) and is_argument:
                texts.append(str(value).lower())
            else:
                texts.append(value.name if isinstance(value, Type) else token.text)
        return Type(re.sub(r"(?<=\w) (?=\W)|(?<=\W) ", "", " ".join(texts)))

    def expression(self) -> Any:
        """Evaluate ``a, b``: the last value."""
        value = self.assignment()
        while self.accept(","):
            value = self.assignment()
        return value

    def assignment(self) -> Any:
        """Evaluate ``a = b``, ``a.x += b``, and everything that binds tighter."""
        name, operator = self.text(), self.text(1)
        if self.kind() == "name" and operator == "=":
            self.at += 2
            value = copied_for_assignment(self.assignment())
            self.scope[name] = (
                int(value) if narrows_to_integer(self.scope.get(name), value) else value
            )
            return self.scope[name]
        if self.kind() == "name" and operator in _COMPOUND:
            self.at += 2
            value = self.assignment()
            self.scope[name] = binary_of(operator[:-1], self.scope.get(name, UNKNOWN), value)
            return self.scope[name]
        self.place = None
        value = self.ternary()
        if self.text() != "=" and self.text() not in _COMPOUND:
            return value
        place, operator = self.place, self.text()
        self.at += 1
        assigned = copied_for_assignment(self.assignment())
        value = assigned if operator == "=" else binary_of(operator[:-1], value, assigned)
        if place is not None:
            _store_member(*place, value)
        return value

    def ternary(self) -> Any:
        """Evaluate ``a ? b : c``; both sides are evaluated."""
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        first = self.assignment()
        self.expect(":")
        second = self.assignment()
        if condition is UNKNOWN:
            return first if are_same_plain_values(first, second) else UNKNOWN
        return first if condition else second

    def binary(self, level: int) -> Any:
        """Evaluate operators from a level of `_LEVELS` upwards."""
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while operator := self._operator(_LEVELS[level]):
            value = binary_of(operator, value, self.binary(level + 1))
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
        """Signs, ``!``, ``*``, ``&``, prefix ``++``, casts."""
        operator = self.text()
        if operator in ("-", "+", "!", "~") and self.kind() == "mark":
            self.at += 1
            return unary_of(operator, self.unary())
        if operator in ("*", "&"):
            self.at += 1
            if operator == "&" and isinstance(self.scope.get(self.text()), int):
                self.scope[self.text()] = UNKNOWN  # whoever gets its address may write to it
            return self.unary()
        if operator in ("++", "--"):
            self.at += 1
            name = self.text()
            self.at += 1
            self.scope[name] = binary_of(operator[0], self.scope.get(name, UNKNOWN), 1)
            return self.scope[name]
        if operator == "(" and (end := self._cast()):
            kind = self.tokens[self.at + 1 : end]
            self.at = end + 1
            value = self.unary()
            pointed = any(token.text == "*" for token in kind)
            names = {token.text for token in kind}
            return self._pointed(kind, value) if pointed else converted(value, names)
        return self.postfix(self.primary())

    def _pointed(self, kind: Sequence[Token], value: Any) -> Pointer | Kernel:
        """Return a value cast to a pointer."""
        if isinstance(value, Kernel):
            return value
        bare = [token for token in kind if token.text not in ("*", "const")]
        name = self.type_of(bare).name
        if isinstance(value, Pointer):
            return replace(value, type=name)
        if is_null_pointer(value):
            return Pointer(name, address=0)
        tensor = fake_cuda.tensor_at(value) if isinstance(value, int) else None
        return Pointer(name) if tensor is None else Pointer(name, value, tensor)

    def _cast(self) -> int | None:
        """Find where the bracket here closes, if it holds only a type and a value follows."""
        end = closing_bracket(self.tokens, self.at)
        inner = self.tokens[self.at + 1 : end]
        if not inner or not all(t.kind == "name" or t.text in ("*", "&", "::") for t in inner):
            return None
        following = self.tokens[end + 1] if end + 1 < len(self.tokens) else None
        if following is None or following.text in (")", "]", "}", ",", ";", "?", ":"):
            return None
        names = [token.text for token in inner if token.kind == "name"]
        is_type = set(names) & (INTEGERS | FLOATS | set(SIZES)) or inner[-1].text == "*"
        stands = any(isinstance(self.scope.get(name), Type) for name in names)
        return end if is_type or stands else None

    def primary(self) -> Any:
        """Return a literal, a name, a bracket, a lambda."""
        kind, text = self.kind(), self.text()
        if kind == "string":
            begun = self.at
            while self.kind() == "string":  # adjacent literals are one
                self.at += 1
            return "".join(token.text.strip('"') for token in self.tokens[begun : self.at])
        if kind == "number":
            self.at += 1
            return literal_number(text)
        if text == "(":
            return self.within(self.inside()).expression()
        if text == "{":
            return self.arguments()
        if text == "[":
            return self.closure()
        if kind == "name":
            return self.named()
        raise self.error(f"{text!r} is not understood")

    def closure(self) -> Lambda:
        """``[&](int n) { ... }``."""
        self.inside()
        parameters = split_arguments(self.inside(), angles=True) if self.text() == "(" else []
        while self.text() not in ("{", ""):
            self.at += 1
        return Lambda(tuple(self.inside()), tuple(parameters))

    def arguments(self) -> list[Any]:
        """Return the values between the brackets here."""
        is_list = self.text() == "{"
        walk = self.within(self.inside())
        values: list[Any] = []
        while walk.at < len(walk.tokens):
            values.append(walk.element() if is_list else walk.assignment())
            if walk.at < len(walk.tokens):
                walk.expect(",")
        return values

    def element(self) -> Any:
        """Evaluate an element of a list, which may be the address of a number for a launch."""
        cast_end = self._cast() if self.text() == "(" else None
        begin = self.at if cast_end is None else cast_end + 1
        texts = [token.text for token in self.tokens[begin : begin + 3]]
        number = self.scope.get(texts[1]) if texts[:1] == ["&"] and len(texts) > 1 else None
        is_number = isinstance(number, int | float) or number is UNKNOWN
        if not is_number or texts[2:] not in ([], [","]):
            return self.assignment()
        self.at = begin + 2
        return Address(self.scope, texts[1])

    def named(self) -> Any:
        """Return a variable, a constant, a call or a launch."""
        start = self.at
        path = [self.text()]
        self.at += 1
        while self.text() == "::" and self.kind(1) == "name":
            path.append(self.text(1))
            self.at += 2
        template: Sequence[Token] = ()
        function = self.machine.source.functions.get(path[-1])
        is_template = function is not None and bool(function.template)
        if self.text() == "<" and (end := self._template_end(0, is_template)) is not None:
            template = self.tokens[self.at + 1 : self.at + end]
            self.at += end + 1
        if self.text() == "<<<":
            held = self.scope.get(path[0])
            kernel = held if isinstance(held, Kernel) else self.kernel(path[-1], template)
            return self.launch(kernel, start)
        if function is not None and function.is_kernel and path[0] not in self.scope:
            return self.kernel(path[-1], template)
        if path[-1] == "sizeof":
            return self.size_of(self.inside())
        if path[-1] in _CASTS:
            value = self.arguments()[0]
            pointed = any(token.text == "*" for token in template)
            names = {token.text for token in template}
            return self._pointed(template, value) if pointed else converted(value, names)
        if len(path) == 1 and path[0] in self.scope and not isinstance(self.scope[path[0]], Type):
            value = self.scope[path[0]]
            if self.text() == "(" and isinstance(value, Lambda):
                return self.invoke(value, self.arguments())
            return value
        if self.text() in ("(", "{"):
            return self.called(path, template)
        return self.constant(path)

    def _template_end(self, ahead: int, is_template: bool = False) -> int | None:
        """Find how far ahead the ``>`` is, if template arguments stand between it and the ``<``.

        Args:
            ahead: where the ``<`` is.
            is_template: whether the name before it is known to be a template's.
        """
        depth = 0
        for index in range(ahead, len(self.tokens) - self.at):
            text, kind = self.text(index), self.kind(index)
            depth += (text == "<") - (text == ">")
            if not depth:
                after = self.text(index + 1)
                named = self.kind(index + 1) == "name"
                follows = named or after in ("(", "::", "<<<", "{", "*", "&")
                return index if follows or is_template else None
            if kind not in ("name", "number") and text not in _IN_TEMPLATES:
                return None
        return None

    def constant(self, path: Sequence[str]) -> Any:
        """Return a global constant, a macro, torch's and C++'s own names."""
        name = path[-1]
        if name in self.machine.globals:
            return self.machine.globals[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in DTYPES and path[0] in ("torch", "at", "c10"):
            return DTYPES[name]
        if len(path) == 1 and name not in self.scope and not _MACRO.fullmatch(name):
            place = self.machine.source.place(self.tokens[self.at - 1].start)
            self.machine.seen.undeclared.setdefault(f"{name} ({place})")
        return UNKNOWN

    def size_of(self, tokens: Sequence[Token]) -> Any:
        """``sizeof(float)``."""
        if any(token.text == "*" for token in tokens):
            return 8
        kind = self.type_of([token for token in tokens if token.text != "const"]).name
        return SIZES.get(kind.rpartition("::")[2].split(" ")[-1], UNKNOWN)

    # --------------------------------------------------------------------- calls

    def called(self, path: Sequence[str], template: Sequence[Token]) -> Any:
        """Return the result of a call of a function."""
        name, source, at = path[-1], self.machine.source, self.tokens[self.at - 1]
        if name.startswith("AT_DISPATCH"):
            return self.dispatch()
        if path[-1] == "numeric_limits" or _is_check(name):
            self.inside()
            return UNKNOWN
        listed, held = self.text() == "{", self.closed()
        args = self.arguments()
        if name in source.functions and not source.functions[name].is_kernel:
            function = source.functions[name]
            return self.machine.call(function, args, self.bound(function, template, args))
        if name in _LAUNCHERS:
            return self.runtime_launch(name, args, at)
        if name in VECTORS:
            return args if listed else vector_of(args)
        if name == "get" and path[0] == "std":
            return element_of(args[0], self.within(template).expression())
        result = self.library_call(path, args, held, at)
        if result is _UNSEEN:
            if path[0] != "std" and not listed:
                self.unseen("::".join(path), args, at)
            return UNKNOWN
        return result

    def library_call(
        self, path: Sequence[str], args: list[Any], held: Sequence[Token], at: Token
    ) -> Any:
        """Return the result of a library's function; `_UNSEEN` if none is known by that name.

        Args:
            path: its name, with namespaces.
            args: as evaluated.
            held: their tokens.
            at: the token that names it.
        """
        name = path[-1]
        if name in INTEGERS | FLOATS and len(args) == 1:
            return converted(args[0], {name})
        if name == "Tensor" and not args:  # an undefined one, which Python calls None
            return None
        if name == "TensorOptions":
            return dict(args[0]) if args and isinstance(args[0], dict) else {}
        if path[0] in ("torch", "at") and name in ("dtype", "device"):
            return {name: args[0]} if args[0] is not UNKNOWN else {}
        if path[0] in ("torch", "at") and len(path) == 2:
            return self.torch_call(name, args)
        if name in ("getCurrentDeviceProperties", "getDeviceProperties"):
            return device_properties()
        if name in MATH and path[0] in ("std", name):
            return unknown_if_unfit(MATH[name], args)
        if name.startswith("cuda") and len(path) == 1:
            return self.runtime(name, args, held, at)
        if len(path) == 1 and (product := product_of(name, args, held)) is not None:
            self.run_torch(product, (), {})
            place = self.machine.source.place(at.start)
            sentence = f"{place}: {name} is taken for PyTorch's product of the same matrices."
            self.machine.seen.remarks.setdefault(sentence)
            return SUCCESS
        return _UNSEEN

    def closed(self) -> Sequence[Token]:
        """Return the tokens between the bracket here and its partner, which stay ahead."""
        return self.tokens[self.at + 1 : closing_bracket(self.tokens, self.at)]

    def runtime(self, name: str, args: Sequence[Any], held: Sequence[Token], at: Token) -> Any:
        """Return a function of CUDA's runtime, which succeeds.

        Args:
            name: of the function.
            args: as evaluated.
            held: their tokens, which name what the function writes to.
            at: the token that names it.
        """
        texts = [token.text for token in held]
        if name in ("cudaDeviceGetAttribute", "cudaGetDeviceProperties") and texts[:1] == ["&"]:
            answer = device_properties()
            if name == "cudaDeviceGetAttribute":
                attribute = next((t for t in texts if t.startswith(_ATTRIBUTE)), "")
                field = attribute[len(_ATTRIBUTE) :]
                answer = getattr(answer, f"{field[:1].lower()}{field[1:]}", UNKNOWN)
            self.scope[texts[1]] = answer
        elif name.startswith(("cudaMemcpy", "cudaMemset")):
            self.unseen(name, args, at)
        return SUCCESS

    def bound(
        self, function: Function, template: Sequence[Token], args: Sequence[Any]
    ) -> dict[str, Any]:
        """Return the values of a host function's template parameters.

        Those that a call does not spell out are deduced from its pointers, as C++ does.
        """
        names = [part[-1].text for part in split_arguments(function.template)]
        arguments = split_arguments(template, angles=True)
        values = {name: self.template_argument(part) for name, part in zip(names, arguments)}
        for name in names[len(arguments) :]:
            if deduced := _deduced_type(name, function, args):
                values[name] = Type(deduced)
        return values

    def dispatch(self) -> Any:
        """``AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "name", [&] { ... })``."""
        dtype: Any = UNKNOWN
        for part in split_arguments(self.inside()):
            while part[0].text == "(" and closing_bracket(part, 0) == len(part) - 1:
                part = part[1:-1]
            if part[0].text == "[":
                body = self.within(part).closure().body
            elif part[0].kind != "string":
                dtype = self.within(part).expression()
        if dtype not in CPP_TYPES:
            raise self.error("the type that AT_DISPATCH chooses by is not known")
        kind = Type(CPP_TYPES[dtype])
        return self.invoke(Lambda(tuple(body), ()), [], {"scalar_t": kind})

    def invoke(
        self, function: Lambda, args: Sequence[Any], types: Mapping[str, Any] = MappingProxyType({})
    ) -> Any:
        """Return a call of a lambda, which may assign to its caller's variables."""
        names = [part[-1].text for part in function.parameters]
        own = {**types, **dict(zip(names, args))}
        scope = {**self.scope, **own}
        try:
            self.within(function.body, scope).run()
        except Returned as returned:
            return returned.value
        finally:
            shared = self.scope.keys() - own.keys()
            self.scope.update({name: scope[name] for name in shared if name in scope})
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
        if name in _CREATING:  # where C++ makes options of a dtype or a device that stands alone
            for key, kind in (("dtype", torch.dtype), ("device", torch.device)):
                options.update((key, arg) for arg in positional if isinstance(arg, kind))
            positional = [a for a in positional if not isinstance(a, torch.dtype | torch.device)]
        return self.run_torch(function, positional, options)

    def run_torch(
        self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Return the result of torch's own function.

        Raises:
            HostError: torch refuses the arguments.
        """
        try:
            return function(*args, **options)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            raise self.error(str(error).splitlines()[0]) from error

    # ------------------------------------------------------------------- members

    def postfix(self, value: Any) -> Any:
        """After a value: members, indices, ``++``, calls."""
        while True:
            if self.text() in (".", "->"):
                self.at += 1
                holder, name = value, self.text()
                value = self.member(value)
                self.place = (holder, name)
            elif self.text() == "[":
                holder, index = value, self.within(self.inside()).expression()
                value = element_of(value, index)
                self.place = (holder, index)
            elif self.text() == "<<<" and isinstance(value, Kernel):
                value = self.launch(value, self.at)
            elif self.text() in ("++", "--"):
                name, operator = self.text(-1), self.text()[0]
                self.at += 1
                if name in self.scope:
                    self.scope[name] = binary_of(operator, value, 1)
            elif self.text() == "(":
                called = self.tokens[self.at - 1]
                args = self.arguments()
                if isinstance(value, Lambda):
                    value = self.invoke(value, args)
                else:
                    self.unseen(called.text, args, called)
                    value = UNKNOWN
            else:
                return value

    def member(self, value: Any) -> Any:
        """``x.size(0)``, ``options->dtype()``, a field."""
        self.accept("template")
        name = self.text()
        self.at += 1
        template: Sequence[Token] = ()
        if self.text() == "<" and (end := self._template_end(0)) is not None:
            template = self.tokens[self.at + 1 : self.at + end]
            self.at += end + 1
        if self.text() != "(":
            if isinstance(value, Record):
                return value.values.get(name, UNKNOWN)
            return getattr(value, name, UNKNOWN) if not isinstance(value, torch.Tensor) else UNKNOWN
        called = self.tokens[self.at - 1]
        args = self.arguments()
        if isinstance(value, torch.Tensor):
            return self.tensor_method(value, name, template, args)
        if isinstance(value, dict):
            return option_of(value, name, args)
        if isinstance(value, list | tuple | torch.Size):
            return sequence_method(value, name, args)
        if isinstance(value, torch.device) and name in ("type", "is_cuda"):
            return value.type if name == "type" else value.type == "cuda"
        if name == "has_value":
            return value if value is UNKNOWN else value is not None
        if name in ("value", "get", "value_or"):
            return value
        self.unseen(name, args, called)
        return UNKNOWN

    def tensor_method(
        self, tensor: torch.Tensor, name: str, template: Sequence[Token], args: list[Any]
    ) -> Any:
        """Return a method of a tensor: C++'s own, Python's or ATen's of the same name."""
        if name in _POINTERS or name.startswith("packed_accessor"):
            bare = [token for token in template if token.text != "const"]
            kind = self.type_of(bare).name if bare else CPP_TYPES.get(tensor.dtype, "")
            return Pointer(kind, tensor.data_ptr(), tensor)
        if name in TENSOR_METHODS:
            return self.run_torch(TENSOR_METHODS[name], (tensor, *args), {})
        method = getattr(tensor, name, None)
        if method is None and hasattr(torch.ops.aten, name):  # as `slice`
            method = functools.partial(getattr(torch.ops.aten, name), tensor)
        if name == "item" or method is None or any(map(is_unknown, args)):
            return UNKNOWN
        if not callable(method):
            return method
        options = {k: v for arg in args if isinstance(arg, dict) for k, v in arg.items()}
        return self.run_torch(method, [a for a in args if not isinstance(a, dict)], options)

    # ------------------------------------------------------------------------------- launches

    def launch(self, kernel: Kernel, start: int) -> Any:
        """``kernel<<<grid, block, shared, stream>>>(...)``, from its first bracket on."""
        begin = self.at + 1
        while self.at < len(self.tokens) and not self._closes_launch():
            opens = self.kind() == "mark" and self.text() in "([{"
            self.at = closing_bracket(self.tokens, self.at) + 1 if opens else self.at + 1
        parts = split_arguments(self.tokens[begin : self.at])
        grid, block, *rest = (self.within(part).assignment() for part in parts)
        self.at += 3
        args = self.arguments()
        self.launched(kernel, (grid, block, rest[0] if rest else 0), args, self.tokens[start])
        return UNKNOWN

    def launched(
        self, kernel: Kernel, sizes: tuple[Any, Any, Any], args: Sequence[Any], at: Token
    ) -> None:
        """Record a launch.

        Args:
            kernel: its name, and the template arguments that are spelled out.
            sizes: grid, block and bytes of dynamic shared memory.
            args: of the kernel.
            at: the token that the launch starts at.
        """
        grid, block, shared = sizes
        self._written(kernel.name, args)
        self.machine.seen.launches.append(
            HostLaunch(
                self.kernel_name(kernel, args),
                extent_of(grid),
                extent_of(block),
                shared if isinstance(shared, int) else None,
                self.machine.source.place(at.start),
                tuple(map(_argument, args)),
            )
        )

    def runtime_launch(self, name: str, args: Sequence[Any], at: Token) -> Any:
        """Return one of `_LAUNCHERS`.

        Raises:
            HostError: the kernel that it launches is not known.
        """
        if name.startswith("cudaLaunchKernelEx"):
            config, kernel, *arguments = args
            fields = ("gridDim", "blockDim", "dynamicSmemBytes")
            is_record = isinstance(config, Record)
            sizes = [
                config.values.get(field, UNKNOWN) if is_record else UNKNOWN for field in fields
            ]
            sizes[2] = 0 if is_record and "dynamicSmemBytes" not in config.values else sizes[2]
            if name.endswith("C"):
                arguments = arguments[0] if arguments and isinstance(arguments[0], list) else []
        else:
            kernel, grid, block, *rest = args
            arguments = rest[0] if rest and isinstance(rest[0], list) else []
            sizes = [grid, block, rest[1] if len(rest) > 1 else 0]
        if not isinstance(kernel, Kernel):
            raise self.error(f"the kernel that {name} launches is not known")
        values = [item.value if isinstance(item, Address) else item for item in arguments]
        self.launched(kernel, (sizes[0], sizes[1], sizes[2]), values, at)
        return SUCCESS

    def _written(self, name: str, args: Sequence[Any]) -> None:
        """Forget the contents that the kernel may overwrite."""
        function = self.machine.source.functions.get(name)
        for index, arg in enumerate(args):
            declared = function.parameters[index : index + 1] if function else ()
            constant = any(token.text == "const" for tokens in declared for token in tokens)
            if isinstance(arg, Pointer) and arg.tensor is not None and not constant:
                fake_cuda.forget_contents(arg.tensor)

    def _closes_launch(self) -> bool:
        return all(self.text(ahead) == ">" for ahead in range(3)) and self.text(3) == "("

    def kernel_name(self, kernel: Kernel, args: Sequence[Any]) -> str:
        """Return a kernel's name with template arguments, including deduced ones."""
        template_arguments, name = list(kernel.template), kernel.name
        function = self.machine.source.functions.get(name)
        parameters = split_arguments(function.template, angles=True) if function else []
        for parameter in parameters[len(template_arguments) :]:
            names = [token.text for token in parameter if token.text != "="]
            deduced = _deduced_type(names[1], function, args) if len(names) == 2 else None
            if deduced is None:
                break  # the rest has defaults
            template_arguments.append(deduced)
        return f"{name}<{', '.join(template_arguments)}>" if template_arguments else name

    def kernel(self, name: str, template: Sequence[Token]) -> Kernel:
        """Return a kernel with the template arguments that are spelled out."""
        return Kernel(name, tuple(map(self.spelled, split_arguments(template, angles=True))))

    def spelled(self, tokens: Sequence[Token]) -> str:
        """Return a template argument in C++ notation."""
        value = self.template_argument(tokens)
        if isinstance(value, bool):
            return str(value).lower()
        return value.name if isinstance(value, Type) else str(value)

    def template_argument(self, tokens: Sequence[Token]) -> Any:
        """Return a number, or else a type."""
        before = dict(self.machine.seen.undeclared)
        value = self.within(tokens).expression()
        self.machine.seen.undeclared = before  # a type is none
        return self.type_of(tokens) if not isinstance(value, bool | int | Type) else value

    def unseen(self, name: str, args: Sequence[Any], at: Token) -> None:
        """Note a call of a function that no source defines, if it gets at the GPU's memory."""
        if any(map(_is_memory, args)):
            place = self.machine.source.place(at.start)
            self.machine.seen.unseen.setdefault(f"{place}: calls {name}, which is not analysed.")
            for arg in args:
                if isinstance(arg, Pointer) and arg.tensor is not None:
                    fake_cuda.forget_contents(arg.tensor)


_POINTERS = frozenset({"data_ptr", "data", "const_data_ptr", "mutable_data_ptr"})
_CREATING = frozenset({"empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like"})
_MACRO = re.compile(r"[A-Z][A-Z0-9_]{2,}")  # which headers and options may define
_ATTRIBUTE = "cudaDevAttr"
_FILLING = frozenset({"tensor", "full", "full_like", "scalar_tensor"})
_COMPOUND = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="})
_IN_TEMPLATES = frozenset({"::", ",", "*", "&", "<", ">", "(", ")", "+", "/", "-"})
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
"""C++'s binary operators, loosest first."""


def _is_check(name: str) -> bool:
    """Tell whether a macro stops a wrong call: fakes are called rightly."""
    return re.match(r"(TORCH_|AT_|C10_)?(CHECK|ASSERT|INTERNAL_ASSERT)|C10_CUDA", name) is not None


def _store_member(holder: Any, key: Any, value: Any) -> None:
    """Keep a field or an element; others are not kept."""
    if isinstance(holder, Record) and isinstance(key, str):
        holder.values[key] = value
    elif isinstance(holder, Dim3) and key in ("x", "y", "z"):
        setattr(holder, key, value)
    elif isinstance(holder, list) and isinstance(key, int) and 0 <= key < len(holder):
        holder[key] = value


def _is_memory(value: Any) -> bool:
    if isinstance(value, Record):
        return any(map(_is_memory, value.values.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_memory, value))
    return isinstance(value, Pointer) and value.tensor is not None


def _argument(value: Any) -> Argument:
    """Return a launch's argument, as in `solkit.adapters.fake_triton`."""
    if not isinstance(value, Pointer):
        return value if isinstance(value, bool | int | float) else None
    if value.tensor is None:
        return None
    argument = argument_of(value.tensor)
    assert isinstance(argument, TensorArgument)
    return replace(argument, offset_bytes=argument.offset_bytes + value.ahead_bytes)


def _deduced_type(name: str, function: Function | None, args: Sequence[Any]) -> str | None:
    """Return a template's type parameter, deduced from a pointer to it."""
    for parameter, arg in zip(function.parameters if function else (), args):
        texts = [token.text for token in parameter]
        if name in texts and "*" in texts and isinstance(arg, Pointer) and arg.type:
            return arg.type
    return None
