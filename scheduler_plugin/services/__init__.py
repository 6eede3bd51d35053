"""The services Freshet runs on: Postgres, Spark Connect and Airflow's components, brought up and down on one machine.

Nothing here imports Airflow, Spark or SQLAlchemy when it is imported, so `freshet status` stays quick.
"""


class ServiceError(Exception):
    """A service could not be started, found or reached; the message names it and the way out."""
