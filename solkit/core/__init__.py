"""The nouns of SolKit: what passes between its rooms.

Frozen dataclasses, without torch and with no behaviour beyond simple properties: reading this page
is reading the design. A numeric field's name ends in its unit. Dicts appear only where JSON comes
in or goes out (`solkit.report.schema`).

::

    KernelFile ─► Problem ─► Work ─┐
        │         Device ──────────┴─► Bound ──────────────┐
        └──► Candidate ─► Launch ─► Facts ─► Analysis     ├─► Score
                             └──────► Measurement ─────────┘
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `_NAMES` lists
    from solkit.core.analysis import *
    from solkit.core.batch import *
    from solkit.core.best import *
    from solkit.core.conditions import *
    from solkit.core.deployments import *
    from solkit.core.devices import *
    from solkit.core.diffs import *
    from solkit.core.evolution import *
    from solkit.core.facts import *
    from solkit.core.kernel_programs import *
    from solkit.core.launches import *
    from solkit.core.measurement import *
    from solkit.core.outcomes import *
    from solkit.core.problems import *
    from solkit.core.profile import *
    from solkit.core.proposals import *
    from solkit.core.reports import *
    from solkit.core.settings import *
    from solkit.core.space import *
    from solkit.core.tuning import *
    from solkit.core.values import *
    from solkit.core.work import *

_NAMES = {
    "analysis": (
        "Analysis AnalysisStatus Case Cause Counters Demand FailedShape Forecast Gap "
        "GapFactor KernelAnalysis KernelModel OutputBytes Study Term"
    ),
    "batch": "Batch BatchItem BatchSettings BatchStatus HeldOut Triaged Worth",
    "best": "BestAlgorithm PlanStudy",
    "conditions": "Conditions",
    "deployments": "Deployment L2State",
    "devices": "Ceiling ClockKind Device SMLimits",
    "diffs": "CandidateDiff Change Diff Side Standing",
    "evolution": (
        "Bred EvolveSettings EvolveStatus Evolved Finalist Gate Order Practised Variant variant_id"
    ),
    "facts": (
        "CAPTURED_VERSION Depth FACTS_VERSION Facts LOWERED_VERSION PTX_VERSION Requests "
        "Reuse SOURCE_DEPTHS Stream"
    ),
    "kernel_programs": "Binding KernelFunction KernelProgram Role TensorLayout",
    "launches": (
        "Access Contention InstructionCount InstructionMix Launch Occupancy Pace SharedAccess "
        "WarpRole"
    ),
    "measurement": "Measurement Protocol Score Verdict",
    "outcomes": (
        "CONFIGURATION ComparedBase Configuration HOPELESS LiveLaunch Outcome ROW_KEY Source "
        "StoredFacts canonical"
    ),
    "problems": "Candidate KernelFile Problem Tolerance default_tolerance",
    "profile": "IdleTime Profile ProfiledCase ProfiledKernel ProfiledOp ProfiledProblem",
    "proposals": "Brief Checked Proposal Tried",
    "reports": "Comparison ComparisonReport Difference Ratio Report Result",
    "settings": "MeasureSettings",
    "space": "Constraint Params Space",
    "tuning": (
        "BETTER Final Stopped TimedParams TuneProgress TuneSettings TuneStatus TuneVerdict Tuned"
    ),
    "values": "Value",
    "work": (
        "Bound BoundTimes Chain Contributor Fusion InputNeed Needed NeededProducts OpWork "
        "Part PartBound PricedRoute Resource Work"
    ),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a noun's page on first use: making all classes takes a tenth of a second."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the names of the module, those not yet imported as well."""
    return sorted({*globals(), *__all__})
