from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import pytest
import yaml
from aiohttp import web

from llama_operator.connection import TOKEN_SECONDS, Connection, NoCluster, TokenFile, connect
from llama_operator.handlers import login
from llama_operator.kube import POD, ApiException, Kubernetes, message_of

SECRET = "s3cret"
USER: dict[str, Any] = {"token": SECRET}


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


def write(file: Path, server: str = "https://127.0.0.1:1", user: dict[str, Any] = USER) -> None:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(yaml.safe_dump(document))


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "ca.crt").write_text("")
    return folder


@pytest.mark.parametrize(
    ("host", "server"),
    [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")],
)
def test_in_a_pod_the_api_server_is_found_without_dns(
    monkeypatch: pytest.MonkeyPatch, service_account: Path, host: str, server: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")

    assert connect(service_account).server == server


def test_a_pod_without_an_account_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")

    with pytest.raises(NoCluster, match="token"):
        connect(tmp_path / "nothing")


def test_without_pod_and_kubeconfig_there_is_no_cluster() -> None:
    with pytest.raises(NoCluster, match="neither KUBERNETES_SERVICE_HOST nor KUBECONFIG"):
        connect()


@pytest.mark.parametrize("text", ["", "{", "current-context: gone", "[]"])
def test_a_broken_kubeconfig_is_no_cluster(kubeconfig: Path, text: str) -> None:
    kubeconfig.write_text(text)

    with pytest.raises(NoCluster):
        connect()


def test_a_user_that_has_to_run_a_program_is_told(kubeconfig: Path) -> None:
    write(kubeconfig, user={"exec": {"command": "aws"}})

    with pytest.raises(NoCluster, match="neither a token nor a certificate"):
        connect()


def test_a_token_is_read_again_and_outlives_its_file(tmp_path: Path) -> None:
    now = 0.0
    file = tmp_path / "token"
    file.write_text("first\n")
    token = TokenFile(file, lambda: now)
    assert token() == "first"
    file.write_text("second\n")
    assert token() == "first"

    now = TOKEN_SECONDS
    assert token() == "second"

    file.unlink()
    now = 3 * TOKEN_SECONDS
    assert token() == "second"


class Server:
    """Answers as it is told, and notes what it was asked."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[str] = []
        self.status = 200
        self.body: Any = {"metadata": {"name": "p"}}

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        self.bodies.append(await request.text())
        return web.Response(status=self.status, text=json.dumps(self.body))


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, str]]:
    told = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", told.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield told, f"http://127.0.0.1:{port}"
    await runner.cleanup()


async def test_each_request_has_the_token_of_the_moment(server: tuple[Server, str]) -> None:
    told, address = server
    tokens: Iterator[str] = iter(["first", "second"])

    async with Connection(kopf.ConnectionInfo(server=address), lambda: next(tokens)) as connection:
        kubernetes = Kubernetes(connection)
        await kubernetes.get(POD, "default", "p")
        await kubernetes.get(POD, "default", "p")

    found = [request.headers["Authorization"] for request in told.requests]
    assert found == ["Bearer first", "Bearer second"]
    assert {request.headers["User-Agent"] for request in told.requests} == {"llama-operator"}


async def test_a_request_is_what_the_api_server_expects(
    kubeconfig: Path, server: tuple[Server, str]
) -> None:
    told, address = server
    write(kubeconfig, server=f"{address}/")
    manifest = {"metadata": {"namespace": "default", "name": "p"}}

    async with connect() as connection:
        await Kubernetes(connection).apply(POD, manifest, "status")

    (request,) = told.requests
    assert request.method == "PATCH"
    assert request.path == "/api/v1/namespaces/default/pods/p/status"
    assert dict(request.query) == {
        "fieldManager": "llama-operator",
        "fieldValidation": "Strict",
        "force": "true",
    }
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    assert json.loads(told.bodies[0]) == manifest


@pytest.mark.parametrize(
    ("body", "message"),
    [({"message": "pods is forbidden"}, "pods is forbidden"), ("plain", "plain")],
)
async def test_a_refusal_has_the_servers_own_words(
    server: tuple[Server, str], body: Any, message: str
) -> None:
    told, address = server
    told.status, told.body = 403, body

    async with Connection(kopf.ConnectionInfo(server=address)) as connection:
        with pytest.raises(ApiException) as caught:
            await Kubernetes(connection).get(POD, "default", "p")

    assert caught.value.status == 403
    assert message_of(caught.value) == message


async def test_the_watches_have_a_session_of_their_own(
    kubeconfig: Path, server: tuple[Server, str]
) -> None:
    _, address = server
    write(kubeconfig, server=address)

    heard: list[str] = []
    one, other = login(heard.append), login(heard.append)

    assert one.server == address
    assert one.aiohttp_session is not other.aiohttp_session
    for session in (one.aiohttp_session, other.aiohttp_session):
        async with session.get(f"{address}/api") as answer:
            assert isinstance(answer, aiohttp.ClientResponse)
            chunks = [chunk async for chunk in answer.content.iter_chunked(1 << 20)]
        assert chunks
        await session.close()
    assert heard == ["/api", "/api"]
