"""The sides of a diff: which compilers, devices, revisions and parameters are compared."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import solkit
from solkit.adapters.compilers import Compiler, find_compiler, installed_compiler
from solkit.analysis.analyser import Analyser
from solkit.analysis.sides import Place
from solkit.core import Device, Side, Value
from solkit.core.quantities import settings_text
from solkit.errors import InputError
from solkit.pipeline.target import named_device, target_device

_GIT_S = 120.0


@dataclass(frozen=True)
class DiffAxes:
    """Axes in which two sides of a diff may differ. One of the first three has two values or more.

    Attributes:
        triton: versions, folders or interpreters, as in `solkit.adapters.compilers.find_compiler`;
            one alone is compared with this environment's, unless something else is compared.
        revisions: of the kernel files; one alone is compared with the files as they are.
        params: parameters by name; one set alone is compared with the files' own, unless something
            else is compared.
        devices: names of the catalogue; several are compared if nothing else is, and otherwise each
            has a diff of its own.
    """

    triton: Sequence[str] = ()
    revisions: Sequence[str] = ()
    params: Sequence[Mapping[str, Value]] = ()
    devices: Sequence[str | Device] = ()


@dataclass(frozen=True)
class World:
    """A side before anything is started.

    Attributes:
        compiler: of this environment or another.
        device: the target.
        revision: of the kernel files; empty for the files as they are.
        params: of the candidates.
        name: what sets it apart.
    """

    compiler: Compiler
    device: Device
    revision: str = ""
    params: Mapping[str, Value] = field(default_factory=dict)
    name: str = ""

    @property
    def side(self) -> Side:
        """Return the record of it."""
        return Side(
            self.name, self.device.key, self.compiler.version, self.revision, dict(self.params)
        )


def pairs_of_worlds(axes: DiffAxes) -> list[tuple[World, World]]:
    """Return the sides to compare, two by two; the first value is compared with all others.

    Raises:
        InputError: nothing differs, more than one thing does, or a value is invalid.
    """
    compilers = [find_compiler(text) for text in axes.triton]
    devices = [named_device(device) for device in axes.devices] or [target_device(None)]
    revisions, params = list(axes.revisions), [dict(values) for values in axes.params]
    if len(revisions) == 1:
        revisions.append("")
    several = [name for name, values in _named(compilers, revisions, params) if len(values) > 1]
    if len(several) > 1:
        raise InputError(f"{' and '.join(several)} each have two values: compare one at a time")
    if not several and len(devices) == 1:
        compilers, params = _with_own(compilers, params)
    base = World((compilers or [installed_compiler()])[0], devices[0], params=(params or [{}])[0])
    if not (several or len(compilers) > 1 or len(params) > 1):
        return list(_against_first(_worlds_of_devices(base, devices)))
    pairs: list[tuple[World, World]] = []
    for device in devices:
        on = replace(base, device=device)
        pairs += _against_first(_worlds_of_axis(on, compilers, revisions, params))
    return pairs


def _named(
    compilers: Sequence[Compiler], revisions: Sequence[str], params: Sequence[Mapping[str, Value]]
) -> tuple[tuple[str, Sequence[object]], ...]:
    return ("--triton", compilers), ("--rev", revisions), ("--params", params)


def _with_own(
    compilers: list[Compiler], params: list[dict[str, Value]]
) -> tuple[list[Compiler], list[dict[str, Value]]]:
    """Compare one named value with what there is anyway.

    Raises:
        InputError: none is named.
    """
    if params:
        return compilers, [{}, *params]
    if not compilers:
        raise InputError(
            "there is nothing to compare: name two of --triton, --device or --params, or one --rev"
        )
    own = installed_compiler()
    if own in compilers:
        raise InputError(
            f"--triton {own.version} is this environment's own Triton, which one alone is compared "
            "with: name another version, a folder of `pip install --target`, a virtual "
            "environment or an interpreter"
        )
    return [own, *compilers], params


def _worlds_of_axis(
    base: World,
    compilers: Sequence[Compiler],
    revisions: Sequence[str],
    params: Sequence[Mapping[str, Value]],
) -> list[World]:
    if len(compilers) > 1:
        return [replace(base, compiler=c, name=f"Triton {c.version}") for c in compilers]
    if len(revisions) > 1:
        return [replace(base, revision=r, name=r or "the files as they are") for r in revisions]
    return [replace(base, params=p, name=settings_text(p, "the files' own", ",")) for p in params]


def _worlds_of_devices(base: World, devices: Sequence[Device]) -> list[World]:
    return [replace(base, device=device, name=device.name) for device in devices]


def _against_first(worlds: Sequence[World]) -> Iterator[tuple[World, World]]:
    for other in worlds[1:]:
        if other == worlds[0]:
            raise InputError(f"{other.name} is named twice: there is nothing to compare")
        yield worlds[0], other


# --------------------------------------------------------------------------------------- places


@contextlib.contextmanager
def opened_places(
    worlds: Sequence[World], near: str, limit_s: float, cache: bool = True
) -> Iterator[list[Place]]:
    """Start what studies the sides.

    Args:
        worlds: the sides.
        near: a kernel file, whose repository has the revisions.
        limit_s: for each candidate.
        cache: whether answers are kept on disk.

    Raises:
        InputError: there is no such revision.
    """
    with contextlib.ExitStack() as stack:
        places = []
        for world in worlds:
            compiler, root = world.compiler, None
            if world.revision:
                root = stack.enter_context(_checked_out(world.revision, near))
                compiler = _with_modules_of(root, compiler)
            analyser = Analyser(world.device, limit_s=limit_s, compiler=compiler, cache=cache)
            places.append(Place(world.side, stack.enter_context(analyser), root))
        yield places


def _with_modules_of(root: tuple[Path, Path], compiler: Compiler) -> Compiler:
    """Let modules of the repository be those of the revision; SolKit's own stay."""
    here, there = root
    own = Path(solkit.__file__).resolve().parents[1]
    entries = [Path(entry).absolute() for entry in sys.path if entry]
    moved = [
        str(there / entry.relative_to(here))
        for entry in entries
        if entry.is_relative_to(here) and entry.resolve() != own
    ]
    python = replace(compiler.python, folders=(*moved, *compiler.python.folders))
    return replace(compiler, python=python, identity=(*compiler.identity, str(there)))


@contextlib.contextmanager
def _checked_out(revision: str, near: str) -> Iterator[tuple[Path, Path]]:
    """Yield the repository's folder, and one with all files of a revision.

    Raises:
        InputError: the file is in no repository, or that has no such revision.
    """
    file = Path(near).resolve()
    folder = file if file.is_dir() else file.parent
    top = Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip())
    commit = _git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", "--")
    with tempfile.TemporaryDirectory(prefix="solkit-revision-") as place:
        archive = Path(place, "archive.tar")
        _git(top, "archive", "--output", str(archive), commit.decode().split()[0])
        with tarfile.open(archive) as tar:
            tar.extractall(Path(place, top.name), filter="fully_trusted")
        archive.unlink()
        yield top, Path(place, top.name)


def _git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--rev: git cannot be run: {error}") from error
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip() or "there is no such revision"
        raise InputError(f"--rev: git {' '.join(arguments)} failed in {folder}: {why}")
    return done.stdout
