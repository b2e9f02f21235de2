"""Whether stored facts and modelled times are those that are found afresh.

    python bench/facts.py [h100 h200 | STORE ...] [--sample 200] [--workers N]

Draws rows that have facts and were compiled by the Triton that is installed, analyses each again
from its source and parameters, and compares: facts must be equal, every figure of them, and so must
the modelled times on the row's GPU. Exits with 1 where a row differs, 2 where none can be compared.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from solkit.collect.refill import Group, Progress, fresh_facts, groups_of
from solkit.core import ROW_KEY, Facts, Source
from solkit.datasets.facts import facts_from_json
from solkit.datasets.store import Store, shipped
from solkit.datasets.tables import polars_module
from solkit.roofline import devices
from solkit.roofline.kernel.described import described

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class Compared:
    """One configuration: what is stored, and what was found now.

    Attributes:
        group: the configuration.
        stored, found: its facts; ``None`` if it could not be analysed.
        why: it could not be.
    """

    group: Group
    stored: tuple[Facts, ...]
    found: tuple[Facts, ...] | None
    why: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether facts and modelled times are."""
        return self.found == self.stored and self.times(self.found) == self.times(self.stored)

    def times(self, facts: Sequence[Facts]) -> list[float | None]:
        """The modelled time of each launch on the row's GPU, in ms."""
        device = devices.find(self.group.device)
        models = [described(each, device).model for each in facts]
        return [model.time_ms if model else None for model in models]


def compared(store: Store, sample: int, workers: int | None = None) -> Iterator[Compared]:
    """Rows of a store that have facts, drawn by a hash of their names, against a fresh analysis."""
    rows = list(store.rows(_drawn(store, sample)))
    sources = [Source(**row) for row in store.sources().collect().to_dicts()]
    texts = dict(store.facts().select("id", "text").collect().rows())
    with tempfile.TemporaryDirectory() as folder:
        groups = groups_of(rows, sources, Path(folder), Progress())
        for group, text, why in fresh_facts(groups, workers):
            stored = facts_from_json(texts[group.facts_id])
            yield Compared(group, stored, facts_from_json(text) if text else None, why)


def _drawn(store: Store, sample: int) -> polars.LazyFrame:
    """Rows that have facts, by a hash of their names."""
    pl = polars_module()
    rows = store.scan().filter(pl.col("facts_id").is_not_null())
    names = rows.select(ROW_KEY).collect().rows()
    chosen = sorted(names, key=lambda name: hashlib.sha256(repr(name).encode()).digest())[:sample]
    told = pl.DataFrame(chosen, schema=rows.select(ROW_KEY).collect_schema(), orient="row")
    return rows.join(told.lazy(), on=ROW_KEY, how="semi")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", default=["h100", "h200"])
    parser.add_argument("--sample", type=int, default=200, help="rows of each")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    count = differing = 0
    for name in given.sets:
        store = Store(name) if Path(name).is_dir() else shipped(name)
        for each in compared(store, given.sample, given.workers):
            count += 1
            if not each.is_equal:
                differing += 1
                asked = each.group.configuration
                print(f"differs: {asked.path} {dict(asked.params)} {dict(asked.shape)} {each.why}")
    print(f"{count - differing} of {count} configurations are the same, facts and modelled times")
    return 2 if not count else 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
