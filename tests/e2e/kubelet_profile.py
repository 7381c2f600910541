"""numa-node's kubelet with other settings, in the machine that runs: no second boot.

The settings are a file that is mounted read-only; another one is mounted over it. A kubelet
does not start with the state of another policy, so that is removed while it is stopped
(Kubernetes documentation, "Changing the CPU Manager Policy").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster_fixtures import Cluster, testcluster
from tests.e2e.deployment import until

SETTINGS = "/config/kubelet.d/20-numa.conf"
NONE = "apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: KubeletConfiguration\\n"
RESTART = """
pid=$(pgrep -f '^[^ ]*/testcluster kubelet ')
kill $pid
while kill -0 $pid 2>/dev/null; do sleep 0.05; done
rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state
"""


@contextmanager
def without_managers(cluster: Cluster) -> Iterator[None]:
    """No CPU, Memory and Topology Manager on numa-node meanwhile, and none of our pods before."""
    _wait_for_no_pods(cluster)
    _restart(
        cluster, f"printf '{NONE}' >/run/none.conf; mount --bind /run/none.conf {SETTINGS}", "none"
    )
    try:
        yield
    finally:
        _restart(cluster, f"umount {SETTINGS}", "static")


def _wait_for_no_pods(cluster: Cluster) -> None:
    selector = ("-A", "-l", "llama-operator.dev/deployment", "--field-selector")
    until(
        "numa-node has no pods of ours",
        lambda: not cluster.get("pods", *selector, "spec.nodeName=numa-node")["items"],
    )


def _restart(cluster: Cluster, change: str, policy: str) -> None:
    registered = _registrations()
    testcluster("vm-exec", "sh", "-ec", f"{change}\n{RESTART}")

    def runs() -> bool:
        state = testcluster("vm-exec", "sh", "-c", "cat /var/lib/kubelet/cpu_manager_state || :")
        if f'"policyName":"{policy}"' not in state or _registrations() == registered:
            return False
        node = cluster.get("node", "numa-node")
        return bool(node["status"]["allocatable"].get("nvidia.com/gpu") == "2")

    until(f"numa-node's kubelet runs with the CPU Manager's policy {policy}", runs)


def _registrations() -> int:
    return testcluster("vm-log", "fake-gpus").count("registered 2 devices")
