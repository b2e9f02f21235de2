"""Make PyTorch believe in a GPU that is not there, so that unmodified code runs on fake tensors.

The only module that touches torch's internals. Everything here patches global state and nothing
is undone: call it in a child process that is thrown away. On a CUDA build start that child with
``CUDA_VISIBLE_DEVICES=""``, so that no real GPU is touched (`install` sets it too).

What is faked:

- the device guard: a CPU build has none for CUDA, a CUDA build without a visible GPU has one that
  complains; both get torch's own no-op guard (`_ensure_guard`). Where that fails, `fake_tensors`
  falls back to fake CPU tensors and rewrites ``cuda`` in device arguments;
- `torch.cuda`: properties come from the `Device`, streams and events do nothing;
- `data_ptr`: each storage gets an address of its own, aligned as the CUDA allocator aligns;
- autograd: the C++ engine wants a real accelerator, so `backward` and `grad` run in Python
  (`_gradients`). Tensor and module hooks on gradients are not run;
- data-dependent values: small tensors whose value follows from the program (``arange``,
  ``tensor([...])`` and what is computed from them) carry it; every other value that the program
  asks for is guessed, and `guesses` says so.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy.typing as npt
import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from solkit.core import Device
from solkit.errors import UnsupportedError

__all__ = [
    "TESTED_TORCH",
    "defer_dynamo",
    "fake_tensors",
    "forget",
    "guesses",
    "install",
    "known_value",
    "memory_bus_bits",
    "user_line",
    "watching_guesses",
]

TESTED_TORCH = ("2.11", "2.13")
"""First and last minor release that this module was tested with."""

_aten = torch.ops.aten
_guessed: list[dict[str, None]] = [{}]  # ordered sets: all, then one per `watching_guesses`
_FALLBACK = (
    f"torch {torch.__version__} takes no fake CUDA device: code ran as on the CPU, and what asks "
    "for a tensor's device may have chosen otherwise than on a GPU"
)
_state = SimpleNamespace(installed=False, guarded=False, mode=None)


def install(device: Device) -> None:
    """Fake `device` for the rest of this process.

    Args:
        device: the GPU whose figures `torch.cuda` shall report.

    Raises:
        UnsupportedError: CUDA is already initialised here, so a real GPU would be touched.
    """
    if torch.cuda.is_initialized() and not _state.installed:
        raise UnsupportedError("fake_cuda.install needs a process that has not used CUDA yet")
    _warn_if_untested()
    # it prints the traceback of every op that fails, which the caller reports
    logging.getLogger(fake_tensor.__name__).setLevel(logging.CRITICAL)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    _ensure_guard()
    _fake_torch_cuda(device)
    if not _state.installed:
        _fake_libraries()
        sys.meta_path.insert(0, _UnbuiltExtensions())
    for owner, name, fake in (
        (FakeTensor, "data_ptr", _data_ptr),
        (FakeTensor, "numpy", _numpy),
        (torch, "compile", _compile),
        # torch would otherwise move constants to the GPU that `is_available` now claims
        (FakeTensorMode, "avoid_device_init", property(lambda _: True)),
        (fake_tensor, "init_gpu_context", lambda _: None),  # it would for that reason allocate
        (torch.Tensor, "pin_memory", lambda tensor, *_: tensor),
        (torch.Tensor, "backward", _tensor_backward),
        (torch.autograd, "backward", _backward),
        (torch.autograd, "grad", _grad),
        (torch.utils, "swap_tensors", _swap_tensors),
    ):
        setattr(owner, name, fake)
    _state.guarded = _guard_works()
    if not _state.guarded:
        FakeTensor.is_cuda = property(lambda _: True)  # type: ignore[assignment]
        _guessed[0].setdefault(_FALLBACK)
    _state.installed = True


class _DeferredDynamo(types.ModuleType):
    """Stands for `torch._dynamo` until something other than ``disable`` is asked of it."""

    @staticmethod
    def disable(fn: Any = None, *_: Any, **__: Any) -> Any:
        """Nothing is compiled, so nothing needs to be kept from it."""
        return fn if fn is not None else lambda function: function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _import_dynamo()
        return getattr(sys.modules["torch._dynamo"], name)


class _PackageFirst(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `torch._dynamo` before any module in it, which would else import it midway."""

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """A spec of the module where importing the package has imported it too."""
        if not fullname.startswith("torch._dynamo.") or fullname == "torch._dynamo.config":
            return None  # the settings, which every fake tensor mode reads, stand alone
        _import_dynamo()
        return importlib.util.spec_from_loader(fullname, self) if fullname in sys.modules else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module that is there."""
        module = sys.modules[spec.name]
        self.spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Give back the spec that the import system has just replaced."""
        module.__spec__ = self.spec


