"""Airflow's LocalExecutor with the jobs' imports done once, before its workers fork.

A forked job then starts on Spark at once instead of importing for four seconds. Modules only: no channel, no thread
and no connection may exist before the fork.
"""

from airflow.executors.local_executor import LocalExecutor


class WarmLocalExecutor(LocalExecutor):
    """Set as `[core] executor = scheduler_plugin.live.executor.WarmLocalExecutor`."""

    def start(self) -> None:
        from spark_jobs.warm import warm_imports

        warm_imports()
        import scheduler_plugin.live.job
        import scheduler_plugin.live.operators  # noqa: F401

        super().start()
