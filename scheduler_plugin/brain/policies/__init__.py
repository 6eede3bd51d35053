"""The policies by name. Adding one touches this table, one file and one test."""

from collections.abc import Mapping
from types import MappingProxyType

from scheduler_plugin.brain.policies.default import Freshest
from scheduler_plugin.brain.policies.fifo import Fifo
from scheduler_plugin.brain.policies.group_and_run import GroupAndRun
from scheduler_plugin.brain.policies.myopic import Myopic
from scheduler_plugin.brain.policies.qoda import Qoda
from scheduler_plugin.brain.policy import Policy

POLICIES: Mapping[str, type[Policy]] = MappingProxyType(
    {
        "default": Freshest,
        "fifo": Fifo,
        "group_and_run": GroupAndRun,
        "myopic": Myopic,
        "qoda": Qoda,
    }
)
