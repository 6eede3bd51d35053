"""The versions model read sentence by sentence: slow, and sharing no line with the simulator.

Every version, transaction and pending update is kept in a plain list and looked for from the start each time.
"""

import math


class Version:
    def __init__(self, low, high=math.inf, pending=False, number=0):
        self.low, self.high, self.pending, self.number = low, high, pending, number


class Transaction:
    def __init__(self, number, arrival, deadline, objects):
        self.number, self.arrival, self.deadline, self.objects = number, arrival, deadline, objects
        self.done = 0
        self.start = self.end = None
        self.low, self.read = None, []
        self.stale = self.busy = False

    @property
    def interval(self):
        """VI(T): what it began with, cut by every version it read as that version stands now."""
        return max([self.low, *(v.low for v in self.read)]), min([math.inf, *(v.high for v in self.read)])


class Naive:
    def __init__(self, workload, policy):
        p = workload["params"]
        self.policy, self.base, self.views = policy, workload["base"], workload["views"]
        # Costs are in milliseconds, all other times in seconds.
        self.servers, self.io, self.ver = p.get("servers", 1), (p["tio"] + p["tcpu"]) / 1000, p["tver"] / 1000
        self.full = p.get("recompute", "full") == "full"
        self.delta, self.nmax = p.get("delta", 10), p["nmax"]
        self.horizon = workload.get("horizon", math.inf)
        self.objects = [[Version(0)] for _ in range(self.base + len(self.views))]
        self.to_arrive = sorted(enumerate(workload["updates"]), key=lambda u: u[1][0])
        self.transactions = [Transaction(n, *t) for n, t in enumerate(workload["transactions"])]
        self.running = {}  # server -> (end, transaction or None)
        self.cache, self.bits, self.hand = [], [], 0
        self.now = 0
        self.schedule, self.counts = [], []
        self.reads = self.scans = self.updates = self.recoms = 0

    def parents(self, o):
        return self.views[o - self.base] if o >= self.base else []

    def ancestors(self, o):
        return {x for p in self.parents(o) for x in {p} | self.ancestors(p)}

    # -- what happens

    def arrive(self, number, update):
        t, o = update
        for view in range(self.base, len(self.objects)):
            if o in self.ancestors(view):
                self.objects[view][-1].high = min(self.objects[view][-1].high, t)
        self.objects[o][-1].high = t
        self.objects[o].append(Version(t, pending=True, number=number))

    def active(self):
        return [t for t in self.transactions if t.arrival <= self.now and t.end is None]

    def prune(self):
        started = [t for t in self.active() if t.start is not None]
        if self.policy == "orad":
            bound = min((t.interval[0] for t in started), default=self.now)
        else:
            bound = min((t.start for t in started), default=self.now) - self.delta
        for o, versions in enumerate(self.objects):
            self.objects[o] = [v for v in versions[:-1] if v.high > bound] + versions[-1:]
        self.counts.append(sum(map(len, self.objects)) / len(self.objects))

    def finish(self, t, how):
        t.end = how
        if how == "commit":
            for o in t.objects:
                self.touch(o)
        self.prune()

    def touch(self, o):
        """The standard clock."""
        if self.nmax == 0:
            return
        if o in self.cache:
            self.bits[self.cache.index(o)] = True
        elif len(self.cache) < self.nmax:
            self.cache.append(o)
            self.bits.append(True)
        else:
            while self.bits[self.hand]:
                self.bits[self.hand] = False
                self.hand = (self.hand + 1) % self.nmax
            self.cache[self.hand], self.bits[self.hand] = o, True
            self.hand = (self.hand + 1) % self.nmax

    # -- reading

    def choose(self, o, low, high):
        """The version to read, and how many were looked at."""
        versions = self.objects[o]
        overlapping = [v for v in versions if max(v.low, low) < min(v.high, high)]
        if self.policy == "orad":
            if not overlapping:
                return None, len(versions)
            return overlapping[-1], len(versions) - versions.index(overlapping[-1])
        best, width = None, -1
        for v in overlapping:
            end = min(v.high, high)
            this = (self.now if end == math.inf else end) - max(v.low, low)
            if this > width:
                best, width = v, this
        return best, len(versions)

    def read(self, o, low, high):
        """Read one object within an interval: the version and what it takes."""
        version, scans = self.choose(o, low, high)
        took = self.io + self.ver * scans
        self.reads += 1
        self.scans += scans
        if version is None:
            self.recoms += 1
            vl, vh = low, high
            for p in self.parents(o):
                held, looked = self.choose(p, vl, vh)
                if self.full:
                    took += self.io + self.ver * looked
                    self.reads += 1
                    self.scans += looked
                took += self.apply(held)
                vl, vh = max(vl, held.low), min(vh, held.high)
            took += self.io
            version = Version(vl, vh)
            self.objects[o].append(version)
            self.objects[o].sort(key=lambda v: v.low)
        return version, took + self.apply(version)

    def apply(self, version):
        """Apply a pending version on demand; what that takes."""
        if not version.pending:
            return 0
        version.pending = False
        self.updates += 1
        return self.io

    def dispatch(self, t, server):
        if t.start is None:
            t.start = self.now
            t.low = self.now if self.policy == "orad" else self.now - self.delta
            self.prune()
        o = t.objects[t.done]
        version, took = self.read(o, *t.interval)
        t.stale = t.stale or version.high <= t.start
        t.read.append(version)
        t.busy = True
        self.run(server, took, o, t)

    def run(self, server, took, o, t):
        self.running[server] = (self.now + took, t)
        self.schedule.append({"start": self.now, "end": self.now + took, "object": o, "slot": server})

    def complete(self, server):
        _, t = self.running.pop(server)
        if t is None:
            return
        t.busy = False
        t.done += 1
        if self.now > t.deadline:
            self.finish(t, "abort")
        elif t.done == len(t.objects):
            self.finish(t, "commit")

    # -- maintenance

    def maintain(self, server):
        pending = sorted(
            ((v.low, v.number, o) for o in range(self.base) for v in self.objects[o] if v.pending),
        )
        if pending:
            if self.policy == "orad":
                first = [o for o in self.cache if any(o == each for *_, each in pending)]
                o = first[0] if first else pending[0][2]
                self.objects[o] = self.objects[o][-1:]
                self.objects[o][-1].pending = False
            else:
                _, number, o = pending[0]
                next(v for v in self.objects[o] if v.pending and v.number == number).pending = False
            self.run(server, self.io, o, None)
            return
        for o in range(self.base, len(self.objects)):
            if self.objects[o][-1].high < math.inf:
                parents = self.parents(o)
                self.objects[o].append(Version(max(self.objects[p][-1].low for p in parents)))
                if self.policy == "orad":
                    self.objects[o] = self.objects[o][-1:]
                self.run(server, (len(parents) + 1 if self.full else 1) * self.io, o, None)
                return

    # -- the loop

    def next_instant(self):
        times = [end for end, _ in self.running.values()]
        times += [u[0] for _, u in self.to_arrive[:1]]
        times += [t.arrival for t in self.transactions if t.arrival > self.now]
        return min(times, default=None)

    def fill(self):
        for server in range(self.servers):
            while server not in self.running:
                waiting = [t for t in self.active() if not t.busy]
                if not waiting:
                    break
                t = min(waiting, key=lambda t: (t.deadline, t.number))
                if self.now > t.deadline:
                    self.finish(t, "abort")
                else:
                    self.dispatch(t, server)
        maintaining = any(t is None for _, t in self.running.values())
        free = [s for s in range(self.servers) if s not in self.running]
        if free and not maintaining and not self.active():
            self.maintain(free[0])

    def simulate(self):
        self.now = -1
        while (then := self.next_instant()) is not None and then <= self.horizon:
            self.now = then
            for server in sorted(s for s, (end, _) in self.running.items() if end <= then):
                self.complete(server)
            while self.to_arrive and self.to_arrive[0][1][0] <= then:
                self.arrive(*self.to_arrive.pop(0))
            self.fill()
        return self.result()

    def result(self):
        n = len(self.transactions)
        missed = [t for t in self.transactions if t.end == "abort" or (t.end is None and t.deadline < self.horizon)]
        good = [t for t in self.transactions if t.end == "commit" and not t.stale]
        return {
            "schedule": self.schedule,
            "metrics": {
                "p_MD": len(missed) / n if n else 0,
                "p_success": len(good) / n if n else 0,
                "n_avg": sum(self.counts) / len(self.counts) if self.counts else 0,
                "scans_per_read": self.scans / self.reads if self.reads else 0,
                "od_updates_per_txn": self.updates / n if n else 0,
                "od_recoms_per_txn": self.recoms / n if n else 0,
            },
        }


def simulate(workload, policy):
    return Naive(workload, policy).simulate()
