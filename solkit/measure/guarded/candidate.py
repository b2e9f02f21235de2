"""The candidate's process: runs the candidate on request, and times it.

Untrusted code shares this process, so nothing that it answers is relied on. The referee reads,
judges and poisons the outputs, and checks the reported times against its own clock
(`solkit.measure.guarded.referee`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch

from solkit.core.codec import from_json, to_json
from solkit.core.tuned import TunerChoice
from solkit.errors import KernelFileError, SolkitError
from solkit.kernelfiles import LoadedKernel, Workload, load
from solkit.kernelfiles.rounding import round_to_tf32
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.anti_cheating import Finding
from solkit.measure.anti_cheating.cheat_detection import CheatDetector
from solkit.measure.anti_cheating.delegation import Operators
from solkit.measure.checking.faults import explain_error, verdict_of
from solkit.measure.checking.inputs import bound_workload, poison_tensors
from solkit.measure.guarded.problem_loading import Imports
from solkit.measure.guarded.sharing import Block, Packed, attach_block, strided_values, unpack_value
from solkit.measure.timing.activities import ActivityError
from solkit.measure.timing.machine import Machine, machine_for, warm_up_machine
from solkit.measure.timing.protocols import PROTOCOLS
from solkit.measure.timing.sampling import Subject, Timer
from solkit.processes.channel import Channel, ClosedError, Frame
from solkit.processes.forkserver import adopt_surroundings
from solkit.spans import span

Answer = dict[str, Any]


def serve(channel: Channel, machines: Callable[[str], Machine]) -> None:
    """Answer the referee's requests until the other end closes."""
    worker = _Worker(machines, lambda count: channel.send({"tuning": count}))
    channel.send({"ok": "ready"})
    with contextlib.suppress(ClosedError):
        while True:
            channel.send(worker.answer(channel.receive()))


@dataclass(frozen=True)
class _Inputs:
    """Inputs that the referee shares: each call gets new tensor objects for them."""

    packed: Packed
    block: Block

    def bind_inputs(self, workload: Workload) -> Workload:
        args, kwargs = unpack_value(self.packed, self.block)
        inputs = workload.with_inputs(args, kwargs).with_destinations()
        if inputs.destinations is not None:
            _poison_strided(inputs.destinations())
        return inputs


@dataclass(frozen=True)
class _Graph:
    """Calls that can be replayed, and the outputs of the last one, which keep their addresses."""

    replay: Callable[[], Any]
    outputs: list[torch.Tensor]


