"""Workers on all cores, each holding one kernel file, and the tasks that they share.

::

    submit ─► queue, by file ─► thread per core ──request──► worker (a fork that holds one file)
                                      │ ▲                        │
                                 future └────────answer──────────┘

A thread stays with its file while there are tasks about it. Idle workers are kept, as many as there
are threads, since a file may take seconds to import what it needs. For the same reason a file with
few tasks left gets no further worker. A task that ends or hangs its worker fails alone: another
worker takes over.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar, Union

from solkit.analysis.dependencies import Stamps
from solkit.core import Device
from solkit.errors import JobDiedError, SolkitError, WorkerError
from solkit.processes.forkserver import Fork
from solkit.processes.host import Host
from solkit.processes.jobs import Jobs

_FUNCTION = "solkit.analysis.worker:serve"
_LOOK_S = 0.5  # how often an idle thread looks whether tasks that wait need it
_MOST_IN_A_ROW = 4  # tasks that go first, while others wait for a pool's only thread
_MOST_READY_S = 10.0  # that a worker is taken to need for its imports
T = TypeVar("T")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Source:
    """A kernel file as a worker finds it.

    Attributes:
        path: the file, or problem folder.
        reference: the file with the reference, if `path` lacks one.
        surroundings: working directory, module path and environment.
    """

    path: str
    reference: str | None
    surroundings: tuple[object, ...]

    @property
    def files(self) -> list[str]:
        """Paths of the file, and of the one with the reference."""
        return [file for file in (self.path, self.reference) if file is not None]

    @classmethod
    def here(cls, path: str, reference: str | None) -> Source:
        """Return a file in the present surroundings."""
        environment = frozenset(os.environ.items())
        return cls(path, reference, (_present_surroundings(), tuple(sys.path), hash(environment)))


def _present_surroundings() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - thousands of times a second
    except FileNotFoundError:
        return ""


@dataclass(frozen=True)
class Request:
    """A method of a worker's file to call.

    Attributes:
        method: its name.
        args: picklable.
        limit_s: seconds without progress after which the worker is killed.
        together: how many may be asked at once, which takes less time.
        compiles: whether the method takes the options ``jobs``, ``isolated`` and ``limit_s``. If it
            ends its worker it is asked again with isolated kernels, so that a compiler's crash
            costs only its own kernel's figures.
        run_limit_s: seconds that a candidate may run.
        goes_first: whether it comes ahead of others, on up to half of the threads; on a single
            one, four times in a row.
    """

    method: str
    args: tuple[Any, ...]
    limit_s: float
    together: int = 1
    compiles: bool = False
    run_limit_s: float | None = None
    goes_first: bool = False


@dataclass(frozen=True)
class Answer:
    """Answer of a worker.

    Attributes:
        value: a record of SolKit's.
        seconds: worker time.
        stamps: of each file that the worker has read so far.
    """

    value: Any
    seconds: float
    stamps: Stamps


Outcome = Union[Answer, SolkitError]


class PendingAnswer(Future[T]):
    """An answer to come; cancelling it ends the worker that is busy with it alone."""

    unwanted = False
    _abandon: Callable[[], None] | None = None

    def cancel(self) -> bool:
        """As for any future; a running request is given up, although this returns ``False``."""
        if super().cancel():
            return True
        self.unwanted = True
        if self._abandon is not None:
            self._abandon()
        return False


class AwaitedFutures(set[Future[Any]]):
    """Futures that other threads wait for; what is added after `give_up` is cancelled."""

    is_given_up = False

    def add(self, future: Future[Any]) -> None:
        """Add a future."""
        super().add(future)
        if self.is_given_up:
            future.cancel()

    def give_up(self) -> None:
        """Cancel all, and what is added from now on."""
        self.is_given_up = True
        for future in tuple(self):
            future.cancel()


def await_futures(
    futures: Collection[Future[T]], limit_s: float | None
) -> tuple[list[Future[T]], list[Future[T]]]:
    """Wait for futures; returns those that ended in time, and the others.

    `concurrent.futures.wait` overlooks the end of a request that is cancelled while it is queued.
    """
    ends = [(future, Future[Future[T]]()) for future in futures]
    for future, end in ends:
        future.add_done_callback(end.set_result)
    late = wait([end for _, end in ends], limit_s).not_done
    return (
        [future for future, end in ends if end not in late],
        [future for future, end in ends if end in late],
    )


@dataclass(frozen=True, eq=False)
class _Task:
    """A request, and the future that waits for its answer."""

    source: Source
    request: Request
    future: PendingAnswer[Any]
    convert: Callable[[Outcome], Any]

    def tell(self, answer: Outcome) -> None:
        if isinstance(answer, Answer) and isinstance(answer.value, SolkitError):
            answer = answer.value
        try:
            self.future.set_result(self.convert(answer))
        except Exception as error:
            self.future.set_exception(error)


def _enqueue(waiting: deque[_Task], task: _Task) -> None:
    """Add a task behind those that come before it."""
    place = len(waiting)
    if task.request.goes_first:
        place = sum(other.request.goes_first for other in waiting)
    waiting.insert(place, task)


class Pool:
    """Answers requests about kernel files, on several cores.

    Args:
        device: the target.
        jobs: forks the workers.
        workers: how many.
        env: environment variables of the workers, in addition to the caller's.
    """

    def __init__(
        self, device: Device, jobs: Jobs, workers: int, env: Mapping[str, str] | None = None
    ) -> None:
        self._device, self._jobs = device, jobs
        self._env = dict(env or {})
        self._workers = workers
        self._waiting: dict[Source, deque[_Task]] = {}
        self._queued = self._idle = 0
        self._serving_first = 0  # threads that serve what goes first
        self._first_in_a_row = 0  # tasks taken that went first, since one that did not
        self._served: Counter[Source] = Counter()  # by how many threads
        self._kept: list[_Worker] = []  # that answer nothing now, the latest last
        self._ready_s: dict[Source, float] = {}  # from the fork to the first answer
        # of the latest answer to a method, by any file and by each, first answers left out
        self._task_s: dict[tuple[Source | None, str], float] = {}
        self._moved_s: dict[Source, float] = {}  # when its tasks were last taken or answered
        self._changed = threading.Condition()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._running: set[_Worker] = set()
        self._taken_tasks: set[_Task] = set()  # by threads, which may still lack a worker for them

    def submit(
        self,
        source: Source,
        request: Request,
        future: PendingAnswer[T],
        convert: Callable[[Outcome], T],
    ) -> None:
        """Have a worker answer a request.

        Args:
            source: the file.
            request: what to ask about it.
            future: gets what `convert` returns or raises.
            convert: called in a thread of the pool with the answer, or the error that the method
                raised; `JobDiedError` if it ended or hung the worker.

        Raises:
            WorkerError: the pool is closed.
        """
        with self._changed:
            if self._closed:
                raise WorkerError("the analyser is closed")
            future._abandon = self._end_unwanted
            waiting = self._waiting.setdefault(source, deque())
            _enqueue(waiting, _Task(source, request, future, convert))
            self._queued += 1
            if self._queued > self._idle and len(self._threads) < self._workers:
                thread = threading.Thread(target=self._serve, daemon=True)
                thread.start()
                self._threads.append(thread)
            self._changed.notify()

    def filling(self) -> contextlib.AbstractContextManager[object]:
        """Return a block in which no task begins, so that those submitted there are shared out.

        Otherwise the first of many would each get a worker that has to load their file.
        """
        return self._changed

    def give_up(self, methods: Collection[str]) -> None:
        """Cancel the requests for some methods, those that are answered now as well."""
        with self._changed:
            tasks = [task for waiting in self._waiting.values() for task in waiting]
            tasks += self._taken_tasks
        for task in tasks:
            if task.request.method in methods:
                task.future.cancel()

    def close(self) -> None:
        """Cancel what waits, and end all workers."""
        with self._changed:
            self._closed = True
            tasks = [task for waiting in self._waiting.values() for task in waiting]
            self._waiting.clear()
            running = list(self._running)
            self._changed.notify_all()
        for task in tasks:
            task.future.cancel()
            task.future.set_running_or_notify_cancel()  # whoever waits: no thread takes it
        for worker in running:
            worker.kill()
        for thread in self._threads:
            thread.join()
        for worker in self._kept:
            self._end(worker)

    def _end_unwanted(self) -> None:
        """End the workers whose answers no one wants any more."""
        with self._changed:
            busy = [
                worker for worker in self._running if worker.tasks and _are_unwanted(worker.tasks)
            ]
            for worker in busy:
                worker.is_ending = True
        for worker in busy:
            worker.kill()

    # ------------------------------------------------------------------------- its threads

    def _serve(self) -> None:
        latest: Source | None = None
        while taken := self._next(latest):
            tasks, worker = taken
            latest = tasks[0].source
            active = [task for task in tasks if task.future.set_running_or_notify_cancel()]
            if active:
                self._answer(active, worker)
            else:
                self._keep(worker)
            with self._changed:
                self._taken_tasks.difference_update(tasks)
                self._served -= Counter([latest])
                self._serving_first -= tasks[0].request.goes_first

    def _next(self, latest: Source | None) -> tuple[list[_Task], _Worker | None] | None:
        """Return the next tasks, all of one file, and the worker kept for it; none if closed."""
        with self._changed:
            self._idle += 1
            while (source := self._choice(latest)) is None and not self._closed:
                self._changed.wait(_LOOK_S if self._waiting else None)
            self._idle -= 1
            if self._closed or source is None:
                return None
            self._moved_s[source] = time.monotonic()
            tasks = self._taken(self._waiting[source])
            if not self._waiting[source]:
                del self._waiting[source]
            self._queued -= len(tasks)
            self._taken_tasks.update(tasks)
            self._served[source] += 1
            goes_first = tasks[0].request.goes_first
            self._serving_first += goes_first
            self._first_in_a_row = self._first_in_a_row + 1 if goes_first else 0
            return tasks, self._unkept(source)

    def _taken(self, waiting: deque[_Task]) -> list[_Task]:
        """Take the first that waits and others like it, but not those that idle threads can do."""
        shared = self._is_worth(waiting[0].source, taking=1)
        tasks = [waiting.popleft()]
        first = tasks[0].request
        most = min(first.together, -(-self._queued // self._workers) if shared else self._queued)
        while len(tasks) < most and waiting and waiting[0].request.method == first.method:
            tasks.append(waiting.popleft())
        return tasks

    def _choice(self, latest: Source | None) -> Source | None:
        """Return the file whose tasks are next; ``None`` if none needs this thread."""
        kept = {worker.source for worker in self._kept}
        for sources in self._ordered_files():
            held = kept.intersection(sources)
            if latest in held:
                return latest
            best = min(held or filter(self._is_worth, sources), key=self._need, default=None)
            if best is not None:
                return best
        return None

    def _ordered_files(self) -> tuple[list[Source], list[Source]]:
        """Return files with tasks that go first and the others, these first on half the threads.

        Otherwise the tasks that go first, if they keep coming, would be the only ones.
        """
        first, others = list[Source](), list[Source]()
        for source, waiting in self._waiting.items():
            (first if waiting[0].request.goes_first else others).append(source)
        is_due = 2 * self._serving_first < self._workers
        if self._workers == 1:  # which serves nothing now
            is_due = self._first_in_a_row < _MOST_IN_A_ROW
        return (first, others) if is_due else (others, first)

    def _is_worth(self, source: Source, taking: int = 0) -> bool:
        """Tell whether its tasks will still be waiting when one more worker is ready.

        `taking` threads are about to serve it.
        """
        served, waiting = self._served[source] + taking, self._waiting[source]
        method = waiting[0].request.method
        task_s = self._task_s.get((source, method), self._task_s.get((None, method)))
        if served == 0 or task_s is None:
            return True
        usual_s = min(self._ready_s.values(), default=0.0)  # of other files
        ready_s = self._ready_s.get(source, usual_s)
        stuck_s = time.monotonic() - self._moved_s[source]  # a task may hang
        return max(len(waiting) * task_s / served, stuck_s) > ready_s

    def _need(self, source: Source) -> float:
        """Least for the file with the most tasks per worker."""
        return (self._served[source] + 1) / len(self._waiting[source])

    def _answer(self, tasks: Sequence[_Task], worker: _Worker | None) -> None:
        """Answer tasks of one method, and keep the worker, if it is still usable."""
        worker, outcome = self._asked(tasks, worker, isolated=False)
        if isinstance(outcome, JobDiedError) and not self._closed:
            if len(tasks) > 1:  # one of them is to blame
                self._keep(worker)
                for task in tasks:
                    self._answer([task], self._unkept(task.source))
                return
            if tasks[0].request.compiles and not outcome.timed_out:
                worker, outcome = self._asked(tasks, worker, isolated=True)
        self._keep(worker)  # first: whoever hears the answer may ask for the next
        answers: Sequence[Outcome] = (
            [outcome] * len(tasks) if isinstance(outcome, SolkitError) else outcome
        )
        for task, answer in zip(tasks, answers, strict=True):
            task.tell(answer)

    def _asked(
        self, tasks: Sequence[_Task], worker: _Worker | None, *, isolated: bool
    ) -> tuple[_Worker | None, Sequence[Answer] | SolkitError]:
        """Return the worker, if still usable; and the answers, or why there are none."""
        options = {"jobs": self._spare(tasks[0].source), "isolated": isolated}
        failure: SolkitError
        try:
            if not _are_unwanted(tasks):
                worker = self._fit(worker, tasks[0].source)
                worker.tasks = tasks
            if worker is None or _are_unwanted(tasks):
                return worker, JobDiedError("it was cancelled")
            answers = worker.ask([task.request for task in tasks], options)
            self._note(worker, tasks[0], answers[0])
            return worker, answers
        except SolkitError as error:
            failure = error
        except Exception as error:  # the system grants no process, say
            failure = WorkerError(f"{type(error).__name__}: {error}")
        finally:
            if worker is not None:
                worker.tasks = ()
        self._end(worker)
        return None, failure

    def _spare(self, source: Source) -> int:
        """Count the processes that a thread at a file may use, so that all cores have work."""
        with self._changed:
            busy = self._served.total()
            queued = sum(
                len(waiting)
                for other, waiting in self._waiting.items()
                if other != source or self._is_worth(source)
            )
            return max(self._workers // max(busy + queued, 1), 1)

    def _note(self, worker: _Worker, task: _Task, answer: Answer) -> None:
        """Remember what a worker's first answer took since it began, or what a later one took."""
        with self._changed:
            self._moved_s[worker.source] = time.monotonic()
            if not worker.answered:
                # the first answer may be a long compile, which says nothing of being ready
                took_s = min(time.monotonic() - worker.begun_s, _MOST_READY_S)
                known_s = self._ready_s.get(worker.source, took_s)
                self._ready_s[worker.source] = min(took_s, known_s)
            else:
                for source in (worker.source, None):
                    self._task_s[source, task.request.method] = answer.seconds
        worker.answered = True

    def _fit(self, worker: _Worker | None, source: Source) -> _Worker:
        """Return this worker, a kept one or a new one: it holds the file's present state."""
        while worker is not None or (worker := self._unkept(source)) is not None:
            if worker.is_fit_for(source):
                return worker
            self._end(worker)
            worker = None
        args = (self._device, source.path, source.reference)
        worker = _Worker(source, self._jobs, args, self._env)
        with self._changed:
            self._running.add(worker)
            closed = self._closed
        if closed:
            worker.kill()
        return worker

    def _keep(self, worker: _Worker | None) -> None:
        """Keep a worker for later; one may have to go, of the file that most are kept for."""
        if worker is None:
            return
        ended = None
        with self._changed:
            if worker.is_ending:
                ended = worker
            else:
                self._kept.append(worker)
            if len(self._kept) > self._workers:
                held = Counter(worker.source for worker in self._kept)
                ended = max(self._kept, key=lambda worker: held[worker.source])
                self._kept.remove(ended)
        self._end(ended)

    def _unkept(self, source: Source) -> _Worker | None:
        """Return a kept worker of a file, which is the caller's then; ``None`` if there is none."""
        with self._changed:
            kept_worker = next((worker for worker in self._kept if worker.source == source), None)
            if kept_worker is not None:
                self._kept.remove(kept_worker)
        return kept_worker

    def _end(self, worker: _Worker | None) -> None:
        if worker is not None:
            with self._changed:
                self._running.discard(worker)
            with contextlib.suppress(WorkerError):  # outliving being killed, it harms no answer
                worker.end()


