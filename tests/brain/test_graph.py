"""The dependency graph refuses what is not one, and says who is to blame."""

import pytest
from hypothesis import given

from scheduler_plugin.brain import Graph, GraphError, Table, View
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
