"""The surrogate: which candidates deserve GPU time. Begun; see docs/surrogate.md."""
