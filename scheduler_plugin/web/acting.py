"""What can be done: each action needs the right to edit that object's DAG, and is written to Airflow's audit log."""

from fastapi import APIRouter

from scheduler_plugin.web.desk import Desk


def router(desk: Desk) -> APIRouter:
    return APIRouter(tags=["actions"])
