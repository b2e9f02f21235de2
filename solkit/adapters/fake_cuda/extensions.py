"""Replacements in modules of torch that few programs import, made at the import."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from solkit.adapters.fake_cuda.attention import flex_attention_of, plain_causal_biases
from solkit.adapters.fake_cuda.guesses import user_line
from solkit.core.stack import Stack
from solkit.errors import SolkitError, UnsupportedError


class BuildError(SolkitError):
    """A C++ extension does not build; the message holds the compilers' first errors.

    Attributes:
        log: their whole output.
    """

    def __init__(self, log: str) -> None:
        self.log = log
        super().__init__(_first_errors(log))


_Texts = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class Extension:
    """A C++ extension.

    Attributes:
        texts: its sources, each with its file and first line there.
        cuda_flags: options for the compiler of device code.
        host_flags: options for the compiler of host code.
    """

    texts: _Texts
    cuda_flags: tuple[str, ...]
    host_flags: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """The options of both, those for device code last."""
        return (*self.host_flags, *self.cuda_flags)


Caller = Callable[[Extension, str, Sequence[Any], Mapping[str, Any]], Any]
_callers = Stack[Caller]()


def extension_calls(caller: Caller) -> contextlib.AbstractContextManager[Caller]:
    """Let `caller` replace the functions of extensions; it gets extension, name and arguments."""
    return _callers.holding(caller)


_failures = Stack[Callable[[Extension], str]]()


def failing_builds(
    failure: Callable[[Extension], str],
) -> contextlib.AbstractContextManager[object]:
    """Let the builds of some extensions fail, as they do for a compiler's error.

    Args:
        failure: the error that an extension's build ends in; empty if it succeeds.
    """
    return _failures.holding(failure)


_is_building = False


@contextlib.contextmanager
def building_extensions() -> Iterator[None]:
    """Let torch build extensions too; their functions are still replaced.

    An extension that does not build raises `BuildError`.
    """
    global _is_building
    _is_building = True
    try:
        yield
    finally:
        _is_building = False


class _Module:
    """The result of `torch.utils.cpp_extension.load`."""

    def __init__(self, extension: Extension) -> None:
        self._extension = extension

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*args: Any, **kwargs: Any) -> Any:
            if not _callers:
                raise UnsupportedError(
                    f"{user_line()}: calls {name}() of a compiled CUDA extension, not analysed "
                    'here: what an import runs belongs behind `if __name__ == "__main__":`'
                )
            return _callers[-1](self._extension, name, args, kwargs)

        return function


def _build_nothing(module: Any) -> None:
    for name, texts_of in (("load_inline", _inline_texts), ("load", _file_texts)):
        setattr(module, name, _load_replacement(module, getattr(module, name), texts_of))


def _load_replacement(
    module: Any, build: Callable[..., Any], texts_of: Callable[[Any], _Texts]
) -> Any:
    signature = inspect.signature(build)

    def load_extension(*args: Any, **kwargs: Any) -> _Module:
        arguments = signature.bind(*args, **kwargs).arguments
        flags = [
            _split_words(arguments.get(name)) for name in ("extra_cuda_cflags", "extra_cflags")
        ]
        texts = _with_headers(texts_of(arguments), _header_folders(arguments, *flags))
        extension = Extension(texts, (*flags[0], *_listed_architectures(flags[0])), flags[1])
        _build_extension(module, build, args, kwargs)
        _refuse_undeclared(arguments)
        if error := _failures[-1](extension) if _failures else "":
            raise RuntimeError(f"Error building extension '{arguments.get('name')}': {error}")
        loaded = _Module(extension)
        _register_operators(loaded, str(arguments.get("name")))
        return loaded

    return load_extension


_LIBRARY = re.compile(
    r"\bTORCH_LIBRARY(?:_FRAGMENT)?\s*\(\s*(\w+)\s*,\s*\w+\s*\)(.*?)(?=\bTORCH_LIBRARY|\Z)",
    re.DOTALL,
)
_OPERATOR = re.compile(r"\.def\(\s*(?:TORCH_SELECTIVE_SCHEMA\(\s*)?\"(?:\w+::)?(\w+)")
_libraries: list[torch.library.Library] = []  # an operator lives as long as its library


def _register_operators(module: _Module, name: str) -> None:
    """Let ``torch.ops`` have what an extension defines there instead of in a Python module.

    A function stands in for the operator, which is defined all the same: a program may register
    its fake.
    """
    for text, _, _ in module._extension.texts:
        for library in _LIBRARY.finditer(text):
            space = name if library[1] == "TORCH_EXTENSION_NAME" else library[1]
            own = torch.library.Library(space, "FRAGMENT")
            _libraries.append(own)
            for operator in _OPERATOR.findall(library[2]):
                function = getattr(module, operator)
                function.default = function
                with contextlib.suppress(RuntimeError):  # it was built, or is loaded again
                    own.define(f"{operator}() -> ()")
                setattr(getattr(torch.ops, space), operator, function)


def _refuse_undeclared(arguments: Mapping[str, Any]) -> None:
    """Fail as the host's compiler does, whose error a candidate may expect.

    `load_inline` binds `functions` in the C++ source, so that a kernel which only the CUDA source
    has cannot be bound.

    Raises:
        RuntimeError: a function is bound that the C++ source does not name.
    """
    texts = [str(text) for text in _as_list(arguments.get("cpp_sources"))]
    if any(re.search(r'#[ \t]*include[ \t]*"', text) for text in texts):
        return  # a header may declare it
    for name in _as_list(arguments.get("functions")):
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts):
            raise RuntimeError(
                f"Error building extension '{arguments.get('name')}': main.cpp: error: '{name}' "
                "was not declared in this scope: declare it in cpp_sources"
            )


def _split_words(value: Any) -> tuple[str, ...]:
    return tuple(map(str, _as_list(value)))


def _listed_architectures(flags: Sequence[str]) -> Iterator[str]:
    """Yield the options that ``TORCH_CUDA_ARCH_LIST`` becomes where no option names one."""
    if any("arch" in flag for flag in flags):
        return
    listed = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    for major, minor, feature in re.findall(r"\b(\d+)\.(\d)([af]?)", listed):
        number = f"{major}{minor}{feature}"
        yield f"-gencode=arch=compute_{number},code=sm_{number}"


def _header_folders(arguments: Mapping[str, Any], *flags: Sequence[str]) -> list[Path]:
    """List the folders of headers: `extra_include_paths`, and ``-I`` among the options."""
    folders = [Path(folder) for folder in _as_list(arguments.get("extra_include_paths"))]
    for options in flags:
        for option, following in zip(options, [*options[1:], ""]):
            if option.startswith("-I"):
                folders.append(Path(option[2:].strip() or following))
    return folders


def _inline_texts(arguments: Mapping[str, Any]) -> _Texts:
    texts = [*_as_list(arguments.get("cuda_sources")), *_as_list(arguments.get("cpp_sources"))]
    return tuple((text, *_find_string(text)) for text in texts)


def _file_texts(arguments: Mapping[str, Any]) -> _Texts:
    paths = [Path(path) for path in _as_list(arguments.get("sources"))]
    return tuple((path.read_text(errors="replace"), str(path), 1) for path in paths)


def _build_extension(module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Build an extension, if wanted."""
    if not _is_building:
        return
    # torch looks for nvcc only if it was built for CUDA, which the fake denies
    module.CUDA_HOME = module.CUDA_HOME or module._find_cuda_home()
    try:
        function(*args, **kwargs)
    except (RuntimeError, OSError, ImportError) as error:  # of ninja, no compiler, no symbol
        raise BuildError(str(error)) from error


