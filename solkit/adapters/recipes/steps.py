"""The steps of a run that use its parameters, recorded and repeated with other parameters.

The run gets each parameter as a *stand-in* (`solkit.adapters.recipes.standins`), which computes as
the value would and records each operation as a step. Where the value itself is needed (a branch, an
index, a call that takes nothing else) it is *pinned*: the steps hold only if that value results
again. Steps are repeated in order, so a failed pin stops what depends on it.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["PLAIN", "Steps", "bare"]

PLAIN = (int, float, bool, str)
"""Types of values that stand-ins stand for."""

_KEPT = "a parameter was kept beyond the run"

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class _Ref:
    """The result of a call, in the arguments of a later one."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class _Made(NamedTuple):
    """A container that depends on parameters: how to make it of its parts."""

    make: Callable[[list[Any]], Any]
    parts: list[Any]


class _Call(NamedTuple):
    """A call to repeat; arguments that depend on others hold `_Ref` and `_Made`."""

    function: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]


class _Pin(NamedTuple):
    """The result that a call must give for the steps to hold."""

    call: int
    value: Any


class Steps:
    """The steps of one run.

    Args:
        params: of the run.
        stand_in: makes a stand-in from these steps, the call's index and its result.
        fixed: names of parameters that are pinned from the start.
        located: makes a function of a call that makes tensors which keeps the user's current line.

    Attributes:
        fault: why the steps cannot be repeated; empty if they can.
        makes_objects: whether some steps make objects (tensors), not only plain values.
        culprits: parameters whose use a stand-in cannot follow.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        stand_in: Callable[[Steps, int, Any], Any],
        fixed: frozenset[str] = frozenset(),
        located: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function,
    ) -> None:
        self.fault = ""
        self.makes_objects = False
        self.culprits: set[str] = set()
        self.fixed = fixed
        self._stand_in, self._located = stand_in, located
        self._steps: list[_Call | _Pin] = []
        self._seen: list[Any] = [params]  # the result of each call in this run
        self._calls: list[_Call | None] = [None]
        self._pinned: set[int] = set()
        self._tracked: dict[int, tuple[Any, int]] = {}  # objects, by identity
        self._later: list[Callable[[], None]] = []
        self._closed = self._busy = False

    # -------------------------------------------------------------------------------- recording

    def mapping(self, function: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> dict[str, Any]:
        """Stand-ins for the values of a mapping that `function` makes from the parameters."""
        index, entries = self._call(function, (_Ref(0),), _NOTHING)
        if index is None:  # the run is over
            return dict(entries)
        self._pin(self._call(", ".join, (_Ref(index),), _NOTHING)[0])
        return {name: self._value(index, name, type(value)) for name, value in entries.items()}

    def _value(self, index: int, name: str, kind: type) -> Any:
        value = self.apply(_of_type, (_Ref(index), name, kind))
        return self.pin(value) if name in self.fixed else value

    def spoil(self, why: str) -> None:
        """Note that the run did something that cannot be repeated."""
        self.fault = self.fault or why

    def close(self) -> None:
        """End the run: a stand-in that is used later was kept somewhere."""
        self._closed = True
        self._tracked.clear()
        for tidy in self._later:
            tidy()

    def later(self, tidy: Callable[[], None]) -> None:
        """Call a function at the end of the run."""
        self._later.append(tidy)

    def relies_on(self, function: Callable[[Mapping[str, Any]], Any]) -> None:
        """Pin the result of a function of the parameters."""
        self._pin(self._call(function, (_Ref(0),), _NOTHING)[0])

    @property
    def is_busy(self) -> bool:
        """True if a recorded call is being made, which is made again when steps are repeated."""
        return self._busy

    def holds(self, tree: Any) -> bool:
        """Tell whether anything in nested containers depends on parameters."""
        return not self._busy and any(self._index(leaf) is not None for leaf in _leaves(tree))

    def apply(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any] = _NOTHING,
    ) -> Any:
        """Call a function and record the call; plain values in the result become stand-ins."""
        index, result = self._call(function, args, kwargs)
        return result if index is None else self._followed(index, result)

    def do(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any] = _NOTHING,
    ) -> Any:
        """Return the same, but returns the bare result."""
        return self._call(function, args, kwargs)[1]

    def pin(self, tree: Any) -> Any:
        """Pin all values in a tree; returns it with bare values."""
        if self._closed:
            self.spoil(_KEPT)
        for leaf in _leaves(tree):
            index = self._index(leaf)
            if index is not None:
                self._pin(index)
                self._tracked.pop(id(leaf), None)
        return self._bare(tree)

    def blame(self, stand_in: Any) -> None:
        """Note the parameters of a stand-in whose use cannot be followed."""
        self.culprits |= set(self._params_behind(stand_in.solkit_index))

    def _call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[int | None, Any]:
        call = _Call(
            function,
            [self._template(arg) for arg in args],
            {name: self._template(arg) for name, arg in kwargs.items()},
        )
        bare = [self._bare(arg) for arg in args], {k: self._bare(arg) for k, arg in kwargs.items()}
        busy, self._busy = self._busy, True
        try:
            result = function(*bare[0], **bare[1])
        finally:
            self._busy = busy
        if self._closed:
            self.spoil(_KEPT)
            return None, result
        if _has_tensors(result):
            call = call._replace(function=self._located(function))
        self._steps.append(call)
        self._seen.append(result)
        self._calls.append(call)
        return len(self._seen) - 1, result

    def _followed(self, index: int, result: Any) -> Any:
        """Return the result as the rest of the run sees it."""
        if type(result) in PLAIN:
            return self._stand_in(self, index, result)
        if isinstance(result, (tuple, list)):
            count, _ = self._call(len, (_Ref(index),), {})
            self._pin(count)
            parts = [self.apply(operator.getitem, (_Ref(index), i)) for i in range(len(result))]
            return parts if isinstance(result, list) else tuple(parts)
        if _is_constant(result):
            self._pin(index)
        elif result is not NotImplemented:
            self.makes_objects = True
            self._tracked[id(result)] = (result, index)
        return result

    def _pin(self, index: int | None) -> None:
        if index is None or index in self._pinned or self._closed:
            return
        self._pinned.add(index)
        value = self._seen[index]
        if type(value) in PLAIN or _is_constant(value):
            self._steps.append(_Pin(index, value))
            return
        call = self._calls[index]
        for ref in _refs((call.args, call.kwargs) if call else ()):
            self._pin(ref.index)

    def _params_behind(self, index: int) -> Iterator[str]:
        call = self._calls[index]
        if call is None:
            return
        if call.function is _of_type:
            yield call.args[1]
        for ref in _refs((call.args, call.kwargs)):
            yield from self._params_behind(ref.index)

    # ------------------------------------------------------------------------------ containers

    def _index(self, leaf: Any) -> int | None:
        if isinstance(leaf, _Ref):
            return leaf.index
        if hasattr(type(leaf), "solkit_index"):
            index: int = leaf.solkit_index
            return index if leaf.solkit_steps is self else None
        entry = self._tracked.get(id(leaf))
        return None if entry is None else entry[1]

    def _bare(self, tree: Any) -> Any:
        if isinstance(tree, _Ref):
            return self._seen[tree.index]
        return bare(tree, self)

    def _template(self, tree: Any) -> Any:
        """Return the tree with references to values that depend on parameters."""
        index = self._index(tree)
        if index is not None:
            return _Ref(index)
        parts = _parts(tree)
        if parts is None:
            return tree
        make, inner = parts
        templates = [self._template(part) for part in inner]
        return tree if all(a is b for a, b in zip(templates, inner)) else _Made(make, templates)

    # ---------------------------------------------------------------------------------- again

    def again(self, params: Mapping[str, Any]) -> bool:
        """Do all steps with other parameters.

        Returns:
            Whether they hold; where they do not, some of them were done.
        """
        values: list[Any] = [params]
        for step in self._steps:
            if type(step) is _Pin:
                value = values[step.call]
                if type(value) is not type(step.value) or value != step.value:
                    return False
                continue
            assert isinstance(step, _Call)
            args = [values[a.index] if type(a) is _Ref else _filled(a, values) for a in step.args]
            if step.kwargs:
                kwargs = {name: _filled(arg, values) for name, arg in step.kwargs.items()}
                values.append(step.function(*args, **kwargs))
            else:
                values.append(step.function(*args))
        return True


def bare(tree: Any, steps: Steps | None = None) -> Any:
    """Replace a tree's stand-ins by values; those of other steps than `steps` were kept."""
    if hasattr(type(tree), "solkit_index"):
        if tree.solkit_steps is not steps:
            tree.solkit_steps.spoil(_KEPT)
        return tree.solkit_value
    parts = _parts(tree)
    if parts is None:
        return tree
    make, inner = parts
    bared = [bare(part, steps) for part in inner]
    return tree if all(a is b for a, b in zip(bared, inner)) else make(bared)


