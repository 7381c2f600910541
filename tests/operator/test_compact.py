from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llama_operator.builders import build_service
from llama_operator.compact import LAST_APPLIED, compact
from llama_operator.pods import read_pod
from tests.operator.objects import a_pod, a_resource, parsed, ready

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), VALUES))
def test_what_is_no_pod_is_kept_whole(spec: dict[str, Any]) -> None:
    manifest = {"kind": "Service", "metadata": {"name": "chat"}, "spec": spec}

    assert compact(manifest) == manifest


def test_equal_texts_are_one_object() -> None:
    one, other = (compact(json.loads(json.dumps(a_resource()))) for _ in range(2))

    assert one == other
    assert one["metadata"]["uid"] is other["metadata"]["uid"]
    assert next(iter(one["spec"])) is next(iter(other["spec"]))


def test_the_given_object_stays_as_it_is() -> None:
    pod = a_pod(a_resource(), 0)
    before = copy.deepcopy(pod)

    compact(pod)

    assert pod == before


def test_the_accounts_of_others_are_dropped() -> None:
    manifest = build_service(parsed(a_resource()))
    manifest["metadata"] |= {
        "managedFields": [{"manager": "x"}],
        "annotations": {LAST_APPLIED: "{}", "note": "x"},
    }

    metadata = compact(manifest)["metadata"]

    assert "managedFields" not in metadata
    assert metadata["annotations"] == {"note": "x"}


def test_a_pod_reads_the_same() -> None:
    pod = ready(a_pod(a_resource(), 0))

    whole, kept = read_pod("chat", pod), read_pod("chat", compact(pod))

    assert whole is not None
    assert kept is not None
    for name in ("uid", "index", "ready", "running", "image", "node", "template_hash"):
        assert getattr(kept, name) == getattr(whole, name)
    assert len(json.dumps(compact(pod))) < 0.7 * len(json.dumps(pod))
