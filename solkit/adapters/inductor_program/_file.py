"""The kernel file of a reference's program."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch.utils._python_dispatch import _disable_current_modes

from solkit.adapters import inductor
from solkit.adapters.inductor_program._calls import HELPERS, Program, rewrite_module
from solkit.adapters.inductor_program._graph import Result, Traced, trace_function
from solkit.adapters.inductor_program._kernels import kernel_spaces, valid_lines
from solkit.adapters.inductor_program._module import generated_module
from solkit.adapters.inductor_program._reference import Reference, model_text
from solkit.adapters.versions import warn_if_untested
from solkit.errors import InputError, SolkitError

__all__ = ["Written", "program_of"]

_SETTINGS = {"compile_threads": 1, "force_disable_caches": True, "cpp_wrapper": False}


@dataclass(frozen=True)
class Written:
    """A kernel file.

    Attributes:
        text: the file.
        notes: what to know of it, each a sentence.
        choices: for each kernel of which Inductor would time several configurations, their
            parameters, its first choice first.
    """

    text: str
    notes: tuple[str, ...]
    choices: tuple[tuple[Mapping[str, int], ...], ...]


def program_of(reference: Reference, settings: Mapping[str, Any] | None = None) -> Written:
    """Return the program that Inductor makes of a reference, as a kernel file.

    The reference and its arguments are on fake tensors of the ``FakeTensorMode`` that is on.

    Args:
        reference: with its arguments.
        settings: of ``torch._inductor.config``, besides its defaults.

    Raises:
        InputError: there is no such program, or a kernel file cannot hold it; says which operation
            is in the way.
    """
    warn_if_untested("torch", torch.__version__)
    inductor.prepare()
    tracing = trace_function(reference.call, reference.tensors)
    names = _name_inputs(reference, tracing)
    module = generated_module(_generate_source(tracing, settings or {}))
    program = rewrite_module(module, [name for name, _ in names])
    file = _File(reference, tracing, program, dict(names))
    choices = tuple(k.choices for k in program.kernels if len(k.choices) > 1)
    return Written(file.text(), tuple(_note_lines(program)), choices)


def _generate_source(tracing: Traced, settings: Mapping[str, Any]) -> str:
    try:
        with _disable_current_modes():  # it has its own
            return inductor.generate_module(
                tracing.graph, tracing.inputs, {**_SETTINGS, **settings}
            )
    except SolkitError:
        raise
    except Exception as error:  # whatever Inductor raises where it cannot lower without a GPU
        first = (str(error).strip().splitlines() or [""])[0]
        message = f"Inductor cannot lower it here: {type(error).__name__}: {first}"
        raise InputError(message) from error


def _name_inputs(reference: Reference, tracing: Traced) -> list[tuple[str, str]]:
    """Pair the launcher's name of each input of the graph with an expression for its value."""
    texts = [*reference.argument_texts(), *reference.state_texts()]
    texts += [reference.held_tensor_text(held) for held in tracing.held]
    named: dict[str, str] = {}
    for text in texts:
        name = re.sub(r"\W+", "_", text.removeprefix("self.")).strip("_")
        if text.startswith("torch.tensor("):
            name = "constant"
        count, free = 2, name
        while free in named or free in _TAKEN or re.fullmatch(r"buf\d+", free):
            free, count = f"{name}_{count}", count + 1
        named[free] = text
    return list(named.items())


_TAKEN = {"torch", "triton", "tl", "aten", "kernel", "libdevice", "tl_math", "triton_helpers"}


def _note_lines(program: Program) -> Iterator[str]:
    timed = {k.name: len(k.choices) for k in program.kernels if len(k.choices) > 1}
    if timed:
        listed = ", ".join(f"{count} of {name}" for name, count in timed.items())
        yield f"Inductor would time several configurations ({listed})."
    if not program.kernels:
        yield "Inductor writes no Triton kernel for it: all of it is PyTorch's own operators."


# ------------------------------------------------------------------------------------- the text


