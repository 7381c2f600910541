from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from tests.bench.runtime import llama_server, servers
from tests.bench.runtime.load import BenchError, Client, Step
from tests.bench.runtime.servers import Peer, Size, serving

ANSWER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"# HELP hits Hits.\\nhits 7.0\\nhits_total 9.0\\n")
    def do_POST(self):
        self.send_response(200)
        self.end_headers()
        event = {"choices": [{"delta": {"content": "sea"}, "finish_reason": "length"}]}
        self.wfile.write(f"data: {json.dumps(event)}\\n\\n".encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def peer(script: str) -> Peer:
    return Peer(
        name="fake server",
        command=lambda model, port, other, size: [sys.executable, "-c", script, str(port)],
        ready_path="/ready",
        ready_on_other_port=False,
        extra={},
        environment=lambda: dict(os.environ),
    )


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "LOGS", tmp_path)


def test_a_server_runs_answers_and_is_gone_at_the_end() -> None:
    with serving(peer(ANSWER), Path("model.gguf"), Size()) as server:
        (answer,) = server.run(Client("one", (Step("", "hello", 5),)))
        assert (answer.text, answer.generated) == ("sea", 5)
        assert server.resident_mib > 1
        same = dataclasses.replace(server, management_port=server.port)
        assert same.metric("hits") == 7.0
        with pytest.raises(BenchError, match="fake server has no metric misses"):
            same.metric("misses")
    assert server.process.poll() is not None


def test_a_server_that_ends_at_once_is_named_with_its_log(tmp_path: Path) -> None:
    with (
        pytest.raises(BenchError, match=r"fake server did not become ready.*fakeserver\.log"),
        serving(peer("raise SystemExit('no model')"), Path("model.gguf"), Size()),
    ):
        pass
    assert (tmp_path / "fakeserver.log").read_text() == "no model\n"


def test_building_llama_server_needs_cmake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLAMA_OPERATOR_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="cmake is not on PATH"):
        llama_server.build()
    assert not any(path.is_file() for path in (tmp_path / "llama-server").rglob("*"))