_package_first = _PackageFirst()


def defer_dynamo() -> None:
    """Keep torch from importing its compiler, a second's work, for the first op on fake tensors.

    Many of torch's functions are marked "not to be compiled" when first called, which imports
    `torch._dynamo` (torch/_compile.py). It is imported after all where more of it is used.
    """
    if "torch._dynamo" in sys.modules:
        return
    spec = importlib.util.find_spec("torch._dynamo")
    assert spec is not None
    deferred = _DeferredDynamo("torch._dynamo")
    deferred.__spec__, deferred.__file__ = spec, spec.origin
    deferred.__path__ = list(spec.submodule_search_locations or ())
    sys.modules["torch._dynamo"] = torch._dynamo = deferred
    sys.meta_path.insert(0, _package_first)


def _import_dynamo() -> None:
    """Put the real `torch._dynamo` where its stand-in is, if it still is."""
    if _package_first in sys.meta_path:
        sys.meta_path.remove(_package_first)
        del sys.modules["torch._dynamo"], torch._dynamo
        torch._dynamo = importlib.import_module("torch._dynamo")


@contextlib.contextmanager
def fake_tensors() -> Iterator[FakeTensorMode]:
    """Make every tensor created within a fake one; ``device="cuda"`` is allowed.

    May be nested and entered again: a process has one mode, since fake tensors of two don't mix.

    Yields:
        The mode, for `FakeTensorMode.from_tensor` and its like.
    """
    _state.mode = _state.mode or FakeTensorMode(allow_non_fake_inputs=True)
    with contextlib.ExitStack() as stack:
        if not _state.guarded:
            stack.enter_context(_CudaAsCpu())
        stack.enter_context(_state.mode)
        stack.enter_context(_KnownValues())
        yield _state.mode


def guesses() -> tuple[str, ...]:
    """What had to be guessed so far in this process, each a sentence with the user's line."""
    return tuple(_guessed[0])


@contextlib.contextmanager
def watching_guesses() -> Iterator[Mapping[str, None]]:
    """Collect the guesses made within, as an ordered set that fills up."""
    _guessed.append({} if _state.guarded else {_FALLBACK: None})
    try:
        yield _guessed[-1]
    finally:
        _guessed.pop()


def _warn_if_untested() -> None:
    minor = tuple(int(part) for part in torch.__version__.split(".")[:2])
    first, last = (tuple(map(int, version.split("."))) for version in TESTED_TORCH)
    if not first <= minor <= last:
        warnings.warn(
            f"torch {torch.__version__} is outside the range that SolKit's fake GPU was tested "
            f"with ({TESTED_TORCH[0]} to {TESTED_TORCH[1]})",
            stacklevel=3,
        )


# ---------------------------------------------------------------------------- device guard

# c10/core/DeviceType.h: the order of the enum is part of torch's serialised formats
_CUDA, _LAZY, _DEVICE_TYPES = 1, 17, 22
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"


def _ensure_guard() -> None:
    """Give the CUDA device type a guard that does nothing, if torch's inside is as expected.

    `torch._C._ensureCUDADeviceGuardSet` replaces a guard that counts no devices by a no-op one,
    but does nothing where there is none, as in a CPU build. There, the Lazy backend's guard,
    which counts no devices, is entered first (c10/core/impl/DeviceGuardImplInterface.h).
    """
    try:
        c10 = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        registry = (ctypes.c_void_p * _DEVICE_TYPES).in_dll(c10, _REGISTRY)
    except (OSError, ValueError):  # no such library, no such symbol: `_guard_works` will tell
        return
    if registry[_CUDA] is None:
        registry[_CUDA] = registry[_LAZY]
    torch._C._ensureCUDADeviceGuardSet()


