"""Tuned folders in a running program: each launch gets its tuned configuration.

::

    import solkit
    solkit.apply("tuned/")            # at the program's start
    print(solkit.applied())           # what was applied, what was not, and why

An entry is applied where the program's text, the bucket, the GPU and Triton's version are those it
was tuned with, and where its launcher allows it:

- Triton's autotuner gets the configuration and times nothing. One that its list lacks needs outputs
  that were compared, as does everything that a plain launch gets.
- Inductor's kernels are compiled with it. Only blocks that Inductor's own tuner varies may change.
- A plain launch gets warps and stages: its host code may use a block's size elsewhere, for a grid
  or a buffer. A block changes where the compiled kernel proves that only the grid follows from it.

Whatever does not match runs as before.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from solkit.adapters import live_tuned
from solkit.adapters.cache_transfer import CACHE
from solkit.adapters.live_compiles import CompileWatch
from solkit.adapters.live_tuned import ChoiceRequest, Params
from solkit.core.outcomes import canonical
from solkit.core.tuned import (
    PLAIN_LAUNCH,
    AppliedChoice,
    LaunchBucket,
    Launcher,
    TunedEntry,
    TunedFolder,
)
from solkit.datasets.tuned_folder import FILE, read_tuned_folder
from solkit.errors import SolkitError
from solkit.processes.startup import is_off, shim_environment

VARIABLE = "SOLKIT_APPLY"
"""The environment variable that names a tuned folder; ``0`` turns all applying off."""


def apply(folder: str | os.PathLike[str]) -> None:
    """Give launches of this process their tuned configurations, from now on.

    Call it before the first launch: what a launcher has chosen already stays. Processes that are
    forked inherit it. At exit one line on stderr says what was applied. Kernels that `solkit
    precompile` put into the folder are found by Triton, and that line says what it compiled.

    Args:
        folder: as `solkit batch` or `solkit precompile` wrote it. ``SOLKIT_APPLY=0`` in the
            environment makes this call do nothing.

    Raises:
        InputError: it is no such folder, or damaged. The program's launches stay as they are.
    """
    if is_off(VARIABLE):
        return
    chooser = _TunedChooser(read_applied_folder(folder), os.fspath(folder))
    if _STATE.chooser is None:
        atexit.register(_print_summary)
    _STATE.chooser = chooser
    live_tuned.serve(chooser)
    _serve_cache(folder)


def gpu_and_triton(device_index: int = 0) -> str:
    """Return a name of a GPU of this machine with this Triton, e.g. for a folder."""
    import triton

    return f"{_live_device(device_index) or 'unknown-gpu'}-triton-{_release(triton.__version__)}"


def empty_folder(device_index: int = 0) -> TunedFolder:
    """Return a tuned folder's content for a GPU of this machine, without any entry."""
    import triton

    return TunedFolder(_live_device(device_index), "", triton.__version__)


def is_for_this_gpu(tuned: TunedFolder, device_index: int = 0) -> bool:
    """Tell whether a folder was tuned on a GPU like this one, with this Triton."""
    import triton

    from solkit.roofline.devices import catalogue_key

    own = _release(triton.__version__)
    return catalogue_key(tuned.device) == _live_device(device_index) and (
        not tuned.triton or _release(tuned.triton) == own
    )


def apply_further(tuned: TunedFolder, folder: str | os.PathLike[str]) -> None:
    """Apply a folder's entries besides those that are applied, if both are for one GPU and Triton.

    Nothing is printed at exit but what `apply` prints.
    """
    before = _STATE.chooser
    chooser = _TunedChooser(tuned, os.fspath(folder))
    if before is not None and not tuned.entries:
        chooser = before
    elif before is not None:
        if (before.tuned.device, before.tuned.triton) == (tuned.device, tuned.triton):
            others = (entry for entry in before.tuned.entries if entry not in tuned.entries)
            both = replace(tuned, entries=(*tuned.entries, *others))
            chooser = _TunedChooser(both, before.folder)
        chooser.notes.update(before.notes)
    _STATE.chooser = chooser
    live_tuned.serve(chooser)
    if Path(folder, CACHE).is_dir():
        _serve_cache(folder)


