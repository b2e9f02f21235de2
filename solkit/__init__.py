"""SolKit: how fast a GPU kernel could run, how far it is from that, and why.

The public names are those in `__all__`; importing them pulls in neither torch nor triton.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from solkit import extras
from solkit.errors import (
    InputError,
    KernelFileError,
    ParamsError,
    ShapeError,
    SolkitError,
    UnknownDeviceError,
    UnsupportedError,
    WorkerError,
)

if TYPE_CHECKING:
    from solkit.core import (
        Analysis,
        Batch,
        BatchSettings,
        BestAlgorithm,
        Bound,
        Comparison,
        ComparisonReport,
        Device,
        Difference,
        Evolved,
        EvolveSettings,
        Fusion,
        KernelFile,
        MeasureSettings,
        Profile,
        Report,
        Result,
        Score,
        Tuned,
        TuneSettings,
        Verdict,
    )
    from solkit.integrations.applying import applied, apply
    from solkit.integrations.calls import tune_call
    from solkit.integrations.compiling import compile  # noqa: A004 - as in torch
    from solkit.integrations.recorder import recording
    from solkit.pipeline import (
        Evaluation,
        Lab,
        analyse,
        ask_tell,
        bound,
        bounds,
        close,
        compare,
        devices,
        fusion,
        load,
        rank,
        score,
    )
    from solkit.pipeline.batch import batch
    from solkit.pipeline.best_algorithm import best
    from solkit.pipeline.evolving import evolve
    from solkit.pipeline.tuning import tune
    from solkit.profiling import profile
    from solkit.surrogate.model import Surrogate

__all__ = [
    "Analysis",
    "Batch",
    "BatchSettings",
    "BestAlgorithm",
    "Bound",
    "Comparison",
    "ComparisonReport",
    "Device",
    "Difference",
    "Evaluation",
    "EvolveSettings",
    "Evolved",
    "Fusion",
    "InputError",
    "KernelFile",
    "KernelFileError",
    "Lab",
    "MeasureSettings",
    "ParamsError",
    "Profile",
    "Report",
    "Result",
    "Score",
    "ShapeError",
    "SolkitError",
    "Surrogate",
    "TuneSettings",
    "Tuned",
    "UnknownDeviceError",
    "UnsupportedError",
    "Verdict",
    "WorkerError",
    "analyse",
    "applied",
    "apply",
    "ask_tell",
    "batch",
    "best",
    "bound",
    "bounds",
    "close",
    "compare",
    "compile",
    "devices",
    "evolve",
    "fusion",
    "load",
    "profile",
    "rank",
    "recording",
    "score",
    "tune",
    "tune_call",
]

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(
        ("Evaluation", "Lab", "analyse", "bound", "bounds", "close", "compare", "devices"),
        "solkit.pipeline",
    ),
    **dict.fromkeys(("ask_tell", "fusion", "load", "rank", "score"), "solkit.pipeline"),
    "Surrogate": "solkit.surrogate.model",
    **dict.fromkeys(("applied", "apply"), "solkit.integrations.applying"),
    "batch": "solkit.pipeline.batch",
    "compile": "solkit.integrations.compiling",
    "best": "solkit.pipeline.best_algorithm",
    "evolve": "solkit.pipeline.evolving",
    "profile": "solkit.profiling",
    "recording": "solkit.integrations.recorder",
    "tune": "solkit.pipeline.tuning",
    "tune_call": "solkit.integrations.calls",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that ``import solkit`` stays fast."""
    if name in __all__:
        with extras.needed("tune" if name.startswith("tune") else None):
            return getattr(importlib.import_module(_HOMES.get(name, "solkit.core")), name)
    raise AttributeError(f"module 'solkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of the module, those not yet imported as well."""
    return sorted({*globals(), *__all__})
