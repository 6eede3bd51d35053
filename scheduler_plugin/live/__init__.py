"""The running scheduler: the only folder that imports Airflow. `loop.py` is the tick, `job.py` what a run does."""