def entries_for(request: ChoiceRequest) -> tuple[TunedEntry, ...]:
    """Return the applied entries that fit a launch."""
    chooser = _STATE.chooser
    return () if chooser is None else tuple(chooser.entries_for(request))


def withdraw_choice(request: ChoiceRequest, why: str) -> None:
    """Apply what was chosen for a launch no longer, and note why.

    What the launcher has chosen already stays.
    """
    if _STATE.chooser is not None:
        _STATE.chooser.withdraw(request, why)


def read_applied_folder(folder: str | os.PathLike[str]) -> TunedFolder:
    """Read what `apply` takes: a folder that is precompiled, but not tuned, has no entries.

    Raises:
        InputError: it is neither, or damaged.
    """
    if Path(folder, CACHE).is_dir() and not Path(folder, FILE).exists():
        return TunedFolder("")
    return read_tuned_folder(folder)


def choose_for(folder: str | os.PathLike[str], device: str) -> None:
    """Let launches of this process choose as those of a program on another GPU would.

    Args:
        folder: a tuned folder.
        device: the GPU's key in the catalogue.

    Raises:
        InputError: it is no tuned folder, or damaged.
    """
    _STATE.device = device
    _STATE.chooser = _TunedChooser(read_tuned_folder(folder), os.fspath(folder))
    live_tuned.serve(_STATE.chooser)


def _serve_cache(folder: str | os.PathLike[str]) -> None:
    """Put what was compiled ahead where Triton looks, and note what is compiled after all."""
    _stop_watch()
    cache = Path(folder, CACHE)
    if cache.is_dir():
        _STATE.watch = CompileWatch(cache.absolute())
        _STATE.watch.start()


def _stop_watch() -> None:
    if _STATE.watch is not None:
        _STATE.watch.stop()
    _STATE.watch = None


def apply_from_environment() -> None:
    """Apply the folder that ``SOLKIT_APPLY`` names; the program runs as before without it."""
    try:
        apply(os.environ[VARIABLE])
    except SolkitError as error:
        print(f"solkit: nothing is applied: {error}", file=sys.stderr)


