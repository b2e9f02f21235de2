"""The steps of a run that use its parameters, recorded and repeated with other parameters.

The run gets each parameter as a *stand-in*, a number or string that computes as the value would and
records each operation as a step. Where the value itself is needed (a branch, an index, a call that
takes nothing else) it is *pinned*: the steps hold only if that value results again. Steps are
repeated in order, so a failed pin stops what depends on it.

A stand-in passes ``isinstance`` for its value's class. Arithmetic, comparisons and rounding give
other stand-ins. ``is``, ``type()``, ``id()`` and C code that takes only real numbers cannot be
followed. Hashing is an error, since a user's cache would keep the stand-in; `Steps.culprits` names
the parameter.

Torch's calls that depend on parameters become steps. Tensors whose size depends on a parameter are
followed, so their shapes and strides are stand-ins. Functions that make tensors take stand-ins;
other functions that torch parses in C++ pin their arguments, or raise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from solkit.adapters import fake_cuda

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
        index, entries = self._record_call(function, (_Ref(0),), _NOTHING)
        if index is None:  # the run is over
            return dict(entries)
        self._pin_call(self._record_call(", ".join, (_Ref(index),), _NOTHING)[0])
        return {
            name: self._record_value(index, name, type(value)) for name, value in entries.items()
        }

    def _record_value(self, index: int, name: str, kind: type) -> Any:
        value = self.apply(_typed_parameter, (_Ref(index), name, kind))
        return self.pin_values(value) if name in self.fixed else value

    def mark_unrepeatable(self, why: str) -> None:
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

    def pin_result(self, function: Callable[[Mapping[str, Any]], Any]) -> None:
        """Pin the result of a function of the parameters."""
        self._pin_call(self._record_call(function, (_Ref(0),), _NOTHING)[0])

    @property
    def is_busy(self) -> bool:
        """True if a recorded call is being made, which is made again when steps are repeated."""
        return self._busy

    def holds_stand_ins(self, tree: Any) -> bool:
        """Tell whether anything in nested containers depends on parameters."""
        return not self._busy and any(
            self._call_index(leaf) is not None for leaf in _tree_leaves(tree)
        )

    def apply(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any] = _NOTHING,
    ) -> Any:
        """Call a function and record the call; plain values in the result become stand-ins."""
        index, result = self._record_call(function, args, kwargs)
        return result if index is None else self._follow_result(index, result)

    def call_bare(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Call a function as `apply` does, but return the bare result."""
        return self._record_call(function, args, _NOTHING)[1]

    def pin_values(self, tree: Any) -> Any:
        """Pin all values in a tree; returns it with bare values."""
        if self._closed:
            self.mark_unrepeatable(_KEPT)
        for leaf in _tree_leaves(tree):
            index = self._call_index(leaf)
            if index is not None:
                self._pin_call(index)
                self._tracked.pop(id(leaf), None)
        return self._bare_values(tree)

    def blame_parameters(self, stand_in: Any) -> None:
        """Note the parameters of a stand-in whose use cannot be followed."""
        self.culprits |= set(self._params_behind(stand_in.solkit_index))

    def _record_call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[int | None, Any]:
        call = _Call(
            function,
            [self._make_template(arg) for arg in args],
            {name: self._make_template(arg) for name, arg in kwargs.items()},
        )
        bare = (
            [self._bare_values(arg) for arg in args],
            {k: self._bare_values(arg) for k, arg in kwargs.items()},
        )
        busy, self._busy = self._busy, True
        try:
            result = function(*bare[0], **bare[1])
        finally:
            self._busy = busy
        if self._closed:
            self.mark_unrepeatable(_KEPT)
            return None, result
        if _has_tensors(result):
            call = call._replace(function=self._located(function))
        self._steps.append(call)
        self._seen.append(result)
        self._calls.append(call)
        return len(self._seen) - 1, result

    def _follow_result(self, index: int, result: Any) -> Any:
        """Return the result as the rest of the run sees it."""
        if type(result) in PLAIN:
            return self._stand_in(self, index, result)
        if isinstance(result, (tuple, list)):
            count, _ = self._record_call(len, (_Ref(index),), {})
            self._pin_call(count)
            parts = [self.apply(operator.getitem, (_Ref(index), i)) for i in range(len(result))]
            return parts if isinstance(result, list) else tuple(parts)
        if _is_constant(result):
            self._pin_call(index)
        elif result is not NotImplemented:
            self.makes_objects = True
            self._tracked[id(result)] = (result, index)
        return result

    def _pin_call(self, index: int | None) -> None:
        if index is None or index in self._pinned or self._closed:
            return
        self._pinned.add(index)
        value = self._seen[index]
        if type(value) in PLAIN or _is_constant(value):
            self._steps.append(_Pin(index, value))
            return
        call = self._calls[index]
        for ref in _template_refs((call.args, call.kwargs) if call else ()):
            self._pin_call(ref.index)

    def _params_behind(self, index: int) -> Iterator[str]:
        call = self._calls[index]
        if call is None:
            return
        if call.function is _typed_parameter:
            yield call.args[1]
        for ref in _template_refs((call.args, call.kwargs)):
            yield from self._params_behind(ref.index)

    # ------------------------------------------------------------------------------ containers

    def _call_index(self, leaf: Any) -> int | None:
        if isinstance(leaf, _Ref):
            return leaf.index
        if hasattr(type(leaf), "solkit_index"):
            index: int = leaf.solkit_index
            return index if leaf.solkit_steps is self else None
        entry = self._tracked.get(id(leaf))
        return None if entry is None else entry[1]

    def _bare_values(self, tree: Any) -> Any:
        if isinstance(tree, _Ref):
            return self._seen[tree.index]
        return bare_values(tree, self)

    def _make_template(self, tree: Any) -> Any:
        """Return the tree with references to values that depend on parameters."""
        index = self._call_index(tree)
        if index is not None:
            return _Ref(index)
        parts = _take_apart(tree)
        if parts is None:
            return tree
        make, inner = parts
        templates = [self._make_template(part) for part in inner]
        return tree if all(a is b for a, b in zip(templates, inner)) else _Made(make, templates)

    # ---------------------------------------------------------------------------------- again

    def repeat_with(self, params: Mapping[str, Any]) -> bool:
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
            args = [
                values[a.index] if type(a) is _Ref else _fill_template(a, values) for a in step.args
            ]
            if step.kwargs:
                kwargs = {name: _fill_template(arg, values) for name, arg in step.kwargs.items()}
                values.append(step.function(*args, **kwargs))
            else:
                values.append(step.function(*args))
        return True


