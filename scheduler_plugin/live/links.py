"""Links from a task to the object's page and to Spark's, made when the task has run."""

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from scheduler_plugin.services.settings import Settings


def object_of(dag: str) -> str:
    """The object of a DAG id.

    >>> object_of("load__flights"), object_of("refresh__by__day")
    ('flights', 'by__day')
    """
    return dag.partition("__")[2]


class ObjectLink(BaseOperatorLink):
    """The object's page in Freshet."""

    name = "Freshness"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return f"{Settings.load().api_url}/plugin/freshet/freshet/#/object/{quote(object_of(ti_key.dag_id), safe='')}"


class SparkLink(BaseOperatorLink):
    """Spark's own page, where it is known."""

    name = "Spark"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return Settings.load().spark_ui or ""
