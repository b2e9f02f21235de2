"""Launches of host code: ``kernel<<<...>>>(...)``, and the functions of CUDA's runtime for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from solkit.adapters import fake_cuda
from solkit.adapters.fake_triton import Argument, TensorArgument, argument_of
from solkit.analysis.cuda.source import Function, Token, closing, split_arguments
from solkit.analysis.cuda.token_walk import HostLaunch, Walk
from solkit.analysis.cuda.values import (
    SUCCESS,
    UNKNOWN,
    Kernel,
    Pointer,
    Record,
    Type,
    extent_of,
)

__all__ = ["LAUNCHERS", "Launching", "deduced_type"]

LAUNCHERS = frozenset(
    {
        *("cudaLaunchKernel", "cudaLaunchCooperativeKernel"),
        *("cudaLaunchKernelEx", "cudaLaunchKernelExC"),
    }
)
"""Functions of CUDA's runtime that launch a kernel."""


class Launching(Walk):
    """A walk that records launches; subclasses evaluate expressions."""

    def arguments(self) -> list[Any]:
        """Return the values between the brackets here."""
        raise NotImplementedError

    def assignment(self) -> Any:
        """Return the value of an expression without a comma."""
        raise NotImplementedError

    def expression(self) -> Any:
        """Return the value of an expression."""
        raise NotImplementedError

    def type_of(self, tokens: Sequence[Token]) -> Type:
        """Return a type with aliases and template parameters replaced."""
        raise NotImplementedError

    def launch(self, kernel: Kernel, start: int) -> Any:
        """``kernel<<<grid, block, shared, stream>>>(...)``, from its first bracket on."""
        begin = self.at + 1
        while self.at < len(self.tokens) and not self._closes_launch():
            opens = self.kind() == "mark" and self.text() in "([{"
            self.at = closing(self.tokens, self.at) + 1 if opens else self.at + 1
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
        """Return one of `LAUNCHERS`.

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
        self.launched(kernel, (sizes[0], sizes[1], sizes[2]), arguments, at)
        return SUCCESS

    def _written(self, name: str, args: Sequence[Any]) -> None:
        """Forget the contents that the kernel may overwrite."""
        function = self.machine.source.functions.get(name)
        for index, arg in enumerate(args):
            declared = function.parameters[index : index + 1] if function else ()
            constant = any(token.text == "const" for tokens in declared for token in tokens)
            if isinstance(arg, Pointer) and arg.tensor is not None and not constant:
                fake_cuda.forget(arg.tensor)

    def _closes_launch(self) -> bool:
        return all(self.text(ahead) == ">" for ahead in range(3)) and self.text(3) == "("

    def kernel_name(self, kernel: Kernel, args: Sequence[Any]) -> str:
        """Return a kernel's name with template arguments, including deduced ones."""
        template_arguments, name = list(kernel.template), kernel.name
        function = self.machine.source.functions.get(name)
        parameters = split_arguments(function.template, angles=True) if function else []
        for parameter in parameters[len(template_arguments) :]:
            names = [token.text for token in parameter if token.text != "="]
            deduced = deduced_type(names[1], function, args) if len(names) == 2 else None
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
                    fake_cuda.forget(arg.tensor)


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
    if not value.ahead_bytes:
        return argument
    contents = argument.contents
    if contents is not None:
        contents = (
            None
            if value.ahead_bytes < 0
            else contents[value.ahead_bytes // argument.element_bytes :]
        )
    return replace(
        argument, offset_bytes=argument.offset_bytes + value.ahead_bytes, contents=contents
    )


def deduced_type(name: str, function: Function | None, args: Sequence[Any]) -> str | None:
    """Return a template's type parameter, deduced from a pointer to it."""
    for parameter, arg in zip(function.parameters if function else (), args):
        texts = [token.text for token in parameter]
        if name in texts and "*" in texts and isinstance(arg, Pointer) and arg.type:
            return arg.type
    return None