def _first_errors(log: str) -> str:
    """Return the first two errors in compilers' output, else its first line; without folders."""
    lines = [re.sub(r"^/\S*/", "", line.strip()) for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"(?i)\berror\s*:|undefined reference", line)]
    return " / ".join(errors[:2] or lines[:1])


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">][^\n]*(\n|$)', re.MULTILINE)


def _with_headers(texts: _Texts, folders: Sequence[Path]) -> _Texts:
    """Return texts with the project's headers in place of their ``#include``, each header once."""
    seen: set[Path] = set()
    return tuple(part for text in texts for part in _included_parts(text, folders, seen))


def _included_parts(
    text: tuple[str, str, int], folders: Sequence[Path], seen: set[Path]
) -> Iterator[tuple[str, str, int]]:
    """Yield the parts of a text before, between and after the headers that are found."""
    whole, file, first = text
    done = 0
    for include in _INCLUDE.finditer(whole):
        places = [Path(file).parent, *folders] if include[1] == '"' else folders
        header = next((f / include[2] for f in places if (f / include[2]).is_file()), None)
        if header is None:
            continue
        yield whole[done : include.start()], file, first + whole.count("\n", 0, done)
        done = include.end()
        if header.resolve() not in seen:
            seen.add(header.resolve())
            within = header.read_text(errors="replace")
            yield from _included_parts((within, str(header), 1), folders, seen)
    yield whole[done:], file, first + whole.count("\n", 0, done)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, str | Path) else list(value)


def _find_string(text: str) -> tuple[str, int]:
    """Return the user's file, and the line where a string starts; 1 if it is not found there."""
    file = user_line().rpartition(":")[0]
    path = Path(file)
    whole = path.read_text(errors="replace") if path.is_file() else ""
    at = whole.find(text)
    return file, whole.count("\n", 0, at) + 1 if at >= 0 else 1


def _attend_whole(module: Any) -> None:
    module.flex_attention = flex_attention_of(module)


def when_imported(name: str, change: Callable[[Any], None]) -> None:
    """Change a module when it is imported; at once if it is there."""
    if name in sys.modules:
        change(sys.modules[name])
        return
    finder = next((f for f in sys.meta_path if isinstance(f, WhenImported)), None)
    if finder is None:  # nothing else of CUDA is faked in this process
        finder = WhenImported({})
        sys.meta_path.insert(0, finder)
    finder.waiting[name] = change


_CHANGES: Mapping[str, Callable[[Any], None]] = {
    "torch.utils.cpp_extension": _build_nothing,
    "torch.nn.attention.flex_attention": _attend_whole,
    "torch.nn.attention.bias": plain_causal_biases,
}


class WhenImported(importlib.abc.MetaPathFinder):
    """Changes modules when they are imported.

    Args:
        changes: by module; what `install` fakes unless told otherwise.
    """

    def __init__(self, changes: Mapping[str, Callable[[Any], None]] | None = None) -> None:
        self.waiting = dict(_CHANGES if changes is None else changes)
        for name in self.waiting.keys() & sys.modules.keys():
            self.waiting.pop(name)(sys.modules[name])

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Return the module's own spec, with a loader that makes the change after it has run."""
        change = self.waiting.pop(fullname, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:  # `cuda`, say, is the package of several wheels
            self.waiting[fullname] = change
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
