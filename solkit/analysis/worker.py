"""The process of an `Analyser`'s worker: it holds one kernel file and answers requests about it.

A worker patches torch and triton and runs user code, so it is a throw-away process.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch

from solkit import kernelfiles
from solkit.adapters import fake_cuda, fake_triton
from solkit.analysis.autotuned_configs import find_launched_space, left_by_pruning
from solkit.analysis.candidate import analyse_all, captured_only, compile_only
from solkit.analysis.dependencies import Reads
from solkit.analysis.drawn_workloads import DrawnWorkloads
from solkit.analysis.input_layouts import Layouts, input_layouts
from solkit.analysis.launch_identity import launch_identity
from solkit.analysis.problem import problem_case
from solkit.analysis.triton.recipes import Recipes
from solkit.core import Analysis, Case, Depth, Device, KernelFile, Value, canonical
from solkit.errors import KernelFileError, SolkitError, WorkerError
from solkit.kernelfiles import LoadedKernel, Workload
from solkit.kernelfiles.rounding import round_to_tf32
from solkit.kernelfiles.seeding import seed_everything
from solkit.processes.channel import Channel, ClosedError
from solkit.processes.priority import lower_priority
from solkit.roofline.work import work_of
from solkit.spans import span

Shape = Mapping[str, Value]


def warm_up() -> None:
    """Load what every worker needs, so that forks inherit it: see `solkit.analysis.warming`."""
    fake_cuda.defer_dynamo()
    fake_cuda.prepare()
    seed_everything(0)  # loads what draws
    with fake_cuda.fake_tensors():
        work_of(_some_layers)
    kernelfiles.look_ahead()


def _some_layers() -> list[torch.Tensor]:
    """Run common ops: torch imports and builds much for the first of a kind."""
    torch.manual_seed(0)
    with torch.device("cuda"), torch.no_grad():
        model = torch.nn.Sequential(
            *(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU()),
            *(torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 8)),
            *(torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Softmax(-1)),
        )
        out = model(torch.rand(2, 3, 4, 4))
        return [torch.cat([out + out.mean(dim=1, keepdim=True), out * out.sum()]).max()]


def fake_device(device: Device) -> None:
    """Make torch and triton believe in `device` for the rest of this process."""
    fake_cuda.install(device)
    fake_triton.install(device)


def describe(path: str, reference: str | None, device: Device) -> KernelFile:
    """Read a kernel file: its problem and its candidate.

    Raises:
        KernelFileError: the file cannot be used.
    """
    fake_device(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path, reference)
        find_launched_space(loaded)
        return loaded.description


def serve(device: Device, path: str, reference: str | None, descriptor: int) -> None:
    """Answer requests of the `Analyser` until it hangs up.

    A request is a method of `_File`, a tuple of arguments for each call, and options for all. The
    reply has the answers in that order. Empty frames before it show progress.

    Args:
        device: the target.
        path: the kernel file.
        reference: the file with the reference, if `path` lacks one.
        descriptor: of the channel.
    """
    sys.setrecursionlimit(2 * sys.getrecursionlimit())  # fake tensors add frames to the user's
    sys.dont_write_bytecode = True  # Python keeps the old code of a file saved twice in a second
    if device.source == "nvml":  # candidates may be measured meanwhile
        lower_priority()
    reads = Reads()
    channel = Channel.of(descriptor, trusting=True)
    fake_device(device)
    file = _File(path, reference, device, lambda: channel.send({}))
    with fake_cuda.fake_tensors(), contextlib.suppress(ClosedError):
        while True:
            method, requests, options = pickle.loads(channel.receive().payload)
            start = time.perf_counter()
            with span(method, "analyser"):
                ask = partial(getattr(file, method), requests, **options)
                answers = _answered(ask, len(requests))
            seconds = (time.perf_counter() - start) / len(requests)
            channel.send({}, pickle.dumps((answers, seconds, reads.new())))


def _answered(ask: Callable[[], list[Any]], count: int) -> list[Any]:
    """Return the answers, or the same error for each."""
    try:
        return ask()
    except SolkitError as error:
        return [error] * count
    except BaseException:  # the caller must receive any error
        return [WorkerError(f"analysing failed:\n{traceback.format_exc()}")] * count


@dataclass(frozen=True)
class _File:
    """A kernel file, loaded when first needed.

    Attributes:
        path: the file.
        reference: the file with the reference, if `path` lacks one.
        device: the target.
        progress: called during long methods.
    """

    path: str
    reference: str | None
    device: Device
    progress: Callable[[], None]
    _known: dict[str, Recipes] = field(default_factory=dict)  # by shape

    @cached_property
    def _loaded(self) -> LoadedKernel:
        loaded = kernelfiles.load(self.path, self.reference)
        find_launched_space(loaded)
        round_to_tf32(loaded.description.problem.allows_tf32)  # as where it is measured
        return loaded

    @cached_property
    def _workloads(self) -> DrawnWorkloads:
        return DrawnWorkloads(self._loaded)

    def describe(self, requests: Sequence[tuple[()]]) -> list[KernelFile]:
        """Return the file's problem and candidate."""
        return [self._loaded.description for _ in requests]

    def problem(self, requests: Sequence[tuple[Shape, Shape, str | None]]) -> list[Case]:
        """Return the problem's side: see `problem_case`."""
        return [problem_case(self._loaded, *request) for request in requests]

    def points(self, requests: Sequence[tuple[Shape, int, int]]) -> list[list[Shape]]:
        """Legal parameters at a shape: the file's own, then at most so many others, by a seed."""
        return [self._points(*request) for request in requests]

    def _points(self, shape: Shape, most: int, seed: int) -> list[Shape]:
        candidate = self._loaded.description.candidate
        if candidate is None:
            raise KernelFileError("has no candidate", self.path)
        space = self._loaded.space(shape)
        if not space.values:
            return [dict(candidate.params)]
        space = left_by_pruning(self._loaded, shape, space)
        others = itertools.islice(space.shuffled(seed), most)
        drawn = [{**candidate.params, **point} for point in others]
        return [dict(candidate.params), *(point for point in drawn if point != candidate.params)]

    def analyse(
        self,
        requests: Sequence[tuple[Shape, Shape]],
        jobs: int,
        isolated: bool,
        limit_s: float | None,
        depth: Depth = Depth.COMPILED,
    ) -> list[Analysis | SolkitError]:
        """Analyse shapes and parameters: see `analyse_all`; kernels write, so inputs are fresh."""
        candidates, progress = self._candidates(requests), self.progress
        return analyse_all(candidates, self.device, jobs, isolated, progress, depth, limit_s)

    def lower(
        self, requests: Sequence[tuple[Shape, Shape]], **how: Any
    ) -> list[Analysis | SolkitError]:
        """As `analyse`, but only lowered."""
        return self.analyse(requests, **how, depth=Depth.LOWERED)

    def compile(
        self,
        requests: Sequence[tuple[Shape, Shape]],
        jobs: int,
        isolated: bool,
        limit_s: float | None,
        every_choice: bool = False,
    ) -> list[None]:
        """Compile shapes and parameters into Triton's cache: see `compile_only`."""
        how = self.device, jobs, isolated, self.progress, limit_s, every_choice
        compile_only(self._candidates(requests), *how)
        return [None for _ in requests]

    def compile_listed(self, requests: Sequence[tuple[Shape, Shape]], **how: Any) -> list[None]:
        """As `compile`, but each configuration that autotuners would time."""
        return self.compile(requests, **how, every_choice=True)

    def _candidates(
        self, requests: Sequence[tuple[Shape, Shape]]
    ) -> list[tuple[partial[Workload], Shape]]:
        make = self._workloads.make
        return [(partial(make, shape, params), params) for shape, params in requests]

    def capture(self, requests: Sequence[tuple[Shape, Shape]]) -> list[Analysis | SolkitError]:
        """Capture shapes and parameters: see `captured_only`."""
        return [
            captured_only(self._recipes(shape), params, self.device) for shape, params in requests
        ]

    def launch_identity(self, requests: Sequence[tuple[Shape, Shape]]) -> list[str]:
        """Return what tells the launches of calls apart: see `launch_identity`."""
        return [
            launch_identity(self._workloads.make(shape, params), params)
            for shape, params in requests
        ]

    def input_layouts(self, requests: Sequence[tuple[Shape, Shape]]) -> list[Layouts]:
        """Return shapes and strides of the tensors that calls get: see `input_layouts`."""
        workloads = (self._workloads.make(*request) for request in requests)
        return [input_layouts(workload) for workload in workloads]

    def _recipes(self, shape: Shape) -> Recipes:
        recipes = self._known.get(name := canonical(shape))
        if recipes is None:
            recipes = self._known[name] = Recipes(partial(self._workloads.make, shape))
        return recipes
