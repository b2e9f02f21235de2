"""A fake GPU for PyTorch, so that unmodified code runs on fake tensors.

The only package that touches torch's internals. Patches are never undone: call it in a throw-away
child process. A CUDA build of torch must see no GPU there: start the child, or the process that
forks it, with ``CUDA_VISIBLE_DEVICES=""``.

Each module fakes one thing:

- ``device``: the device guard. A CPU build has none for CUDA; a CUDA build's fails without a GPU.
  Both get torch's no-op guard. If that fails, `fake_tensors` uses fake CPU tensors and rewrites
  ``cuda`` in device arguments;
- ``torch_cuda``: properties come from the `Device`; streams and events do nothing;
- ``driver_commands``: the vendor's command (``nvidia-smi``) names the `Device`;
- ``storage``: each storage has its own address, aligned as by the CUDA allocator;
- ``autograd``: the C++ engine needs an accelerator, so `backward` and `grad` run in Python;
- ``attention``, ``recurrent``: one op each, and one for the gradient;
- ``normalisation``: the shapes of batch norm, without its decomposition;
- ``convolution``: the layout that cuDNN gives;
- ``sparse``: sparse matrices as tuples of dense tensors;
- ``spectral``: `torch.istft` does not look at its window;
- ``values``: small tensors whose value follows from the program (``arange``, ``tensor([...])`` and
  results of these) carry it; ``unknown``: other values are guessed, and `guesses` names them;
- ``composites``: operators that arrive whole are taken apart, as autograd does;
- ``control_flow``: loops and branches that take functions run as plain Python;
- ``graphs``: a CUDA graph's launches are those of its replays;
- ``traced``: what TorchScript would trace runs as it is;
- ``extensions``: nothing is built; ``dynamo``: nothing is compiled, unless `compiling` does it.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from solkit.adapters.fake_cuda.accelerator import fake_accelerator
from solkit.adapters.fake_cuda.attention import attention_taken_apart, fake_attention
from solkit.adapters.fake_cuda.autograd import backward, fake_hooks, grad_of, tensor_backward
from solkit.adapters.fake_cuda.composites import taken_apart
from solkit.adapters.fake_cuda.contents import (
    InputContents,
    compute_indices,
    drawn_elements,
    forget_contents,
    hold_as_state,
    known_value,
    presumed_elements,
    presumed_value,
)
from solkit.adapters.fake_cuda.control_flow import choosing_branches, fake_control_flow
from solkit.adapters.fake_cuda.convolution import convolution_layout
from solkit.adapters.fake_cuda.data_dependent import numpy_array
from solkit.adapters.fake_cuda.device import (
    CudaAsCpu,
    NumbersAsCuda,
    ensure_guard,
    guard_works,
    knows_numbers,
)
from solkit.adapters.fake_cuda.driver_commands import fake_driver_commands
from solkit.adapters.fake_cuda.dynamo import Compiler, compile_later, compiling, defer_dynamo
from solkit.adapters.fake_cuda.extensions import (
    BuildError,
    Extension,
    WhenImported,
    building_extensions,
    extension_calls,
    failing_builds,
    when_imported,
)
from solkit.adapters.fake_cuda.graphs import capturing_graphs, fake_graphs
from solkit.adapters.fake_cuda.guesses import (
    guess_always,
    guesses_so_far,
    is_user_file,
    placing_line,
    report_guess,
    user_line,
    watching_guesses,
)
from solkit.adapters.fake_cuda.input_copies import InputCopies
from solkit.adapters.fake_cuda.known_values import KnownValues
from solkit.adapters.fake_cuda.normalisation import fake_batch_norm
from solkit.adapters.fake_cuda.nvml import fake_nvml
from solkit.adapters.fake_cuda.recurrent import fake_recurrent
from solkit.adapters.fake_cuda.sparse import fake_sparse
from solkit.adapters.fake_cuda.spectral import inverse_short_time_fourier
from solkit.adapters.fake_cuda.storage import (
    data_ptr,
    has_tensors,
    swap_tensors,
    tensor_at,
    watching_addresses,
)
from solkit.adapters.fake_cuda.torch_cuda import fake_torch_cuda, memory_bus_bits
from solkit.adapters.fake_cuda.torch_jit import fake_tracing
from solkit.adapters.versions import warn_if_untested
from solkit.core import Device
from solkit.errors import UnsupportedError

__all__ = [
    "BuildError",
    "Compiler",
    "Extension",
    "InputContents",
    "InputCopies",
    "attention_taken_apart",
    "building_extensions",
    "capturing_graphs",
    "choosing_branches",
    "compiling",
    "compute_indices",
    "defer_dynamo",
    "drawn_elements",
    "extension_calls",
    "failing_builds",
    "fake_tensors",
    "forget_contents",
    "guesses_so_far",
    "has_tensors",
    "hold_as_state",
    "install",
    "is_installed",
    "is_user_file",
    "known_value",
    "memory_bus_bits",
    "placing_line",
    "prepare",
    "presumed_elements",
    "presumed_value",
    "report_guess",
    "taken_apart",
    "tensor_at",
    "user_line",
    "watching_addresses",
    "watching_guesses",
    "when_imported",
]

_FALLBACK = (
    f"torch {torch.__version__} takes no fake CUDA device: code ran as on the CPU, and code that "
    "reads a tensor's device may have taken another path than on a GPU"
)
_state = SimpleNamespace(prepared=False, installed=False, guarded=False, mode=None)


def install(device: Device) -> None:
    """Fake `device` for the rest of this process.

    Raises:
        UnsupportedError: torch has already found a real GPU, which would be used.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # torch counts GPUs once, and its forks keep the number
    if torch.cuda.is_available() and not _state.installed:
        raise UnsupportedError(
            "fake_cuda.install needs a process in which torch has not looked for a GPU yet: "
            'start it with CUDA_VISIBLE_DEVICES=""'
        )
    warn_if_untested("torch", torch.__version__)
    prepare()
    fake_torch_cuda(device)
    fake_accelerator(device)
    fake_driver_commands(device)
    fake_nvml(device)
    fake_graphs()
    _state.installed = True


