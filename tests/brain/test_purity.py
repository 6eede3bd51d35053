"""The brain and the simulator need neither Airflow, nor Spark, nor a database: they import where those are absent."""

import subprocess
import sys

FORBID_AND_IMPORT = """
import sys
for name in ("airflow", "pyspark", "sqlalchemy", "psycopg2", "pyiceberg", "pandas"):
    sys.modules[name] = None  # importing it now fails
import importlib, pkgutil
import scheduler_plugin.brain, scheduler_plugin.simulator
for package in (scheduler_plugin.brain, scheduler_plugin.simulator):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
outside = {"scheduler_plugin.store", "scheduler_plugin.live", "scheduler_plugin.web", "spark_jobs", "dags"}
print(sorted(outside & set(sys.modules)))
"""


def test_nothing_of_the_live_half_is_needed():
    run = subprocess.run([sys.executable, "-c", FORBID_AND_IMPORT], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "[]", "")
