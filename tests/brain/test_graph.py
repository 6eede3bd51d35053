"""The dependency graph refuses what is not one, and says who is to blame."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.brain import Graph, GraphError, Table, View
from scheduler_plugin.brain.graph import DEEP, NEAREST
from scheduler_plugin.brain.popularity import Popularity
from scheduler_plugin.brain.reach import counts_below, sums_below
from tests.brain.worlds import World, unhurried, warehouses


@unhurried
@given(objects=warehouses())
def test_ancestors_descendants_and_levels_are_those_of_the_declaration(objects):
    naive = World(objects).naive
    graph = Graph(objects)
    for position, name in enumerate(graph.names):
        assert {graph.names[each] for each in graph.ancestors(position)} == naive.ancestors(name)
        assert {graph.names[each] for each in graph.descendants(position)} == naive.descendants(name)
        levels = [graph.level[parent] for parent in graph.parents[position]]
        assert graph.level[position] == (1 + max(levels) if levels else 0)
        heights = [graph.height[child] for child in graph.children[position]]
        assert graph.height[position] == (1 + max(heights) if heights else 0)


@st.composite
def deep_graphs(draw):
    """A few tables and more than DEEP levels of views; weights of very different sizes."""
    tables, span = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    dice = Random(draw(st.integers(0, 1000)))
    objects = [Table(name=f"t{number}", access=dice.random()) for number in range(tables)]
    for number in range(2 * span * DEEP):
        parents = {f"v{max(0, number - dice.randint(1, span))}" for _ in range(dice.randint(1, 3)) if number}
        parents |= {f"t{dice.randrange(tables)}" for _ in range(dice.randint(0 if parents else 1, 1))}
        access = dice.choice((0.1, 1e-9, 1e12)) * dice.random()
        objects.append(View(name=f"v{number}", parents=tuple(sorted(parents)), access=access))
    return dice.sample(objects, len(objects))


@settings(max_examples=8, deadline=None)
@given(objects=deep_graphs())
def test_what_is_reckoned_for_all_objects_at_once_is_what_walking_down_from_each_gives(objects):
    graph, access = Graph(objects), [each.access for each in objects]
    sums = sums_below(graph.order, graph.children, access)
    counts = counts_below(graph.order, graph.children)
    popularity, asked = Popularity(graph, access), Graph(objects)
    for position in range(len(graph)):
        below = graph.descendants(position)
        total = math.fsum([access[position], *(access[each] for each in below)])
        assert sums[position] == popularity.of(position) == total
        assert counts[position] == asked.count_below(position) == len(below)


@settings(max_examples=8, deadline=None)
@given(objects=deep_graphs(), count=st.integers(1, NEAREST))
def test_the_nearest_tables_are_found_at_any_depth(objects, count):
    graph = Graph(objects)
    assert max(graph.level) >= DEEP
    for position in range(len(graph)):
        # One step up at a time.
        distances, reached, steps = {}, {position}, 0
        while reached:
            for each in reached:
                if graph.tables[each]:
                    distances.setdefault(each, steps)
            reached = {parent for each in reached for parent in graph.parents[each]}
            steps += 1
        nearest = graph.nearest_tables(position, count)
        assert len(set(nearest)) == len(nearest) == min(count, len(distances))
        assert [distances[each] for each in nearest] == sorted(distances.values())[:count]


def test_names_the_circle():
    objects = [Table(name="t"), View(name="a", parents=("t", "b")), View(name="b", parents=("a",))]
    with pytest.raises(GraphError, match="in a circle: a reads b reads a"):
        Graph(objects)


def test_guesses_which_parent_was_meant():
    with pytest.raises(GraphError, match="view delays reads flihgts, which is not declared"):
        Graph([Table(name="flights"), View(name="delays", parents=("flihgts",))])


def test_refuses_a_name_declared_twice():
    with pytest.raises(GraphError, match="t is declared twice"):
        Graph([Table(name="t"), Table(name="t")])
