"""Plain tables and durations for people to read; for programs there is --json."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> str:
    """Columns as wide as their widest word; those named in `right` stand flush right."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        words = (
            word.rjust(width) if name in right else word.ljust(width)
            for name, word, width in zip(header, row, widths, strict=True)
        )
        lines.append("  ".join(words).rstrip())
    return "\n".join(lines)


def duration(seconds: float | None) -> str:
    """4.2s, 3m05s, 2h14m, 9d03h; a dash for none."""
    if seconds is None:
        return "-"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{left:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"
