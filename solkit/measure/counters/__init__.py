"""Hardware counters of a candidate, from Nsight Compute."""
