"""The servers that are compared: how each is started, asked and stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from tests.bench.runtime import llama_cpp_server, llama_server, load
from tests.bench.runtime.load import Answer, BenchError, Client, Job, Step

REPOSITORY = Path(__file__).resolve().parents[3]
LOGS = REPOSITORY / "build/bench/logs"
START_SECONDS, STOP_SECONDS = 120, 30
HOST_CACHE_BYTES = 2 << 30
"""llama-server has one of 8 GiB by default (--cache-ram)."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a server is started for; every server of a comparison gets the same."""

    sequences: int = 16
    context: int = 4608
    """Tokens that one sequence can hold."""
    threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class Peer:
    """One kind of server. ``command`` takes the model, a port, another port and the size."""

    name: str
    command: Callable[[Path, int, int, Size], list[str]]
    ready_path: str
    ready_on_other_port: bool
    extra: dict[str, Any]
    environment: Callable[[], dict[str, str]]
    directory: Callable[[], Path] = lambda: REPOSITORY


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    peer: Peer
    process: subprocess.Popen[bytes]
    port: int
    management_port: int

    def run(self, *clients: Client) -> list[Answer]:
        """Run clients against it; raises BenchError with the server's name."""
        try:
            return load.run(Job(port=self.port, clients=clients, extra=self.peer.extra))
        except BenchError as error:
            raise BenchError(f"{self.peer.name}: {error}") from None

    def metric(self, name: str) -> float:
        """A metric without labels that the runtime's management port gives."""
        page = httpx.get(f"http://127.0.0.1:{self.management_port}/metrics", timeout=30).text
        for line in page.splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise BenchError(f"{self.peer.name} has no metric {name}.")

    @property
    def resident_mib(self) -> float:
        """VmRSS of the process, in MiB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise BenchError(f"{self.peer.name} has ended; its log is in {LOGS}.")


def libllama() -> Path:
    """The folder with libllama and its backends."""
    folder = os.environ.get("LLAMA_CPP_LIB_PATH")
    if not folder:
        raise SystemExit("LLAMA_CPP_LIB_PATH is not set: run make bench-runtime.")
    return Path(folder)


def _runtime(model: Path, port: int, other: int, size: Size) -> list[str]:
    return [
        sys.executable, "-m", "llama_runtime", "--model-path", str(model),
        "--model-alias", "bench", "--host", "127.0.0.1",
        "--port", str(port), "--management-port", str(other),
        "--kv-max-sequences", str(size.sequences),
        "--kv-context-per-sequence", str(size.context), "--kv-host-cache", str(HOST_CACHE_BYTES),
        "--engine-threads", str(size.threads), "--drain-delay", "0", "--drain-timeout", "1",
        "--termination-log", str(LOGS / "termination.json"),
    ]  # fmt: skip


def _llama_server(model: Path, port: int, other: int, size: Size) -> list[str]:
    return [
        str(llama_server.build() / "llama-server"), "--model", str(model), "--host", "127.0.0.1",
        "--port", str(port), "--parallel", str(size.sequences),
        "--ctx-size", str(size.sequences * size.context), "--threads", str(size.threads),
    ]  # fmt: skip


def _llama_server_512(model: Path, port: int, other: int, size: Size) -> list[str]:
    return [*_llama_server(model, port, other, size), "--batch-size", "512"]


def _llama_cpp_server(model: Path, port: int, other: int, size: Size) -> list[str]:
    return [
        sys.executable, "-m", "tests.bench.runtime.llama_cpp_server", "--model", str(model),
        "--host", "127.0.0.1", "--port", str(port), "--n_ctx", str(size.context),
        "--n_threads", str(size.threads), "--n_threads_batch", str(size.threads),
        "--interrupt_requests", "false",
    ]  # fmt: skip


RUNTIME = Peer(
    name="llama-runtime",
    command=_runtime,
    ready_path="/readyz",
    ready_on_other_port=True,
    extra={"ignore_eos": True, "stream_options": {"include_usage": True}},
    environment=lambda: {**os.environ, "PYTHONPATH": str(REPOSITORY / "runtime")},
)
LLAMA_SERVER = Peer(
    name="llama-server",
    command=_llama_server,
    ready_path="/health",
    ready_on_other_port=False,
    extra=RUNTIME.extra,
    environment=lambda: llama_server.environment(libllama()),
    directory=libllama,
)
LLAMA_SERVER_512 = replace(LLAMA_SERVER, name="llama-server -b 512", command=_llama_server_512)
LLAMA_CPP_SERVER = Peer(
    name="llama_cpp.server",
    command=_llama_cpp_server,
    ready_path="/v1/models",
    ready_on_other_port=False,
    # It knows no ignore_eos: SmolLM2's two end tokens are made impossible instead.
    extra={"logit_bias": {"0": -100, "2": -100}},
    environment=llama_cpp_server.environment,
)


@contextmanager
def serving(peer: Peer, model: Path, size: Size) -> Iterator[Server]:
    """A fresh server that has answered once; stopped at the end."""
    port, other = _free_port(), _free_port()
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{peer.name.replace(' ', '')}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            peer.command(model, port, other, size),
            cwd=peer.directory(),
            env=peer.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        server = Server(peer, process, port, other)
        ready_port = other if peer.ready_on_other_port else port
        _wait(server, f"http://127.0.0.1:{ready_port}{peer.ready_path}", log)
        server.run(Client("warm-up", (Step("warm-up", "Write one sentence about the sea.", 16),)))
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(server: Server, url: str, log: Path) -> None:
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        if server.process.poll() is not None:
            break
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise BenchError(f"{server.peer.name} did not become ready: its log is {log}.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
