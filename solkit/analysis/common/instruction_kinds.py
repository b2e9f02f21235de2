"""Kinds of machine instructions.

Opcodes are classified by the instruction-set tables of CUDA Binary Utilities (Ampere and Ada,
Hopper, Blackwell).
"""

from __future__ import annotations

from solkit.adapters.sass import Instruction

_OPCODES = {
    "tensor": "HMMA IMMA BMMA DMMA QMMA OMMA HGMMA IGMMA BGMMA QGMMA "
    "UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA",
    "fp32": "FADD FADD2 FADD32I FCHK FFMA FFMA2 FFMA32I FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL FSET "
    "FSETP FSWZADD FHADD FHFMA",
    "fp64": "DADD DFMA DMUL DSETP DMNMX",
    "fp16": "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2 VHMNMX",
    "int32": "BMSK BREV FLO IABS IADD IADD3 IADD32I IDP IDP4A IMAD IMNMX IMUL IMUL32I ISCADD "
    "ISCADD32I ISETP LEA LOP LOP3 LOP32I POPC SGXT SHF SHL SHR VABSDIFF VABSDIFF4 VIADD VIADDMNMX "
    "VIMNMX VIMNMX3",
    "sfu": "MUFU",
    "convert": "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP",
    "move": "CS2R MOV MOV32I MOVM P2R PLOP3 PRMT PSETP R2P R2UR S2R S2UR SEL",
    "warp": "CREDUX ELECT MATCH REDUX SHFL VOTE VOTEU",
    "global_load": "LD LDG",
    "global_store": "ST STG",
    "async_copy": "LDGSTS",
    "tma": "UBLKCP UBLKPF UBLKRED UTMALDG UTMAPF UTMAREDG UTMASTG",
    "shared_load": "LDS LDSM",
    "shared_store": "STAS STS STSM",
    "local_load": "LDL",
    "local_store": "STL",
    "tensor_memory": "LDT LDTM STT STTM UTCCP UTCSHIFT",
    "constant_load": "LDC LDCU ULDC",
    "global_atomic": "ATOM ATOMG RED REDG",
    "shared_atomic": "ATOMS REDAS",
    "texture": "FOOTPRINT SUATOM SULD SURED SUST TEX TLD TLD4 TMML TXD TXQ",
    "barrier": "ACQBULK ACQSHMINIT ARRIVES B2R BAR CCTL CCTLL CCTLT DEPBAR ENDCOLLECTIVE ERRBAR "
    "FENCE LDGDEPBAR MEMBAR NANOSLEEP R2B SYNCS UCGABAR_ARV UCGABAR_WAIT UTCATOMSWS UTCBAR "
    "UTMACCTL UTMACMDFLUSH WARPGROUP WARPGROUPSET WARPSYNC",
    "branch": "BMOV BPT BRA BREAK BRX BRXU BSSY BSYNC CALL EXIT JMP JMX JMXU KILL LEPC NANOTRAP "
    "RET RPCMOV RTT WARPEXIT YIELD",
    "nop": "NOP PMTRIG",
}
_KIND = {opcode: kind for kind, opcodes in _OPCODES.items() for opcode in opcodes.split()}

KINDS = (*_OPCODES, "uniform", "other")
"""Kinds of instructions, in the order of a mix.

``"async_copy"`` is ``cp.async`` (global to shared memory), ``"tma"`` a bulk copy, ``"warp"`` an
exchange between lanes, ``"uniform"`` once per warp on the scalar datapath, ``"local_load"`` and
``"local_store"`` spills or indexed arrays, ``"other"`` anything that no table names.
"""


def instruction_kind(instruction: Instruction) -> str:
    """Return one of `KINDS`."""
    name = instruction.name
    if instruction.opcode.startswith("IMAD.MOV") or _loads_a_constant(instruction):
        return "move"
    kind = _KIND.get(name)
    if kind is None:
        return "uniform" if name.startswith("U") and len(name) > 1 else "other"
    return kind


def _loads_a_constant(instruction: Instruction) -> bool:
    """``HFMA2 R9, -RZ, RZ, 0, 0`` sets a register on an idle pipe."""
    return instruction.name == "HFMA2" and instruction.operands[1:3] == ("-RZ", "RZ")
