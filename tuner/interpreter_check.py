"""Trials of variants in Triton's interpreter, for correctness, before they cost GPU time.

A variant is judged by its parent: at each size both get the same inputs, in fp32 and with and
without an offset of their means, at some sizes in other layouts and with other masks. The variant
may be 4 times as far from the reference in fp64 as its parent is, or twice as far as the reference
in fp32 is, plus a rounding allowance. So a problem that is hard in fp32 blames no variant. Small
sizes are run with other parameters, too.

User code runs in child processes: in a sandbox where one can be made, else without the caller's
tokens in the environment. Both have a time limit. A checker has one sandbox for its parents, as
each would load torch again; while something of one parent runs, its files are the only ones in
there. A search has several checkers on many cores, so that parents need not wait for each other.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from solkit.analysis.pool import usable_cores
from solkit.core import Brief, Checked, Value
from solkit.errors import InputError, JobDiedError, SolkitError, UnsupportedError
from solkit.processes.jobs import Jobs, SandboxedJobs

NO_PARENT = "The interpreter does not run its parent"
"""How the reason begins that leaves all variants of a parent unchecked."""

_WORKER = "solkit.tuner._interpreter_trial"
_ALONE = "solkit.tuner._interpreter_trial:check_alone"
_ENVIRONMENT = {"TRITON_INTERPRET": "1"}
_PREPARE_S = 60.0
_ALONE_SHARE = 0.6
"""Part of its limit that the sizes of a candidate alone are chosen for: they may take longer."""
_CORES_PER_CHECKER = 8
_MOST_PARTS = 4  # processes that share the sizes of a parent
_ENDING_S = 1.0  # for calls whose process was ended to return


@dataclass(frozen=True)
class _Parent:
    """Cases by which variants of one kernel at one shape are judged.

    Attributes:
        files: their texts by name.
        lacking: why it cannot be run; else empty.
        cases: of `solkit.tuner._interpreter_trial.prepare`.
    """

    files: Mapping[str, str]
    lacking: str
    cases: Sequence[bytes]


class Checker:
    """Checks variants of one parent after another; threads may share it.

    Args:
        limit_s: seconds for a variant; then its process is killed and it stays unchecked.
    """

    def __init__(self, limit_s: float = 30.0) -> None:
        self._limit_s = limit_s
        self._jobs: Jobs | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._shown: Mapping[str, str] = {}
        self._running = 0
        self._turn = threading.Condition()
        self._parents: dict[tuple[str, str], _Parent] = {}
        self._preparing = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin to load torch, before the first parent comes.

        A problem that is read from a definition needs another sandbox, and loads it again.
        """
        jobs = self._open_jobs()
        with self._turn:
            if not self._is_closed:
                jobs.start((self._root().name,))

    def close(self) -> None:
        """End its processes and remove its files; a thread that still asks gets an error."""
        with self._turn:
            self._is_closed = True
            jobs, self._jobs = self._jobs, None
            folder, self._folder = self._folder, None
        self._parents.clear()
        if jobs is not None:
            jobs.close()
            with self._turn:
                self._turn.wait_for(lambda: not self._running, _ENDING_S)
            jobs.close()  # a thread that was about to call it has started it again
        if folder is not None:
            folder.cleanup()

    def check(self, source: str, brief: Brief) -> tuple[Checked, str]:
        """Tell whether `source`, a variant of the brief's, is right, and the reason, a sentence."""
        parent = self._parent_cases(brief)
        if parent.lacking:
            return Checked.UNCHECKED, f"{NO_PARENT}: {parent.lacking}"
        try:
            with self._only_showing(parent.files) as folder:
                variant = folder / f"variant_{abs(hash(source))}.py"
                variant.write_text(source, encoding="utf-8")
                paths = _problem_path(brief, folder), str(variant)
                args = (*paths, parent.cases, str(folder / "parent.py"))
                answer = self._call_worker(folder, "judge", *args, definition=brief.definition)
        except JobDiedError as error:
            # a timeout says nothing, a crash means a write out of bounds
            return (Checked.UNCHECKED if error.timed_out else Checked.WRONG), str(error)
        except InputError as error:
            return Checked.WRONG, str(error)
        except SolkitError as error:  # of this check: it says nothing about the variant
            return Checked.UNCHECKED, str(error)
        kind, why = answer
        return Checked(kind), str(why)

    def check_alone(
        self,
        kernel: str,
        problem: str | None,
        params: Mapping[str, Value],
        shape: Mapping[str, Value],
    ) -> tuple[Checked, str]:
        """Tell whether a file's candidate is plainly wrong, without a parent to judge it by.

        Args:
            kernel: its path.
            problem: the file with the reference, if it is another.
            params: of the candidate.
            shape: sizes of the problem.
        """
        files = problem or kernel, kernel
        args = (*files, dict(params), dict(shape), _ALONE_SHARE * self._limit_s)
        try:
            kind, why = self._open_jobs().call(_ALONE, *args, timeout_s=self._limit_s, shown=files)
        except SolkitError as error:  # of a kernel that needs a GPU, or of this check
            return Checked.UNCHECKED, str(error)
        return Checked(kind), str(why)

    def prepare(self, brief: Brief) -> None:
        """Run the brief's kernel, by which its variants are judged, before any is there."""
        self._parent_cases(brief)

    def _parent_cases(self, brief: Brief) -> _Parent:
        key = _key_of_parent(brief)
        with self._preparing:  # once, whoever asks first
            if key not in self._parents:
                self._parents[key] = self._prepare_parent(brief)
            return self._parents[key]

    def _prepare_parent(self, brief: Brief) -> _Parent:
        files = {"parent.py": brief.source}
        if brief.reference is not None and brief.definition is None:
            files["problem.py"] = brief.reference
        try:
            with self._only_showing(files) as folder:
                paths = _problem_path(brief, folder), str(folder / "parent.py")
                args = (*paths, dict(brief.params), dict(brief.shape))
                parts = self._call_prepare(folder, brief, *args)
        except SolkitError as error:
            return _Parent(files, str(error) or type(error).__name__, ())
        cases = [some for _, some in parts if some]
        lacking = "" if cases else next(reason for reason, _ in parts if reason)
        return _Parent(files, lacking, cases)

    def _call_prepare(self, folder: Path, brief: Brief, *args: object) -> list[tuple[str, bytes]]:
        """Run a parent at all sizes, on some cores: its variants wait for that."""
        count = min(max(usable_cores() // 2, 1), _MOST_PARTS)

        def call(part: int) -> tuple[str, bytes]:
            parts = *args, part, count
            try:
                reason, cases = self._call_worker(
                    folder, "prepare", *parts, definition=brief.definition, limit_s=_PREPARE_S
                )
            except JobDiedError as error:  # the other parts' sizes judge variants all the same
                return str(error), b""
            return str(reason), bytes(cases)

        with ThreadPoolExecutor(count, "prepare") as threads:
            return list(threads.map(call, range(count)))

    @contextlib.contextmanager
    def _only_showing(self, files: Mapping[str, str]) -> Iterator[Path]:
        """Yield a folder with these files; jobs of other parents wait, and their files are gone."""
        with self._turn:
            self._turn.wait_for(lambda: not self._running or self._shown == files)
            folder = self._folder_for(files)
            self._running += 1
        try:
            yield folder
        finally:
            with self._turn:
                self._running -= 1
                self._turn.notify_all()

    def _folder_for(self, files: Mapping[str, str]) -> Path:
        if self._is_closed:
            raise UnsupportedError("the checks have ended")
        folder = Path(self._root().name) / "parent"
        if self._shown != files:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")
            self._shown = files
        return folder

    def _root(self) -> tempfile.TemporaryDirectory[str]:
        """Return the folder that its sandbox shows, which stays; called in a turn."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="solkit-checking-")
        return self._folder

    def _call_worker(
        self,
        folder: Path,
        function: str,
        *args: object,
        definition: str | None = None,
        limit_s: float | None = None,
    ) -> Any:
        # the folder above, which stays: a sandbox that shows a new one loads torch again
        shown = (str(folder.parent), *([definition] if definition else []))
        timeout_s = limit_s or self._limit_s
        return self._open_jobs().call(
            f"{_WORKER}:{function}", *args, timeout_s=timeout_s, shown=shown
        )

    def _open_jobs(self) -> Jobs:
        """Return the jobs, started by whoever asks first: never again once they were closed."""
        with self._turn:
            if self._is_closed:
                raise UnsupportedError("the checks have ended")
            if self._jobs is None:
                self._jobs = _start_jobs()
            return self._jobs


class Checkers:
    """Checkers that share the parents: checks of one need not wait for a slow one of another.

    Each loads torch when it is started: the others once the first variant comes, since their own
    first parents would wait for that, which took 5 s beside a search.

    Args:
        count: how many; one for eight cores by default, and one more.
    """

    def __init__(self, count: int | None = None) -> None:
        count = count or 1 + usable_cores() // _CORES_PER_CHECKER
        self._checkers = [Checker() for _ in range(count)]
        self._places: dict[tuple[str, str], int] = {}
        self._has_checked = False
        self._placing = threading.Lock()

    def __enter__(self) -> Checkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """As for `Checker`; all at a time, since each waits a while for what it ends."""
        with ThreadPoolExecutor(len(self._checkers), "close") as threads:
            list(threads.map(Checker.close, self._checkers))

    def start(self) -> None:
        """As for `Checker`: the one that the first parent will get."""
        self._checkers[0].start()

    def check(self, source: str, brief: Brief) -> tuple[Checked, str]:
        """As for `Checker`."""
        self._start_others()
        return self._checker_of(brief).check(source, brief)

    def prepare(self, brief: Brief) -> None:
        """As for `Checker`."""
        self._checker_of(brief).prepare(brief)

    def _start_others(self) -> None:
        with self._placing:
            is_first, self._has_checked = not self._has_checked, True
        for checker in self._checkers[1:] if is_first else ():
            with contextlib.suppress(SolkitError):  # the check that needs it says so
                checker.start()

    def _checker_of(self, brief: Brief) -> Checker:
        with self._placing:
            place = self._places.setdefault(_key_of_parent(brief), len(self._places))
        return self._checkers[place % len(self._checkers)]


def _key_of_parent(brief: Brief) -> tuple[str, str]:
    return brief.source, repr((brief.definition, sorted(brief.shape.items())))


def _problem_path(brief: Brief, folder: Path) -> str:
    """Return the file with the problem: a definition is read where it is, with its workloads."""
    if brief.definition is not None:
        return brief.definition
    return str(folder / ("parent.py" if brief.reference is None else "problem.py"))


def _start_jobs() -> Jobs:
    prepare = f"{_WORKER}:warm_up"
    with contextlib.suppress(UnsupportedError):
        return SandboxedJobs(prepare, _ENVIRONMENT)
    return Jobs(prepare, _ENVIRONMENT, private=True)
