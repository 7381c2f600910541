"""docs/numa.md shows what the tests run."""

from __future__ import annotations

import re

import yaml

from tests.bench.report import BEGIN, END
from tests.cluster_fixtures import REPOSITORY

PAGE = (REPOSITORY / "docs/numa.md").read_text()


def test_the_kubelets_configuration_is_the_file_that_the_tests_run() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

    assert shown == (REPOSITORY / "tests/cluster/kubelet-numa.yaml").read_text()
    assert yaml.safe_load(shown)["topologyManagerPolicy"] == "single-numa-node"


def test_the_bench_finds_where_its_figures_go() -> None:
    assert PAGE.index(BEGIN) < PAGE.index(END)
