"""Reads YAML, and refuses what PyYAML accepts in silence: the same key twice in one mapping."""

from functools import cache
from pathlib import Path
from typing import Any

from scheduler_plugin.catalog.problems import Problems, shown


@cache
def _loader() -> type:
    """libyaml's loader where PyYAML has it (ten times faster), made to note duplicate keys."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            first: dict[str, int] = {}
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    line = key.start_mark.line + 1
                    if key.value in first:
                        self.twice.append((line, key.value, first[key.value]))
                    first.setdefault(key.value, line)
            return super().construct_mapping(node, deep)

    return Loader


def read_yaml(path: Path, content: bytes, problems: Problems) -> Any:
    """The parsed content, or None after a problem."""
    import yaml

    loader = _loader()(content)
    loader.twice = []
    try:
        value = loader.get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        why = getattr(error, "problem", None) or " ".join(str(error).split())
        problems.add(shown(path), f"{place}: is not YAML: {why}.")
        return None
    finally:
        loader.dispose()
    for line, key, first in loader.twice:
        problems.add(shown(path), f":{line}: `{key}` stands twice (first in line {first}). Keep one or rename one.")
    return value
