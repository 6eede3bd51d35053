"""Model `versions`: transactions with deadlines read versions of objects that updates keep replacing (paper 002).

`brain.versions` decides which version a read sees and what has to be loaded or computed for it; here that takes time on
servers, earliest deadline first, and is counted. Arrivals, deadlines and `delta` are in seconds, the costs of an
operation in milliseconds, as in the paper's table of parameters.
"""

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from scheduler_plugin.brain.clock import ClockCache
from scheduler_plugin.brain.versions import Effort, Odrtb, Orad, Reader, Rule, Versions
from scheduler_plugin.simulator.progress import Tell, silent, told
from scheduler_plugin.simulator.result import Schedule, result
from scheduler_plugin.simulator.workload import Fields, Params, WorkloadError, finite, kind, whole

#: Servers and base objects beyond this are a mistake in the workload, not a machine.
MOST_SERVERS = 100_000
MOST_OBJECTS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds, from the workload's milliseconds."""

    operation: float
    scan: float
    #: Whether computing a view anew reads all its parents, or only their new updates.
    full: bool

    def of(self, effort: Effort) -> float:
        operations = 1 + effort.applied + effort.recomputed
        scans = effort.scans
        if effort.recomputed and self.full:
            operations += effort.parents_read
            scans += effort.parents_scans
        return operations * self.operation + scans * self.scan


