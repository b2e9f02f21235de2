"""The best algorithm: the roofline of a plan that computes the same as the traced reference.

``graph`` is the traced program with its views, ``axes`` names the sizes that may vary, ``terms``
writes multilinear regions as sums of products over labels with affine equations between them,
``regions`` reads them off the graph, ``simplify`` and ``factoring`` rewrite them, ``ordering``
searches orders of contraction, and ``emission`` writes plans as PyTorch code. ``tracing`` and
``checking`` run torch, in a child process: see `solkit.analysis.best_study`.
"""