def _guard_works() -> bool:
    """Whether fake tensors may stand on ``cuda``: without a guard, a copy to it fails."""
    try:
        with FakeTensorMode():
            torch.empty(2, device="cuda").copy_(torch.empty(2))
    except (RuntimeError, AssertionError):
        return False
    return True


class _CudaAsCpu(TorchFunctionMode):
    """The fallback: ``cuda`` in any device argument becomes ``cpu``."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        rewritten = tree_map(_as_cpu, (args, dict(kwargs or {})))
        return func(*rewritten[0], **rewritten[1])


def _as_cpu(argument: Any) -> Any:
    if isinstance(argument, torch.device) and argument.type == "cuda":
        return torch.device("cpu")
    if isinstance(argument, str) and argument.split(":")[0] == "cuda":
        return "cpu"
    return argument


# ------------------------------------------------------------------------------ torch.cuda


class _Nothing(contextlib.AbstractContextManager["_Nothing"]):
    """Stands for a stream, an event, a device context or a graph: every method does nothing."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device = torch.device("cuda", 0)

    def __init__(self, *_: Any, **__: Any) -> None:
        self.idx = 0

    def __exit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: Any) -> float:
        return 1.0  # milliseconds; never 0, which callers divide by

    def record_event(self, *_: Any) -> _Nothing:
        return _Nothing()


def _properties(device: Device) -> SimpleNamespace:
    """What `torch.cuda.get_device_properties` returns, from the catalogue's figures."""
    major, minor = device.compute_capability
    return SimpleNamespace(
        name=device.name,
        major=major,
        minor=minor,
        total_memory=device.memory_bytes,
        multi_processor_count=device.sm_count,
        warp_size=32,
        max_threads_per_block=1024,
        max_threads_per_multi_processor=device.limits.threads,
        regs_per_multiprocessor=device.limits.registers,
        shared_memory_per_block=48 * 1024,  # without opting in: CUDA C++ Programming Guide
        shared_memory_per_block_optin=device.limits.shared_per_block_bytes,
        shared_memory_per_multiprocessor=device.limits.shared_bytes,
        L2_cache_size=device.l2_bytes,
        clock_rate=int(device.clock_mhz * 1000),  # kHz
        memory_clock_rate=_memory_clock_khz(device),
        memory_bus_width=memory_bus_bits(device),
        uuid="00000000-0000-0000-0000-000000000000",
        pci_bus_id=0,
        pci_device_id=0,
        pci_domain_id=0,
        is_integrated=False,
        is_multi_gpu_board=False,
        gcnArchName="",
    )


def _memory_clock_khz(device: Device) -> int:
    dram = device.ceilings.get("dram")
    return int(dram.clock_mhz * 1000) if dram else 0


def memory_bus_bits(device: Device) -> int:
    """The width of the memory's bus, in bits: bandwidth over two transfers a clock.

    Two as ``cudaDeviceProp`` has it (CUDA C++ Best Practices Guide, "Theoretical Bandwidth").
    """
    dram = device.ceilings.get("dram")
    if dram is None or not dram.clock_mhz:
        return 0
    return 64 * round(8 * dram.value / (2 * dram.clock_mhz * 1e6) / 64)  # buses come in 64 bits


