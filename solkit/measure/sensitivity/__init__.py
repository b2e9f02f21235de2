"""Measured sensitivity: which bytes of the inputs at hand a correct kernel must move.

A kernel that does not read a sector gives the same outputs whatever the sector holds. So if some
admissible change of one 32-byte sector moves the reference's output by more than the tolerance,
every correct kernel reads that sector: these are the sensitivity bounds on certificates of decision
trees (Nisan, "CREW PRAMs and decision trees", SIAM J. Comput. 20(6), 1991; Buhrman and de Wolf,
"Complexity measures and decision tree complexity", TCS 288(1), 2002, section 3).

::

    inputs ─ draws ─► relations ─┐
       └─ sectors ─► changes ────┴─► shares, with confidence ─┐
       └─ one run ─► products of nonzeros, writes ────────────┴─► Needed

`solkit.measure.sensitivity.needed` puts this together.
"""
