"""A notifier that writes down what it is told, for tests here and in Airflow's own tasks."""

from pathlib import Path
from typing import Any

from airflow.sdk.bases.notifier import BaseNotifier


class FileNotifier(BaseNotifier):
    """Appends what it is told to a file."""

    template_fields = ("text",)

    def __init__(self, *, path: str, text: str) -> None:
        super().__init__()
        self.path = path
        self.text = text

    def notify(self, context: Any) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{self.text}\n")