def environment_for(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Return the environment of a program that a folder is applied to, unless the user's is off."""
    if is_off(VARIABLE):
        return dict(os.environ)
    return shim_environment(**{VARIABLE: str(Path(folder).absolute())})


def withdraw() -> None:
    """Undo `apply`; what autotuners and Inductor have chosen stays."""
    _STATE.chooser = None
    _stop_watch()
    atexit.unregister(_print_summary)
    live_tuned.withdraw()


def applied() -> tuple[AppliedChoice, ...]:
    """Return what `apply` did in this process so far, in the order of the first launches.

    Returns:
        One record per kind of launch that a tuned entry might have been for.
    """
    chooser = _STATE.chooser
    return () if chooser is None else tuple(chooser.notes.values())


def obstacle(entry: TunedEntry, tuned: TunedFolder, device: str, triton: str) -> str:
    """Say why an entry is applied to no launch on this GPU with this Triton; empty if it may be.

    Args:
        entry: of the folder.
        tuned: the folder.
        device: the GPU's key in the catalogue.
        triton: the version.
    """
    from solkit.roofline.devices import catalogue_key

    if catalogue_key(tuned.device) != device:
        return f"it was tuned on {tuned.device}, and this is {device or 'an unknown GPU'}"
    if tuned.triton and _release(tuned.triton) != _release(triton):
        return f"it was tuned with Triton {tuned.triton}, and this is {triton}"
    if entry.launcher != "jit":
        return ""
    blocks = sorted(set(entry.changes).difference(PLAIN_LAUNCH, entry.tiles))
    if blocks:
        return f"the caller's code may use {', '.join(blocks)} elsewhere, as in its grid"
    if not entry.changes:
        return "it is in use already"
    return "" if entry.verified else "outputs with it were not compared"


def _release(version: str) -> str:
    return version.partition("+")[0]


@functools.cache
def _live_device(index: int) -> str:
    """Return the key of a GPU of this machine, by CUDA's number; empty if it is not known."""
    from solkit.roofline import nvml

    if _STATE.device:
        return _STATE.device
    try:
        return nvml.live_device(index).key
    except SolkitError:
        return ""


@dataclass
class _TunedChooser:
    """Knows the entries of a folder, and notes what became of them."""

    tuned: TunedFolder
    folder: str
    notes: dict[tuple[str, ...], AppliedChoice] = field(default_factory=dict)
    by_name: dict[tuple[str, Launcher], list[TunedEntry]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {}
        for entry in self.tuned.entries:
            self.by_name.setdefault((entry.kernel, entry.launcher), []).append(entry)

    def names(self, kernel: str, launcher: Launcher) -> bool:
        return (kernel, launcher) in self.by_name

    def parameters(self, kernel: str, launcher: Launcher) -> frozenset[str]:
        entries = self.by_name.get((kernel, launcher), ())
        return frozenset(name for entry in entries for name in _names_in(entry))

    def choose(self, request: ChoiceRequest) -> Params | None:
        try:
            entry, why = self._entry_of(request)
        except Exception as error:  # the launch goes on, and the summary says so
            entry, why = None, f"{type(error).__name__}: {error}"
        self._note(request, {} if entry is None else entry.params, why)
        return entry.params if entry is not None and not why else None

    def failed(
        self, request: ChoiceRequest, params: Params, error: Exception, ran: bool = False
    ) -> None:
        """Replace the note of an applied choice: it is not, or no longer if it ran before."""
        if not ran:
            self.notes.pop(_note_key(request, params, ""), None)
        self._note(request, params, f"{type(error).__name__}: {error}".partition("\n")[0])

    def entries_for(self, request: ChoiceRequest) -> list[TunedEntry]:
        """Return the entries that fit a launch."""
        listed = self.by_name.get((request.kernel, request.launcher), ())
        digest = request.digest or _digest_of(request)
        return [e for e in listed if e.program == digest and _fits(e, request)]

    def withdraw(self, request: ChoiceRequest, why: str) -> None:
        """Drop the entries that fit a launch, and note why."""
        dropped, name = self.entries_for(request), (request.kernel, request.launcher)
        self.by_name[name] = [e for e in self.by_name.get(name, ()) if e not in dropped]
        if not self.by_name[name]:
            del self.by_name[name]
        kept = tuple(entry for entry in self.tuned.entries if entry not in dropped)
        self.tuned = replace(self.tuned, entries=kept)
        for entry in dropped:
            self.notes.pop(_note_key(request, entry.params, ""), None)
            self._note(request, entry.params, why)

    def _note(self, request: ChoiceRequest, params: Params, why: str) -> None:
        # no lock: a signal's handler or a fork may launch while another launch holds it
        choice = AppliedChoice(request.kernel, request.launcher, dict(params), not why, why)
        self.notes.setdefault(_note_key(request, params, why), choice)

    def _entry_of(self, request: ChoiceRequest) -> tuple[TunedEntry | None, str]:
        """Return the entry for a launch, and why it is not applied; empty if it is."""
        same = [
            entry
            for entry in self.by_name[request.kernel, request.launcher]
            if entry.program == (request.digest or _digest_of(request))
        ]
        if not same:
            return None, "its text, or that of a function it calls, is not the one that was tuned"
        fitting = [entry for entry in same if _fits(entry, request)]
        if not fitting:
            return None, "no tuned size is like this launch's"
        entry = _closest(fitting, request.bucket)
        if request.launcher == "inductor" and any(e.params != entry.params for e in fitting):
            return None, "the compiled kernel serves sizes that were tuned differently"
        import triton

        device = _live_device(request.device_index)
        why = obstacle(entry, self.tuned, device, triton.__version__)
        return entry, why or _forbidden(entry, request)


def _digest_of(request: ChoiceRequest) -> str:
    from solkit.adapters.launch_records import program_digest

    # a recorded copy may call its helpers by other names
    return str(vars(request.function).get(live_tuned.PROGRAM, "")) or program_digest(
        request.function, request.passed
    )


def _names_in(entry: TunedEntry) -> Iterator[str]:
    bucket = entry.bucket
    yield from (*bucket.constants, *bucket.scalars, *bucket.shapes, *bucket.dtypes)
    yield from (*entry.in_use, *entry.params)


def _fits(entry: TunedEntry, request: ChoiceRequest) -> bool:
    if request.launcher == "inductor":
        return all(
            1 << (size - 1).bit_length() == request.bucket.scalars.get(name, 0)
            for name, size in entry.bucket.scalars.items()
            if name in request.bucket.scalars
        )
    return entry.bucket.holds(request.bucket)


def _closest(entries: Iterable[TunedEntry], bucket: LaunchBucket) -> TunedEntry:
    """Return the entry whose sizes are nearest; of several, always the same."""
    many = sorted(entries, key=lambda entry: canonical({**entry.params}))
    if len(many) == 1 or not set(many[0].bucket.shapes) <= set(bucket.shapes):
        return many[0]
    return min(many, key=lambda entry: entry.bucket.distance(bucket))


def _forbidden(entry: TunedEntry, request: ChoiceRequest) -> str:
    """Say why a launcher must not get a configuration; empty if it may."""
    if request.launcher == "jit":
        now = {name: request.in_use.get(name) for name in entry.in_use}
        changed = _differences(entry.in_use, now)
        return f"the program now launches it with {changed}" if changed else ""
    first = request.offers[0]
    if any(entry.params.items() <= offer.items() for offer in request.offers):
        return ""
    if request.launcher == "autotuner":
        if not set(entry.params) <= set(first):
            return "its parameters are not those of the autotuner's list"
        return "" if entry.verified else "it is not on the list, and outputs were not compared"
    fixed = {n for n, v in entry.params.items() if first.get(n) != v} - request.free
    return f"Inductor's program may rest on {', '.join(sorted(fixed))}" if fixed else ""


def _differences(before: Params, after: Params) -> str:
    return ", ".join(f"{n}={value}" for n, value in after.items() if before.get(n) != value)


def _note_key(request: ChoiceRequest, params: Params, why: str) -> tuple[str, ...]:
    return request.kernel, request.launcher, canonical(params), why


@dataclass
class _State:
    """The chooser of this process, the GPU that it stands for, and who notes compiles; if any."""

    chooser: _TunedChooser | None = None
    device: str = ""
    watch: CompileWatch | None = None


_STATE = _State()

# ------------------------------------------------------------------------------ the line at exit


def _print_summary() -> None:
    """Say what was applied, unless this process only served another, as Inductor's compilers do."""
    chooser = _STATE.chooser
    if chooser is not None and (chooser.notes or _used_gpu()):
        line = summary(chooser.tuned, chooser.notes.values(), chooser.folder)
        compiles = "" if _STATE.watch is None else f"; {_STATE.watch.sentence()}"
        print(f"solkit: {line}{compiles}", file=sys.stderr)


def _used_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def summary(tuned: TunedFolder, choices: Iterable[AppliedChoice], folder: str) -> str:
    """Say in a line what was applied and what was not, and why.

    Args:
        tuned: the folder's content.
        choices: what was done.
        folder: its name.
    """
    notes = list(choices)
    names = sorted({choice.kernel for choice in notes if choice.applied})
    line = f"{folder}: applied to {len(names)} kernels" + (f" ({_listed(names)})" if names else "")
    refused = Counter((c.kernel, c.why) for c in notes if not c.applied)
    missing = {entry.kernel for entry in tuned.entries} - {choice.kernel for choice in notes}
    rest = [f"{kernel} ({why})" for kernel, why in sorted(refused)]
    if missing:
        rest.append(f"{_listed(sorted(missing))} (not launched in this process)")
    return f"{line}; not applied: {'; '.join(rest)}" if rest else line


_MOST_NAMES = 8


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
