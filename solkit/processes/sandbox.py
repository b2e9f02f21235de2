"""Candidates under bubblewrap: no network, no access to the user's files, one writable folder.

A sandboxed candidate sees these, read-only except for the last two::

    /usr /bin /lib* /opt, parts of /etc, /sys, /proc      the system
    Python, the module path, SolKit, CUDA's libraries      its software
    the folders of candidate and problem                   its sources
    /dev                                                   null, random, ...; the GPU's own
    /tmp                                                   a scratch folder, also its HOME

The fork server (`solkit.processes.forkserver`) runs in the sandbox, so a new process takes
milliseconds. It ends when its caller closes the channel or dies; bubblewrap's --die-with-parent is
not used, since it would end the sandbox with the thread that started it. A candidate in a folder
that is not visible gets another sandbox, which must import torch again.

The process and System V IPC namespaces are the caller's: CUDA opens another process's memory
(``cuIpcOpenMemHandle``) only within the same ones (openucx/ucx#11512, vllm-project/vllm#55906;
RAPIDS UCXX documentation, "NVLink and Docker/Kubernetes").
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import solkit
from solkit.errors import UnsupportedError
from solkit.processes.forkserver import ForkServer

_SCRATCH = "/tmp"  # its path inside
_TRIAL_S = 20.0

_ISOLATION = """
    --unshare-user --unshare-net --unshare-uts --unshare-cgroup-try --cap-drop ALL
    --hostname sandbox
""".split()
_SYSTEM = """
    /usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt /nix/store /sys /proc
    /etc/alternatives /etc/group /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/localtime
    /etc/nsswitch.conf /etc/nvidia /etc/passwd
""".split()

_VARIABLES = {*("LANG", "LANGUAGE", "LD_LIBRARY_PATH", "PATH", "TZ", "VIRTUAL_ENV", "CC", "CXX")}
_PREFIXES = (
    *("CUBLAS", "CUDA_", "CUDNN_", "KINETO_", "KMP_", "LC_", "MKL_", "NVIDIA_", "OMP_"),
    *("OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH", "TRITON_"),
)
_CACHES = {  # replaced by folders in the scratch folder
    *("CUDA_CACHE_PATH", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE", "TORCHINDUCTOR_CACHE_DIR"),
    *("TORCH_EXTENSIONS_DIR", "TORCH_HOME", "TRITON_CACHE_DIR", "TRITON_DUMP_DIR"),
    *("TRITON_HOME", "TRITON_OVERRIDE_DIR"),
}

_NO_BWRAP = (
    "a sandbox needs bubblewrap: install it, e.g. with `apt-get install bubblewrap` or `dnf "
    "install bubblewrap`"
)
_FORBIDDEN = (
    "bubblewrap cannot make a sandbox here. It needs user namespaces: `sysctl "
    "kernel.unprivileged_userns_clone=1` (Debian), `sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for bwrap (Ubuntu), "
    "`docker run --privileged` or a seccomp profile that allows them (containers). It said: "
)


class Sandbox:
    """A sandbox with a fork server.

    Args:
        prepare, env: of the fork server.
        device: ``"cuda"`` to expose the GPU.

    Raises:
        UnsupportedError: bubblewrap is missing or cannot make a sandbox; the message says what to
            do.
    """

    def __init__(self, prepare: str, env: Mapping[str, str], device: str) -> None:
        self._prepare, self._env, self._device = prepare, dict(env), device
        self._shown: frozenset[Path] = frozenset()
        self._folder = _SCRATCH
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._server: ForkServer | None = None
        _try_bubblewrap(device)

    @property
    def folder(self) -> str:
        """The working directory inside: the caller's by name, so that paths stay valid."""
        return self._folder

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment inside: allowed and required variables."""
        return {**harmless_variables(env), "HOME": _SCRATCH, "TMPDIR": _SCRATCH, "USER": "sandbox"}

    def shows(self, paths: Iterable[str]) -> bool:
        """Tell whether they are visible without replacing the server, which would end its forks.

        A folder within one that is shown is visible, too.
        """
        if self._server is None:
            return True
        visible = (self._shown & {path, *path.parents} for path in _all_shown_for(paths))
        return all(visible) and _working_directory() == self._folder

    def server(self, paths: Iterable[str]) -> ForkServer:
        """Return the fork server inside; a new one if the files or folders are not visible yet.

        Args:
            paths: kernel files and problem folders.
        """
        if self._server is None or not self.shows(paths):
            self.close()
            self._shown |= _all_shown_for(paths)
            self._folder = folder = _working_directory()
            self._scratch = tempfile.TemporaryDirectory(
                prefix="solkit-sandbox-", ignore_cleanup_errors=True
            )
            command = _bubblewrap_command(self._scratch.name, self._device, self._shown, folder)
            wrapper = (*command, "--")
            env = self.environment({**os.environ, **self._env})
            self._server = ForkServer(self._prepare, env, wrapper, inherits=False)
        return self._server

    def close(self) -> None:
        """End all processes inside, and remove what they wrote."""
        server, self._server = self._server, None
        scratch, self._scratch = self._scratch, None
        if server is not None:
            server.close()
        if scratch is not None:
            scratch.cleanup()


def _try_bubblewrap(device: str) -> None:
    with tempfile.TemporaryDirectory(prefix="solkit-sandbox-") as scratch:
        command = [*_bubblewrap_command(scratch, device, (), _SCRATCH), "--", "true"]
        try:
            tried = subprocess.run(
                command, capture_output=True, text=True, timeout=_TRIAL_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UnsupportedError(f"{_FORBIDDEN}nothing within {_TRIAL_S:g} s") from error
    if tried.returncode:
        raise UnsupportedError(_FORBIDDEN + tried.stderr.strip())


def _bubblewrap_command(scratch: str, device: str, shown: Iterable[Path], folder: str) -> list[str]:
    """Bubblewrap's command, without the command to run; see `Sandbox`."""
    program = shutil.which("bwrap")
    if program is None:
        raise UnsupportedError(_NO_BWRAP)
    command = [program, *_ISOLATION]
    for name in _SYSTEM:
        command += ("--ro-bind-try", name, name)
    command += ("--bind", scratch, _SCRATCH, "--dev", "/dev")
    if device != "cpu":
        gpu = [*map(str, sorted(Path("/dev").glob("nvidia*"))), "/dev/shm"]
        command += [word for path in gpu for word in ("--dev-bind-try", path, path)]
    for path in _in_order_of_mounting({*_python_paths(), *shown}):
        command += ("--ro-bind-try", str(path), str(path))
    return [*command, "--dir", folder, "--chdir", folder, "--remount-ro", "/"]


