"""SIGKILL of the operator at every act: right before the API server hears of it, and right
after the API server did it and before the operator hears of that."""

from __future__ import annotations

from tests.chaos.invariants import Watchman, check_end
from tests.chaos.supervisor import Supervisor
from tests.operator.integration.api import Api, eventually
from tests.operator.integration.deployment import Deployment
from tests.operator.integration.kubelet import EagerKubelet
from tests.operator.integration.proxy import Proxy, Request

ACTS = {
    "POST services",
    "POST poddisruptionbudgets",
    "POST pods",
    "POST events",
    "PATCH services",
    "PATCH poddisruptionbudgets",
    "PATCH pods",
    "PATCH llamadeployments/status",
    "DELETE pods",
}
"""Everything that the operator writes in the life below."""
LABEL = "app.kubernetes.io/component"


class Executioner:
    """Kills the operator the first time that it does something, before it and then after it."""

    def __init__(self, operator: Supervisor, proxy: Proxy) -> None:
        self.deaths: set[tuple[str, str]] = set()
        self._operator = operator
        proxy.before = lambda request: self._meet("before", request)
        proxy.after = lambda request, status: self._meet("after", request)

    def _meet(self, moment: str, request: Request) -> None:
        if not request.write:
            return
        death = (moment, act(request))
        # Before comes first: after it, the act has to happen to be met again.
        if death in self.deaths or (moment == "after" and ("before", death[1]) not in self.deaths):
            return
        self.deaths.add(death)
        self._operator.kill()
        if moment == "before":
            raise ConnectionResetError("The operator is dead.")


def act(request: Request) -> str:
    """The method and what it is about, such as `PATCH llamadeployments/status`."""
    parts = request.path.split("/")
    where = parts[parts.index("namespaces") + 2 :]
    return f"{request.method} {'/'.join(where[:1] + where[2:])}"


def test_it_goes_on_from_every_act(
    operator: Supervisor, proxy: Proxy, api: Api, chat: Deployment
) -> None:
    executioner = Executioner(operator, proxy)
    watchman = Watchman(replicas=2)
    with EagerKubelet(api, watchman.saw):
        chat.create(replicas=2)
        check_end(api, chat, 2, "llama-runtime:1")

        chat.change(image="llama-runtime:2")
        check_end(api, chat, 2, "llama-runtime:2")

        # Once for the death before, once for the one after, once to see it mended.
        for times in range(3):
            broken = {"spec": {"selector": {"edited": str(times)}}}
            api.patch("services", "chat", broken)
            eventually(lambda: mended(api, "services", ("selector", "edited")))
            api.patch("poddisruptionbudgets", "chat", {"spec": {"maxUnavailable": 7}})
            eventually(lambda: mended(api, "poddisruptionbudgets", ("maxUnavailable",), 7))
            api.patch("pods", "chat-0", {"metadata": {"labels": {LABEL: "edited"}}})
            eventually(lambda: (api.get("pods", "chat-0") or {})["metadata"]["labels"][LABEL]
                       == "runtime")  # fmt: skip

        watchman.scaling = True
        chat.change(replicas=1)
        check_end(api, chat, 1, "llama-runtime:2")

    assert watchman.faults == []
    assert {death for _, death in executioner.deaths} == ACTS
    assert len(executioner.deaths) == 2 * len(ACTS)
    assert operator.starts == 1 + len(executioner.deaths)


def mended(api: Api, plural: str, path: tuple[str, ...], edited: object = None) -> bool:
    """Whether the field of the object `chat` is not what someone made of it any more."""
    found = api.get(plural, "chat")
    assert found is not None
    value = found["spec"]
    for name in path:
        value = value.get(name)
    return bool(value != edited if edited is not None else value is None)