def bare_values(tree: Any, steps: Steps | None = None) -> Any:
    """Replace a tree's stand-ins by values; those of other steps than `steps` were kept."""
    if hasattr(type(tree), "solkit_index"):
        if tree.solkit_steps is not steps:
            tree.solkit_steps.mark_unrepeatable(_KEPT)
        return tree.solkit_value
    parts = _take_apart(tree)
    if parts is None:
        return tree
    make, inner = parts
    bared = [bare_values(part, steps) for part in inner]
    return tree if all(a is b for a, b in zip(bared, inner)) else make(bared)


def _typed_parameter(params: Mapping[str, Any], name: str, kind: type) -> Any:
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


def _take_apart(tree: Any) -> tuple[Callable[[list[Any]], Any], list[Any]] | None:
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


def _tree_leaves(tree: Any) -> Iterator[Any]:
    parts = _take_apart(tree)
    if parts is None:
        yield tree
        return
    for part in parts[1]:
        yield from _tree_leaves(part)


def _template_refs(template: Any) -> Iterator[_Ref]:
    if isinstance(template, _Ref):
        yield template
        return
    parts = (
        template.parts if isinstance(template, _Made) else (_take_apart(template) or (None, ()))[1]
    )
    for part in parts:
        yield from _template_refs(part)


def _fill_template(template: Any, values: Sequence[Any]) -> Any:
    kind = type(template)
    if kind is _Ref:
        return values[template.index]
    if kind is _Made:
        return template.make([_fill_template(part, values) for part in template.parts])
    return template


# ----------------------------- Stand-ins for parameters: numbers and strings that record their use


class _StandIn:
    """The base of all stand-ins.

    Attributes:
        solkit_steps, solkit_index: the call that gave the value.
        solkit_value: the value in the recorded run.
    """

    __slots__ = ("solkit_index", "solkit_steps", "solkit_value")
    solkit_steps: Steps
    solkit_index: int
    solkit_value: Any

    def __init__(self, steps: Steps, index: int, value: Any) -> None:
        self.solkit_steps, self.solkit_index, self.solkit_value = steps, index, value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.solkit_value)

    def __hash__(self) -> int:
        self.solkit_steps.blame_parameters(self)
        raise TypeError("a parameter that is recorded cannot be hashed")

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self.solkit_value), name):
            raise AttributeError(f"{type(self.solkit_value).__name__!r} has no {name!r}")
        return getattr(self.solkit_steps.pin_values(self), name)

    def __bool__(self) -> bool:
        return bool(_pinned_as(bool, self))

    def __str__(self) -> str:
        return str(self.solkit_steps.pin_values(self))

    def __repr__(self) -> str:
        return repr(self.solkit_steps.pin_values(self))

    def __format__(self, spec: str) -> str:
        return format(self.solkit_steps.pin_values(self), spec)

    def __copy__(self) -> _StandIn:
        return self

    def __deepcopy__(self, memo: Any) -> _StandIn:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.solkit_steps.pin_values(self).__reduce_ex__(protocol)


class _Number(_StandIn):
    """Stands for an int, a float or a bool."""

    __slots__ = ()

    def __int__(self) -> int:
        return int(_pinned_as(int, self))

    def __float__(self) -> float:
        return float(_pinned_as(float, self))

    def __index__(self) -> int:
        return operator.index(self.solkit_steps.pin_values(self))

    def __round__(self, *digits: Any) -> Any:
        return self.solkit_steps.apply(round, (self, *digits))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