@dataclass(frozen=True, eq=False)
class _File:
    """A kernel file in the making."""

    reference: Reference
    tracing: Traced
    program: Program
    names: dict[str, str]

    def text(self) -> str:
        """Return the whole file."""
        imports, model = self._model_text()
        parts = [self._file_head(imports)]
        parts += [part for kernel in self.program.kernels for part in self._kernel_text(kernel)]
        parts += [HELPERS[name] for name in sorted(self.program.helpers)]
        if self.program.kernels:
            parts.append(valid_lines(self.program.kernels))
        parts.append(self._launcher_text())
        parts.append(model)
        return "\n\n\n".join(part.strip() for part in parts if part) + "\n"

    @staticmethod
    def _kernel_text(kernel: Any) -> Iterator[str]:
        if kernel.helpers:
            yield kernel.helpers
        yield kernel.source

    def _file_head(self, others: str) -> str:
        rows = "".join(
            f"    {json.dumps(name)}: {list(values)},\n"
            for name, values in kernel_spaces(self.program.kernels).items()
        )
        sources = "".join(kernel.source + kernel.helpers for kernel in self.program.kernels)
        imports = "".join(
            f"from {module} import {names}\n"
            for module, names in _IMPORTS
            if re.search(rf"\b{names.split()[-1]}\.", sources)
        )
        return (
            f'"""{self.reference.name}, as PyTorch\'s Inductor compiles it.\n\n'
            f"{self.reference.about}. Written by SolKit; the Triton functions are made\n"
            f"by Inductor of torch {torch.__version__} (triton {triton.__version__}), under "
            'PyTorch\'s licence. They fit this one\nshape.\n"""\n\n'
            f"import torch\n{others}{chr(10) if others else ''}"
            f"import triton\nimport triton.language as tl\n{imports}\n"
            + (f"SPACE = {{\n{rows}}}\n" if rows else "")
        )

    def _tuned_parameters(self) -> list[str]:
        """Return the parameters of each kernel with Inductor's choice."""
        return [
            ", ".join(f"{name}{k.suffix}={k.defaults[name]}" for name in k.tuned)
            for k in self.program.kernels
        ]

    def _launcher_text(self) -> str:
        lines = list(self.program.lines)
        if self.reference.model is None:
            taken = _parameter_texts(self.reference.parameters)
            used = {*self.program.inputs, *self._returned_inputs()}
            named = [(n, t) for n, t in self.names.items() if n in used and n != t]
            lines = [f"{name} = {self._place_on_device(text)}" for name, text in named] + lines
        else:
            taken = self._launcher_inputs()
        body = "\n".join([*lines, *self._return_text()]) or "pass"
        parameters = _join_parameters(taken, self._tuned_parameters())
        return f"def kernel({parameters}):\n{textwrap.indent(body, '    ')}\n"

    def _place_on_device(self, text: str) -> str:
        if not text.startswith("torch.tensor("):
            return text
        return f'{text[:-1]}, device="cuda")'

    def _launcher_inputs(self) -> list[str]:
        """Return the inputs that the launcher of a model takes: those that are used."""
        used = {*self.program.inputs, *self._returned_inputs()}
        return [name for name in self.names if name in used]

    def _returned_inputs(self) -> list[str]:
        places = [r.place for r in _result_leaves(self.tracing.results) if r.is_input]
        return [list(self.names)[place] for place in places]

    def _return_text(self) -> list[str]:
        inputs = list(self.names)

        def text(result: Result) -> str:
            return inputs[result.place] if result.is_input else self.program.results[result.place]

        returned = _nest_results(self.tracing.results, text)
        return [] if returned == "None" else [f"return {returned}"]

    def _model_text(self) -> tuple[str, str]:
        """Return the imports and the text of ``ModelNew``, if there is a model."""
        if self.reference.model is None:
            return "", ""
        taken = _parameter_texts(self.reference.parameters)
        arguments = [self._place_on_device(self.names[name]) for name in self._launcher_inputs()]
        forward = (
            f"def forward({', '.join(['self', *taken, '**params'])}):\n"
            f"    return kernel(\n        {', '.join(arguments)},\n        **params,\n    )\n"
        )
        reference = self.reference
        return model_text(reference.source, forward, reference.sizes)


_IMPORTS = (
    ("torch._inductor.runtime", "triton_helpers"),
    ("torch._inductor.runtime.triton_helpers", "libdevice"),
    ("torch._inductor.runtime.triton_helpers", "math as tl_math"),
)


def _join_parameters(taken: Sequence[str], tuned: Sequence[str]) -> str:
    """Return a launcher's parameters, those of each kernel on a line."""
    inline = ", ".join(taken)
    if not tuned:
        return inline
    star = [] if any(name.startswith("*") for name in taken) else ["*"]
    lines = "".join(f"    {line},\n" for line in [*([inline] if inline else []), *star, *tuned])
    return f"\n{lines}"


def _parameter_texts(parameters: Sequence[inspect.Parameter]) -> list[str]:
    """Return a reference's parameters for a launcher; keyword-only ones cannot be tuned."""
    texts: list[str] = []
    has_default = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            texts.append(f"*{parameter.name}")
        elif parameter.kind is parameter.VAR_KEYWORD:
            raise InputError(f"its parameters cannot be told: **{parameter.name}")
        elif parameter.default is parameter.empty and not has_default:
            texts.append(parameter.name)
        else:
            has_default = True
            plain = isinstance(parameter.default, (bool, int, float, str))
            texts.append(
                f"{parameter.name}={parameter.default!r}" if plain else f"{parameter.name}=None"
            )
    return texts


def _result_leaves(results: Any) -> Iterator[Result]:
    if isinstance(results, Result):
        yield results
    elif isinstance(results, (tuple, list)):
        for result in results:
            yield from _result_leaves(result)
    elif isinstance(results, dict):
        yield from _result_leaves(list(results.values()))


def _nest_results(results: Any, text: Any) -> str:
    """Return an expression for results.

    Raises:
        InputError: they hold something that has no simple one.
    """
    if isinstance(results, Result):
        return str(text(results))
    if type(results) in (tuple, list):
        inside = ", ".join(_nest_results(result, text) for result in results)
        if isinstance(results, list):
            return f"[{inside}]"
        return f"({inside},)" if len(results) == 1 else f"({inside})"
    if type(results) is dict:
        pairs = (f"{key!r}: {_nest_results(value, text)}" for key, value in results.items())
        return f"{{{', '.join(pairs)}}}"
    if results is None or isinstance(results, (bool, int, str)):
        return repr(results)
    if isinstance(results, float):
        return (
            f'float("{results!r}")'
            if results != results or abs(results) == float("inf")
            else repr(results)
        )
    raise InputError(f"it returns a {type(results).__name__}, which a kernel file cannot write")
