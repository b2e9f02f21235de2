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
from solkit.adapters.inductor_program._entry import (
    Caller,
    Layout,
    conditions_of,
    state_conditions,
    tensor_conditions,
)
from solkit.adapters.inductor_program._fused_attention import FUSED_ATTENTION, fuse_attention
from solkit.adapters.inductor_program._graph import Result, Traced, trace_function
from solkit.adapters.inductor_program._kernels import kernel_spaces, valid_lines
from solkit.adapters.inductor_program._module import generated_module
from solkit.adapters.inductor_program._narrow_products import NARROW_PRODUCTS, narrow_products
from solkit.adapters.inductor_program._own_attention import (
    NARROW_ATTENTION,
    OWN_ATTENTION,
    narrow_attention,
    own_attention,
)
from solkit.adapters.inductor_program._own_products import (
    OWN_PRODUCTS,
    SPLIT_PRODUCTS,
    own_products,
)
from solkit.adapters.inductor_program._reference import Reference, model_text
from solkit.adapters.versions import warn_if_untested
from solkit.errors import InputError, SolkitError

_SETTINGS = {"compile_threads": 1, "force_disable_caches": True, "cpp_wrapper": False}
_REWRITES = {
    NARROW_ATTENTION: (narrow_attention, "it has no attention of fp32"),
    OWN_ATTENTION: (own_attention, "it has no attention"),
    FUSED_ATTENTION: (fuse_attention, "it writes no attention out"),
    NARROW_PRODUCTS: (narrow_products, "it multiplies nothing that was widened"),
}


@dataclass(frozen=True)
class Written:
    """A kernel file.

    Attributes:
        text: the file.
        notes: what to know of it, each a sentence.
        choices: for each kernel of which Inductor would time several configurations, their
            parameters, its first choice first.
        libraries: operators of PyTorch's that it calls.
        condition: an expression that is true where it may run, if an entry point calls it.
    """

    text: str
    notes: tuple[str, ...]
    choices: tuple[tuple[Mapping[str, int], ...], ...]
    libraries: tuple[str, ...] = ()
    condition: str = ""


