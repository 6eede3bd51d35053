"""The operators model read sentence by sentence: a list of tuples, and every step looks at all of them."""


def slope(points, i, j):
    return (points[i][1] - points[j][1]) / (points[j][0] - points[i][0])


def envelope(points):
    """Indexes of the points on the lower envelope: from each, the steepest descent; of equals the nearest."""
    at, found = 0, [0]
    while at < len(points) - 1:
        at = max(range(at + 1, len(points)), key=lambda j: (slope(points, at, j), -j))
        found.append(at)
    return found


class Tuple:
    def __init__(self, number, path, t):
        self.number, self.path, self.t, self.progress = number, path, t, 0

    def operator(self):
        """Which operator works on it next: the index of the point that operator starts from."""
        points = self.path["points"]
        return max(i for i, (t, _) in enumerate(points) if t <= self.progress)

    def size(self):
        return self.path["points"][self.operator()][1]

    def chain(self):
        points = self.path["points"]
        kept = envelope(points)
        at = max(k for k, i in enumerate(kept) if points[i][0] <= self.progress)
        return slope(points, kept[at], kept[at + 1])

    def greedy(self):
        points, i = self.path["points"], self.operator()
        (t0, s0), (t1, s1) = points[i], points[i + 1]
        if s0 == 0:
            return slope(points, i, i + 1)
        selectivity, per_unit_of_input = s1 / s0, (t1 - t0) / s0
        return (1 - selectivity) / per_unit_of_input


def may_work(chosen, tuples, arrivals, joins):
    """Joins take their two streams in order of arrival, and wait where an older tuple might still come."""
    at = (chosen.path["id"], chosen.operator())
    if at not in joins or chosen.progress > chosen.path["points"][at[1]][0]:
        return True
    path, operator = joins[at]
    others = [each for each in tuples if each.path["id"] == path and each.operator() <= operator]
    waiting = [each for each in others if each.operator() == operator]
    if not waiting:
        return not others and not any(arrival["path"] == path and arrival.get("n", 1) for arrival in arrivals)
    begun = any(each.progress > each.path["points"][operator][0] for each in waiting)
    return not begun and all(chosen.number < each.number for each in waiting)


def simulate(workload, policy, joins=()):
    """`joins`: pairs of (path, operator)."""
    joins = {side: other for pair in joins for side, other in (pair, pair[::-1])}
    paths = {path["id"]: path for path in workload["paths"]}
    operators = [(path["id"], i) for path in workload["paths"] for i in range(len(path["points"]) - 1)]
    arrivals = sorted(workload["arrivals"], key=lambda a: a["t"])
    tuples, memory, schedule = [], [], []
    turn = now = number = 0
    while True:
        while arrivals and arrivals[0]["t"] <= now:
            arrival = arrivals.pop(0)
            for _ in range(arrival.get("n", 1)):
                tuples.append(Tuple(number, paths[arrival["path"]], now))
                number += 1
        memory.append(sum(each.size() for each in tuples))
        if "horizon" in workload and now == workload["horizon"]:
            break
        able = [each for each in tuples if may_work(each, tuples, arrivals, joins)]
        if "horizon" not in workload and not able and not arrivals:
            break
        if able:
            if policy == "chain":
                chosen = max(able, key=lambda each: (round(each.chain(), 9), -each.t, -each.number))
            elif policy == "greedy":
                chosen = max(able, key=lambda each: (round(each.greedy(), 9), -each.t, -each.number))
            elif policy == "fifo":
                chosen = min(able, key=lambda each: each.number)
            else:
                while True:
                    path, i = operators[turn]
                    turn = (turn + 1) % len(operators)
                    ready = [each for each in able if (each.path["id"], each.operator()) == (path, i)]
                    if ready:
                        chosen = max(ready, key=lambda each: (each.progress, -each.number))
                        break
            schedule.append((now, chosen.path["id"]))
            chosen.progress += 1
            if chosen.progress == chosen.path["points"][-1][0]:
                tuples.remove(chosen)
        now += 1
    return {"memory": memory, "schedule": schedule, "peak": max(memory), "integral": sum(memory)}
