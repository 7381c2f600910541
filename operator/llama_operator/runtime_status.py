"""What a runtime says of itself: `GET :8081/status`, schema version 1 of docs/architecture.md."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    """Fields of a newer runtime are ignored; what is not known is None, in whole parts too."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )

    @model_validator(mode="before")
    @classmethod
    def _unknown(cls, value: Any) -> Any:
        """A part that is not known yet, such as the engine before the load, is null."""
        return {} if value is None else value


class ModelReading(_Part):
    alias: str | None = None
    load_progress: float | None = None
    loaded: bool | None = None


class SequencesReading(_Part):
    running: int | None = None
    cached: int | None = None
    free: int | None = None


class DecodeReading(_Part):
    tokens_per_second: float | None = None
    baseline_tokens_per_second: float | None = None
    slowdown: float | None = None


class CureNumbers(_Part):
    tokens_per_second: float | None = None


class CureReading(_Part):
    """The last cure; its speeds are those at the same depth, once there are enough steps."""

    cause: str | None = None
    before: CureNumbers = CureNumbers()
    after: CureNumbers = CureNumbers()


class KvReading(_Part):
    context_tokens: int | None = None
    bytes: int | None = None
    span_ratio: float | None = None
    sequences: SequencesReading = SequencesReading()
    decode: DecodeReading = DecodeReading()
    last_cure: CureReading = CureReading()


class EngineReading(_Part):
    gpu_layers: int | None = None
    devices: tuple[str, ...] | None = None


MISALIGNED = ("CpusSpanNodes", "MemsSpanNodes", "GpuRemote", "MemoryRemote")
"""Verdicts of a pod whose parts are on several NUMA nodes; docs/numa.md has them all."""


class NumaReading(_Part):
    verdict: str | None = None
    message: str | None = None
    cpus: str | None = None
    cpu_nodes: tuple[int, ...] | None = None
    mems: str | None = None
    gpu_nodes: tuple[int | None, ...] | None = None


class MemoryReading(_Part):
    rss_bytes: int | None = None
    growth: float | None = None
    vram_bytes: int | None = None
    vram_bytes_at_load: int | None = None


class RequestReading(_Part):
    """The answer to the annotation `llama-operator.dev/request`."""

    id: str | None = None
    action: str | None = None
    state: str | None = None
    message: str | None = None


class RuntimeStatus(_Part):
    """The part of a runtime's status that the operator reads."""

    version: Literal[1]
    state: Literal["Starting", "Loading", "Serving", "Draining", "Failed"]
    reason: str | None = None
    message: str | None = None
    started_at: AwareDatetime | None = None
    model: ModelReading = ModelReading()
    kv: KvReading = KvReading()
    engine: EngineReading = EngineReading()
    numa: NumaReading = NumaReading()
    memory: MemoryReading = MemoryReading()
    request: RequestReading = RequestReading()


class Unknown(Enum):
    """Why there is no status of a runtime."""

    NOT_ASKED = "not asked yet"
    NO_ANSWER = "no answer that could be read"


Reading = RuntimeStatus | Unknown


def parse_runtime_status(body: bytes) -> Reading:
    """The status in a response's body; NO_ANSWER when it is of another version or no status."""
    try:
        return RuntimeStatus.model_validate_json(body)
    except ValidationError:
        return Unknown.NO_ANSWER
