"""Chain for views in a burst: bytes are conserved, the steepest goes first, and the mark switches it."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.brain.burst import Burst

READS = {"a": (), "b": (), "v": ("a",), "w": ("v", "b"), "x": ("a",)}


def measured(burst: Burst, name: str, seconds: float, bytes_in: int, bytes_out: int) -> None:
    for _ in range(30):  # until what was believed before has faded
        burst.waiting[name] = bytes_in
        burst.started(name)
        burst.finished(name, seconds=seconds, bytes_out=bytes_out)
    for each in burst.waiting:
        burst.waiting[each] = 0


def test_a_slow_stage_before_a_steep_drop_is_as_urgent_as_the_drop() -> None:
    burst = Burst({"t": (), "v": ("t",), "u": ()}, mark=0)
    measured(burst, "t", 2.0, 100, 90)
    measured(burst, "v", 0.9, 90, 9)
    measured(burst, "u", 10.0, 100, 10)
    assert burst.slope("t") == burst.slope("v") > burst.slope("u") > 0
    assert burst.order(["u", "t", "v"])[-1] == "u"


def test_what_was_never_measured_comes_last() -> None:
    burst = Burst(READS, mark=0)
    measured(burst, "b", 1.0, 100, 50)
    assert burst.order(["a", "b"]) == ["b", "a"]
    assert burst.slope("a") == Fraction(0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "start", "finish", "fail"]), st.sampled_from(sorted(READS)), st.integers(1, 9)
    ),
    max_size=60,
)


@given(STEPS, st.integers(0, 30))
def test_every_byte_waits_somewhere_until_it_is_read_and_the_mark_decides(
    steps: list[tuple[str, str, int]], mark: int
) -> None:
    burst = Burst(READS, mark=mark)
    waiting, running = dict.fromkeys(READS, 0), {}
    for step, name, number in steps:
        if step == "arrive" and not READS[name]:
            burst.arrived(name, number)
            waiting[name] += number
        elif step == "start" and name not in running:
            burst.started(name)
            running[name], waiting[name] = waiting[name], 0
        elif step == "finish" and name in running:
            del running[name]
            burst.finished(name, seconds=1.0, bytes_out=number)
            for child, parents in READS.items():
                waiting[child] += number * (name in parents)
        elif step == "fail" and name in running:
            burst.failed(name)
            waiting[name] += running.pop(name)
        total = sum(waiting.values()) + sum(running.values())
        assert burst.backlog == total
        assert burst.on == (total > mark)
    slopes = [burst.slope(name) for name in burst.order(list(READS))]
    assert slopes == sorted(slopes, reverse=True)
