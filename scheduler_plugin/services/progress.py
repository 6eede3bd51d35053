"""Says how far a start or a stop is: one moving line on a terminal, a line for each service elsewhere."""

import sys
import threading
import time
from typing import TextIO


class Progress:
    """Services report from several threads. What is still awaited shows on a terminal, with the seconds so far."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._waiting: dict[str, str] = {}
        self._over = threading.Event()
        self._drawer: threading.Thread | None = None

    def __enter__(self) -> "Progress":
        if self._terminal:
            self._drawer = threading.Thread(target=self._redraw, name="progress", daemon=True)
            self._drawer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._drawer is not None:
            self._drawer.join()
            self._stream.write("\r\033[K")
            self._stream.flush()

    def doing(self, service: str, what: str) -> None:
        """The service is at work on this, until `done` or the next `doing`."""
        with self._lock:
            self._waiting[service] = what
            if not self._terminal:
                self._line(f"{service}: {what}")

    def done(self, service: str, result: str) -> None:
        with self._lock:
            self._waiting.pop(service, None)
            self._line(f"{service}: {result}")

    def _line(self, text: str) -> None:
        start = "\r\033[K" if self._terminal else ""
        self._stream.write(f"{start}{time.monotonic() - self._began:5.1f} s  {text}\n")
        self._stream.flush()

    def _redraw(self) -> None:
        while not self._over.wait(0.2):
            with self._lock:
                awaited = ", ".join(f"{service} {what}" for service, what in self._waiting.items())
                self._stream.write(f"\r\033[K{time.monotonic() - self._began:5.1f} s  {awaited[:100]}")
                self._stream.flush()