def _cuda_values(device: Device) -> dict[str, Any]:
    """What the query functions of `torch.cuda` return, by name."""
    major, minor = device.compute_capability
    return {
        "is_available": True,
        "is_initialized": True,
        "_is_compiled": False,  # keeps torch off code that needs the real library
        "device_count": 1,
        "current_device": 0,
        "get_device_properties": _properties(device),
        "get_device_capability": (major, minor),
        "get_device_name": device.name,
        "get_arch_list": [f"sm_{major}{minor}"],
        "is_bf16_supported": (major, minor) >= (8, 0),
        "is_current_stream_capturing": False,
        "mem_get_info": (device.memory_bytes, device.memory_bytes),
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "memory_stats": Counter(),  # any counter is 0
        "memory_stats_as_nested_dict": {},
        "host_memory_stats": Counter(),
        "host_memory_stats_as_nested_dict": {},
        "memory_snapshot": [],
        "memory_summary": "",
        "list_gpu_processes": "",
        "memory_usage": 0,  # percent, as utilization
        "device_memory_used": 0,
        "utilization": 0,
        "temperature": 0,
        "power_draw": 0,
        "clock_rate": int(device.clock_mhz),  # MHz
        "can_device_access_peer": False,
        "get_allocator_backend": "native",
        "get_per_process_memory_fraction": 1.0,
        "get_sync_debug_mode": 0,
        "get_gencode_flags": f"-gencode compute=compute_{major}{minor},code=sm_{major}{minor}",
        "graph_pool_handle": (0, 0),
        "current_blas_handle": 0,
        "current_solver_handle": 0,
        "is_tf32_supported": (major, minor) >= (8, 0),
        "get_stream_from_external": _Nothing(),
        "caching_allocator_alloc": 0,
        "cudart": _Nothing(),
        "current_stream": _Nothing(),
        "default_stream": _Nothing(),
        "stream": _Nothing(),
        "get_device_index": 0,
        **dict.fromkeys(
            (
                "_lazy_init",
                "init",
                "set_device",
                "set_stream",
                "synchronize",
                "empty_cache",
                "ipc_collect",
                "reset_peak_memory_stats",
                "reset_max_memory_allocated",
                "reset_max_memory_cached",
                "reset_accumulated_memory_stats",
                "reset_peak_host_memory_stats",
                "reset_accumulated_host_memory_stats",
                "set_per_process_memory_fraction",
                "set_sync_debug_mode",
                "caching_allocator_delete",
                "caching_allocator_enable",
                "change_current_allocator",
                "check_error",
            )
        ),
    }


_DOING_NOTHING = (
    *("Stream", "ExternalStream", "Event", "device", "_DeviceGuard", "device_of"),
    *("CUDAGraph", "graph", "MemPool", "use_mem_pool"),
)
_CUDA_VERSION = "13.0"
"""What a CPU build names: the stable CUDA of torch 2.11, PyTorch RELEASE.md."""


def _fake_torch_cuda(device: Device) -> None:
    for name, value in _cuda_values(device).items():
        _replace(name, _constant_function(name, value))
    for name in _DOING_NOTHING:
        _replace(name, type(name, (_Nothing,), {}))
    if torch.version.cuda is None:
        torch.version.cuda = _CUDA_VERSION
    for name in ("range_push", "range_pop", "range", "mark"):
        setattr(torch.cuda.nvtx, name, type(name, (_Nothing,), {}))
    torch.cuda.default_generators = (_Generator("cuda"),)
    torch.Generator = _Generator  # type: ignore[misc]


def _replace(name: str, fake: Any) -> None:
    """Set `torch.cuda.<name>`, also where its submodules imported it by name."""
    original = getattr(torch.cuda, name, None)
    for path, module in list(sys.modules.items()):
        if path.startswith("torch.cuda.") and getattr(module, name, fake) is original:
            setattr(module, name, fake)
    setattr(torch.cuda, name, fake)


def _constant_function(name: str, value: Any) -> Callable[..., Any]:
    """A function of its own for each name: torch._dynamo refuses to list one object twice."""

    def constant(*_: Any, **__: Any) -> Any:
        return value

    constant.__name__ = constant.__qualname__ = name
    return constant


