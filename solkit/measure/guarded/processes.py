"""The processes of a session: the referee, and one process for each candidate.

All are forked from a server that has torch and triton loaded (`solkit.processes.forkserver`), so a
new one costs milliseconds and a CUDA context. A candidate's process is replaced after a fault, a
hang or a finding; otherwise the next candidate uses it.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from solkit.core import MeasureSettings
from solkit.errors import SolkitError, UnsupportedError, WorkerError
from solkit.measure.timing.gpu_lock import exclusive_gpu, gpu_uuid, is_gpu_awaited
from solkit.processes.channel import Channel, ClosedError, connected_pair
from solkit.processes.child import Child
from solkit.processes.forkserver import Fork, ForkServer, working_directory
from solkit.processes.host import describe_ending
from solkit.processes.sandbox import Sandbox
from solkit.processes.standby import IDLE_NAME, ReadyPair, take_pair

QUOTED_LINES = 30
"""The last lines of a process's output that are reported."""

_DEAD_S = 2.0
_ALTERNATING_S = 60.0  # turns of others that are no news to a session that left the GPU to them
_START_S = 150.0  # for new processes to open their contexts
_MOST_SERVED = 100  # candidates in one process: compiled modules are never unloaded
_MOST_JUDGED = 500  # by one referee: on a GPU it grows by 17 kB a candidate (bench/thousand.py)

_REFEREE = "solkit.measure.guarded.referee:main"
_CANDIDATE = "solkit.measure.guarded.candidate:main"
PREPARE = "solkit.measure.guarded.warming:warm_up"
"""What the server imports that forks these processes."""

ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",  # the last prints before a crash
    "KINETO_LOG_LEVEL": "99",  # the profiler's chatter
}
"""Variables of all these processes."""

# The referee's large tensors come and go: without it free memory lies in pieces that fit nothing,
# and cannot be given back. A candidate keeps what torch does by default.
_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
measuring_server = ForkServer(PREPARE, ENVIRONMENT, borrows=True)
"""Forks all of a command's processes that measure: each server would load torch again."""