@dataclass(slots=True, eq=False, kw_only=True)
class Transaction:
    """One transaction and how far it has come."""

    place: int
    arrival: float
    deadline: float
    objects: list[int]
    #: Reads dispatched so far.
    reads: int = 0
    #: None until the first read is dispatched.
    reader: Reader | None = None
    committed: bool = False
    aborted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A `versions` workload, read and checked; arrivals in order of time."""

    base: int
    views: list[list[int]]
    updates: list[tuple[float, int]]
    transactions: list[Transaction]
    servers: int
    costs: Costs
    delta: float
    cache_places: int
    horizon: float


def simulate(
    workload: dict[str, object], policy: str, params: dict[str, str], tell: Tell = silent
) -> dict[str, object]:
    given = Params(params)
    given.finish()
    read = read_workload(Fields(workload))
    machine = Machine(workload=read, rule=POLICIES[policy](read.delta))
    machine.run(told(read.transactions, len(read.transactions), tell))
    schedule = machine.schedule if given.schedule else None
    return result(policy=policy, model="versions", metrics=machine.metrics(), schedule=schedule)


def read_workload(fields: Fields) -> Workload:
    base = fields.whole("base", minimum=0, maximum=MOST_OBJECTS)
    views = [
        [
            whole(parent, f"views[{place}][{index}]", minimum=0, maximum=base - 1)
            for index, parent in enumerate(a_list(parents, f"views[{place}]"))
        ]
        for place, parents in enumerate(fields.items("views"))
    ]
    params = Fields(fields.get("params", {}), "params")
    return Workload(
        base=base,
        views=views,
        updates=read_updates(fields, base),
        transactions=read_transactions(fields, base + len(views)),
        servers=params.whole("servers", 1, minimum=1, maximum=MOST_SERVERS),
        costs=Costs(
            operation=(params.number("tio", 5.0, minimum=0) + params.number("tcpu", 1.0, minimum=0)) / 1000,
            scan=params.number("tver", 2.0, minimum=0) / 1000,
            full=params.choice("recompute", ("full", "incremental"), "full") == "full",
        ),
        delta=params.number("delta", 10.0, minimum=0),
        cache_places=params.whole("nmax", 600, minimum=0),
        horizon=fields.number("horizon", minimum=0) if fields.has("horizon") else math.inf,
    )


def read_updates(fields: Fields, base: int) -> list[tuple[float, int]]:
    updates = []
    for place, entry in enumerate(fields.items("updates")):
        where = f"updates[{place}]"
        at, name = a_list(entry, where, length=2)
        updates.append((finite(at, f"{where}[0]", minimum=0), whole(name, f"{where}[1]", minimum=0, maximum=base - 1)))
    return sorted(updates, key=lambda update: update[0])


def read_transactions(fields: Fields, objects: int) -> list[Transaction]:
    transactions = []
    for place, entry in enumerate(fields.items("transactions")):
        where = f"transactions[{place}]"
        arrival, deadline, names = a_list(entry, where, length=3)
        transactions.append(
            Transaction(
                place=place,
                arrival=finite(arrival, f"{where}[0]", minimum=0),
                deadline=finite(deadline, f"{where}[1]", minimum=0),
                objects=[
                    whole(name, f"{where}[2][{index}]", minimum=0, maximum=objects - 1)
                    for index, name in enumerate(a_list(names, f"{where}[2]"))
                ],
            )
        )
    return sorted(transactions, key=lambda transaction: transaction.arrival)


def a_list(value: object, where: str, *, length: int | None = None) -> list[object]:
    if isinstance(value, list) and (length is None or len(value) == length):
        return value
    what = "a list" if length is None else f"a list of {length}"
    raise WorkloadError(
        f"{where} must be {what}, not {f'one of {len(value)}' if isinstance(value, list) else kind(value)}"
    )


@dataclass(slots=True, kw_only=True)
class Machine:
    """The servers, and what they count."""

    workload: Workload
    rule: Rule
    versions: Versions = field(init=False)
    cache: ClockCache = field(init=False)
    now: float = 0.0
    #: (end, slot, transaction; None for maintenance).
    running: list[tuple[float, int, Transaction | None]] = field(default_factory=list)
    free: list[int] = field(init=False)
    #: (deadline, place, transaction) of those between two reads.
    waiting: list[tuple[float, int, Transaction]] = field(default_factory=list)
    #: Transactions that have arrived and are not finished.
    active: int = 0
    started: dict[int, Reader] = field(default_factory=dict)
    maintaining: bool = False
    schedule: Schedule = field(default_factory=Schedule)
    prunings: int = 0
    versions_seen: int = 0
    reads: int = 0
    scans: int = 0
    applied: int = 0
    recomputed: int = 0

    def __post_init__(self) -> None:
        self.versions = Versions(self.workload.base, self.workload.views, self.rule)
        self.cache = ClockCache(self.workload.cache_places if self.rule.favours_newest else 0)
        self.free = list(range(self.workload.servers))

    def run(self, coming: Iterator[Transaction]) -> None:
        """At one instant: completions, then arrivals, then dispatch."""
        updates, updated, arriving = self.workload.updates, 0, next(coming, None)
        while True:
            while self.running and self.running[0][0] <= self.now:
                self.complete()
            while updated < len(updates) and updates[updated][0] <= self.now:
                self.versions.arrive(updates[updated][1], updates[updated][0])
                updated += 1
            while arriving is not None and arriving.arrival <= self.now:
                self.queue(arriving)
                self.active += 1
                arriving = next(coming, None)
            self.dispatch()
            self.now = min(
                self.running[0][0] if self.running else math.inf,
                updates[updated][0] if updated < len(updates) else math.inf,
                arriving.arrival if arriving is not None else math.inf,
            )
            if self.now > self.workload.horizon or self.now == math.inf:
                return

    def queue(self, transaction: Transaction) -> None:
        heapq.heappush(self.waiting, (transaction.deadline, transaction.place, transaction))

    def complete(self) -> None:
        _, slot, transaction = heapq.heappop(self.running)
        heapq.heappush(self.free, slot)
        if transaction is None:
            self.maintaining = False
        elif self.now > transaction.deadline:
            self.abort(transaction)
        elif transaction.reads < len(transaction.objects):
            self.queue(transaction)
        else:
            self.commit(transaction)

    def commit(self, transaction: Transaction) -> None:
        transaction.committed = True
        for name in transaction.objects:
            self.cache.touch(name)
        self.leave(transaction)

    def abort(self, transaction: Transaction) -> None:
        transaction.aborted = True
        self.leave(transaction)

    def leave(self, transaction: Transaction) -> None:
        self.active -= 1
        self.started.pop(transaction.place, None)
        self.prune()

    def prune(self) -> None:
        self.versions.prune(self.started.values(), self.now)
        self.prunings += 1
        self.versions_seen += self.versions.total

    def dispatch(self) -> None:
        while self.free and self.waiting:
            _, _, transaction = heapq.heappop(self.waiting)
            if self.now > transaction.deadline:
                self.abort(transaction)
                continue
            reader = transaction.reader or self.start(transaction)
            if transaction.reads == len(transaction.objects):
                self.commit(transaction)
                continue
            name = transaction.objects[transaction.reads]
            transaction.reads += 1
            effort = self.versions.read(name, reader, self.now)
            self.count(effort)
            self.occupy(name, self.workload.costs.of(effort), transaction)
        if self.free and not self.active and not self.maintaining:
            self.maintain()

    def start(self, transaction: Transaction) -> Reader:
        reader = Reader(start=self.now, ltb=self.rule.opening(self.now))
        transaction.reader = reader
        self.started[transaction.place] = reader
        self.prune()
        return reader

    def maintain(self) -> None:
        name = self.versions.maintain(self.cache.objects())
        if name is None:
            return
        costs = self.workload.costs
        view = name - self.workload.base
        operations = 1 + (len(self.workload.views[view]) if view >= 0 and costs.full else 0)
        self.maintaining = True
        self.occupy(name, operations * costs.operation, None)

    def occupy(self, name: int, duration: float, transaction: Transaction | None) -> None:
        slot = heapq.heappop(self.free)
        end = self.now + duration
        if end == math.inf:
            raise WorkloadError(
                f"the operation on object {name} that starts at {self.now:g} ends past the largest number"
            )
        heapq.heappush(self.running, (end, slot, transaction))
        self.schedule.note(self.now, end, name, slot)

    def count(self, effort: Effort) -> None:
        parents = self.workload.costs.full
        self.reads += 1 + (effort.parents_read if parents else 0)
        self.scans += effort.scans + (effort.parents_scans if parents else 0)
        self.applied += effort.applied
        self.recomputed += effort.recomputed

    def metrics(self) -> dict[str, float]:
        """The measures; a mean over nothing is 0."""
        transactions = self.workload.transactions
        objects = self.workload.base + len(self.workload.views)
        missed = succeeded = 0
        for transaction in transactions:
            past = not transaction.committed and transaction.deadline < self.workload.horizon
            missed += transaction.aborted or past
            succeeded += transaction.committed and transaction.reader is not None and not transaction.reader.stale
        return {
            "p_MD": mean(missed, len(transactions)),
            "p_success": mean(succeeded, len(transactions)),
            "n_avg": mean(self.versions_seen, self.prunings * objects),
            "scans_per_read": mean(self.scans, self.reads),
            "od_updates_per_txn": mean(self.applied, len(transactions)),
            "od_recoms_per_txn": mean(self.recomputed, len(transactions)),
        }


def mean(total: float, count: int) -> float:
    return total / count if count else 0.0


#: Policy -> its rule, for how old data may be.
POLICIES: Mapping[str, Callable[[float], Rule]] = MappingProxyType(
    {
        "orad": lambda delta: Orad(),
        "odrtb": Odrtb,
    }
)
