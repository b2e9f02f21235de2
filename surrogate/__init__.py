"""The surrogate: which candidates deserve GPU time. docs/surrogate.md says how it is used.

::

    features ─► table ─► trees (intervals, doubt) ─► model (online_gp) ─► ranking ─► plan
                              training, evaluation/
"""
