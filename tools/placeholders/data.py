"""Names that docs/data.md leaves to its reader."""

from solkit.datasets.store import Store as _Store

outcomes, sources = list(_Store("my-data").rows())[:3], []
