"""Fixtures for every test, and the marks that follow from them."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.cluster_fixtures import control_plane, images, namespace, node_0, numa_node

__all__ = ["control_plane", "images", "namespace", "node_0", "numa_node"]

# A busy machine is slow; a property doesn't become false by that.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a cluster, and run the quick tests first."""
    order = {"control_plane": 1, "node_0": 2, "numa_node": 3, "plane": 4}
    ranks: dict[str, int] = {}
    for item in items:
        wanted = getattr(item, "fixturenames", ())
        rank = max((order.get(name, 0) for name in wanted), default=0)
        if rank:
            item.add_marker("cluster")
        if item.get_closest_marker("numa_vm"):
            rank = max(rank, 2)
        ranks[item.nodeid] = rank
    items.sort(key=lambda item: ranks[item.nodeid])