def _in_order_of_mounting(paths: Iterable[Path]) -> list[Path]:
    """Sort folders before their contents, and links behind what they may point to.

    A mount on a link that a mounted folder holds goes to the link's target, which must be there.
    """
    return sorted(paths, key=lambda path: (path != path.resolve(), path))


def _python_paths() -> Iterator[Path]:
    """Python, its import paths, and SolKit, whose rooms are links in a checkout."""
    package = Path(solkit.__file__).parent
    links = [link for link in package.iterdir() if link.is_symlink()]
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, *libraries)
    for path in (Path(sys.executable).parent, package, *links, *map(Path, filter(None, prefixes))):
        for form in (path.absolute(), path.resolve()):
            if form.exists() and not _holds_home(form):
                yield form


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return _SCRATCH


def _all_shown_for(paths: Iterable[str]) -> set[Path]:
    return {shown for path in paths for shown in _shown_paths(Path(path).resolve())}


def _shown_paths(path: Path) -> Iterator[Path]:
    """Yield a file's folder, for its imports; only the file if that is the user's home.

    A definition of a data set lies in its ``definitions``, and its workloads beside these.
    """
    folder = path if path.is_dir() else path.parent
    if path.suffix == ".json":
        sets = (above.parent for above in path.parents if above.name == "definitions")
        folder = next(sets, folder)
    yield path if _holds_home(folder) else folder


def _holds_home(folder: Path) -> bool:
    home = Path.home().resolve()
    return folder == home or folder in home.parents


def harmless_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Variables that libraries read; tokens have other names."""
    return {
        name: value
        for name, value in env.items()
        if (name in _VARIABLES or name.startswith(_PREFIXES)) and name not in _CACHES
    }
