"""The file with what the operator asks for: read, done once, answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llama_runtime.pod_request import (
    ActionFailed,
    Answer,
    PodRequest,
    PodRequests,
    Unreadable,
    parse,
)

ACTIONS = frozenset({"Compact", "Restart"})


def text(id: str = "1", action: str = "Compact") -> str:  # noqa: A002
    return json.dumps({"id": id, "action": action})


class Asked:
    """Requests in a file, and what was done about them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: list[str | None] = []
        self.failure: Exception | None = None
        self.requests = PodRequests(path, {"Compact": self._compact, "Restart": self._compact})

    async def _compact(self, answer: Answer) -> str:
        assert self.requests.answer == answer
        assert answer.state == "Running"
        if self.failure is not None:
            raise self.failure
        self.done.append(answer.id)
        return "Packed."

    async def write(self, content: str) -> Answer | None:
        self.path.write_text(content)
        await self.requests.take(self.requests.look())
        return self.requests.answer


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    one = Asked(tmp_path / "request")
    one.requests.look(is_first=True)
    return one


def test_a_request_has_an_id_and_an_action() -> None:
    assert parse(text("7", "Restart"), ACTIONS) == PodRequest("7", "Restart")
    assert parse('{"id": "7", "action": "Compact", "new": 1}', ACTIONS).id == "7"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "longer than"),
        ("[" * 4000, "not JSON"),
        ('"Compact"', "not a JSON object"),
        ("{}", '"id"'),
        ('{"id": 1, "action": "Compact"}', '"id"'),
        ('{"id": "", "action": "Compact"}', '"id"'),
        ('{"id": "1"}', "Compact or Restart"),
        ('{"id": "1", "action": "Explode"}', "Compact or Restart"),
    ],
)
def test_what_is_no_request_is_told(content: str, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        parse(content, ACTIONS)


async def test_a_request_is_done_and_answered(asked: Asked) -> None:
    assert asked.requests.answer is None
    answer = await asked.write(text())
    assert answer is not None
    assert asked.done == ["1"]
    assert (answer.state, answer.message) == ("Done", "Packed.")
    assert answer.as_dict().keys() == {
        "id",
        "action",
        "state",
        "message",
        "startedAt",
        "finishedAt",
    }


async def test_an_id_is_done_once(asked: Asked) -> None:
    await asked.write(text("1"))
    first = asked.requests.answer
    await asked.write(text("1"))
    await asked.write("")
    assert asked.requests.answer is first  # taken away, the answer stays
    await asked.write(text("2"))
    answer = await asked.write(text("1"))
    assert answer is first
    assert asked.done == ["1", "2"]


async def test_what_is_there_at_the_start_is_done_already(tmp_path: Path) -> None:
    path = tmp_path / "request"
    path.write_text(text("1", "Restart"))
    asked = Asked(path)
    assert asked.requests.look(is_first=True) is None
    answer = asked.requests.answer
    assert answer is not None
    assert (answer.id, answer.action, answer.state) == ("1", "Restart", "Done")
    assert answer.finished_at == answer.started_at
    await asked.write(text("2"))
    assert asked.done == ["2"]


async def test_what_cannot_be_read_is_failed_until_it_can(asked: Asked) -> None:
    answer = await asked.write('{"id": "1", "action": "Explode"}')
    assert answer is not None
    assert (answer.id, answer.action, answer.state) == ("1", "Explode", "Failed")
    answer = await asked.write("{")
    assert answer is not None
    assert (answer.id, answer.state) == (None, "Failed")
    await asked.write(text("1"))
    assert asked.done == ["1"]


@pytest.mark.parametrize("failure", [ActionFailed("There is no cache."), KeyError("surprise")])
async def test_what_cannot_be_done_is_failed(asked: Asked, failure: Exception) -> None:
    asked.failure = failure
    answer = await asked.write(text("1"))
    assert answer is not None
    assert answer.state == "Failed"
    assert answer.finished_at is not None
    assert str(failure) in answer.message
    asked.failure = None
    await asked.write(text("2"))
    assert asked.done == ["2"]


async def test_a_file_that_is_missing_or_binary_stops_nothing(asked: Asked) -> None:
    asked.path.unlink(missing_ok=True)
    assert asked.requests.look() is None
    asked.path.write_bytes(b"\xff\xfe\x00")
    assert asked.requests.look() is None
    assert asked.requests.answer is not None
    assert asked.requests.answer.state == "Failed"
    await asked.write(text("1"))
    assert asked.done == ["1"]