class _Extension:
    """What `torch.utils.cpp_extension.load` returns: nothing is built; functions fail if called."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*_: Any, **__: Any) -> Any:
            raise UnsupportedError(f"{name} of a compiled CUDA extension: not analysed")

        return function


class _UnbuiltExtensions(importlib.abc.MetaPathFinder):
    """Replaces what builds extensions when `torch.utils.cpp_extension` is imported, if ever."""

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that replaces `load` and `load_inline` after."""
        if fullname != "torch.utils.cpp_extension":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            module.load = module.load_inline = _Extension

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _Generator(torch.Generator):
    """A CPU generator, whatever device it was asked for: fake tensors draw no numbers."""

    asked_for: torch.device

    def __new__(cls, device: Any = "cpu") -> _Generator:
        made = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        made.asked_for = torch.device(device)
        return made

    def __init__(self, device: Any = "cpu") -> None: ...

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that was asked for."""
        return self.asked_for


_ATTENTION = (
    "attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal) -> Tensor"
)


def _fake_libraries() -> None:
    """Keep torch from asking for a real GPU in cuDNN, attention and cells of GRUs.

    `scaled_dot_product_attention` becomes the one op ``solkit::attention``, whoever calls it.
    PyTorch would pick a fused kernel or a decomposition, by asking the GPU.
    """
    torch.backends.cudnn.enabled = False
    own, aten = torch.library.Library("solkit", "DEF"), torch.library.Library("aten", "IMPL")
    own.define(_ATTENTION)
    torch.library.register_fake("solkit::attention", _attention_shape, lib=own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overriding a kernel is the intention
        for key in ("CUDA", "AutogradCUDA"):
            aten.impl("scaled_dot_product_attention", _attention, key)
        aten.impl("_thnn_fused_gru_cell", _gru_cell, "Meta")  # torch has one for LSTMs alone
    _state.libraries = (own, aten)  # the overrides last as long as these objects


def _gru_cell(
    gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    state: torch.Tensor,
    bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The new state, and a workspace of 5 values an element: aten/src/ATen/native/cuda/RNN.cu."""
    del gates, hidden_gates, bias, hidden_bias
    return torch.empty_like(state), state.new_empty((state.shape[0], 5 * state.shape[1]))


def _attention_shape(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
) -> torch.Tensor:
    del key, attn_mask, is_causal
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """One op, unless gradients are wanted: then a decomposition that autograd can follow."""
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        whole = _aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return cast(torch.Tensor, whole[0])
    return cast(torch.Tensor, torch.ops.solkit.attention(query, key, value, attn_mask, is_causal))


# ------------------------------------------------------------------------------- addresses

_FIRST_ADDRESS, _ADDRESS_STEP = 0x7F00_0000_0000, 1 << 32
_addresses: dict[int, tuple[int, torch.UntypedStorage]] = {}


def _data_ptr(tensor: torch.Tensor) -> int:
    """An address per storage, 4 GiB apart, so divisible by whatever Triton asks about.

    The storage is kept alive, or its handle could be reused and two tensors share an address.
    """
    storage = tensor.untyped_storage()
    fresh = (_FIRST_ADDRESS + len(_addresses) * _ADDRESS_STEP, storage)
    base, _ = _addresses.setdefault(storage._cdata, fresh)
    return base + int(tensor.storage_offset()) * tensor.element_size()


_torch_swap_tensors = torch.utils.swap_tensors


def _swap_tensors(left: torch.Tensor, right: torch.Tensor) -> None:
    """`torch.utils.swap_tensors` as ``module.cuda()`` needs it: fakes with a weak reference too.

    The reference is the fake mode's memo from a meta tensor's id to its fake; none asks again.
    """
    for tensor in (left, right):
        if isinstance(tensor, FakeTensor):
            memo = tensor.fake_mode.fake_tensor_converter.meta_converter.tensor_memo
            for key in [key for key, fake in memo.items() if fake is tensor]:
                del memo[key]
    _torch_swap_tensors(left, right)


# ---------------------------------------------------------------------------- known values

_KNOWN_INTEGERS, _KNOWN_FLOATS = 1 << 22, 1 << 20
"""Elements beyond which a result is not computed: 4 Mi integers take some 10 ms an op."""

_writes: Counter[int] = Counter()  # storage handle -> writes that torch did not see


@dataclass(frozen=True)
class _Known:
    """A fake tensor's real value, good while nothing has written to the tensor."""

    value: torch.Tensor
    guessed: bool
    version: int
    writes: int
    drawn: bool = False  # from random integers


def known_value(tensor: torch.Tensor) -> npt.NDArray[Any] | None:
    """The contents of a tensor where they follow from the program for sure."""
    known = _recall(tensor)
    if known is None or known.guessed:
        return None
    with _disable_current_modes():
        return known.value.numpy(force=True)


