"""The surrogate: which candidates deserve GPU time. docs/surrogate.md says how it is used.

::

    features ─► table ─► trees (intervals, doubt) ─► model (adaptation) ─► ranking ─► plan
                              training, evaluation/
"""