def program_of(reference: Reference, settings: Mapping[str, Any] | None = None) -> Written:
    """Return the program that Inductor makes of a reference, as a kernel file.

    The reference and its arguments are on fake tensors of the ``FakeTensorMode`` that is on.

    Args:
        reference: with its arguments.
        settings: of ``torch._inductor.config``, besides its defaults; and
            `FUSED_ATTENTION` and `NARROW_PRODUCTS`.

    Raises:
        InputError: there is no such program, or a kernel file cannot hold it; says which operation
            is in the way.
    """
    warn_if_untested("torch", torch.__version__)
    inductor.prepare()
    own_settings = dict(settings or {})
    tracing = trace_function(reference.call, reference.tensors)
    is_own = not own_settings.keys().isdisjoint((OWN_PRODUCTS, SPLIT_PRODUCTS))
    for name, (rewrite, why) in _REWRITES.items():
        if is_own and name == NARROW_PRODUCTS:  # such products take exact ones as they are
            narrow_products(tracing.graph, exact=True)
        if own_settings.pop(name, False) and not rewrite(tracing.graph):
            raise InputError(why)
    for name in (OWN_PRODUCTS, SPLIT_PRODUCTS):
        precision = own_settings.pop(name, None)
        if precision and not own_products(tracing.graph, precision, split=name == SPLIT_PRODUCTS):
            raise InputError("it has no product that a kernel of the program could do")
        own_settings |= {"prologue_fusion": True} if precision else {}
    names = _name_inputs(reference, tracing)
    source = _generate_source(tracing, own_settings)
    module = generated_module(source, inductor.template_launches())
    texts = tracing.graph.meta.get(OWN_ATTENTION, ())
    program = rewrite_module(module, [name for name, _ in names], texts)
    file = _File(reference, tracing, program, dict(names))
    choices = tuple(k.choices for k in program.kernels if len(k.choices) > 1)
    notes, libraries = tuple(_note_lines(program)), tuple(sorted(program.libraries))
    return Written(file.text(), notes, choices, libraries, file.condition())


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
        launcher = self._launcher_text()  # which may need helpers
        parts = [self._file_head(imports)]
        parts += [part for kernel in self.program.kernels for part in self._kernel_text(kernel)]
        parts += [HELPERS[name] for name in sorted(self.program.helpers)]
        if self.program.kernels:
            parts.append(valid_lines(self.program.kernels))
        parts.append(launcher)
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
        caller = self.reference.caller
        if caller is not None and caller.returned is not None:
            arguments = [layout.argument for layout in caller.returned.layouts]
            places = [place for place in arguments if place is not None]
        else:
            places = [r.place for r in _result_leaves(self.tracing.results) if r.is_input]
        return [list(self.names)[place] for place in places]

    def _return_text(self) -> list[str]:
        caller = self.reference.caller
        results = self.tracing.results
        if caller is not None and caller.returned is not None:
            results = caller.returned.filled(self._texts_for(caller.returned.layouts))
        returned = _nest_results(results, self._result_text)
        return [] if returned == "None" else [f"return {returned}"]

    def _result_text(self, result: Result | _Text) -> str:
        if isinstance(result, _Text):
            return result.code
        names, places = list(self.names), self.program.results
        return names[result.place] if result.is_input else places[result.place]

    def _texts_for(self, layouts: Sequence[Layout]) -> list[_Text]:
        """Return an expression for each tensor that an entry point returns, laid out as it does.

        Raises:
            InputError: it returns other tensors than the reference does.
        """
        texts, own = [], [r for r in _result_leaves(self.tracing.results) if not r.is_input]
        new = [layout for layout in layouts if layout.argument is None]
        if len(own) != len(new) or any(layout.is_shared for layout in new):
            raise InputError("the kernel does not return as many new tensors as the reference")
        rest, values = iter(own), self.tracing.returned
        arguments = list(self.names)
        for layout in layouts:
            if layout.argument is not None:
                texts.append(_Text(arguments[layout.argument]))
                continue
            result = next(rest)
            value, code = values[result.place], self._result_text(result)
            if _shares_memory(value, self.tracing.inputs):
                raise InputError("the reference returns a view of an argument, the kernel a copy")
            if tuple(value.shape) != layout.shape:
                raise InputError(
                    f"the kernel returns a tensor of shape {layout.shape}, the reference one of "
                    f"{tuple(value.shape)}"
                )
            if value.dtype != layout.dtype:
                code = f"{code}.to({layout.dtype})"
            if not _are_strides_alike(value, layout):
                self.program.helpers.add("_laid_out")
                code = f"_laid_out({code}, {layout.stride})"
            texts.append(_Text(code))
        return texts

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
        if reference.caller is not None:
            return "", f"class ModelNew:\n{textwrap.indent(forward, '    ')}"
        return model_text(reference.source, forward, reference.sizes)

    # ------------------------------------------------------------------------------ its caller

    def condition(self) -> str:
        """Return what must be true of a call of the entry point; empty without one.

        Raises:
            InputError: the entry point's object lacks a tensor of the reference's; or the program
                writes what the entry point leaves alone.
        """
        reference, caller = self.reference, self.reference.caller
        if caller is None:
            return ""
        parts = conditions_of(caller.signature, reference.args, reference.kwargs)
        parts += self._state_conditions(caller)
        for name, tensor in caller.destinations.items():
            parts += tensor_conditions(name, tensor)
        parts += self._overlap_conditions(caller)
        arguments = [*reference.argument_texts(), *caller.destinations]
        parts += state_conditions(arguments or self._tensor_texts()[:1])
        return " and ".join(dict.fromkeys(parts))

    def _state_conditions(self, caller: Caller) -> Iterator[str]:
        """Yield conditions on the object of a ``forward``, as far as the program reads it."""
        model, module = self.reference.model, caller.module
        if model is None or module is None:
            return
        yield f"self.training is {model.training}"
        tensors = dict(zip(self.names, self.tracing.inputs, strict=True))
        texts = [(self.names[name], tensors[name]) for name in self._launcher_inputs()]
        state = [(text, tensor) for text, tensor in texts if text.startswith("self.")]
        for text, tensor in state:
            _require_like(text, tensor, module)
            yield from _training_conditions(text, module)
            yield from tensor_conditions(text, tensor)
        if any(eval(text, {"self": module}).requires_grad for text, _ in state):
            yield "not torch.is_grad_enabled()"

    def _tensor_texts(self) -> list[str]:
        """Return expressions for the arguments, and for its object's tensors that are read."""
        state = [self.names[name] for name in self._launcher_inputs()]
        own = [text for text in state if text.startswith("self.")]
        return list(dict.fromkeys([*self.reference.argument_texts(), *own]))

    def _overlap_conditions(self, caller: Caller) -> Iterator[str]:
        """Yield conditions that no argument lies where a tensor is written, nor the reverse."""
        arguments = self.reference.argument_texts()
        for place in self.tracing.written:
            text, is_argument = list(self.names.values())[place], place < len(arguments)
            if is_argument and place not in caller.written:
                raise InputError(f"the reference writes {text}, the kernel does not")
            for other in self._tensor_texts() if is_argument else arguments:
                if other != text:
                    yield f"{_memory(text)} is not {_memory(other)}"


@dataclass(frozen=True)
class _Text:
    """An expression that a program returns."""

    code: str


def _are_strides_alike(value: torch.Tensor, layout: Layout) -> bool:
    triples = zip(layout.shape, value.stride(), layout.stride, strict=True)
    return all(size == 1 or one == other for size, one, other in triples)


def _memory(text: str) -> str:
    return f"{text}.untyped_storage()"


def _shares_memory(tensor: torch.Tensor, others: Sequence[torch.Tensor]) -> bool:
    memory = tensor.untyped_storage()._cdata
    return any(memory == other.untyped_storage()._cdata for other in others)


def _training_conditions(text: str, module: torch.nn.Module) -> Iterator[str]:
    """Yield a condition on the module that has a tensor: normalisation goes by it."""
    owner = text.rpartition(".")[0]
    part = eval(owner, {"self": module})
    if owner != "self" and isinstance(part, torch.nn.Module):
        yield f"{owner}.training is {part.training}"


def _require_like(text: str, tensor: torch.Tensor, module: torch.nn.Module) -> None:
    """Refuse a tensor that an object lacks.

    Raises:
        InputError: it has none of that name, or one that differs.
    """
    try:
        own = eval(text, {"self": module})
    except (AttributeError, LookupError, TypeError):
        own = None
    alike = isinstance(own, torch.Tensor) and (own.shape, own.dtype, own.stride()) == (
        tensor.shape,
        tensor.dtype,
        tensor.stride(),
    )
    if not alike:
        raise InputError(f"ModelNew has no {text} as Model has it")


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
    if isinstance(results, (Result, _Text)):
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