def _are_unwanted(tasks: Sequence[_Task]) -> bool:
    return all(task.future.unwanted for task in tasks)


class _Worker:
    """A process that holds a kernel file.

    Attributes:
        source: the file.
        tasks: what it is asked now.
        begun_s: when it was forked, on `time.monotonic`'s clock.
        answered: whether it has answered anything: the first answer takes the file's imports.
        is_ending: whether it is being killed, since nobody wants its answer any more.
    """

    def __init__(
        self, source: Source, jobs: Jobs, args: tuple[Any, ...], env: Mapping[str, str]
    ) -> None:
        self.source, self._jobs = source, jobs
        self.tasks: Sequence[_Task] = ()
        self.begun_s, self.answered, self.is_ending = time.monotonic(), False, False
        self._stamps = Stamps({}, {})

        def start(descriptor: int) -> Fork:
            return jobs.fork(_FUNCTION, args, (descriptor,), source.files, env)

        self._host = Host(start, f"analysing {source.path}")

    def is_fit_for(self, source: Source) -> bool:
        """Tell whether it lives and holds this file, and no file that it read has changed since."""
        return self._host.is_alive and source == self.source and self._stamps.are_current()

    def ask(self, requests: Sequence[Request], options: Mapping[str, Any]) -> list[Answer]:
        """Return its answers to requests that differ only in arguments.

        Raises:
            JobDiedError: it ended, or made no progress for too long; the process is gone.
            WorkerError: its answer makes no sense, or its server is gone.
        """
        first = requests[0]
        extra = {**options, "limit_s": first.run_limit_s} if first.compiles else {}
        call = first.method, [request.args for request in requests], extra
        try:
            frame = self._host.call({}, pickle.dumps(call), limit_s=first.limit_s)
            values, seconds, new = self._jobs.read(frame.payload)
            self._stamps = self._stamps.and_(new)
            answers = [Answer(value, float(seconds), self._stamps) for value in values]
            if len(answers) != len(requests):
                raise WorkerError(f"a worker gave {len(answers)} answers to {len(requests)}")
            return answers
        except WorkerError:
            raise
        except Exception as error:
            raise WorkerError(f"a worker gave an invalid answer: {error}") from error

    def kill(self) -> None:
        """End it, from any thread."""
        with contextlib.suppress(WorkerError):  # as for `Pool._end`
            self._host.end()

    def end(self) -> None:
        """End it and its channel, from the thread that asks it."""
        self._host.close()
