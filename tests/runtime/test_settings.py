from __future__ import annotations

from pathlib import Path

import pytest

from llama_runtime.settings import Settings

MODEL = ["--model-path", "/models/claim/chat.gguf"]


def parse(*arguments: str) -> Settings:
    return Settings.from_arguments([*MODEL, *arguments])


def test_defaults_are_those_of_the_architecture() -> None:
    settings = parse()
    assert settings.model_path == Path("/models/claim/chat.gguf")
    assert settings.model_alias == "chat"
    assert settings.kv_max_sequences == 16
    assert settings.kv_context_per_sequence == 4096
    assert settings.kv_layout == "Partitioned"
    assert settings.total_context == 65536
    assert settings.engine_gpu_layers == -1
    assert settings.engine_batch_size == settings.engine_micro_batch_size == 512
    assert settings.engine_mmap is True
    assert settings.server_queue_limit == 64
    assert settings.drain_timeout == 300
    assert (settings.host, settings.port, settings.management_port) == ("0.0.0.0", 8080, 8081)


def test_every_documented_flag_exists() -> None:
    documented = Path(__file__).parents[2] / "docs" / "architecture.md"
    section = documented.read_text().split("## The runtime's flags")[1].split("##")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `--")]
    named = {
        word.strip("`,").removeprefix("--").removeprefix("no-").replace("-", "_")
        for row in rows
        for word in row.split()
        if word.startswith(("`--", "--"))
    }
    assert named == set(Settings.model_fields)


def test_a_flag_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_RUNTIME_KV_MAX_SEQUENCES", "3")
    monkeypatch.setenv("LLAMA_RUNTIME_ENGINE_TENSOR_SPLIT", "1,2")
    assert parse().kv_max_sequences == 3
    assert parse("--kv-max-sequences", "5").kv_max_sequences == 5
    assert parse().engine_tensor_split == (1.0, 2.0)


def test_total_context_overcommits_the_unified_pool() -> None:
    settings = parse("--kv-layout", "Unified", "--kv-total-context", "8192")
    assert settings.total_context == 8192


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kv-defragment", "1"], "unrecognized arguments: --kv-defragment 1"),
        (["--kv-max", "4"], "unrecognized arguments"),
        (["stray"], "unrecognized arguments: stray"),
        (["--kv-max-sequences", "257"], "--kv-max-sequences 257: "),
        (["--kv-max-sequences", "0"], "--kv-max-sequences 0: "),
        (["--kv-context-per-sequence", "0"], "--kv-context-per-sequence 0: "),
        (["--kv-layout", "Paged"], "'Partitioned' or 'Unified'"),
        (["--kv-total-context", "8192"], "only has a meaning with --kv-layout Unified"),
        (["--kv-layout", "Unified", "--kv-total-context", "4095"], "must be from 4096"),
        (["--kv-layout", "Unified", "--kv-total-context", "65537"], "to 65536"),
        (["--kv-type-v", "q8_0", "--engine-flash-attention", "Disabled"], "needs flash attention"),
        (["--engine-batch-size", "256"], "--engine-micro-batch-size 512 exceeds"),
        (
            ["--engine-batch-size", "8", "--engine-micro-batch-size", "8"],
            "less than --kv-max-sequences 16",
        ),
        (["--engine-threads", "0"], "--engine-threads 0: "),
        (["--engine-tensor-split", "1,x"], "--engine-tensor-split"),
        (["--engine-tensor-split", "0,0"], "one must be above 0"),
        (["--model-sha256", "abc"], "--model-sha256 abc: "),
        (["--port", "8081"], "choose two different ports"),
    ],
)
def test_a_bad_flag_exits_2_with_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(*arguments)
    assert stopped.value.code == 2
    written = capsys.readouterr().err
    assert message in written
    assert written.count("\n") == 1


def test_the_model_path_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Settings.from_arguments([])
    assert "--model-path is required" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--numa-policy", "--engine-split-mode"])
def test_none_is_a_word_not_an_absent_value(flag: str) -> None:
    settings = Settings.from_arguments(["--model-path=/models/m.gguf", f"{flag}=None"])
    assert getattr(settings, flag.removeprefix("--").replace("-", "_")) == "None"
