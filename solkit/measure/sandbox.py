"""Candidates under bubblewrap: no network, nothing of the user's to read, one folder to write to.

What a sandboxed candidate sees, all of it read-only but the last two lines::

    /usr /bin /lib* /opt, parts of /etc, /sys, /proc      the system
    Python, the module path, SolKit, CUDA's libraries      what it is made of
    the folders of candidate and problem                   what it is
    /dev                                                   null, random, ...; the GPU's own
    /tmp                                                   a scratch folder, its HOME too

The fork server that its process comes from (`solkit.measure._forkserver`) runs in the sandbox, so
that a new process takes milliseconds there as well. A candidate whose folder does not show yet gets
another sandbox, which takes as long as importing torch.

Of the namespaces, those of processes and of System V IPC are the caller's: CUDA opens memory of
another process (``cuIpcOpenMemHandle``) only within one of each (openucx/ucx#11512,
vllm-project/vllm#55906; RAPIDS UCXX documentation, "NVLink and Docker/Kubernetes").
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
from solkit.measure._forkserver import ForkServer

__all__ = ["Sandbox"]

_SCRATCH = "/tmp"  # as it is called within
_TRIAL_S = 20.0

_ISOLATION = """
    --unshare-user --unshare-net --unshare-uts --unshare-cgroup-try --cap-drop ALL
    --die-with-parent --hostname sandbox
""".split()
_SYSTEM = """
    /usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt /nix/store /sys /proc
    /etc/alternatives /etc/group /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/localtime
    /etc/nsswitch.conf /etc/nvidia /etc/passwd
""".split()

_VARIABLES = {
    *("LANG", "LANGUAGE", "LD_LIBRARY_PATH", "PATH", "TZ", "VIRTUAL_ENV", "CC", "CXX"),
}
_PREFIXES = (
    *("CUBLAS", "CUDA_", "CUDNN_", "KINETO_", "KMP_", "LC_", "MKL_", "NVIDIA_", "OMP_"),
    *("OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH", "TRITON_"),
)
_CACHES = {  # which lie in the scratch folder instead
    *("CUDA_CACHE_PATH", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE", "TORCHINDUCTOR_CACHE_DIR"),
    *("TORCH_EXTENSIONS_DIR", "TORCH_HOME", "TRITON_CACHE_DIR", "TRITON_DUMP_DIR"),
    *("TRITON_HOME", "TRITON_OVERRIDE_DIR"),
}

_NO_BWRAP = (
    "a sandbox needs bubblewrap: install it, as by `apt-get install bubblewrap` or `dnf install "
    "bubblewrap`"
)
_FORBIDDEN = (
    "bubblewrap cannot make a sandbox here. It needs user namespaces: `sysctl "
    "kernel.unprivileged_userns_clone=1` (Debian), `sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for bwrap (Ubuntu), "
    "`docker run --privileged` or a seccomp profile that allows them (containers). It said: "
)


class Sandbox:
    """Where the candidates of a session run.

    Args:
        prepare: of the fork server.
        env: of the fork server, beside what `environment` leaves.
        device: ``"cuda"`` where the GPU is to be had there.

    Raises:
        UnsupportedError: there is no bubblewrap, or it may not make a sandbox; says what to do.
    """

    def __init__(self, prepare: str, env: Mapping[str, str], device: str) -> None:
        self._prepare, self._env, self._device = prepare, dict(env), device
        self._shown: frozenset[Path] = frozenset()
        self._folder = _SCRATCH
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._server: ForkServer | None = None
        _try(device)

    @property
    def folder(self) -> str:
        """The working directory of what runs there: the caller's by name, to which paths refer."""
        return self._folder

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """What of an environment may be known there, and what must be."""
        return {**_harmless(env), "HOME": _SCRATCH, "TMPDIR": _SCRATCH, "USER": "sandbox"}

    def server(self, paths: Iterable[str]) -> ForkServer:
        """The fork server within; another one where the files, or their folders, do not show yet.

        Args:
            paths: kernel files and problem folders.
        """
        wanted = {shown for path in paths for shown in _shown_for(Path(path).resolve())}
        folder = _here()
        if self._server is None or not wanted <= self._shown or folder != self._folder:
            self.close()
            self._shown |= wanted
            self._folder = folder
            self._scratch = tempfile.TemporaryDirectory(
                prefix="solkit-sandbox-", ignore_cleanup_errors=True
            )
            command = _command(self._scratch.name, self._device, self._shown, folder)
            wrapper = (*command, "--")
            env = self.environment({**os.environ, **self._env})
            self._server = ForkServer(self._prepare, env, wrapper, inherits=False)
        return self._server

    def close(self) -> None:
        """End all that runs there, and remove what it wrote."""
        server, self._server = self._server, None
        scratch, self._scratch = self._scratch, None
        if server is not None:
            server.close()
        if scratch is not None:
            scratch.cleanup()


def _try(device: str) -> None:
    with tempfile.TemporaryDirectory(prefix="solkit-sandbox-") as scratch:
        command = [*_command(scratch, device, (), _SCRATCH), "--", "true"]
        try:
            tried = subprocess.run(
                command, capture_output=True, text=True, timeout=_TRIAL_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UnsupportedError(f"{_FORBIDDEN}nothing within {_TRIAL_S:g} s") from error
    if tried.returncode:
        raise UnsupportedError(_FORBIDDEN + tried.stderr.strip())


def _command(scratch: str, device: str, shown: Iterable[Path], folder: str) -> list[str]:
    """Bubblewrap's command, but for what it is to run; see `Sandbox`."""
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
    for path in sorted({*_of_python(), *shown}):  # folders before what lies in them
        command += ("--ro-bind-try", str(path), str(path))
    return [*command, "--dir", folder, "--chdir", folder, "--remount-ro", "/"]


def _of_python() -> Iterator[Path]:
    """Python itself, what it imports from, and SolKit, whose rooms are links in a checkout."""
    package = Path(solkit.__file__).parent
    links = [link for link in package.iterdir() if link.is_symlink()]
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, *libraries)
    for path in (Path(sys.executable).parent, package, *links, *map(Path, filter(None, prefixes))):
        for form in (path.absolute(), path.resolve()):
            if form.exists() and not _holds_home(form):
                yield form


def _here() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return _SCRATCH


def _shown_for(path: Path) -> Iterator[Path]:
    """A file's folder, for what it imports; but the file alone where that is the user's home."""
    folder = path if path.is_dir() else path.parent
    yield path if _holds_home(folder) else folder


def _holds_home(folder: Path) -> bool:
    home = Path.home().resolve()
    return folder == home or folder in home.parents


def _harmless(env: Mapping[str, str]) -> dict[str, str]:
    """Variables that libraries read; a token has no such name."""
    return {
        name: value
        for name, value in env.items()
        if (name in _VARIABLES or name.startswith(_PREFIXES)) and name not in _CACHES
    }
