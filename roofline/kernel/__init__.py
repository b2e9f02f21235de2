"""One kernel as written: occupancy, modelled time, factors of its gap, counters."""