def is_installed() -> bool:
    """Tell whether this process has a fake GPU."""
    return bool(_state.installed)


def prepare() -> None:
    """Do the part of `install` that is the same for every GPU, for instance before forking.

    `torch.cuda` is not faked yet.
    """
    if _state.prepared:
        return
    # it prints the tracebacks of failing ops, which the caller reports
    logging.getLogger(fake_tensor.__name__).setLevel(logging.CRITICAL)
    torch.set_num_threads(1)  # a fork of a process with threads must not wait for them
    ensure_guard()
    _override_ops()
    fake_hooks()
    sys.meta_path.insert(0, WhenImported())
    _patch_torch()
    fake_tracing()
    fake_control_flow()
    _state.guarded = guard_works()
    if not _state.guarded:
        _use_cpu_tensors()
    _state.prepared = True


def _override_ops() -> None:
    """Override the ops that query a real GPU."""
    torch.backends.cudnn.enabled = False
    own, aten = torch.library.Library("solkit", "DEF"), torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overriding kernels is intended
        fake_attention(own, aten)
        fake_recurrent(own, aten)
        fake_batch_norm(aten)
    fake_sparse(own)
    _state.libraries = (own, aten)  # the overrides last as long as these objects


def _patch_torch() -> None:
    for owner, name, fake in (
        *((torch.nested, name, _refuse_nested(name)) for name in _NESTED),
        (torch, "ctc_loss", _ctc_loss),
        (torch, "istft", inverse_short_time_fourier),
        (torch.Tensor, "istft", inverse_short_time_fourier),
        (torch._C, "_conv_determine_backend_memory_format", convolution_layout),
        (FakeTensor, "data_ptr", data_ptr),
        (FakeTensor, "numpy", numpy_array),
        (torch, "compile", compile_later),
        # else torch moves constants to the GPU that `is_available` claims
        (FakeTensorMode, "avoid_device_init", property(lambda _: True)),
        # else a deep copy of a tensor copies its mode too
        (FakeTensorMode, "__deepcopy__", lambda mode, _: mode),
        (fake_tensor, "init_gpu_context", lambda _: None),  # it allocates
        (torch.Tensor, "pin_memory", lambda tensor, *_: tensor),
        (torch.Tensor, "backward", tensor_backward),
        (torch.autograd, "backward", backward),
        (torch.autograd, "grad", grad_of),
        (torch.utils, "swap_tensors", swap_tensors),
    ):
        setattr(owner, name, fake)


def _use_cpu_tensors() -> None:
    """Use CPU tensors that claim to be on the GPU."""
    _state.guarded = False
    FakeTensor.is_cuda = property(lambda _: True)  # type: ignore[assignment]
    guess_always(_FALLBACK)


_torch_ctc_loss = torch.ctc_loss


def _ctc_loss(log_probs: torch.Tensor, targets: torch.Tensor, *args: Any) -> torch.Tensor:
    """`torch.ctc_loss` that moves the lengths to the device, which it omits for fakes."""
    inputs, labels, *rest = args
    inputs, labels = (torch.as_tensor(n, device=log_probs.device) for n in (inputs, labels))
    return _torch_ctc_loss(log_probs, targets, inputs, labels, *rest)


_NESTED = ("nested_tensor", "as_nested_tensor", "nested_tensor_from_jagged")


def _refuse_nested(name: str) -> Callable[..., None]:
    """Return a new function for each name: torch._dynamo refuses to list one object twice."""

    def refuse(*_: Any, **__: Any) -> None:
        raise UnsupportedError(f"torch.nested.{name} on a fake GPU: pad, or pack with offsets")

    return refuse


@contextlib.contextmanager
def fake_tensors() -> Iterator[FakeTensorMode]:
    """Make every new tensor a fake one; ``device="cuda"`` is allowed.

    May be nested. A process has one mode, since fake tensors of two do not mix.

    Yields:
        The mode, for `FakeTensorMode.from_tensor` and similar methods.
    """
    _state.mode = _state.mode or FakeTensorMode(allow_non_fake_inputs=True)
    with contextlib.ExitStack() as stack:
        if not _state.guarded:
            stack.enter_context(CudaAsCpu())
        if not knows_numbers():
            stack.enter_context(NumbersAsCuda())
        stack.enter_context(_state.mode)
        stack.enter_context(KnownValues())
        yield _state.mode
