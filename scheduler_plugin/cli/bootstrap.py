"""Makes .venv from requirements.txt. Runs under the system's Python 3.11 before anything is installed.

Standard library only. uv does the work where there is one, pip otherwise. The finished environment carries a copy of
the lock it was made from, which the entry script compares on every use: an interrupted or outdated installation is
taken up where it stopped. Bytecode is compiled here, once, and not by every Airflow process at its start.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Bar:
    """How far the installer is: a line that moves on a terminal, a line now and then in a log."""

    #: Seconds between two lines in a log.
    LINE_SECONDS = 15

    def __init__(self, total: int, site_packages: Path) -> None:
        self.total = total
        self.site_packages = site_packages
        self.fetched = 0
        self.latest = "looking around"
        self.began = time.monotonic()
        self._over = threading.Event()
        self._drawer = threading.Thread(target=self._draw, daemon=True)

    def __enter__(self) -> "Bar":
        self._drawer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._drawer.join()
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _draw(self) -> None:
        terminal = sys.stderr.isatty()
        while not self._over.wait(0.5 if terminal else self.LINE_SECONDS):
            installed = sum(1 for _ in self.site_packages.glob("*.dist-info"))
            done = min(self.fetched + installed, 2 * self.total)
            said = f"{min(installed, self.total)} of {self.total} installed; {self.latest}"[:70]
            seconds = time.monotonic() - self.began
            if terminal:
                filled = 30 * done // (2 * self.total)
                bar = "#" * filled + "." * (30 - filled)
                print(f"\r\033[K[{bar}] {seconds:3.0f} s  {said}", end="", file=sys.stderr, flush=True)
            else:
                print(f"freshet: {seconds:3.0f} s  {said}", file=sys.stderr, flush=True)


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Holds the lock file itself, so that two first uses do not install into one folder."""
    with lock.open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("freshet: waiting for another first use to finish its installation", file=sys.stderr)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def run(words: list[str], bar: Bar | None = None) -> None:
    """Runs an installer. Without a bar it draws its own progress; with one, its words are shown only if it fails."""
    said: list[str] = []
    output = subprocess.PIPE if bar else None
    with subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT if bar else None, text=True) as installer:
        for line in installer.stdout or ():
            said.append(line)
            first, _, rest = line.strip().partition(" ")
            if bar and first == "Collecting":
                bar.fetched = min(bar.fetched + 1, bar.total)
                bar.latest = f"fetching {rest.split(' ')[0]}"
            elif bar and first == "Installing":
                bar.fetched, bar.latest = bar.total, "installing"
    if installer.returncode:
        sys.stderr.write("".join(said[-15:]))
        sys.exit(
            f"freshet: installing the packages failed (`{' '.join(words[:4])} ...`, exit {installer.returncode}). "
            "The lines above say why. Run the command again once that is put right; it goes on from here."
        )


def make_environment(folder: Path, *, with_pip: bool) -> None:
    """A virtual environment that works; one that was interrupted in the making is made again."""
    probe = [str(folder / "bin" / "python"), "-c", "import pip" if with_pip else ""]
    try:
        whole = subprocess.run(probe, check=False, capture_output=True).returncode == 0
    except OSError:
        whole = False
    if whole:
        return
    try:
        venv.create(folder, with_pip=with_pip, clear=True)
    except subprocess.CalledProcessError:
        sys.exit(
            f"freshet: Python could not make a virtual environment in {folder}. "
            "On Debian and Ubuntu the package python3.11-venv is needed; or install uv."
        )
    except OSError as error:
        sys.exit(f"freshet: {folder} could not be made ({error.strerror}). Make room, or the folder writable.")


def install(root: Path) -> None:
    lock, folder = root / "requirements.txt", root / ".venv"
    packages = sum(1 for line in lock.read_text().splitlines() if "==" in line)
    print(f"freshet: installing {packages} packages into .venv (first use, or a changed lock)", file=sys.stderr)
    uv = shutil.which("uv")
    make_environment(folder, with_pip=uv is None)
    python = str(folder / "bin" / "python")
    if uv:
        words = [uv, "pip", "install", "--python", python]
        install_all = [*words, "--compile-bytecode", "-r", str(lock)]
    else:
        words = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
        install_all = [*words, "-r", str(lock)]
    if uv and sys.stderr.isatty():
        run(install_all)
    else:
        with Bar(packages, folder / "lib" / "python3.11" / "site-packages") as bar:
            run(install_all, bar)
    # The package itself, so that Airflow finds the plugin by its entry point.
    with Bar(1, folder / "nothing") as bar:
        run([*words, "--no-deps", "--no-build-isolation", "-e", str(root)], bar)
    print("freshet: packages are in place", file=sys.stderr)


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    lock, stamp = root / "requirements.txt", root / ".venv" / "installed-requirements.txt"
    with one_at_a_time(lock):
        wanted = lock.read_bytes()
        if stamp.exists() and stamp.read_bytes() == wanted and (root / ".venv" / "bin" / "python").exists():
            return  # the one we waited for has done it
        stamp.unlink(missing_ok=True)
        install(root)
        stamp.write_bytes(wanted)


if __name__ == "__main__":
    # uv and pip look for it; a half-activated other environment must not be the one they change.
    os.environ.pop("VIRTUAL_ENV", None)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nfreshet: interrupted; run the command again to finish the installation")
    except OSError as error:  # a full disk, a folder of somebody else's, a file in the way
        sys.exit(f"freshet: the installation stopped: {error}. Run the command again once that is put right.")
