"""The tuner: search under a GPU budget. Nothing here yet; see docs/roadmap.md."""