def forget(tensor: torch.Tensor) -> None:
    """A kernel that torch does not see may have written to `tensor`: its value is unknown."""
    _writes[tensor.untyped_storage()._cdata] += 1


def _remember(tensor: FakeTensor, value: torch.Tensor, guessed: bool, drawn: bool = False) -> None:
    if tensor.is_inference() or tensor.shape != value.shape:
        return
    writes = _writes[tensor.untyped_storage()._cdata]
    known = _Known(value, guessed, tensor._version, writes, drawn)
    tensor._solkit_known = known  # type: ignore[attr-defined]


def _recall(tensor: torch.Tensor) -> _Known | None:
    if not isinstance(tensor, FakeTensor):
        return _Known(tensor, False, 0, 0) if _is_small([tensor]) else None
    known: _Known | None = getattr(tensor, "_solkit_known", None)
    if known is None or tensor.is_inference():
        return None
    writes = _writes[tensor.untyped_storage()._cdata]
    return known if (known.version, known.writes) == (tensor._version, writes) else None


class _KnownValues(TorchDispatchMode):
    """Carries the real values of small tensors along, and guesses where a value is unknown."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _GUESSES:
            return _GUESSES[func](*args, **kwargs)
        if func is _aten.index.Tensor:
            out = func(args[0], _without_masks(args[1]))
        else:
            out = func(*args, **kwargs)
        if isinstance(func, torch._ops.OpOverload):
            _propagate(func, args, kwargs, out)
        return out


def _propagate(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> None:
    """Compute `func` on real values where all its inputs are known, and remember the results."""
    fakes = [leaf for leaf in tree_leaves(out) if isinstance(leaf, FakeTensor)]
    if not fakes or not _is_small(fakes) or not _is_pure(func):
        return
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    known = [_recall(tensor) for tensor in inputs]
    if any(fact is None for fact in known):
        _count_as_all_true(func, inputs, fakes)
        return
    guessed = any(fact.guessed for fact in known if fact is not None)
    drawn = any(fact.drawn for fact in known if fact is not None) or _draws_integers(func)
    with _disable_current_modes():
        real_args, real_kwargs = tree_map(_real, (args, kwargs))
        real = func(*real_args, **real_kwargs)
        values = [leaf.clone() for leaf in tree_leaves(real) if isinstance(leaf, torch.Tensor)]
    for fake, value in zip(fakes, values, strict=True):
        _remember(fake, value, guessed, drawn)


def _is_small(tensors: Sequence[torch.Tensor]) -> bool:
    floats = any(t.dtype.is_floating_point or t.dtype.is_complex for t in tensors)
    limit = _KNOWN_FLOATS if floats else _KNOWN_INTEGERS
    return sum(tensor.numel() for tensor in tensors) <= limit


_INTEGER_DRAWS = (_aten.randint, _aten.randperm)
"""Random, yet computed: indices and page tables decide what a gather must read."""


def _draws_integers(func: torch._ops.OpOverload) -> bool:
    return func.overloadpacket in _INTEGER_DRAWS


def _is_pure(func: torch._ops.OpOverload) -> bool:
    """Whether the result of `func` follows from its arguments alone and nothing is written."""
    return _draws_integers(func) or not (
        func._schema.is_mutable
        or torch.Tag.nondeterministic_seeded in func.tags
        or "empty" in func._schema.name
    )


def _real(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        known = _recall(argument)
        assert known is not None
        return known.value
    return torch.device("cpu") if isinstance(argument, torch.device) else argument


_COUNTS = (_aten.sum.default, _aten.sum.dim_IntList, _aten.count_nonzero.default)


def _count_as_all_true(
    func: torch._ops.OpOverload, inputs: list[torch.Tensor], fakes: list[FakeTensor]
) -> None:
    """Guess that a mask selects everything: the usual case, and an upper bound for its count."""
    if func in _COUNTS and inputs[0].dtype == torch.bool and fakes[0].numel() > 0:
        with _disable_current_modes():
            count = inputs[0].numel() // fakes[0].numel()
            value = torch.full(tuple(fakes[0].shape), count, dtype=fakes[0].dtype)
        _remember(fakes[0], value, guessed=True)


def _compile(model: Any = None, **options: Any) -> Any:
    """`torch.compile`: the function itself, since Inductor needs the GPU."""
    if model is None:
        return lambda function: _compile(function, **options)
    _guess("torch.compile was ignored: what it would fuse or generate is not seen")
    return model


# --------------------------------------------------------------------------------- guesses


def _item(tensor: torch.Tensor) -> Any:
    """``tensor.item()``: its known value; else True, 1 or 1.0."""
    known = _recall(tensor)
    if known is not None:
        with _disable_current_modes():
            value = known.value.item()
        if known.drawn:
            _guess(f"random integers were drawn on the CPU, where a GPU draws others: {value} read")
        guessed = known.guessed
    else:
        # `torch.bool.is_floating_point` is False and bool(1) is True
        value = True if tensor.dtype == torch.bool else 1.0 if tensor.is_floating_point() else 1
        guessed = True
    if guessed:
        _guess(f"a {tensor.dtype} value read from a tensor was guessed to be {value}")
    return value


def _numpy(tensor: torch.Tensor, *, force: bool = False) -> npt.NDArray[Any]:
    """``tensor.numpy()``: torch would read the memory that a fake tensor has not."""
    known = _recall(tensor)
    if known is None:
        raise UnsupportedError("a tensor's contents are read as an array, and are not known here")
    if known.guessed or known.drawn:
        _guess("a tensor read as an array holds guessed values")
    with _disable_current_modes():
        return known.value.numpy(force=force)


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    same = left.shape == right.shape
    if same:
        _guess("two tensors were guessed to be equal")
    return same


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    known = _recall(tensor)
    if known is not None:
        with _disable_current_modes():
            value = known.value.nonzero()
        found = tensor.new_empty(tuple(value.shape), dtype=torch.int64)
        _remember(cast(FakeTensor, found), value, known.guessed)
        return found
    _guess("all elements of a mask were guessed to be set")
    return tensor.new_empty((tensor.numel(), tensor.dim()), dtype=torch.int64)


def _without_masks(indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Boolean indices as the integer ones that select the same (``x[mask]``)."""
    integers: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            integers.append(index)
        else:
            integers.extend(_nonzero(index).unbind(1))
    return integers


