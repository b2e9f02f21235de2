"""Measuring for reports, on a guarded bench."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from solkit.core import (
    Configuration,
    Device,
    KernelFile,
    MeasureSettings,
    Outcome,
    Study,
    Value,
    progress,
)
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import UnsupportedError
from solkit.measure.benches.guarded import GuardedBench, open_session
from solkit.measure.guarded.session import Session
from solkit.measure.outcomes import PreparedCandidate
from solkit.pipeline.environment import environment


def wants_measurement(measure: bool | None, device: Device, study: Study) -> bool:
    """Tell whether the candidate is measured; ``None`` measures if possible.

    Raises:
        UnsupportedError: measuring is requested and impossible; the message says why.
    """
    here = device.source == "nvml"
    possible = study.kernel.candidate is not None and study.kernel.problem.reference is not None
    if measure and not here:
        other = "" if device.vendor == "NVIDIA" else "; SolKit measures on NVIDIA's GPUs alone"
        raise UnsupportedError(f"cannot measure on {device.name}: it is not in this machine{other}")
    if measure and not possible:
        raise UnsupportedError(
            f"cannot measure {study.kernel.problem.path}: that needs both a reference and a kernel"
        )
    return here and possible and measure is not False


def configuration_of(
    file: KernelFile, shape: Mapping[str, Value], params: Mapping[str, Value]
) -> Configuration:
    """Return a file's candidate at a shape, with some parameters overridden."""
    assert file.candidate is not None
    separate = file.candidate.path != file.problem.path
    reference = file.problem.path if separate else None
    return Configuration(file.candidate.path, file.candidate.name, shape, params, reference)


@contextlib.contextmanager
def prepared_session(
    measure: bool | None,
    device: Device,
    settings: MeasureSettings,
    paths: Sequence[str],
    count: int = 1,
    loads: Sequence[str] = (),
) -> Iterator[Session | None]:
    """Yield a session whose processes start while the caller studies the candidates.

    ``None`` where nothing will be measured: `measure` is as for `wants_measurement`. `count`
    candidates are timed in turns. `loads` is as for `Session.prepare`.
    """
    if device.source != "nvml" or measure is False:
        yield None
        return
    with open_session(device, settings) as session:
        session.prepare(paths, count, loads)
        yield session


@contextlib.contextmanager
def open_bench_for(
    device: Device,
    settings: MeasureSettings,
    analysed: Sequence[tuple[Configuration, PreparedCandidate]],
    session: Session | None = None,
) -> Iterator[GuardedBench]:
    """Yield a bench for these configurations, whose processes end with the ``with`` block.

    `session` is as for `GuardedBench`.
    """
    prospects = {id(configuration): prospect for configuration, prospect in analysed}
    with (
        OutcomeLog(settings.log, {"what": "solkit score or compare"}) as log,
        GuardedBench(
            device,
            lambda configuration: prospects[id(configuration)],
            log,
            settings,
            environment(),
            session,
        ) as bench,
    ):
        yield bench


def outcomes_of(bench: GuardedBench, configurations: Sequence[Configuration]) -> list[Outcome]:
    """Return the outcomes of configurations, in their order."""
    bench.submit(configurations)
    outcome_by_id: dict[int, Outcome] = {}
    progress.tell("measured", 0, len(configurations))
    for configuration, outcome in bench.outcomes():
        outcome_by_id[id(configuration)] = outcome
        progress.tell("measured", len(outcome_by_id), len(configurations))
    return [outcome_by_id[id(configuration)] for configuration in configurations]
