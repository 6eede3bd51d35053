"""The Airflow operators: the job of one object, and the tick."""

from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException
from airflow.triggers.base import StartTriggerArgs

from scheduler_plugin.live.links import ObjectLink, SparkLink
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store.decisions import parse_run_id


class ObjectJob(BaseOperator):
    """Loads a table's batch or refreshes a view, as the decision that started the run says."""

    ui_color = "#d7ecff"
    operator_extra_links = (ObjectLink(), SparkLink())

    def execute(self, context: Any) -> None:
        from scheduler_plugin.live import job

        decided = parse_run_id(context["run_id"])
        if decided is None:
            raise AirflowSkipException(
                f"Run {context['run_id']} was not started by a decision of Freshet's, so there is nothing to run. "
                "Freshet starts this DAG by itself when its turn comes."
            )
        if not job.run(Settings.load(), *decided):
            raise AirflowSkipException("Nothing to do: the decision is done, or another job has it.")


class BackfillJob(ObjectJob):
    """Runs a piece of a backfill when a decision says so; starts a backfill when a person fills in the form."""

    ui_color = "#e5ddff"

    def execute(self, context: Any) -> None:
        if parse_run_id(context["run_id"]) is not None:
            super().execute(context)
            return
        from scheduler_plugin.live.backfill_job import start_by_form

        person = getattr(context["dag_run"], "triggering_user_name", None) or "somebody in Airflow"
        start_by_form(Settings.load(), context["params"], who=person, log=self.log.info)


class Upkeep(BaseOperator):
    """One part of upkeep."""

    ui_color = "#e8e8e8"

    def __init__(self, *, part: str, daily: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.part = part
        self.daily = daily

    def execute(self, context: Any) -> None:
        from scheduler_plugin.live import upkeep

        run = context["dag_run"]
        if self.daily and run.run_type == "scheduled" and (run.run_after.hour, run.run_after.minute) >= (0, 15):
            raise AirflowSkipException("Once a day: the first run after midnight UTC does it.")
        upkeep.run(self.part)


class SendAlert(BaseOperator):
    """Tells every notifier of the catalog that cares of one incident: run `incident-<id>-opened` or `-closed`."""

    ui_color = "#ffe3d7"

    def execute(self, context: Any) -> None:
        from scheduler_plugin.live.alerts import tell

        tell(Settings.load(), context)


class Tick(BaseOperator):
    """The loop. It never runs in a worker: its trigger is the loop, in the triggerer."""

    start_trigger_args = StartTriggerArgs(
        trigger_cls="scheduler_plugin.live.trigger.TickTrigger", trigger_kwargs={}, next_method="execute"
    )
    start_from_trigger: ClassVar[bool] = True

    def execute(self, context: Any, event: Any = None) -> None:
        """Never called: the trigger ends the task itself."""