def _masked_select(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    _guess("all elements of a mask were guessed to be set")
    return tensor.new_empty((torch.broadcast_shapes(tensor.shape, mask.shape).numel(),))


_GUESSES: dict[Any, Callable[..., Any]] = {
    _aten._local_scalar_dense.default: _item,
    _aten.equal.default: _equal,
    _aten.allclose.default: lambda left, right, *_, **__: _equal(left, right),
    _aten.nonzero.default: _nonzero,
    _aten.masked_select.default: _masked_select,
}


def _guess(sentence: str) -> None:
    located = f"{user_line()}: {sentence}"
    for guessed in _guessed:
        guessed.setdefault(located)


def _folders_of_others() -> tuple[str, ...]:
    """Where the code lies that is not the user's: torch, Triton, SolKit, Python itself."""
    triton = importlib.util.find_spec("triton")
    files = (torch.__file__, __file__, contextlib.__file__, triton and triton.origin)
    torch_, adapters, python, *triton_ = (str(Path(file).parent) for file in files if file)
    return (torch_, str(Path(adapters).parent), python, *triton_)


_NOT_USERS = _folders_of_others()


def user_line(frame: types.FrameType | None = None) -> str:
    """``file:line`` of the innermost frame that is neither torch's, Triton's nor SolKit's.

    Args:
        frame: where to start; the caller's by default.
    """
    frame = frame or sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith("<") and not any(
            path.startswith(folder) and "site-packages" not in path[len(folder) :]
            for folder in _NOT_USERS
        ):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown line"


# -------------------------------------------------------------------------------- autograd

_Edge = tuple[Any, int]  # a node of the graph and the number of one of its inputs


def _gradients(
    roots: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None], create_graph: bool
) -> dict[Any, dict[int, torch.Tensor]]:
    """Run the autograd graph backwards; the gradient that reached each input of each node.

    Nodes run in topological order, each when all nodes that feed it have run, as in
    torch/csrc/autograd/engine.cpp.
    """
    arrived: dict[Any, dict[int, torch.Tensor]] = {}
    for root, grad in zip(roots, grads, strict=True):
        edge = get_gradient_edge(root)
        seed = torch.ones_like(root) if grad is None else grad
        _add(arrived.setdefault(edge.node, {}), edge.output_nr, seed)
    waiting = _dependencies(list(arrived))
    ready = [node for node in arrived if not waiting[node]]
    with torch.set_grad_enabled(create_graph):
        while ready:
            node = ready.pop()
            outputs = _run_node(node, arrived.setdefault(node, {}))
            for (following, index), grad in zip(node.next_functions, outputs, strict=False):
                if following is None:
                    continue
                if grad is not None:
                    _add(arrived.setdefault(following, {}), index, grad)
                waiting[following] -= 1
                if not waiting[following]:
                    ready.append(following)
    return arrived


