"""Names that docs/surrogate.md and docs/lab/surrogate.md leave to their reader."""

from solkit.core import Depth as _Depth
from solkit.datasets.store import Store as _Store
from solkit.surrogate.table import table_of_stores as _table_of

depth = _Depth.LOWERED
table = _table_of([_Store("my-data")], depth)
