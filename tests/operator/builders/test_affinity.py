from __future__ import annotations

from typing import Any

from llama_operator.builders.affinity import avoid_nodes

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def not_in(node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "NotIn", "values": [node]}


def test_no_node_to_avoid_leaves_the_affinity_alone() -> None:
    affinity: dict[str, Any] = {"podAffinity": {}}

    assert avoid_nodes(affinity, []) is affinity
    assert avoid_nodes(None, []) is None


def test_nodes_are_avoided_by_name() -> None:
    assert avoid_nodes(None, ["b", "a"]) == {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchFields": [not_in("a"), not_in("b")]}]}
        }
    }


def test_every_alternative_of_the_user_avoids_them() -> None:
    expressions = [
        {"key": "zone", "operator": "In", "values": ["x"]},
        {"key": "zone", "operator": "In", "values": ["y"]},
    ]
    affinity: dict[str, Any] = {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [expressions[0]]},
                    {"matchExpressions": [expressions[1]], "matchFields": [not_in("z")]},
                ]
            }
        },
        "podAntiAffinity": {"kept": True},
    }

    result = avoid_nodes(affinity, ["a"])

    assert result is not None
    assert result["podAntiAffinity"] == {"kept": True}
    assert result["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [expressions[0]], "matchFields": [not_in("a")]},
        {"matchExpressions": [expressions[1]], "matchFields": [not_in("z"), not_in("a")]},
    ]
    assert affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0] == {
        "matchExpressions": [expressions[0]]
    }
