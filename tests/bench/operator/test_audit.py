from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.bench.operator.audit import AuditLog, count, policy, writes


def line(verb: str, audit_id: str) -> str:
    return json.dumps({"verb": verb, "auditID": audit_id, "stage": "ResponseComplete"})


def test_a_watch_that_begins_and_ends_is_one_request() -> None:
    found = count([line("watch", "a"), line("watch", "a"), line("create", "b"), line("patch", "c")])

    assert found == {"watch": 1, "create": 1, "patch": 1}
    assert writes(found) == 2


def test_only_what_is_new_and_complete_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_text(line("create", "a") + "\n" + line("patch", "b")[:10])
    log = AuditLog(file)
    assert log.news() == {"create": 1}

    file.write_text(line("create", "a") + "\n" + line("patch", "b") + "\n")

    assert log.news() == {"patch": 1}
    assert log.news() == {}


def test_the_policy_notes_one_user() -> None:
    rules = yaml.safe_load(policy("system:serviceaccount:bench:operator"))["rules"]

    assert rules[0] == {"level": "Metadata", "users": ["system:serviceaccount:bench:operator"]}
    assert rules[-1] == {"level": "None"}