class _Worker:
    """The state of the process between requests; each public method is a request."""

    def __init__(
        self, machines: Callable[[str], Machine], tell_tuning: Callable[[int], None]
    ) -> None:
        self._machines, self._tell_tuning = machines, tell_tuning
        self._path = ""
        self._imports = Imports.now()
        self._loaded: LoadedKernel | None = None
        self._machine: Machine = Machine()
        self._workload: Workload | None = None
        self._inputs: dict[str, _Inputs] = {}
        self._outputs: list[torch.Tensor] = []
        self._returned: Any = None
        self._guard = CheatDetector()
        self._graphs: dict[tuple[str, int], _Graph] = {}
        self._results: Block | None = None
        self._timer: Timer | None = None

    def answer(self, frame: Frame) -> Answer:
        """Return the answer to a request; exceptions of user code are answers too."""
        header = frame.header
        try:
            with span(header["doing"], "candidate"):
                return {"ok": getattr(self, header["op"])(frame, **header["given"])}
        except ActivityError as error:
            return {"untimed": str(error)}
        except SolkitError as error:
            return {"error": type(error).__name__, "args": list(error.args)}
        except BaseException as error:  # including SystemExit
            errors = explain_error(error, header["doing"], self._path)
            return {"failed": verdict_of(error).value, "errors": errors}

    def adopt(self, _: Frame, surroundings: dict[str, Any]) -> None:
        """Belong to another caller from now on."""
        adopt_surroundings(**surroundings)
        self._imports = Imports.now()

    def load(
        self,
        _: Frame,
        path: str,
        reference: str | None,
        device: str,
        tf32: bool,
        tuned: list[Answer],
    ) -> None:
        """Import the candidate, whose autotuners keep what they chose in an earlier process."""
        if (tuners := _autotuners()) is not None:
            tuners.pin([from_json(TunerChoice, choice) for choice in tuned])
            tuners.announce(self._tell_tuning)
        self._path = path
        self._machine = self._machines(device)
        round_to_tf32(tf32)
        self._guard.accept_settings()
        self._imports = Imports.now()
        self._loaded = load(path, reference=reference)
        if self._loaded.description.candidate is None:
            raise KernelFileError("has no kernel to measure", path)

    def bind(self, _: Frame, shape: dict[str, Any], params: dict[str, Any]) -> None:
        """Bind the candidate to a shape, and drop the inputs made on the way."""
        assert self._loaded is not None
        self._forget_outputs()
        workload = bound_workload(self._loaded, shape, params, self._machine.device)
        self._workload = replace(
            workload.with_inputs((), {}), kernel=self._keeping_returned(workload.kernel)
        )
        del workload
        self._machine.memory_bytes()

    def attach(self, frame: Frame, name: str, ticket: dict[str, Any]) -> None:
        """Take inputs under a name."""
        block = attach_block(ticket, frame.descriptors)
        self._inputs[name] = _Inputs(Packed.loads(frame.payload), block)

    def detach(self, _: Frame, name: str) -> None:
        """Release inputs."""
        self._graphs = {key: graph for key, graph in self._graphs.items() if key[0] != name}
        self._forget_outputs()
        self._inputs.pop(name).block.close()
        self._machine.make_room()

    def run(
        self, _: Frame, name: str, seed: int, sizes: list[int], shares: bool, guarded: bool
    ) -> Answer:
        """Call the candidate; gives the form of its outputs and the guard's findings.

        Args:
            name: of the inputs.
            seed: for kernels that draw random numbers.
            sizes: bytes of the expected outputs: blocks of these sizes are poisoned and freed.
            shares: whether outputs may share memory with inputs.
            guarded: whether to ask the guard, which takes some 50 ms.
        """
        self._poison_outputs()
        with contextlib.suppress(torch.OutOfMemoryError):  # then the candidate needs it more
            spoilt = [
                torch.empty(size, dtype=torch.uint8, device=self._machine.device) for size in sizes
            ]
            _poison_strided(spoilt)
            del spoilt
        call, workload = self._prepare_call(name, seed)
        call()
        arguments = (workload.args, workload.kwargs)
        findings = self._guard.findings(self._returned, arguments, shares) if guarded else ()
        self._machine.synchronize()
        self._machine.make_room()  # the referee judges the outputs
        return self._describe_outputs(findings)

    def tuned(self, _: Frame) -> list[Answer]:
        """Return what the candidate's autotuners have chosen."""
        tuners = _autotuners()
        return [] if tuners is None else [to_json(choice) for choice in tuners.chosen()]

    def compiled_s(self, _: Frame) -> float:
        """Return the seconds that Triton's compiler took in this process."""
        tuners = _autotuners()
        return 0.0 if tuners is None else tuners.compiled_s()

    def look(self, _: Frame, guarded: bool) -> Answer:
        """Return the form of the last call's outputs, and the guard's findings now."""
        return self._describe_outputs(self._guard.findings() if guarded else ())

    def fetch(
        self, frame: Frame, ticket: dict[str, Any] | None, offsets: list[int], stays: bool
    ) -> None:
        """Copy the last call's outputs to where the referee reads them.

        That memory stays for the next call's, or is released.
        It uses the current stream, as a user of the outputs would: other streams are not awaited.
        """
        if ticket is not None:
            self._close_results()
            self._results = attach_block(ticket, frame.descriptors)
        assert self._results is not None
        for output, offset in zip(self._outputs, offsets, strict=True):
            values = strided_values(output)
            size = values.numel() * values.element_size()
            place = self._results.bytes_at(offset, size).view(values.dtype)
            place.copy_(values.reshape(-1))
            del place
        self._machine.synchronize()
        if not stays:
            self._close_results()

    def operators(self, _: Frame, name: str, seed: int) -> list[str]:
        """Call the candidate once more; gives the torch operators that it calls."""
        call, _workload = self._prepare_call(name, seed)
        with Operators() as operators:
            call()
        self._machine.synchronize()
        return list(operators.names)

    def kernels(self, _: Frame) -> dict[str, float]:
        """GPU milliseconds by kernel name, of the last round of timed calls."""
        assert self._timer is not None
        return dict(self._timer.kernels_ms)

    def launches(self, _: Frame, name: str, seed: int) -> list[Answer]:
        """Call the candidate once more; gives the Triton launches that it makes."""
        call, _workload = self._prepare_call(name, seed)
        with self._machine.recording() as launches:
            call()
            self._machine.synchronize()
        return [to_json(launch) for launch in launches]

    def start(self, _: Frame, protocol: str, method: str) -> None:
        """Begin a round of timed calls."""
        if self._timer is None or self._timer.method != method:
            timers, _flush = self._machine.timers(PROTOCOLS[protocol])
            self._timer = next(timer for timer in timers if timer.method == method)
        self._timer.start()

    def capture(self, _: Frame, name: str, seed: int, calls_in_graph: int) -> None:
        """Capture a graph of calls, which runs them: on inputs that no timed call gets."""
        self._poison_outputs()
        self._outputs = self._captured_graph(name, seed, calls_in_graph).outputs

    def call(self, _: Frame, name: str, seed: int, calls_in_graph: int, other: str | None) -> None:
        """Time one call of the candidate, or of a graph with that many calls.

        For a warm L2, the same runs on the `other` inputs before, if there are any, and then the
        timed inputs are read: a call on them would let a candidate keep its answer.
        """
        assert self._timer is not None
        self._poison_outputs()

        def prepare(name: str = name) -> Callable[[], Any]:
            if not calls_in_graph:
                return self._prepare_call(name, seed)[0]
            graph = self._captured_graph(name, seed, calls_in_graph)
            seed_everything(seed)
            self._outputs = graph.outputs
            self._poison_outputs()
            return graph.replay

        def warming() -> Callable[[], Any]:
            before = None if other is None else prepare(other)

            def warm() -> None:
                if before is not None:
                    before()
                    seed_everything(seed)
                self._inputs[name].block.read()

            return warm

        self._timer.time(Subject(name, prepare, warming))

    def stop(self, _: Frame) -> list[tuple[float, float | None]]:
        """End the round; gives span and kernel sum of each call in milliseconds."""
        assert self._timer is not None
        return [(taken.span_ms, taken.kernel_sum_ms) for taken in self._timer.stop()]

    def repeat(
        self, _: Frame, name: str, seed: int, calls: int, behind_s: float, wait: bool
    ) -> None:
        """Make many calls in a row, queued behind work of `behind_s` seconds.

        Returns when the calls are done (`wait`), or when they are launched.
        """
        self._poison_outputs()
        call, _workload = self._prepare_call(name, seed)
        self._machine.synchronize()
        if behind_s:
            self._machine.occupy(behind_s)
        for _call in range(calls - 1):
            call()
        seed_everything(seed)  # the last call is judged; this costs the same in every row
        call()
        if wait:
            self._machine.synchronize()

    def settle(self, _: Frame) -> None:
        """Wait for launched work."""
        self._machine.synchronize()

    def reset(self, _: Frame) -> dict[str, int]:
        """Forget the candidate, to make room for the next one; gives the memory still in use."""
        self._forget_outputs()
        self._loaded = self._workload = self._timer = None
        self._graphs.clear()
        while self._inputs:
            self._inputs.popitem()[1].block.close()
        self._close_results()
        self._imports.restore()
        self._machine.synchronize()
        return {"memory_bytes": self._machine.memory_bytes()}

    # ------------------------------------------------------------------------------- parts

    def _prepare_call(self, name: str, seed: int) -> tuple[Callable[[], Any], Workload]:
        assert self._workload is not None
        workload = self._inputs[name].bind_inputs(self._workload)
        seed_everything(seed)

        def call() -> None:
            self._outputs = workload.run_kernel()

        return call, workload

    def _captured_graph(self, name: str, seed: int, calls: int) -> _Graph:
        key = name, calls
        if key not in self._graphs:
            call, _workload = self._prepare_call(name, seed)
            replay = self._machine.capture_graph(lambda: [call() for _ in range(calls)])
            self._graphs[key] = _Graph(replay, self._outputs)
        return self._graphs[key]

    def _poison_outputs(self) -> None:
        """Poison the last call's outputs, so that a call that writes nothing has no result.

        The referee restores the inputs. Outputs of a graph keep their memory; other outputs are
        freed, so that the next call gets the same memory.
        """
        _poison_strided([output for output in self._outputs if not self._lies_in_inputs(output)])
        if not self._graphs:
            self._forget_outputs()

    def _keeping_returned(self, kernel: Any) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            self._returned = kernel(*args, **kwargs)
            return self._returned

        # if the file has no reference, the kernel's parameters show which arguments are written
        return functools.update_wrapper(noted, kernel, assigned=(), updated=())

    def _lies_in_inputs(self, output: torch.Tensor) -> bool:
        return any(inputs.block.holds(output) for inputs in self._inputs.values())

    def _describe_outputs(self, findings: Sequence[Finding]) -> Answer:
        forms = [
            {
                "shape": list(output.shape),
                "dtype": str(output.dtype).removeprefix("torch."),
                "device": output.device.type,
                "is_input": self._lies_in_inputs(output),
            }
            for output in self._outputs
        ]
        return {"outputs": forms, "findings": [to_json(finding) for finding in findings]}

    def _forget_outputs(self) -> None:
        self._outputs, self._returned = [], None

    def _close_results(self) -> None:
        if self._results is not None:
            self._results.close()
            self._results = None


def _autotuners() -> ModuleType | None:
    """Return what watches Triton's autotuners; ``None`` if nothing does."""
    return sys.modules.get("solkit.adapters.pinned_autotuners")


def _poison_strided(tensors: Sequence[torch.Tensor]) -> None:
    for tensor in tensors:
        if tensor.layout is torch.strided and tensor.numel():
            with contextlib.suppress(RuntimeError):  # elements share memory: left as it is
                poison_tensors([tensor])


def main(device: str, descriptor: int) -> None:
    """Serve on an inherited socket, then end without any exit handler."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    warm_up_machine(device, "candidate")
    gc.collect()
    gc.freeze()  # each candidate triggers collections, which would go through all of torch
    serve(Channel.of(descriptor, trusting=True), machine_for)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
