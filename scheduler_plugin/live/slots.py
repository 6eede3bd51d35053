"""Who may use which slot: named groups have slots of their own, and lend the idle ones.

Each group of the catalog, and the rest of the objects, has a policy object with its members and its slots (numbered
next to each other). Slots that a group leaves empty go to whatever the same policy ranks first over all objects; a
group waits for a lent slot no longer than the job in it lasts, as jobs are never interrupted. The groups that
`group_and_run` forms by the tables' rhythm lend in the same way, by `myopic`, which ranks within them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler_plugin.brain import POLICIES, Candidate, Choice, Explanation, Policy, Warehouse

#: Policies that leave slots empty by themselves, and what fills those.
LENDERS: Mapping[str, str] = {"group_and_run": "myopic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Slots first..first+slots-1, and who has the first right to them."""

    #: None: the objects that are in no group.
    group: str | None
    first: int
    slots: int
    policy: Policy

    def own(self, free: Collection[int]) -> list[int]:
        return [slot for slot in free if self.first <= slot < self.first + self.slots]


class Slots:
    """Ranks and chooses like a policy, over all groups."""

    def __init__(self, settings: Mapping[str, Any], objects: Collection[str]) -> None:
        name = settings["policy"]["name"]
        params = {key: str(value) for key, value in settings["policy"]["params"].items()}
        total, groups = int(settings["slots"]), settings["groups"]
        self.idles = POLICIES[name].idles
        self.runs_dirty = POLICIES[name].runs_dirty
        self.group_of = {member: group["name"] for group in groups for member in group["objects"]}
        self.shares: list[Share] = []
        first = 0
        for group in groups:
            size = int(group["slots"])
            policy = POLICIES[name](params, members=frozenset(group["objects"]), slots=size)
            self.shares.append(Share(group=group["name"], first=first, slots=size, policy=policy))
            first += size
        members = frozenset(objects) - frozenset(self.group_of) if groups else None
        rest = POLICIES[name](params, members=members, slots=total - first)
        self.shares.append(Share(group=None, first=first, slots=total - first, policy=rest))
        #: Ranks everything, for slots that are lent; None where nothing is ever idle.
        self._lender: Policy | None = None
        if groups or name in LENDERS:
            lender = LENDERS.get(name, name)
            self._lender = POLICIES[lender](params if lender == name else {})

    def share_of(self, name: str) -> Share:
        group = self.group_of.get(name)
        return next(share for share in self.shares if share.group == group)

    def follow(self, warehouse: Warehouse, now: float) -> None:
        """Lets the policies that follow each event do so."""
        for share in self.shares:
            share.policy.choose(warehouse, now, [])
        if self._lender is not None:
            self._lender.choose(warehouse, now, [])

    def choose(self, warehouse: Warehouse, now: float, free: Sequence[int]) -> list[Choice]:
        chosen: list[Choice] = []
        for share in self.shares:
            own = share.own(free)
            if own:
                picked = share.policy.choose(warehouse, now, [slot - share.first for slot in own])
                chosen += [replace(choice, slot=choice.slot + share.first) for choice in picked]
        left = sorted(set(free) - {choice.slot for choice in chosen})
        if left and self._lender is not None:
            names = {choice.object for choice in chosen}
            # What was chosen above still counts as startable: ask for enough to find others behind it.
            room = list(range(len(left) + len(names)))
            more = [each for each in self._lender.choose(warehouse, now, room) if each.object not in names]
            for slot, choice in zip(left, more, strict=False):
                owner = next(share for share in self.shares if share.own([slot]))
                lent = f"on a slot lent by {owner.group}" if owner.group else "on a slot that was idle"
                chosen.append(replace(choice, slot=slot, why=f"{choice.why} ({lent})"))
        return chosen

    def candidates(self, warehouse: Warehouse, now: float, limit: int | None = None) -> list[Candidate]:
        """What could start now, each group's best first: everything, or the best few of each group."""
        return [each for share in self.shares for each in share.policy.candidates(warehouse, now, limit)]

    def given_up(self, warehouse: Warehouse, now: float) -> list[Candidate]:
        """Objects whose limits no group tries to keep, as not all can be; each group's first given up comes first."""
        return [each for share in self.shares for each in share.policy.given_up(warehouse, now)]

    def ingredients(self, warehouse: Warehouse, position: int, now: float) -> dict[str, float]:
        return self.share_of(warehouse.graph.names[position]).policy.ingredients(warehouse, position, now)

    def impact(self, warehouse: Warehouse, name: str, now: float) -> float:
        return self.share_of(name).policy.impact(warehouse, warehouse.number(name), now)

    def why(self, warehouse: Warehouse, name: str, now: float) -> str:
        return self.share_of(name).policy.why(warehouse, warehouse.number(name), now)

    def explain(self, warehouse: Warehouse, now: float, name: str) -> Explanation:
        return self.share_of(name).policy.explain(warehouse, now, name)
