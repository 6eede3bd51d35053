"""What Airflow loads at start, by the `airflow.plugins` entry point."""

from airflow.plugins_manager import AirflowPlugin


class FreshetPlugin(AirflowPlugin):
    """Freshet in Airflow."""

    name = "freshet"