def _dependencies(roots: list[Any]) -> Counter[Any]:
    """How many edges lead into each node that can be reached from `roots`."""
    counts: Counter[Any] = Counter()
    seen, stack = set(roots), list(roots)
    while stack:
        for following, _ in stack.pop().next_functions:
            if following is None:
                continue
            counts[following] += 1
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return counts


def _run_node(node: Any, arrived: dict[int, torch.Tensor]) -> tuple[Any, ...]:
    """Call one node, with zeros for gradients that never arrived."""
    if not node.next_functions:  # AccumulateGrad: its gradient stays in `arrived`
        return ()
    inputs = [
        arrived[index]
        if index in arrived
        else torch.zeros(tuple(meta.shape), dtype=meta.dtype, device=meta.device)
        for index, meta in enumerate(node._input_metadata)
    ]
    custom = isinstance(node, torch.autograd.function.BackwardCFunction)
    outputs = node.apply(*inputs) if custom else node(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _add(sums: dict[int, torch.Tensor], index: int, grad: torch.Tensor) -> None:
    sums[index] = sums[index] + grad if index in sums else grad


def _as_list(tensors: Any) -> list[Any]:
    return [tensors] if tensors is None or isinstance(tensors, torch.Tensor) else list(tensors)


def _seeds(outputs: list[Any], grads: Any) -> list[torch.Tensor | None]:
    return [None] * len(outputs) if grads is None else _as_list(grads)


def _backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,  # noqa: ARG001 - torch's signature
    create_graph: bool = False,
    grad_variables: Any = None,  # noqa: ARG001
    inputs: Any = None,
) -> None:
    """`torch.autograd.backward`."""
    roots = _as_list(tensors)
    arrived = _gradients(roots, _seeds(roots, grad_tensors), create_graph)
    only = None if inputs is None else {id(tensor) for tensor in _as_list(inputs)}
    for node, grads in arrived.items():
        leaf = getattr(node, "variable", None)
        if leaf is None or 0 not in grads or (only is not None and id(leaf) not in only):
            continue
        grad = grads[0].reshape(leaf.shape)
        leaf.grad = grad if leaf.grad is None else leaf.grad + grad


def _tensor_backward(
    self: torch.Tensor,
    gradient: torch.Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """`torch.Tensor.backward`."""
    _backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,  # noqa: ARG001 - torch's signature
    create_graph: bool = False,
    only_inputs: bool = True,  # noqa: ARG001
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """`torch.autograd.grad`."""
    if is_grads_batched:
        raise UnsupportedError("torch.autograd.grad(is_grads_batched=True) on a fake GPU")
    roots = _as_list(outputs)
    arrived = _gradients(roots, _seeds(roots, grad_outputs), create_graph)
    found: list[torch.Tensor | None] = []
    for tensor in _as_list(inputs):
        edge = get_gradient_edge(tensor)
        grad = arrived.get(edge.node, {}).get(edge.output_nr)
        if grad is None and materialize_grads:
            grad = torch.zeros_like(tensor)
        if grad is None and not allow_unused:
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        found.append(grad)
    return tuple(found)
