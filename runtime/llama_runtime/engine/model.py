"""The loaded model: weights, vocabulary and what its GGUF file says about it."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

import llama_cpp

from llama_runtime.engine.backend import Backends, collected_log, errors_of, load_backends
from llama_runtime.engine.model_file import check_model_file
from llama_runtime.engine.vocabulary import ModelVocabulary
from llama_runtime.generation import ModelUnusable
from llama_runtime.settings import Settings, SplitMode
from llama_runtime.termination import note_memory

_SPLIT_MODES: dict[SplitMode, int] = {
    "None": llama_cpp.LLAMA_SPLIT_MODE_NONE,
    "Layer": llama_cpp.LLAMA_SPLIT_MODE_LAYER,
    "Row": llama_cpp.LLAMA_SPLIT_MODE_ROW,
}


class LoadedModel:
    """A llama_model and the facts that the engine needs of it. Owned by the engine's thread."""

    def __init__(
        self,
        pointer: int,
        path: Path,
        size_bytes: int,
        load_seconds: float,
        backends: Backends,
        gpu_layers: int,
    ) -> None:
        self.pointer = pointer
        self.path = path
        self.size_bytes = size_bytes
        self.load_seconds = load_seconds
        self.backends = backends
        self.vocabulary = ModelVocabulary(pointer)
        self.layers = int(llama_cpp.llama_model_n_layer(pointer))
        self.trained_context = int(llama_cpp.llama_model_n_ctx_train(pointer))
        self.sliding_window = int(llama_cpp.llama_model_n_swa(pointer))
        self.is_recurrent = bool(
            llama_cpp.llama_model_is_recurrent(pointer) or llama_cpp.llama_model_is_hybrid(pointer)
        )
        self.is_on_gpu = self.offloaded_layers(gpu_layers) > 0
        template = llama_cpp.llama_model_chat_template(pointer, None)
        self.chat_template = template.decode("utf-8", "replace") if template else None

    def offloaded_layers(self, requested: int) -> int:
        """Layers on a GPU; llama.cpp counts the output layer as one more."""
        if not self.backends.gpu_devices:
            return 0
        everything = self.layers + 1
        return everything if requested < 0 else min(requested, everything)

    def close(self) -> None:
        llama_cpp.llama_model_free(self.pointer)


def load_model(settings: Settings, on_progress: Callable[[float], None]) -> LoadedModel:
    """Check the file and load it. Raises ModelUnusable; progress goes from 0 to 1."""
    backends = load_backends()
    checking = 0.5 if settings.model_sha256 else 0.0
    size = check_model_file(
        settings.model_path, settings.model_sha256, lambda done: on_progress(done * checking)
    )
    parameters = _parameters(settings, backends)
    if not (backends.gpu_devices and settings.engine_gpu_layers):
        note_memory(settings.termination_log, weightsBytes=size)

    def report(done: float, _user_data: object) -> bool:
        on_progress(checking + done * (1 - checking))
        return True

    progress = llama_cpp.llama_progress_callback(report)
    parameters.progress_callback = progress
    started = time.monotonic()
    with collected_log() as log:
        pointer = llama_cpp.llama_model_load_from_file(os.fsencode(settings.model_path), parameters)
        if not pointer:
            raise _refused(settings.model_path, errors_of(log))
    seconds = time.monotonic() - started
    model = LoadedModel(
        pointer, settings.model_path, size, seconds, backends, settings.engine_gpu_layers
    )
    if llama_cpp.llama_model_has_encoder(pointer) or llama_cpp.llama_model_is_diffusion(pointer):
        model.close()
        raise ModelUnusable(
            "ModelUnsupported",
            f"{settings.model_path} is an encoder or diffusion model, but only decoders are "
            "served: choose another model.",
        )
    on_progress(1.0)
    return model


def _parameters(settings: Settings, backends: Backends) -> llama_cpp.llama_model_params:
    parameters: llama_cpp.llama_model_params = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers = settings.engine_gpu_layers
    parameters.split_mode = _SPLIT_MODES[settings.engine_split_mode]
    parameters.load_mode = (
        llama_cpp.LLAMA_LOAD_MODE_MMAP if settings.engine_mmap else llama_cpp.LLAMA_LOAD_MODE_NONE
    )
    if settings.engine_tensor_split:
        most = int(llama_cpp.llama_max_devices())
        given = settings.engine_tensor_split
        if len(given) > max(len(backends.gpu_devices), 1):
            raise ModelUnusable(
                "GPUsMissing",
                f"engine.tensorSplit names {len(given)} GPUs, but {len(backends.gpu_devices)} "
                "were found: give one proportion for each GPU.",
            )
        # ctypes keeps the array alive through the structure's field.
        parameters.tensor_split = (ctypes.c_float * most)(*given)
    return parameters


def _refused(path: Path, errors: list[str]) -> ModelUnusable:
    text = "; ".join(errors)
    detail = (errors[0] if errors else "it gives no reason").rstrip(".")
    if "unknown model architecture" in text or "unknown pre-tokenizer" in text:
        return ModelUnusable(
            "ModelUnsupported",
            f"llama.cpp does not know this model ({detail}): choose another one.",
        )
    if "unable to allocate" in text or "out of memory" in text or "failed to allocate" in text:
        return ModelUnusable(
            "ModelTooLarge",
            f"{path} does not fit into memory ({detail}): "
            "give the pod more memory, or put fewer layers on the GPU.",
        )
    return ModelUnusable(
        "ModelCorrupt",
        f"llama.cpp can't load {path} ({detail}): replace it with a complete GGUF file.",
    )
