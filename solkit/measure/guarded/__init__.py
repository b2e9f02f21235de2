"""The guarded bench: a candidate's own process beside a referee that owns the answers."""
