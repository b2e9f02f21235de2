"""Whether stored facts and modelled times are those that a fresh analysis gives.

    python bench/facts.py [h100 h200 | STORE ...] [--sample 200] [--seed 0] [--workers N]

Draws rows that have facts, of all stores together, and analyses each again from its source and
parameters. Facts must be equal in every figure, and so must the modelled times on the row's GPU.
What facts hold only since a row was stored (`Requests.iterations_by_depth`) is left out.
Rows of another Triton than the one installed are left out. A kernel that was also made with another
torch or CUDA (`solkit.datasets.facts.made_with`) may differ; that is counted apart.

200 rows take three minutes on 2 idle cores. Exits with 1 if a row differs, 2 if none was compared.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from solkit.collect.refill import Progress, fresh_facts, group_rows
from solkit.core import ROW_KEY, Facts, Outcome, Source
from solkit.datasets.facts import facts_from_json, nvrtc_release, tools_made_with
from solkit.datasets.store import Store, shipped
from solkit.datasets.tables import polars_module
from solkit.roofline import devices
from solkit.roofline.kernel.evaluate import described


@dataclass(frozen=True)
class Compared:
    """A row's stored facts and those of a fresh analysis.

    Attributes:
        row: of several with the same facts, the first that was drawn.
        count: how many were drawn.
        stored: its facts.
        fresh: the same, analysed now; ``None`` if that failed.
        why: it failed.
        tools: what the row was made with, if that is not what is installed.
    """

    row: Outcome
    count: int
    stored: tuple[Facts, ...]
    fresh: tuple[Facts, ...] | None
    why: str = ""
    tools: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True if facts and modelled times are equal."""
        if self.fresh is None or len(self.fresh) != len(self.stored):
            return False
        fresh = [_as_stored(*pair) for pair in zip(self.fresh, self.stored, strict=True)]
        return fresh == list(self.stored) and self._times(fresh) == self._times(self.stored)

    @property
    def result(self) -> str:
        """``same``, ``other tools`` or ``different``."""
        return "same" if self.is_equal else "other tools" if self.tools else "different"

    def _times(self, facts: Sequence[Facts]) -> list[float | None]:
        """The modelled time of each launch on the row's GPU, in ms."""
        device = devices.find(self.row.device)
        models = [described(items, device).model for items in facts]
        return [model.time_ms if model else None for model in models]


def _as_stored(fresh: Facts, stored: Facts) -> Facts:
    """Return fresh facts without what older ones do not hold."""
    if fresh.requests is None or (stored.requests and stored.requests.iterations_by_depth):
        return fresh
    return replace(fresh, requests=replace(fresh.requests, iterations_by_depth=()))


def compared(
    stores: Sequence[Store], sample: int, seed: int = 0, workers: int | None = None
) -> Iterator[Compared]:
    """Rows with facts, drawn from all stores, against a fresh analysis."""
    pl = polars_module()
    rows = {(item.run_id, item.sequence): item for item in _drawn(stores, sample, seed)}
    results = pl.concat([store.sources() for store in stores]).unique("sha256").collect().to_dicts()
    sources = {result["sha256"]: Source(**result) for result in results}
    facts = pl.concat([store.facts().select("id", "text") for store in stores])
    texts = dict(facts.unique("id").collect().rows())
    installed = importlib.metadata.version("torch"), nvrtc_release()
    here = [
        replace(row, facts_id=None, torch_version=installed[0], cuda_version=installed[1])
        for row in rows.values()
    ]
    with tempfile.TemporaryDirectory() as folder:
        groups = group_rows(here, list(sources.values()), Path(folder), Progress())
        for group, text, why in fresh_facts(groups, workers):
            row = rows[group.rows[0]]
            source = sources[row.source_sha256 or ""].text
            tools = tools_made_with(source, row.torch_version, row.cuda_version)
            stored = facts_from_json(texts[row.facts_id])
            fresh = facts_from_json(text) if text else None
            is_other = tools != tools_made_with(source, *installed)
            yield Compared(row, len(group.rows), stored, fresh, why, tools if is_other else ())


def _drawn(stores: Sequence[Store], sample: int, seed: int) -> Iterator[Outcome]:
    """Rows that have facts of the installed Triton, drawn from all stores together."""
    pl = polars_module()
    triton = importlib.metadata.version("triton")
    can = pl.col("facts_id").is_not_null() & (pl.col("triton_version") == triton)
    frames = [store.scan().filter(can) for store in stores]
    names = [rows.select(ROW_KEY).collect() for rows in frames]
    every = sorted(name for own in names for name in own.rows())
    chosen = random.Random(seed).sample(every, min(sample, len(every)))
    result = pl.DataFrame(chosen, schema=names[0].schema, orient="row").lazy()
    for store, rows in zip(stores, frames, strict=True):
        yield from store.rows(rows.join(result, on=ROW_KEY, how="semi"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", default=["h100", "h200"])
    parser.add_argument("--sample", type=int, default=200, help="rows to draw")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--workers", type=int, help="processes; by default one a core")
    options = parser.parse_args()
    stores = [Store(name) if Path(name).is_dir() else shipped(name) for name in options.sets]
    counts: Counter[tuple[str, str]] = Counter()
    for item in compared(stores, options.sample, options.seed, options.workers):
        counts[item.row.origin, item.result] += item.count
        if not item.is_equal:
            row = item.row
            text = f"{item.result}: {row.implementation} {row.params} {row.shape}"
            print(text, *item.tools, item.why)
    for origin in sorted({origin for origin, _ in counts}):
        results = {result: count for (kind, result), count in counts.items() if kind == origin}
        text = ", ".join(f"{count} {result}" for result, count in sorted(results.items()))
        print(f"{origin}: {sum(results.values())} rows: {text}")
    if not counts:
        print(f"no row has facts of Triton {importlib.metadata.version('triton')}")
        return 2
    return 1 if any(result == "different" for _, result in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
