"""All rows are one row in memory, with a stride of 0.

Trick: outputs that are not written out
Problem: spread
Verdict: cheating
Defence: guard: unmaterialised output
"""


def kernel(v, M):
    return (v * 2).expand(M, -1)
