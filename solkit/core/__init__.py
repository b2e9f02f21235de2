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

from solkit.core.analysis import (
    Analysis,
    AnalysisStatus,
    Case,
    Cause,
    Counters,
    Demand,
    FailedShape,
    Gap,
    GapFactor,
    KernelAnalysis,
    KernelModel,
    OutputBytes,
    Study,
    Term,
)
from solkit.core.batch import (
    Batch,
    BatchItem,
    BatchSettings,
    BatchStatus,
    HeldOut,
    Triaged,
    Worth,
)
from solkit.core.devices import Ceiling, ClockKind, Device, SMLimits
from solkit.core.evolution import (
    Bred,
    Evolved,
    EvolveSettings,
    EvolveStatus,
    Gate,
    Order,
    Variant,
    variant_id,
)
from solkit.core.facts import (
    FACTS_VERSION,
    LOWERED_VERSION,
    Depth,
    Facts,
    Requests,
    Reuse,
    Stream,
)
from solkit.core.launches import (
    Access,
    Contention,
    InstructionCount,
    InstructionMix,
    Launch,
    Occupancy,
    Pace,
    SharedAccess,
)
from solkit.core.measurement import Conditions, Measurement, Protocol, Score, Verdict
from solkit.core.outcomes import (
    CONFIGURATION,
    ROW_KEY,
    ComparedBase,
    Configuration,
    LiveLaunch,
    Outcome,
    Source,
    StoredFacts,
    canonical,
)
from solkit.core.problems import Candidate, KernelFile, Problem, Tolerance, default_tolerance
from solkit.core.profile import IdleTime, Profile, ProfiledKernel, ProfiledOp
from solkit.core.proposals import Brief, Checked, Proposal, Tried
from solkit.core.reports import Comparison, ComparisonReport, Difference, Ratio, Report, Result
from solkit.core.settings import MeasureSettings
from solkit.core.space import Constraint, Count, Params, Space
from solkit.core.tuning import (
    Final,
    Stopped,
    TimedParams,
    Tuned,
    TuneProgress,
    TuneSettings,
    TuneStatus,
    TuneVerdict,
)
from solkit.core.values import Value
from solkit.core.work import (
    Bound,
    BoundTimes,
    Chain,
    Contributor,
    Fusion,
    Needed,
    NeededProducts,
    OpWork,
    Part,
    PartBound,
    Resource,
    Work,
)

__all__ = [
    "CONFIGURATION",
    "FACTS_VERSION",
    "LOWERED_VERSION",
    "ROW_KEY",
    "Access",
    "Analysis",
    "AnalysisStatus",
    "Batch",
    "BatchItem",
    "BatchSettings",
    "BatchStatus",
    "Bound",
    "BoundTimes",
    "Bred",
    "Brief",
    "Candidate",
    "Case",
    "Cause",
    "Ceiling",
    "Chain",
    "Checked",
    "ClockKind",
    "ComparedBase",
    "Comparison",
    "ComparisonReport",
    "Conditions",
    "Configuration",
    "Constraint",
    "Contention",
    "Contributor",
    "Count",
    "Counters",
    "Demand",
    "Depth",
    "Device",
    "Difference",
    "EvolveSettings",
    "EvolveStatus",
    "Evolved",
    "Facts",
    "FailedShape",
    "Final",
    "Fusion",
    "Gap",
    "GapFactor",
    "Gate",
    "HeldOut",
    "IdleTime",
    "InstructionCount",
    "InstructionMix",
    "KernelAnalysis",
    "KernelFile",
    "KernelModel",
    "Launch",
    "LiveLaunch",
    "MeasureSettings",
    "Measurement",
    "Needed",
    "NeededProducts",
    "Occupancy",
    "OpWork",
    "Order",
    "Outcome",
    "OutputBytes",
    "Pace",
    "Params",
    "Part",
    "PartBound",
    "Problem",
    "Profile",
    "ProfiledKernel",
    "ProfiledOp",
    "Proposal",
    "Protocol",
    "Ratio",
    "Report",
    "Requests",
    "Resource",
    "Result",
    "Reuse",
    "SMLimits",
    "Score",
    "SharedAccess",
    "Source",
    "Space",
    "Stopped",
    "StoredFacts",
    "Stream",
    "Study",
    "Term",
    "TimedParams",
    "Tolerance",
    "Triaged",
    "Tried",
    "TuneProgress",
    "TuneSettings",
    "TuneStatus",
    "TuneVerdict",
    "Tuned",
    "Value",
    "Variant",
    "Verdict",
    "Work",
    "Worth",
    "canonical",
    "default_tolerance",
    "variant_id",
]
