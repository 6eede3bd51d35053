"""What decides: graph, dirty counters, measures, the warehouse's state and the policies.

Pure: the standard library and numpy only. No clock, no dice, no environment, no I/O; time arrives with what happened.

>>> from scheduler_plugin.brain import Table, View, UpdateArrived, Warehouse, POLICIES
>>> warehouse = Warehouse(
...     [
...         Table(name="flights", fixed=1, per_update=0.5),
...         View(name="delays", parents=("flights",), cost=4, access=0.7),
...     ]
... )
>>> warehouse.apply(UpdateArrived(table="flights", at=60.0))
>>> policy = POLICIES["qoda"]()
>>> [(choice.object, choice.why) for choice in policy.choose(warehouse, now=60.0, free_slots=[0])]
[('flights', 'popularity 0.7, 1.5 s to run')]
>>> warehouse.dirty_ancestors("delays")
['flights']
"""

from scheduler_plugin.brain.events import (
    AccessChanged,
    CostLearnt,
    Event,
    Held,
    JobFailed,
    JobFinished,
    JobStarted,
    LimitChanged,
    Released,
    UpdateArrived,
)
from scheduler_plugin.brain.graph import Graph, GraphError
from scheduler_plugin.brain.objects import Table, View
from scheduler_plugin.brain.policies import POLICIES
from scheduler_plugin.brain.policy import Candidate, Choice, Explanation, Policy, PolicyError
from scheduler_plugin.brain.warehouse import IllegalMove, Warehouse

__all__ = [
    "POLICIES",
    "AccessChanged",
    "Candidate",
    "Choice",
    "CostLearnt",
    "Event",
    "Explanation",
    "Graph",
    "GraphError",
    "Held",
    "IllegalMove",
    "JobFailed",
    "JobFinished",
    "JobStarted",
    "LimitChanged",
    "Policy",
    "PolicyError",
    "Released",
    "Table",
    "UpdateArrived",
    "View",
    "Warehouse",
]