def _of_type(params: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a parameter; raises TypeError if its type is not the recorded one."""
    value = params[name]
    if type(value) is not kind:
        raise TypeError(f"{name} is of another type")
    return value


def _is_constant(value: Any) -> bool:
    """Tell whether a value can be compared: ``None``, a dtype, a layout and so on."""
    return value is None or (
        type(value).__module__ == "torch" and not hasattr(value, "untyped_storage")
    )


def _has_tensors(result: Any) -> bool:
    if isinstance(result, (tuple, list)):
        return any(map(_has_tensors, result))
    return hasattr(result, "untyped_storage")


def _parts(tree: Any) -> tuple[Callable[[list[Any]], Any], list[Any]] | None:
    """Return a maker of a container, and its parts; ``None`` for other values."""
    kind = type(tree)
    if kind is list or kind is tuple:
        return kind, list(tree)
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return lambda parts: kind(*parts), list(tree)
    if kind is dict:
        return lambda parts: dict(zip(tree, parts)), list(tree.values())
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree) if field.init]
        copied = dataclasses.replace
        return lambda parts: copied(tree, **dict(zip(names, parts))), [
            getattr(tree, name) for name in names
        ]
    return None


def _leaves(tree: Any) -> Iterator[Any]:
    parts = _parts(tree)
    if parts is None:
        yield tree
        return
    for part in parts[1]:
        yield from _leaves(part)


def _refs(template: Any) -> Iterator[_Ref]:
    if isinstance(template, _Ref):
        yield template
        return
    parts = template.parts if isinstance(template, _Made) else (_parts(template) or (None, ()))[1]
    for part in parts:
        yield from _refs(part)


def _filled(template: Any, values: Sequence[Any]) -> Any:
    kind = type(template)
    if kind is _Ref:
        return values[template.index]
    if kind is _Made:
        return template.make([_filled(part, values) for part in template.parts])
    return template
