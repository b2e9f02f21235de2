"""The surrogate's features in words."""

from __future__ import annotations

_RESOURCES = {
    "atomics": "time of atomics",
    "dispatch": "time to start the blocks",
    "dram": "DRAM time",
    "gap": "time over the speed of light",
    "issue": "time to issue instructions",
    "l1": "L1 time",
    "l2": "L2 time",
    "latency": "latency",
    "launch": "launch time",
    "second": "time of the second busiest resource",
    "sfu": "special-function time",
    "shared": "shared memory time",
    "sum": "time of all resources one by one",
    "tensor": "tensor core time",
    "time_us": "time",
}
"""Terms of the kernel model, in words."""

_ORDINALS = ("largest", "second largest", "third largest", "fourth largest")
_CACHE_WORDS = {
    "first": "that the cache evicts first",
    "last": "that the cache evicts last",
    "cg": "past L1",
    "ca": "cached at all levels",
    "cs": "that stream",
    "cv": "that are never cached",
    "wt": "written through",
}

_WHOLE = {
    **{f"geometry.size_{n}": f"{word} size of the tensors" for n, word in enumerate(_ORDINALS)},
    **{f"params.constant_{n}": f"{word} constant" for n, word in enumerate(_ORDINALS)},
    **{
        f"tiles.{kind}_{name}": f"share of {kind}s {words}"
        for kind in ("load", "store")
        for name, words in _CACHE_WORDS.items()
    },
    "geometry.alignment": "alignment of the tensors' rows",
    "params.flags": "number of flags that are set",
    "tiles.all_gap": "rough time over the speed of light",
    "tiles.all_traffic": "bytes that all launches move, over those that they must",
    "tiles.gap": "rough time of the largest launch over the speed of light",
    "problem.intensity": "operations per byte of the problem",
    "problem.l2_fill": "share of L2 that the problem fills",
    "problem.limited_by_dram": "the problem is limited by DRAM",
    "problem.limited_by_tensor": "the problem is limited by tensor cores",
    "problem.operations": "operations of the problem",
    "problem.read_bytes": "bytes that the problem reads",
    "problem.sol_us": "the speed of light",
    "problem.write_share": "share of writes in the problem's bytes",
}

_GROUPS = {
    "device": "of the GPU",
    "geometry": "of the launch",
    "machine": "in the machine code",
    "problem": "of the problem",
    "requests": "of the memory requests",
    "tiles": "of the tiles",
}


def words_of_feature(feature: str) -> str:
    """Return a feature's name as a reader knows it, e.g. ``"modelled shared memory time"``."""
    group, _, name = feature.partition(".")
    if feature in _WHOLE:
        return _WHOLE[feature]
    if group == "model":
        return f"modelled {_RESOURCES.get(name, f'{name} time')}"
    if group == "params":
        return name
    return f"{name.replace('_', ' ')} {_GROUPS[group]}" if group in _GROUPS else feature
