"""Processes Freshet starts: detached, recorded, recognised again, and ended to the last child.

A pid alone says little after a crash or a reboot, when the number may belong to a stranger. A record therefore carries
the process's start (clock ticks since boot, and which boot), and only a process with both is ours. Every process gets
a session of its own and FRESHET_SERVICE_OF=<home> in its environment, which its children inherit, so that `down` finds
those that outlived their parent or were started by an `up` that was itself killed before it could write a record.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler_plugin.services.home import Home

if TYPE_CHECKING:
    import psutil

MARK = "FRESHET_SERVICE_OF"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One process Freshet started, as kept in run/<service>.json."""

    service: str
    pid: int
    #: Tells this process from a later one with the same pid; see `birth`.
    birth: str
    #: Seconds since the epoch.
    started_at: float
    command: tuple[str, ...]
    #: Where it listens on 127.0.0.1, if it does.
    port: int | None
    #: Digest of the settings it was started with; a service whose settings have changed since is started anew.
    settings: str = ""

    @staticmethod
    def path(home: Home, service: str) -> Path:
        return home.run / f"{service}.json"

    @classmethod
    def read(cls, home: Home, service: str) -> "Record | None":
        try:
            kept = json.loads(cls.path(home, service).read_text())
            return cls(**{**kept, "command": tuple(kept["command"])})
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            # No record, or one cut short by a full disk or a power failure: either way it tells us nothing.
            return None

    def write(self, home: Home) -> None:
        path = self.path(home, self.service)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(asdict(self), indent=1))
        draft.replace(path)

    @property
    def alive(self) -> bool:
        return birth(self.pid) == self.birth


def birth(pid: int) -> str | None:
    """When the process started, in a form that no other process shares; None if there is none, or only a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            # The command's name is in parentheses and may hold anything, so count from the last one.
            state, *rest = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None if state in "ZX" else f"{boot}/{rest[18]}"
    import psutil

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return str(process.create_time())
    return None


def start(
    home: Home,
    service: str,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    port: int | None = None,
    settings: str = "",
    user: int | None = None,
    group: int | None = None,
    folder: Path = Path("/"),
) -> Record:
    """Starts a service that outlives us, with its output in logs/<service>.log."""
    log_path = home.logs / f"{service}.log"
    with log_path.open("ab") as log:
        log.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} freshet starts {service}\n".encode())
        log.flush()
        process = subprocess.Popen(
            command,
            # setproctitle, which Airflow uses, overwrites the environment others can see unless told not to.
            env={**environment, MARK: str(home.root), "SPT_NOENV": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=folder,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )
    # A Popen that is collected while its process runs complains; services are meant to outlive this one.
    process.returncode = 0
    record = Record(
        service=service,
        pid=process.pid,
        birth=birth(process.pid) or "died at once",
        started_at=time.time(),
        command=tuple(command),
        port=port,
        settings=settings,
    )
    record.write(home)
    return record


def wait(record: Record) -> int:
    """The exit code of a process that this very process has started."""
    return os.waitstatus_to_exitcode(os.waitpid(record.pid, 0)[1])


def family(record: Record) -> "list[psutil.Process]":
    """The process and what came of it: its descendants, and members of its session that lost their parent."""
    import psutil

    found: dict[int, psutil.Process] = {}
    with suppress(psutil.NoSuchProcess):
        if record.alive:
            leader = psutil.Process(record.pid)
            for process in (leader, *leader.children(recursive=True)):
                found[process.pid] = process
    if record.alive or birth(record.pid) is None:
        # With the leader gone, its number stays reserved while its session has members: these are ours.
        for process in _same_session(record.pid):
            found.setdefault(process.pid, process)
    return list(found.values())


def strays(home: Home) -> "list[psutil.Process]":
    """Processes that carry this home's mark, whoever their parent is now."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == str(home.root):
                found.append(process)
    return found


def _same_session(leader: int) -> "Iterable[psutil.Process]":
    import psutil

    for process in psutil.process_iter():
        # The session may end, or the process change its owner, while we look.
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def stop(record: Record, *, first: signal.Signals = signal.SIGTERM, group: bool = True, patience: float = 10) -> None:
    """Asks the whole family to end, waits up to `patience` seconds, then ends what is left without asking."""
    members = family(record)
    asked = members if group else [member for member in members if member.pid == record.pid] or members
    end(members, asked=asked, first=first, patience=patience)
    # Something may have been forked while we asked.
    end(family(record), first=signal.SIGKILL, patience=patience)


def end(
    processes: "Sequence[psutil.Process]",
    *,
    asked: "Sequence[psutil.Process] | None" = None,
    first: signal.Signals = signal.SIGTERM,
    patience: float = 10,
) -> None:
    import psutil

    for process in processes if asked is None else asked:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(first)
    _, stubborn = psutil.wait_procs(processes, timeout=patience)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=patience)


def listens(record: Record) -> bool:
    """Whether the port is held by this service itself, and not by a stranger who was there first."""
    import psutil

    for member in family(record):
        with suppress(psutil.Error):
            for connection in member.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr.port == record.port:
                    return True
    return False


def free_port(preferred: Sequence[int | None] = ()) -> int:
    """The first preferred port nobody uses on loopback, or any free one."""
    for port in (*preferred, 0):
        if port is None:
            continue
        with socket.socket() as probe, suppress(OSError):
            # A port in TIME_WAIT after our own restart is free; one somebody listens on is not.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")


def log_tail(home: Home, service: str, lines: int = 20) -> str:
    """The last lines since the service's latest start."""
    path = home.logs / f"{service}.log"
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64_000))
        text = file.read().decode(errors="replace")
    since = text.rpartition("--- ")[2] if "--- " in text else text
    return "\n".join(since.splitlines()[-lines:])
