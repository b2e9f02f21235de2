"""Registers, spills, LDS and occupancy on AMD's GPUs against what the code objects say.

    python bench/code_objects.py [--device mi300x] [--kernels 40] [--half first] [--seed 0]

One configuration and shape of each Triton kernel of the zoo is analysed with an empty Triton cache.
Then every code object in that cache is read in another way: `readelf --notes` prints the metadata
with LLVM's own reader (binutils' prints bytes, so its LLVM form is needed); without one, the
metadata in LLVM's assembly are read. LLVM's comment on occupancy in the assembly (by registers
alone) is compared with SolKit's rule. A kernel is equal if all its figures are. The halves split
the zoo's families. Exits with 1 if any figure differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from depths import is_left_out

from solkit.adapters.code_object import KernelUsage, kernel_usages
from solkit.analysis.analyser import Analyser
from solkit.core import Configuration, Device, Facts
from solkit.datasets.kernels import ZOO
from solkit.roofline.devices import find
from solkit.roofline.kernel.occupancy import occupancy

_KEYS = {
    "vector_registers": "vgpr_count",
    "accumulation_registers": "agpr_count",
    "scalar_registers": "sgpr_count",
    "vector_spills": "vgpr_spill_count",
    "scalar_spills": "sgpr_spill_count",
    "scratch_bytes": "private_segment_fixed_size",
    "group_bytes": "group_segment_fixed_size",
    "wave_threads": "wavefront_size",
}
_MOST_WAVES = 8


@dataclass(frozen=True)
class Binary:
    """One code object: what two readers say, the LDS that a launch asks for, and LLVM's waves."""

    name: str
    theirs: Mapping[str, int]
    ours: KernelUsage
    shared_bytes: int
    waves: int

    @property
    def is_equal(self) -> bool:
        """Tell whether both readers agree."""
        return all(getattr(self.ours, field) == figure for field, figure in self.theirs.items())

    @property
    def figures(self) -> tuple[int, ...]:
        """As facts have them."""
        names = ("vector_registers", "vector_spills", "accumulation_registers")
        rest = ("scalar_registers", "scratch_bytes")
        return (*(self.theirs[name] for name in (*names, *rest)), self.shared_bytes)

    def keeps_waves(self, device: Device) -> bool:
        """Tell whether SolKit's occupancy by registers is LLVM's."""
        fit = occupancy(device, self.theirs["vector_registers"], 0, 1, 1).blocks_per_sm
        return fit // 4 == min(self.waves, _MOST_WAVES)


def facts_figures(facts: Facts) -> tuple[int | None, ...]:
    """Return the figures of facts in the order of `Binary.figures`."""
    return (
        *(facts.registers, facts.spills, facts.accumulation_registers),
        *(facts.scalar_registers, facts.scratch_bytes, facts.shared_bytes),
    )


def notes_of(path: Path) -> str:
    """Return the metadata as text of LLVM's readelf, or of the assembly."""
    tool = shutil.which("llvm-readelf")
    if tool:
        return subprocess.run(
            [tool, "--notes", str(path)], capture_output=True, text=True, check=True
        ).stdout
    return path.with_suffix(".amdgcn").read_text()


def binaries(cache: Path) -> Iterator[Binary]:
    """Yield the code objects of a Triton cache."""
    for path in sorted(cache.rglob("*.hsaco")):
        text, assembly = notes_of(path), path.with_suffix(".amdgcn").read_text()
        theirs = {
            field: int(re.findall(rf"\.{key}:\s+(\d+)", text)[0]) for field, key in _KEYS.items()
        }
        ((name, ours),) = kernel_usages(path.read_bytes()).items()
        metadata = json.loads(path.with_suffix(".json").read_text())
        waves = int(re.findall(r"^; Occupancy: (\d+)", assembly, re.M)[0])
        yield Binary(name, theirs, ours, metadata["shared"], waves)


def chosen(count: int, half: str, seed: int) -> list[Path]:
    """Return kernel files of as many families as possible."""
    files = sorted(path for path in ZOO.glob("*/*.py") if not is_left_out(path))
    if half != "all":
        odd = half == "second"
        files = [p for p in files if hashlib.sha256(p.parent.name.encode()).digest()[0] % 2 == odd]
    random.Random(seed).shuffle(files)
    return files[:count] if count else files


def analysed(files: list[Path], device: str, cache: str, count: Counter[str]) -> list[Facts]:
    """Return the facts of all launches of the files' own parameters at their first shape."""
    launches: list[Facts] = []
    with Analyser(device, cache=False, env={"TRITON_CACHE_DIR": cache}) as analyser:
        options = []
        for path in files:
            file = analyser.describe(str(path)).result()
            if file.candidate is not None:
                shape = file.problem.shapes[0]
                options.append(Configuration(str(path), "kernel", shape, file.candidate.params))
        for result in analyser.analysed(options):
            name = "/".join(Path(result.configuration.path).parts[-2:])
            own = result.analysis.own if result.analysis else ()
            compiled = [kernel for kernel in own if kernel.facts.registers is not None]
            followed = [kernel for kernel in compiled if kernel.facts.requests is not None]
            count["files"] += 1
            count["compiled"] += bool(own) and len(compiled) == len(own)
            count["loads"] += bool(own) and all(kernel.error is None for kernel in own)
            count["followed"] += bool(own) and len(followed) == len(own)
            if len(followed) < len(own) or not own:
                results = result.error or [kernel.error for kernel in own if kernel.error]
                results = results or (result.analysis and result.analysis.notes[:2])
                print(f"{name}: {str(results)[:230]}")
            launches += [kernel.facts for kernel in compiled]
    return launches


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="mi300x")
    parser.add_argument("--kernels", type=int, default=0)
    parser.add_argument("--half", choices=("all", "first", "second"), default="all")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        files = chosen(args.kernels, args.half, args.seed)
        launches = analysed(files, args.device, folder, count)
        every = list(binaries(Path(folder)))
    known_pairs = {(binary.name, *binary.figures) for binary in every}
    wrong = [f for f in launches if (f.launch.name, *facts_figures(f)) not in known_pairs]
    unequal = [binary for binary in every if not binary.is_equal]
    device = find(args.device)
    waves = [binary for binary in every if not binary.keeps_waves(device)]
    print(f"{count['files']} files: {count['compiled']} compile, {count['loads']} of them fit,")
    print(f"{count['followed']} are followed to sectors and operations")
    print(f"{len(every)} code objects, {len(every) - len(unequal)} read alike")
    print(f"{len(launches)} launches, {len(launches) - len(wrong)} with the code object's figures")
    print(f"occupancy by registers as LLVM's: {len(every) - len(waves)} of {len(every)}")
    spills = sum(bool(f.spills) for f in launches)
    agprs = sum(bool(f.accumulation_registers) for f in launches)
    print(f"{spills} launches spill, {agprs} have accumulation registers")
    for facts in wrong:
        print(f"differs: {facts.launch.name} {facts_figures(facts)}")
    for binary in (*unequal, *waves):
        print(f"differs: {binary.name} {binary.theirs} {binary.ours}, LLVM {binary.waves} waves")
    return 1 if wrong or unequal else 0


if __name__ == "__main__":
    sys.exit(main())
