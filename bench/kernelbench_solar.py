"""NVIDIA SOLAR's four stages on one KernelBench file, in one process: run by `kernelbench`.

    PYTHONPATH=SOLAR python bench/kernelbench_solar.py FILE

Prints one JSON object: the seconds after importing SOLAR and torch, and its fused bound. Exits
with 1 where a stage fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from solar.analysis import EinsumGraphAnalyzer
from solar.common.types import ProcessingConfig
from solar.einsum import PyTorchToEinsum
from solar.graph import PyTorchProcessor
from solar.perf import EinsumGraphPerfModel


def stages(file: str, folder: Path) -> dict[str, Any]:
    """What the four commands of SOLAR's README do, with their defaults but fp32."""
    config = ProcessingConfig(output_dir=str(folder), force_rerun=True)
    if not PyTorchProcessor(config).process_model_file(file, str(folder)):
        raise SystemExit("no graph")
    if PyTorchToEinsum().convert(folder / "pytorch_graph.yaml", folder, copy_graph=False) is None:
        raise SystemExit("no einsum graph")
    graph = folder / "einsum_graph.yaml"
    analyzer = EinsumGraphAnalyzer()
    if analyzer.analyze_graph(graph, folder, precision="fp32", copy_graph=False) is None:
        raise SystemExit("no analysis")
    analysis = folder / "analysis.yaml"
    model = EinsumGraphPerfModel()
    predicted = model.predict(analysis, folder, precision="fp32", copy_analysis=False)
    if predicted is None:
        raise SystemExit("no prediction")
    return predicted


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with Path(os.devnull).open("w") as null, contextlib.redirect_stdout(null):
            predicted = stages(sys.argv[1], Path(folder))
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "fused_ms": predicted["fused"]["runtime_ms"]}))


if __name__ == "__main__":
    main()
