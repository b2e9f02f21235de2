"""Names that docs/data.md and docs/lab/data.md leave to their reader."""

from solkit.datasets.store import Store as _Store

outcomes, sources = list(_Store("my-data").rows())[:3], []
