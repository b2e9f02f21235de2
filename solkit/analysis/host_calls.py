"""Record of what a launcher calls on the host, besides its own functions and tensors' methods.

Waiting for the GPU, sleeping, other streams, allocating and starting programs take time that no
launch shows. A file that dispatches by sizes asks tensors for these, which costs nothing to speak
of: methods of tensors and what is built into Python are not recorded.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch._ops import OpOverload

from solkit.adapters import fake_cuda


@contextlib.contextmanager
def recording_host_calls() -> Iterator[Counter[str]]:
    """Count calls that code of the user's makes of others' functions, by their names."""
    counts: Counter[str] = Counter()
    importing: FrameType | None = None  # a module's lines run once in a process

    def noted(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal importing
        if importing is not None:
            importing = None if event == "return" and frame is importing else importing
        elif frame.f_code.co_filename.startswith(_IMPORT):
            importing = frame if event == "call" else None
        elif event == "c_call" and fake_cuda.is_user_file(frame.f_code.co_filename):
            counts.update(_name_of_builtin(arg))
        elif event == "call" and _is_called_by_user(frame):
            counts[f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}"] += 1

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # it calls what watches objects, at any line
    sys.setprofile(noted)
    try:
        yield counts
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()


_HOOKS = ("__del__", "__getattr__", "__torch_function__", "__torch_dispatch__")
"""Methods that Python and torch call by themselves: where an object ends, which differs by what
else is in memory, for tensors' methods, and for a module's parameters."""
_WEAK_REFERENCES = ("weakref", "_weakrefset")
"""Modules whose functions Python calls where an object ends that a weak reference names."""
_IMPORT = "<frozen importlib"
"""Begin of the files that import modules: what these call runs once in a process."""


def _is_called_by_user(frame: FrameType) -> bool:
    """Tell whether a line of the user's calls a function that is not the user's."""
    code, caller = frame.f_code, frame.f_back
    is_hook = code.co_name in _HOOKS or frame.f_globals.get("__name__") in _WEAK_REFERENCES
    if caller is None or is_hook or code.co_filename == "<string>":
        return False
    is_user = fake_cuda.is_user_file
    if not is_user(caller.f_code.co_filename) or is_user(code.co_filename):
        return False
    return not (_is_of_tensor(frame) or _is_dispatch(frame))


def _is_dispatch(frame: FrameType) -> bool:
    """Tell whether torch hands an operator to a function of its own, as only fake tensors need.

    Some versions do so for a property such as ``is_cuda``, which then would count as calls.
    """
    if not frame.f_globals.get("__name__", "").startswith("torch."):
        return False
    names, rest, _, values = inspect.getargvalues(frame)
    arguments = *(values[name] for name in names), *(values[rest] if rest else ())
    return any(isinstance(value, OpOverload) for value in arguments)


def _is_of_tensor(frame: FrameType) -> bool:
    """Tell whether a function is a method or a property of a tensor, its first argument.

    Fake tensors have some in Python that real ones have in C, and more in some versions of torch.
    """
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    if not isinstance(first, torch.Tensor):
        return False
    member = getattr(type(first), code.co_name, None)
    function = member.fget if isinstance(member, property) else member
    return getattr(function, "__code__", None) is code


def _name_of_builtin(function: Any) -> tuple[str, ...]:
    """Return the name of a function in C, as a tuple; an empty one if it is of no account."""
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or getattr(owner, "__name__", "")
    kind = type(owner).__module__
    if isinstance(owner, torch.Tensor) or "builtins" in (module, module or kind):
        return ()
    return (f"{module or kind}.{getattr(function, '__qualname__', '')}",)