class Processes:
    """The referee, the candidates' processes, and the lock on their GPU.

    Args:
        gpu: the GPU, as ``CUDA_VISIBLE_DEVICES`` names it.
        device: ``"cuda"`` or ``"cpu"``.
        settings: sandbox, memory and patience.

    Raises:
        UnsupportedError: this machine cannot run a sandbox; the message says what to do.
    """

    def __init__(self, gpu: str, device: str, settings: MeasureSettings) -> None:
        self._gpu, self._device, self._patience_s = gpu, device, settings.patience_s
        self._sandboxes = {
            function: Sandbox(PREPARE, ENVIRONMENT, device)
            for function in ((_REFEREE, _CANDIDATE) if settings.sandbox else ())
        }
        self.loads: tuple[str, ...] = ()  # modules that candidates will import
        self._paths: tuple[str, ...] = ()  # of candidates and problem, which a sandbox must show
        self._lock, self._is_locked = contextlib.ExitStack(), False
        self._has_left_gpu = False  # to another session: it waits however long then
        self._locked_at_s = 0.0
        self._control: Channel | None = None
        self._judged = 0  # candidates, by this referee
        self._served: Counter[int] = Counter()  # candidates, by place, in the process there
        self.referee: Child | None = None
        self.candidates: dict[int, Child] = {}  # by place; all but the first to compare
        self.uuid: str | None = None  # of the locked GPU; without NVML it stays unknown

    def await_gpu(self) -> None:
        """Lock the GPU, once no other session holds it.

        Raises:
            GpuBusyError: another session holds it for too long.
        """
        if self._control is None:
            is_back = self._has_left_gpu
            self._lock_gpu(self._patience_s)
            if is_back:
                self._restart()

    @property
    def held_s(self) -> float | None:
        """Seconds for which other sessions have had to wait for this one; ``None``: they do not."""
        if self.uuid is None or not self._is_locked:
            return None
        return time.monotonic() - self._locked_at_s

    def leave_gpu(self) -> bool:
        """End the processes there and release the GPU, if another session waits; tells whether.

        Servers stay, which have loaded torch and use no GPU. The next `await_gpu` waits in turn,
        and starts what was ended.
        """
        if self.uuid is None or not self._is_locked or not is_gpu_awaited(self.uuid):
            return False
        self._has_left_gpu = True
        try:
            self._end_children()
        finally:
            self._lock.close()
            self._is_locked = False
        return True

    def load(self, paths: Sequence[str]) -> None:
        """Load what the processes need, as torch, which takes seconds and no GPU.

        A sandbox must show `paths`: the candidates' files and the problem's.
        """
        every = [sandbox.server(paths) for sandbox in self._sandboxes.values()]
        if not {_REFEREE, _CANDIDATE} <= self._sandboxes.keys():
            every.append(measuring_server)
        for server in every:
            server.start()
        for server in every:
            server.load()

    def start_candidates(
        self, count: int, paths: Sequence[str], patience_s: float | None = None
    ) -> tuple[Channel, tuple[Child, ...]]:
        """Return the channel to the referee and `count` candidates' processes; start missing ones.

        All are forked at once, so they create their CUDA contexts in parallel. A sandbox must show
        `paths`: the candidates' files and the problem's. Another session that holds the GPU is
        awaited for `patience_s`, by default as long as the settings say.

        Raises:
            GpuBusyError: another session holds the GPU.
        """
        self._paths = tuple(paths)
        for sandbox in self._sandboxes.values():
            sandbox.server(self._paths)  # a new server ends the processes of the old one
        control = self._control_of_referee(self._patience_s if patience_s is None else patience_s)
        for place in range(count):
            self._refresh_candidate(control, place)
            self._served[place] += 1
        self._judged += count
        return control, tuple(self.candidates[place] for place in range(count))

    def restock(self) -> None:
        """Start the process of the next candidate, if its last one ended or is worn out.

        It warms up while the caller does something else than measure.
        """
        if self._control is None or self.referee is None or not self.referee.is_alive:
            return
        with contextlib.suppress(OSError, ClosedError, WorkerError):  # the next candidate meets it
            self._refresh_candidate(self._control, 0)

    def _refresh_candidate(self, control: Channel, place: int) -> None:
        """Start a candidate's process where there is none, or one that has served long enough."""
        is_worn = self._served[place] >= _MOST_SERVED
        if place in self.candidates and (is_worn or not self.candidates[place].is_alive):
            self.replace_candidate(place)
        if place not in self.candidates:
            self._start_candidate(control, place)

    def replace_candidate(self, place: int = 0, grace_s: float = 0.0) -> int:
        """End a candidate's process; gives its return code. The next candidate gets a new one."""
        return self.candidates.pop(place).end(grace_s)

    def describe_candidate_end(self, place: int) -> str:
        """Say how a candidate's process ended by itself."""
        return describe_ending(self.replace_candidate(place, _DEAD_S))

    @property
    def pids(self) -> tuple[int, ...]:
        """Our processes that may use the GPU."""
        children = (self.referee, *self.candidates.values())
        return tuple(child.pid for child in children if child is not None)

    def report_death(self) -> str:
        """Return the reason, in words, why the referee ended; end all other processes too."""
        if self.referee is None:
            return "the referee's process is gone"
        ended = describe_ending(self.referee.end(_DEAD_S))
        printed = self.referee.printed_lines()[-QUOTED_LINES:]
        self.close()
        return "\n".join((f"the referee's process failed: {ended}", *printed))

    def close(self) -> None:
        """End all processes and their descendants; `start_candidates` starts new ones."""
        try:
            self._end_processes()
        finally:
            self._lock.close()
            self._is_locked = self._has_left_gpu = False

    def _end_processes(self) -> None:
        try:
            self._end_children()
        finally:
            for sandbox in self._sandboxes.values():
                sandbox.close()

    def _end_children(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
        try:
            for child in (*self.candidates.values(), self.referee):
                if child is not None:
                    child.end()
        finally:
            self.candidates, self.referee = {}, None

    def _restart(self) -> None:
        """Start the referee and a candidate's process anew, and wait until they are ready.

        What fails here, the next candidate meets and reports.
        """
        try:
            control, _ = self.start_candidates(1, self._paths)
            control.send({"ping": True})
            control.receive(_START_S)
        except (SolkitError, ClosedError, TimeoutError, OSError):
            self._end_children()
        except BaseException:  # a late answer would be taken for the next request's
            self._end_children()
            raise

    def _control_of_referee(self, patience_s: float) -> Channel:
        """Return the channel to the referee; start it if it is missing, dead or worn out."""
        referee = None if self._judged >= _MOST_JUDGED else self.referee
        if referee is not None and self._control is not None and referee.is_alive:
            return self._control
        if self.referee is not None:  # else a sandbox would lose what `load` loaded
            self._end_processes()
        self._judged = 0
        self._lock_gpu(patience_s)
        if self._take_ready_pair():
            assert self._control is not None
            return self._control
        for sandbox in self._sandboxes.values():
            sandbox.server(self._paths).start()  # they load torch in parallel
        ours, theirs = connected_pair()
        self._control = Channel(ours, trusting=True)
        self.referee = self._start_child(_REFEREE, theirs.fileno())
        theirs.close()
        return self._control

    def _take_ready_pair(self) -> bool:
        """Take the processes that a daemon keeps ready for this GPU; tells whether there are."""
        if self._sandboxes or (self._device != "cpu" and self.uuid is None):
            return False
        pair = take_pair(self.uuid, self._device)
        if pair is None:
            return False
        if not pair.is_alive:
            pair.close()
            return False
        self._control = pair.control
        self.referee, self.candidates[0] = (
            Child(Fork(lifeline, measuring_server, pid), output)
            for lifeline, pid, output in zip(pair.lifelines, pair.pids, pair.outputs, strict=True)
        )
        self._served[0] = 0
        self._control.send(
            {
                "adopt": {
                    role: {
                        "env": environment_of(function, self._gpu),
                        "folder": working_directory(),
                        "path": list(sys.path),
                    }
                    for role, function in (("referee", _REFEREE), ("candidate", _CANDIDATE))
                }
            }
        )
        return True

    def _lock_gpu(self, patience_s: float) -> None:
        """Lock the GPU before any of our processes uses it, until `close`."""
        if self._device == "cpu" or self._is_locked:
            return
        silence_s = 1.0
        if self._has_left_gpu:
            patience_s, silence_s = math.inf, _ALTERNATING_S
        with contextlib.suppress(UnsupportedError):  # no NVML: the referee reports what torch sees
            self.uuid = gpu_uuid(self._gpu)
        if self.uuid is not None:
            self._lock.enter_context(exclusive_gpu(self.uuid, patience_s, silence_s))
        self._is_locked, self._has_left_gpu = True, False
        self._locked_at_s = time.monotonic()

    def _start_candidate(self, control: Channel, place: int) -> None:
        referees, theirs = connected_pair()
        candidate = self._start_child(_CANDIDATE, theirs.fileno())
        theirs.close()
        self.candidates[place], self._served[place] = candidate, 0
        control.send({"candidate": candidate.pid, "place": place}, b"", (referees.fileno(),))
        referees.close()

    def _start_child(self, function: str, descriptor: int) -> Child:
        """Return a new process, with this process's module path."""
        args, env = (self._device,), environment_of(function, self._gpu)
        loads = self.loads if function == _CANDIDATE else ()
        sandbox = self._sandboxes.get(function)
        if sandbox is None:
            return Child.start(
                measuring_server, function, args, env=env, descriptors=(descriptor,), loads=loads
            )
        return Child.start(
            sandbox.server(self._paths),
            function,
            args,
            env=sandbox.environment(env),
            descriptors=(descriptor,),
            folder=sandbox.folder,
            loads=loads,
        )


def environment_of(function: str, gpu: str) -> dict[str, str]:
    """Return the environment of a referee or a candidate's process that sees this GPU alone."""
    visible = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": gpu}  # as NVML counts
    env = {**os.environ, **ENVIRONMENT, **visible}
    if function == _REFEREE:
        env.setdefault(*_ALLOCATOR)
    return env


def start_ready_pair(server: ForkServer, gpu: str, device: str) -> ReadyPair:
    """Start a referee and a candidate's process for whoever takes them.

    Args:
        server: forks them.
        gpu: the GPU, as for `Processes`.
        device: likewise.
    """
    control, referees = connected_pair()
    requests, candidates = connected_pair()
    ends: list[tuple[Fork, int]] = []
    with referees, candidates, requests, contextlib.ExitStack() as own:
        for function, theirs in ((_REFEREE, referees), (_CANDIDATE, candidates)):
            read, write = os.pipe()
            own.callback(os.close, read)
            try:
                fork = server.fork(
                    function,
                    (device,),
                    env=environment_of(function, gpu),
                    descriptors=(theirs.fileno(),),
                    output=write,
                    name=IDLE_NAME,
                )
            finally:
                os.close(write)
            ends.append((fork, read))
        (referee, one), (candidate, other) = ends
        channel = Channel(control, trusting=True)
        header = {"candidate": candidate.pid, "place": 0}
        channel.send(header, b"", (requests.fileno(),))
        own.pop_all()
    lifelines = referee.detach(), candidate.detach()
    return ReadyPair(channel, (referee.pid, candidate.pid), lifelines, (one, other))