class _Word(_StandIn):
    """Stands for a string."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.solkit_steps.pin_values(self))

    def __iter__(self) -> Any:
        return iter(self.solkit_steps.pin_values(self))

    def __contains__(self, part: Any) -> bool:
        return part in self.solkit_steps.pin_values(self)

    def __getitem__(self, index: Any) -> Any:
        return self.solkit_steps.apply(operator.getitem, (self, index))


def make_stand_in(steps: Steps, index: int, value: Any) -> Any:
    """Return a stand-in for the result of a call."""
    return (_Word if isinstance(value, str) else _Number)(steps, index, value)


def _pinned_as(kind: type, value: _StandIn) -> Any:
    """Return the value as `kind`; only that is pinned."""
    if type(value.solkit_value) is kind:
        return value.solkit_steps.pin_values(value)
    return value.solkit_steps.pin_values(value.solkit_steps.apply(kind, (value,)))


def _computed_operation(function: Callable[..., Any], *operands: Any) -> Any:
    """Return an operation with at least one stand-in."""
    ours = [issubclass(type(operand), _StandIn) for operand in operands]  # `isinstance` believes it
    steps = operands[ours.index(True)].solkit_steps
    if not all(own or _is_followed(operand) for own, operand in zip(ours, operands)):
        return function(*(steps.pin_values(x) if own else x for own, x in zip(ours, operands)))
    result = steps.apply(function, operands)
    if function is operator.pow:  # integers give an integer or a fraction
        steps.pin_values(steps.apply(isinstance, (result, int)))
    return result


def _is_followed(operand: Any) -> bool:
    """Tell whether it is a plain value or a tensor, so that the operation is a step."""
    return type(operand) in PLAIN or hasattr(type(operand), "untyped_storage")


def _define_operations() -> None:
    for name in "add sub mul truediv floordiv mod pow lshift rshift and or xor".split():
        function = getattr(operator, name + "_" * (name in ("and", "or")))
        setattr(_StandIn, f"__{name}__", lambda a, b, f=function: _computed_operation(f, a, b))
        setattr(_StandIn, f"__r{name}__", lambda a, b, f=function: _computed_operation(f, b, a))
    for name in "lt le gt ge eq ne".split():
        function = getattr(operator, name)
        setattr(_StandIn, f"__{name}__", lambda a, b, f=function: _computed_operation(f, a, b))
    for module, names in ((operator, "neg pos abs invert"), (math, "ceil floor trunc")):
        for name in names.split():
            function = getattr(module, name)
            setattr(_Number, f"__{name}__", lambda a, f=function: _computed_operation(f, a))


_define_operations()


# --------------- torch's calls during a recorded run: those that depend on parameters become steps


_MAKERS = "empty zeros ones full empty_strided arange full_like"
_METHODS = "new_empty new_zeros new_ones new_full new_empty_strided view reshape expand"
_GIVE_PYTHON = frozenset(
    "__bool__ __int__ __float__ __complex__ __index__ __len__ __repr__ __format__".split()
)
"""Methods of tensors that must return Python's own types."""

_WRITES = frozenset(
    "__setitem__ __set__ __delete__ __iadd__ __isub__ __imul__ __imatmul__ __itruediv__ "
    "__ifloordiv__ __imod__ __ipow__ __ilshift__ __irshift__ __iand__ __ior__ __ixor__".split()
)
"""Python's methods that change their tensor; torch's own end in ``_``."""


@contextlib.contextmanager
def following_torch(steps: Steps) -> Iterator[None]:
    """Record torch's calls that depend on parameters."""
    with contextlib.ExitStack() as stack:
        for owner, names in ((torch, _MAKERS), (torch.Tensor, _METHODS)):
            for name in names.split():
                stack.enter_context(_replace_function(owner, name, steps))
        stack.enter_context(_Following(steps))
        yield


@contextlib.contextmanager
def _replace_function(owner: Any, name: str, steps: Steps) -> Iterator[None]:
    original, own = getattr(owner, name), name in vars(owner)

    def call_or_record(*args: Any, **kwargs: Any) -> Any:
        if steps.holds_stand_ins((args, kwargs)):
            return steps.apply(original, args, kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, call_or_record)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:  # it is inherited
            delattr(owner, name)


def keeping_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which keeps the user's current line when it is called again."""
    return functools.partial(_placing_call, function, fake_cuda.user_line())


def _placing_call(function: Callable[..., Any], line: str, /, *args: Any, **kwargs: Any) -> Any:
    with fake_cuda.placing_line(line):
        return function(*args, **kwargs)


class _Following(TorchFunctionMode):
    """Sees each call with a tensor."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.steps.holds_stand_ins((args, kwargs)):
            return func(*args, **kwargs)
        if _changes_argument(func, kwargs):
            args, kwargs = self.steps.pin_values((args, dict(kwargs)))
            return func(*args, **kwargs)
        result = self.steps.apply(func, args, kwargs)
        return (
            self.steps.pin_values(result)
            if getattr(func, "__name__", "") in _GIVE_PYTHON
            else result
        )


def _changes_argument(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a function changes an argument, by torch's naming convention."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name in _WRITES
    return name.endswith("_") or kwargs.get("out") is not None
