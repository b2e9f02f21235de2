"""The surrogate: which candidates deserve GPU time. Nothing here yet; see docs/roadmap.md."""
