"""Answers from a pod of the real images: many at once, each right, none cut off."""

from __future__ import annotations

from tests.e2e.deployment import Deployment, until

SUBJECTS = (
    "sea", "sun", "moon", "forest", "river", "city", "winter", "bread",
    "music", "train", "garden", "mountain", "desert", "school", "rain", "library",
)  # fmt: skip


def test_sixteen_streams_answer_as_each_does_alone(chat: Deployment) -> None:
    chat.apply()
    chat.wait_ready()
    questions = [f"Write one sentence about the {subject}." for subject in SUBJECTS]
    together = chat.ask_all(questions)
    assert len(set(together)) > len(SUBJECTS) // 2
    assert [chat.ask(question) for question in questions] == together


def test_a_running_stream_survives_the_deletion_of_its_pod(chat: Deployment) -> None:
    chat.apply()
    chat.wait_ready()
    (pod,) = chat.pods()
    stream = chat.client().chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": "Write a long story about the sea."}],
        max_tokens=120,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    chunks = iter(stream)
    next(chunks)
    chat.cluster.ok("delete", "pod", pod["metadata"]["name"], "-n", chat.namespace, "--wait=false")
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons[-1] == "length"
    until(
        "the pod is replaced",
        lambda: [p for p in chat.ready_pods() if p["metadata"]["uid"] != pod["metadata"]["uid"]],
    )
    chat.wait_reachable()
    chat.ask("Write one sentence about the sea.")


def test_a_missing_model_is_said_and_does_not_crash_loop(chat: Deployment) -> None:
    chat.apply(model={"source": "pvc://models/absent.gguf"})
    until(
        "ModelLoaded says the file is missing",
        lambda: chat.condition("ModelLoaded")["reason"] == "ModelFileMissing",
    )
    assert "absent.gguf" in chat.condition("ModelLoaded")["message"]
    assert chat.condition("Ready")["status"] == "False"
    chat.apply()
    chat.wait_ready()
    chat.ask("Write one sentence about the sea.")


def test_a_corrupt_model_is_said_and_does_not_crash_loop(chat: Deployment) -> None:
    chat.apply(model={"source": "pvc://models/corrupt.gguf"})
    until(
        "ModelLoaded says the file is corrupt",
        lambda: chat.condition("ModelLoaded")["reason"] == "ModelCorrupt",
    )
    (pod,) = chat.pods()
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert "corrupt.gguf" in chat.condition("ModelLoaded")["message"]
