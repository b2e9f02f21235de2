"""Reference files of profiled ops: what they compute, in PyTorch, on inputs as recorded.

It runs in a throw-away child process, as `solkit.profiling.replay` does, whose reading of recorded
arguments it shares. An op is called as its ATen overload; one that works in place, by the overload
that returns its result instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from solkit.adapters import fake_cuda
from solkit.ops import Family, operator
from solkit.profiling.matching import NONE
from solkit.profiling.problems import Member, Request
from solkit.profiling.replay import ATTENTION, UnknownOpError, allocating_overload, recorded_call

_FEWEST = 2


def reference_texts(requests: Sequence[Request]) -> list[tuple[str, str]]:
    """Return, for each problem, the function `reference` and the layouts of its inputs, as Python.

    Both are empty if a member's arguments were not recorded, it draws random numbers, or nothing of
    it is known.
    """
    with fake_cuda.fake_tensors():
        return [_text_or_nothing(request) for request in requests]


def _text_or_nothing(request: Request) -> tuple[str, str]:
    try:
        return _Text().write(request)
    except Exception:  # a meta function may raise anything
        return "", ""


class _Text:
    """Writes the reference of one problem."""

    def __init__(self) -> None:
        self._inputs: list[torch.Tensor] = []
        self._names: dict[int, str] = {}  # of inputs by their number in `Member.shared`
        self._lines: list[str] = []
        self._results: list[torch.Tensor] = []

    def write(self, request: Request) -> tuple[str, str]:
        """Return the function and the layouts of its inputs."""
        for member in request.members:
            self._write_member(member)
        names = ", ".join(f"x{n}" for n in range(len(self._inputs)))
        returned = ", ".join(f"y{n}" for n in request.results)
        lines = [f"def reference({names}):", *(f"    {line}" for line in self._lines)]
        body = "\n".join([*lines, f"    return {returned}"])
        return body, repr(list(self._layouts()))

    def _write_member(self, member: Member) -> None:
        signature = member.signature
        if signature.is_triton or _is_random(signature.name):
            raise UnknownOpError("nothing repeats it")
        if ATTENTION.fullmatch(signature.name):
            self._call_attention(member)
        elif signature.name == "aten::copy_":
            self._call_copy(member)
        else:
            self._call_overload(member)

    def _call_overload(self, member: Member) -> None:
        overload, positional, named = recorded_call(member.signature, member.kernels)
        overload, positional, named = allocating_overload(overload, positional, named)
        overload = _out_of_place(overload)
        shared = member.shared or (NONE,) * len(member.sources)
        texts = [
            self._argument(value, source, number)
            for value, source, number in zip(positional, member.sources, shared, strict=False)
        ]
        options = [f"{n}={self._argument(v, NONE)}" for n, v in named.items() if v is not None]
        self._note(_path_of(overload), [*texts, *options], overload(*positional, **named))

    def _call_attention(self, member: Member) -> None:
        """Call attention by its public name, whichever kernel PyTorch had chosen."""
        overload, positional, named = recorded_call(member.signature, ())
        names = [argument.name for argument in overload._schema.arguments]
        values = dict(zip(names, positional))
        if "grad_out" in names or not {"query", "key", "value"} <= values.keys():
            raise UnknownOpError("it goes backwards")
        parts = [self._argument(values[n], NONE) for n in ("query", "key", "value")]
        mask = values.get("attn_bias")
        parts += [] if mask is None else [f"attn_mask={self._argument(mask, NONE)}"]
        parts += ["is_causal=True"] if values.get("is_causal") else []
        parts += [] if named.get("scale") is None else [f"scale={named['scale']!r}"]
        call = "torch.nn.functional.scaled_dot_product_attention"
        self._note(call, parts, torch.empty_like(values["query"]))

    def _call_copy(self, member: Member) -> None:
        """Convert: `copy_` overwrites its first argument without reading it."""
        _, positional, _ = recorded_call(member.signature, member.kernels)
        target, source = positional[:2]
        if target.shape != source.shape:
            raise UnknownOpError("it broadcasts")
        number = member.shared[1] if member.shared else NONE
        texts = [self._argument(source, member.sources[1], number), f"dtype={target.dtype}"]
        self._note("torch.ops.aten._to_copy.default", texts, torch.empty_like(target))

    def _note(self, call: str, arguments: Sequence[str], result: Any) -> None:
        self._lines.append(f"y{len(self._results)} = {call}({', '.join(arguments)})")
        self._results.append(result)

    def _argument(self, value: Any, source: int, shared: int = NONE) -> str:
        """Return an argument as Python: an input, an earlier result, or a constant."""
        if isinstance(value, torch.Tensor):
            return self._input(value, shared) if source == NONE else self._result(value, source)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self._argument(item, NONE) for item in value)}]"
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        return repr(value)

    def _input(self, tensor: torch.Tensor, shared: int) -> str:
        """Return the name of an input: the earlier one, if it is the same tensor."""
        if shared in self._names:
            return self._names[shared]
        self._inputs.append(tensor)
        name = f"x{len(self._inputs) - 1}"
        if shared != NONE:
            self._names[shared] = name
        return name

    def _result(self, expected: torch.Tensor, source: int) -> str:
        """Return an earlier result, in the layout that an op got it in."""
        result = self._results[source]
        if not isinstance(result, torch.Tensor) or result.dtype != expected.dtype:
            raise UnknownOpError("its result has another form")
        if (result.shape, result.stride()) == (expected.shape, expected.stride()):
            return f"y{source}"
        if result.numel() != expected.numel():
            raise UnknownOpError("it reads a part of a result")
        return f"y{source}.as_strided({tuple(expected.shape)}, {expected.stride()})"

    def _layouts(self) -> Iterator[tuple[Any, ...]]:
        sizes = [size for tensor in self._inputs for size in tensor.shape if size > 1]
        limit = max(min(sizes, default=_FEWEST), _FEWEST)  # integers may be indices
        for tensor in self._inputs:
            name = str(tensor.dtype).removeprefix("torch.")
            yield tuple(tensor.shape), tensor.stride(), name, limit


def _is_random(name: str) -> bool:
    return operator(name.replace("::", ".")).family is Family.RANDOM


def _path_of(overload: Any) -> str:
    name = overload._schema.name.partition("::")[2]
    return f"torch.ops.{overload.namespace}.{name}.{overload._overloadname}"


def _out_of_place(overload: Any) -> Any:
    """Return the overload that returns what one writes into an argument."""
    schema = overload._schema
    if not any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        return overload
    name = schema.name.partition("::")[2]
    packet = getattr(getattr(torch.ops, overload.namespace), name.removesuffix("_"), None)
    other = getattr(packet, overload._overloadname, None) if name.endswith("_") else None
    if other is None or len(other._schema.arguments) != len(schema.arguments):
        raise UnknownOpError("it writes into its arguments")
    return other
