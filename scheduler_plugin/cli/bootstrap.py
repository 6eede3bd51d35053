"""Makes .venv from requirements.txt. Runs under the system's Python 3.11 before anything is installed.

Standard library only. uv does the work where there is one, pip otherwise; both show how far they are. The finished
environment carries a copy of the lock it was made from, which the entry script compares on every use: an interrupted
or outdated installation is simply made again.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path


def show(done: int, total: int, what: str) -> None:
    """One line that moves on a terminal; a line every 25 packages in a log."""
    if sys.stderr.isatty():
        filled = 30 * done // max(total, 1)
        print(f"\r\033[K[{'#' * filled}{'.' * (30 - filled)}] {done}/{total} {what[:60]}", end="", file=sys.stderr)
    elif done % 25 == 0 or done == total:
        print(f"freshet: {done}/{total} {what}", file=sys.stderr)
    sys.stderr.flush()


def run_with_progress(words: list[str], total: int, marks: tuple[str, ...], environment: dict[str, str]) -> None:
    """Runs an installer, counting the output lines that begin with one of `marks`; shows its words if it fails."""
    said: list[str] = []
    done = 0
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as installer:
        assert installer.stdout is not None
        for line in installer.stdout:
            said.append(line)
            if line.lstrip().startswith(marks):
                done = min(done + 1, total)
                show(done, total, " ".join(line.split()[1:2]))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if installer.returncode:
        sys.stderr.write("".join(said[-15:]))
        sys.exit(
            f"freshet: installing the packages failed (`{' '.join(words[:4])} ...`, exit {installer.returncode}). "
            "The last lines above say why. Run the command again once that is put right; it goes on from here."
        )


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    lock, environment_folder = root / "requirements.txt", root / ".venv"
    stamp = environment_folder / "installed-requirements.txt"
    python = environment_folder / "bin" / "python"
    packages = sum(1 for line in lock.read_text().splitlines() if "==" in line)
    print(f"freshet: installing {packages} packages into .venv (first use, or a changed lock)", file=sys.stderr)

    stamp.unlink(missing_ok=True)
    uv = shutil.which("uv")
    environment = {**os.environ, "VIRTUAL_ENV": str(environment_folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if not python.exists():
        venv.create(environment_folder, with_pip=uv is None, clear=environment_folder.exists())
    if uv:
        install = [uv, "pip", "install", "--python", str(python)]
        marks: tuple[str, ...] = ("+ ",)
    else:
        install = [str(python), "-m", "pip", "install", "--progress-bar", "off"]
        marks = ("Collecting ", "Requirement already")
    run_with_progress([*install, "-r", str(lock)], packages, marks, environment)
    # The package itself, so that Airflow finds the plugin by its entry point.
    itself = [*install, "--no-deps", "--no-build-isolation", "-e", str(root)]
    run_with_progress(itself, 1, ("Building", "+ "), environment)
    shutil.copyfile(lock, stamp)
    print("freshet: packages are in place", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nfreshet: interrupted; run the command again to finish the installation")
