"""Where the API server is and how to speak to it: around this pod, else by a kubeconfig.

The generated client of Kubernetes is passed by: it costs 20 MiB of memory before the first
request, and its models validate what the API server has validated already.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, Self, cast

import aiohttp
import kopf
import yaml
from yarl import URL

from llama_operator.names import FIELD_MANAGER

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS: Final = 60.0
"""The kubelet renews the token in its file long before it ends."""


class NoCluster(Exception):
    """There is no API server to speak to; the message says why and what to do."""


class Connection:
    """An API server and the credentials for it."""

    def __init__(self, info: kopf.ConnectionInfo, token: Callable[[], str] | None = None) -> None:
        """`token` gives the bearer token of the moment; without it, `info` has everything."""
        self.server = info.server.rstrip("/")
        self._info = info
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    def open(self, heard: Callable[[str], None] | None = None) -> aiohttp.ClientSession:
        """A new session; whoever asked for it closes it. Needs a running event loop.

        `heard` is told the path behind the server's address whenever a part of an answer arrives.
        """
        middlewares: list[aiohttp.ClientMiddlewareType] = []
        if self._token is not None:
            middlewares.append(self._authorize)
        if heard is not None:
            middlewares.append(_listening(heard, URL(self.server).path.rstrip("/")))
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._info.as_ssl_context()),
            headers={**self._info.as_http_headers(), "User-Agent": FIELD_MANAGER},
            proxy=self._info.proxy_url,
            middlewares=middlewares,
        )

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session between `async with` and its end."""
        assert self._session is not None
        return self._session

    async def __aenter__(self) -> Self:
        self._session = self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def _authorize(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        assert self._token is not None
        request.headers["Authorization"] = f"Bearer {self._token()}"
        return await handler(request)


class _Overheard:
    """The content of an answer whose arrival is told."""

    def __init__(self, content: aiohttp.StreamReader, heard: Callable[[], None]) -> None:
        self._content = content
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        async for chunk in self._content.iter_chunked(size):
            self._heard()
            yield chunk


def _listening(heard: Callable[[str], None], prefix: str) -> aiohttp.ClientMiddlewareType:
    async def listen(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        response = await handler(request)
        path = request.url.path.removeprefix(prefix)
        overheard = _Overheard(response.content, lambda: heard(path))
        response.content = cast(aiohttp.StreamReader, overheard)
        return response

    return listen


class TokenFile:
    """The content of a file that is renewed now and then."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._until = clock()

    def __call__(self) -> str:
        """The token; read again when what was read is old. An unreadable file changes nothing."""
        if not self._token or self._clock() >= self._until:
            try:
                self._token = self._path.read_text().strip()
            except OSError:
                if not self._token:
                    raise
            self._until = self._clock() + TOKEN_SECONDS
        return self._token


def connect(service_account: Path = SERVICE_ACCOUNT) -> Connection:
    """The cluster around this pod, else the one of the kubeconfig.

    Raises NoCluster when there is neither.
    """
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    try:
        return _around_this_pod(host, service_account) if host else _of_the_kubeconfig()
    except (OSError, KeyError, ValueError, yaml.YAMLError, kopf.LoginError) as error:
        raise NoCluster(f"{type(error).__name__}: {error}") from error


def _around_this_pod(host: str, service_account: Path) -> Connection:
    """As every other client does, by the kubelet's variables: cluster DNS need not be there."""
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    info = kopf.ConnectionInfo(
        server=f"https://{address}:{port}", ca_path=service_account / "ca.crt"
    )
    token = TokenFile(service_account / "token")
    token()
    return Connection(info, token)


def _of_the_kubeconfig() -> Connection:
    info = kopf.login_with_kubeconfig(settings=kopf.OperatorSettings())
    if info is None:
        raise NoCluster("neither KUBERNETES_SERVICE_HOST nor KUBECONFIG is set")
    if not (info.as_http_headers() or info.certificate_path or info.certificate_data):
        raise NoCluster(
            "the kubeconfig has neither a token nor a certificate for its user, "
            "and the operator runs no program to log in"
        )
    return Connection(info)
