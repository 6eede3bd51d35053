"""The catalog: what the warehouse consists of, read from `include/warehouse.yml` and the files it names.

`load_catalog` checks all of it before anything starts and reports every problem together. Importing this package is
cheap: YAML and SQL parsers are loaded by the first `load_catalog`. No Airflow, no Spark, no database in here.
"""

from scheduler_plugin.catalog.load import catalog_path, load_catalog
from scheduler_plugin.catalog.model import (
    Catalog,
    ColumnInterval,
    Expectation,
    Feed,
    Group,
    PatternInterval,
    Policy,
    Retention,
    Table,
    View,
    landing_path,
)
from scheduler_plugin.catalog.problems import CatalogError

__all__ = [
    "Catalog",
    "CatalogError",
    "ColumnInterval",
    "Expectation",
    "Feed",
    "Group",
    "PatternInterval",
    "Policy",
    "Retention",
    "Table",
    "View",
    "catalog_path",
    "landing_path",
    "load_catalog",
]
