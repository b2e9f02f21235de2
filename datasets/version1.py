"""The column `launches`, which only rows of version 1 have.

It is a list of structs, one per compiled launch, with sums of its requests (``demand``) and the
modelled time. Parts and their copies keep it until a row gets facts. An exported set keeps only
what the compiler said: registers, shared memory, geometry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars
    import pyarrow

LAUNCHES = "launches"
"""The column's name."""

_LAUNCH = (
    "name:s grid:g num_warps:i num_stages:i num_ctas:i count:i constants:s signature:s registers:i "
    "spills:i shared_bytes:i occupancy:f waves:f tensor_cores:b"
)
_DEMAND = (
    "load_requests:i load_sectors:i load_bytes:i store_requests:i store_sectors:i store_bytes:i "
    "atomic_requests:i atomic_sectors:i atomic_bytes:i copied_sectors:i operations:s "
    "l1_wavefronts:i l2_read_bytes:i l2_write_bytes:i dram_read_bytes:i dram_write_bytes:i "
    "loop_requests:i steps:f imbalance:f unevenness:f iterations:f chain_cycles:f "
    "shared_wavefronts:i shared_least_wavefronts:i tensor_shared_bytes:i barriers:f "
    "instructions:f guesses:i model_ms:f terms:s"
)
"""Fields by name, each with the letter of its type; mappings are JSON text."""


def launches_type(pa: Any) -> pyarrow.DataType:
    """Return the column's Arrow type.

    Args:
        pa: the module pyarrow.
    """
    types = {
        "s": pa.string(),
        "i": pa.int64(),
        "f": pa.float64(),
        "b": pa.bool_(),
        "g": pa.list_(pa.int32()),
    }

    def struct_of_fields(fields: str) -> list[tuple[str, Any]]:
        return [(name, types[kind]) for name, kind in (pair.split(":") for pair in fields.split())]

    return pa.list_(
        pa.struct([*struct_of_fields(_LAUNCH), ("demand", pa.struct(struct_of_fields(_DEMAND)))])
    )


def without_demand(frame: polars.DataFrame) -> polars.DataFrame:
    """Return the rows without ``demand``: what version 1's kernel model said, which nothing reads.

    It can be computed again, as facts; what the compiler said is kept.
    """
    import polars as pl

    launch = frame.schema[LAUNCHES].inner  # type: ignore[attr-defined]
    demand = pl.lit(None, dict(launch)["demand"]).alias("demand")
    launches = pl.col(LAUNCHES).list.eval(pl.element().struct.with_fields(demand))
    return frame.with_columns(launches)
