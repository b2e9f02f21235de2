"""The process that calls NVRTC: ``python -I nvrtc_process.py < request.json > answer.json``.

It loads nothing else. A process with torch may hold another NVRTC already, torch's own, and two of
them in one process can crash. Functions: NVRTC's user guide.
"""

from __future__ import annotations

import base64
import ctypes
import json
import sys
from collections.abc import Sequence
from typing import Any


class _Nvrtc:
    """NVRTC's C interface."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name: str, *args: Any) -> None:
        """Call ``nvrtc<name>``; texts are passed as bytes."""
        arguments = [arg.encode() if isinstance(arg, str) else arg for arg in args]
        code = getattr(self._library, f"nvrtc{name}")(*arguments)
        if code:
            message = self._library.nvrtcGetErrorString(code).decode()
            raise RuntimeError(f"nvrtc{name}: {message}")

    def output(self, name: str, program: Any) -> bytes:
        """Return what ``nvrtcGet<name>`` writes."""
        size = ctypes.c_size_t()
        self.call(f"Get{name}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"Get{name}", program, buffer)
        return buffer.raw

    def text(self, name: str, program: Any) -> str:
        """Return the same as a text."""
        return self.output(name, program).rstrip(b"\0").decode(errors="replace")

    def lowered(self, program: Any, function: str) -> str:
        """Return a function's mangled name."""
        name = ctypes.c_char_p()
        self.call("GetLoweredName", program, function, ctypes.byref(name))
        return (name.value or b"").decode()


def _compile_parts(
    library: str, text: str, name: str, functions: Sequence[str], options: Sequence[str]
) -> dict[str, Any]:
    """Return the parts of a `solkit.adapters.nvrtc.Cubin`, or the compiler's ``error``."""
    nvrtc, program = _Nvrtc(library), ctypes.c_void_p()
    try:
        nvrtc.call("CreateProgram", ctypes.byref(program), text, name, 0, None, None)
        for function in functions:
            nvrtc.call("AddNameExpression", program, function)
        flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        try:
            nvrtc.call("CompileProgram", program, len(options), flags)
        except RuntimeError as error:
            return {"error": nvrtc.text("ProgramLog", program) or str(error)}
        return {
            "binary": base64.b64encode(nvrtc.output("CUBIN", program)).decode(),
            "names": {function: nvrtc.lowered(program, function) for function in functions},
            "ptx": nvrtc.text("PTX", program),
        }
    except RuntimeError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    json.dump(_compile_parts(**json.load(sys.stdin)), sys.stdout)
