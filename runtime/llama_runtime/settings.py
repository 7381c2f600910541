"""The runtime's flags and environment variables; docs/architecture.md lists them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, CliApp, NoDecode, SettingsConfigDict, SettingsError

from llama_runtime.numa.verdict import NUMAPolicy

KVLayout = Literal["Partitioned", "Unified"]
KVType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
FlashAttention = Literal["Auto", "Enabled", "Disabled"]
SplitMode = Literal["None", "Layer", "Row"]

UNQUANTIZED_TYPES: frozenset[KVType] = frozenset({"f32", "f16", "bf16"})
BAD_FLAG_EXIT_CODE = 2


class Settings(BaseSettings):
    """Serve one GGUF model from one llama.cpp context over an OpenAI-compatible API."""

    model_config = SettingsConfigDict(
        env_prefix="LLAMA_RUNTIME_",
        cli_prog_name="llama-runtime",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_avoid_json=True,
        cli_hide_none_type=True,
        # "None" is a word of ours, as in --numa-policy None, not an absent value.
        cli_parse_none_str="null",
        cli_exit_on_error=False,
        frozen=True,
    )

    model_path: Path = Field(description="the GGUF file to serve")
    model_alias: str = Field(
        default="", description="the id at /v1/models; default: the file name without .gguf"
    )
    model_sha256: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{64}$",
        description="checked before the first load, 64 hexadecimal digits",
    )

    kv_max_sequences: int = Field(default=16, ge=1, le=256, description="n_seq_max")
    kv_context_per_sequence: int = Field(default=4096, ge=1, description="tokens")
    kv_layout: KVLayout = "Partitioned"
    kv_total_context: int | None = Field(
        default=None,
        description="cells of the Unified pool; default: maxSequences x contextPerSequence",
    )
    kv_type_k: KVType = "f16"
    kv_type_v: KVType = "f16"

    engine_gpu_layers: int = Field(default=-1, ge=-1, description="-1 is all")
    engine_batch_size: int = Field(default=512, ge=1, description="tokens of one step")
    engine_micro_batch_size: int = Field(default=512, ge=1, description="tokens computed at once")
    engine_flash_attention: FlashAttention = "Auto"
    engine_threads: int | None = Field(
        default=None,
        ge=1,
        description="default: the CPUs of the affinity mask within the CPU quota",
    )
    engine_split_mode: SplitMode = "Layer"
    engine_tensor_split: Annotated[tuple[float, ...], NoDecode] = Field(
        default=(), description="proportions of the model for each GPU, as A,B,…"
    )
    engine_mmap: bool = Field(default=True, description="map the file instead of reading it")

    server_queue_limit: int = Field(default=64, ge=0, description="requests that may wait")
    server_api_key_file: Path | None = Field(default=None, description="one key in each line")

    numa_policy: NUMAPolicy = "Preferred"
    kv_host_cache: int = Field(
        default=0, ge=0, description="bytes of memory for copies of evicted sequences"
    )
    kv_keep_over_restart: bool = Field(
        default=True, description="the hottest cached sequences, in --kv-keep-directory"
    )
    kv_keep_directory: Path | None = Field(
        default=None, description="where they are from one process to the next"
    )

    request_file: Path | None = Field(
        default=None, description="what the operator asks of this pod; looked at twice a second"
    )
    drain_timeout: float = Field(default=300, ge=0, description="seconds")
    drain_delay: float = Field(default=5, ge=0, description="seconds")
    host: str = "0.0.0.0"
    port: int = Field(default=8080, ge=0, le=65535)
    management_port: int = Field(default=8081, ge=0, le=65535)
    termination_log: Path = Path("/dev/termination-log")
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("model_sha256", mode="before")
    @classmethod
    def _lower_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("engine_tensor_split", mode="before")
    @classmethod
    def _split_at_commas(cls, value: object) -> object:
        if isinstance(value, str):
            return [part for part in value.split(",") if part.strip()]
        return value

    @field_validator("engine_tensor_split")
    @classmethod
    def _proportions(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if value and (min(value) < 0 or sum(value) <= 0):
            raise ValueError("proportions must not be negative, and one must be above 0")
        return value

    @model_validator(mode="before")
    @classmethod
    def _default_alias(cls, values: dict[str, Any]) -> dict[str, Any]:
        if not values.get("model_alias") and values.get("model_path"):
            return {**values, "model_alias": Path(values["model_path"]).name.removesuffix(".gguf")}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        self._check_total_context()
        if self.kv_type_v not in UNQUANTIZED_TYPES and self.engine_flash_attention == "Disabled":
            raise ValueError(
                f"--kv-type-v {self.kv_type_v} is quantized and needs flash attention: "
                "set --engine-flash-attention to Auto or Enabled, or --kv-type-v to f16"
            )
        if self.engine_micro_batch_size > self.engine_batch_size:
            raise ValueError(
                f"--engine-micro-batch-size {self.engine_micro_batch_size} exceeds "
                f"--engine-batch-size {self.engine_batch_size}: lower the first or raise the second"
            )
        if self.engine_batch_size < self.kv_max_sequences:
            raise ValueError(
                f"--engine-batch-size {self.engine_batch_size} is less than --kv-max-sequences "
                f"{self.kv_max_sequences}, but every sequence needs a token in each step: "
                "raise the first or lower the second"
            )
        if self.port == self.management_port != 0:
            raise ValueError(
                f"--port and --management-port are both {self.port}: choose two different ports"
            )
        return self

    def _check_total_context(self) -> None:
        if self.kv_total_context is None:
            return
        if self.kv_layout != "Unified":
            raise ValueError(
                "--kv-total-context only has a meaning with --kv-layout Unified: "
                "leave it out or change the layout"
            )
        most = self.kv_max_sequences * self.kv_context_per_sequence
        if not self.kv_context_per_sequence <= self.kv_total_context <= most:
            raise ValueError(
                f"--kv-total-context {self.kv_total_context} must be from "
                f"{self.kv_context_per_sequence} (one full sequence) to {most} (all of them full)"
            )

    @property
    def total_context(self) -> int:
        """Cells for all sequences together, before llama.cpp rounds up."""
        if self.kv_total_context is not None:
            return self.kv_total_context
        return self.kv_max_sequences * self.kv_context_per_sequence

    @property
    def kept_directory(self) -> Path | None:
        """Where cached sequences are kept over a restart; None: nowhere."""
        return self.kv_keep_directory if self.kv_keep_over_restart else None

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> Settings:
        """Flags first, then the environment, then defaults.

        A flag that is unknown or wrong ends the process with status 2 and one
        sentence on standard error.
        """
        try:
            return CliApp.run(cls, cli_args=list(arguments), cli_exit_on_error=False)
        except SettingsError as error:
            _exit_for_bad_flag(str(error).removeprefix("error parsing CLI: "))
        except ValidationError as error:
            _exit_for_bad_flag(_sentence(error))


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return first["msg"].removeprefix("Value error, ")
    flag = "--" + str(first["loc"][0]).replace("_", "-")
    if first["type"] == "missing":
        return f"{flag} is required"
    message = first["msg"].removeprefix("Value error, ")
    return f"{flag} {first['input']}: {message[0].lower()}{message[1:]}"


def _exit_for_bad_flag(message: str) -> NoReturn:
    print(f"llama-runtime: {message}; see llama-runtime --help.", file=sys.stderr)  # noqa: T201
    raise SystemExit(BAD_FLAG_EXIT_CODE)
