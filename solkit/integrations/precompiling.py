"""A recording's kernels compiled without a GPU, into a Triton cache that the program finds.

::

    solkit precompile recorded --device h100     # fills recorded/triton_cache
    solkit run --apply recorded -- python serve.py   # finds it there, and says what it compiled

What is compiled is what the program compiles before each recorded launch: the tuned configuration
where the folder has one that applies, else the one in use, and of an autotuner all that it would
time. `solkit.adapters.warm_launches` says how the keys come out the same.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from solkit.adapters.cache_transfer import CACHE
from solkit.core import Device
from solkit.core.recordings import PrecompiledKernel, RecordedLaunch
from solkit.datasets.launch_recordings import LaunchRecording, read_launch_recording
from solkit.datasets.tuned_folder import FILE
from solkit.pipeline.target import target_device
from solkit.processes import jobs
from solkit.processes.parallel_calls import call_in_forks

_LIMIT_S = 600.0
"""Of one launch: an autotuner's list has a hundred configurations at most, at a few seconds."""
_ALL_LIMIT_S = 24 * 3600.0


@dataclass(frozen=True)
class Precompiled:
    """Kernels that were compiled.

    Attributes:
        cache: the folder, as ``TRITON_CACHE_DIR`` takes it.
        device: the GPU's key in the catalogue.
        triton: the version that compiled, and that the program must have.
        kernels: what each recorded launch added.
        notes: what may make the program compile again, each a sentence.
    """

    cache: str
    device: str
    triton: str
    kernels: tuple[PrecompiledKernel, ...]
    notes: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """Keys of all kernels in the cache."""
        return frozenset(key for k in self.kernels for key in (*k.compiled, *k.cached))


def precompile(
    folder: str | os.PathLike[str], device: str | Device | None = None, workers: int = 0
) -> Precompiled:
    """Compile all recorded launches for a GPU, which this machine need not have.

    Args:
        folder: as `solkit record` wrote it, tuned or not.
        device: the GPU that will run the program; by default this machine's, else an H100.
        workers: processes that compile; by default one a core, but for one.

    Raises:
        InputError: it is no recording, or the GPU is unknown.
        WorkerError: SolKit's own part failed.
    """
    place = Path(folder).absolute()
    recording = read_launch_recording(place)
    target = target_device(device)
    triton, compiler, kernels = jobs.call(
        f"{__name__}:compile_recording",
        *(str(place), target, workers or max((os.cpu_count() or 2) - 1, 1)),
        timeout_s=_ALL_LIMIT_S,
    )
    notes = tuple(_differences(recording, triton, compiler))
    return Precompiled(str(place / CACHE), target.key, triton, tuple(kernels), notes)


def _differences(recording: LaunchRecording, triton: str, compiler: str) -> list[str]:
    """Say what differs between the recorded program and this machine that keys depend on."""
    notes = []
    arch = compiler.partition(" for ")[2]
    for name, words, here in (("triton", "Triton", triton), ("compiler", "the compiler", compiler)):
        named = {str(head.get(name) or here) for head in recording.heads}
        there = {text for text in named if text.partition(" for ")[2] in ("", arch)} or {here}
        if there != {here}:  # another GPU than the recorded one may have a compiler of its own
            listed = ", ".join(sorted(there))
            notes.append(
                f"the program ran with {words} {listed}, and here it is {here}: it finds what was "
                "compiled only where they are equal"
            )
    if len({tuple(sorted(_environment(head).items())) for head in recording.heads}) > 1:
        notes.append(
            "the recorded processes differ in variables of the environment that Triton's keys "
            "depend on; those of the first were used"
        )
    return notes


def _environment(head: Mapping[str, object]) -> dict[str, str]:
    variables = head.get("environment")
    return dict(variables) if isinstance(variables, dict) else {}


# --------------------------------------------------------------------------------- in the child


def compile_recording(
    folder: str, device: Device, workers: int
) -> tuple[str, str, list[PrecompiledKernel]]:
    """Compile a recording in this throw-away process.

    Returns:
        Triton's version, the name of its compiler, and what each launch added.
    """
    import triton

    from solkit.adapters import fake_cuda, warm_launches
    from solkit.adapters.triton_compiler import compiler_name, gpu_target
    from solkit.adapters.triton_startup import prepare
    from solkit.integrations import applying

    recording = read_launch_recording(folder)
    fake_cuda.install(device)
    with tempfile.TemporaryDirectory(prefix="solkit-precompile-") as scratch:
        environment = _environment(recording.heads[0]) if recording.heads else {}
        warm_launches.install(
            *(device, environment, Path(folder, CACHE), Path(scratch)),
            is_same_triton={head.get("triton") for head in recording.heads} == {triton.__version__},
        )
        prepare()
        if Path(folder, FILE).exists():
            applying.choose_for(folder, device.key)
        calls = [partial(_compile, record) for record in recording.launches]
        results = call_in_forks(
            calls, partial(PrecompiledKernel, "", "jit", (), ()), workers, _LIMIT_S
        )
    named = zip(recording.launches, results, strict=True)
    kernels = [_named(record, result) for record, result in named]
    return triton.__version__, compiler_name(gpu_target(device)), kernels


def _compile(record: RecordedLaunch) -> PrecompiledKernel:
    from solkit.adapters.warm_launches import find_launchable, warm_launch
    from solkit.errors import SolkitError

    try:
        launchable = find_launchable(record)
    except Exception as error:  # a recorded text, or a library's import, may raise anything
        text = str(error) if isinstance(error, SolkitError) else f"{type(error).__name__}: {error}"
        why = text.partition("\n")[0]
        return PrecompiledKernel(record.launch.name, record.launcher, why=why)
    return warm_launch(record, launchable)


def _named(record: RecordedLaunch, result: PrecompiledKernel) -> PrecompiledKernel:
    """Name the result of a call whose process died."""
    if result.kernel:
        return result
    return PrecompiledKernel(record.launch.name, record.launcher, why=result.why)
