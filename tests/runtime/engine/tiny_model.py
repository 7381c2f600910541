"""GGUF files of models with random weights: real llama.cpp, hardly any computing.

They have 64 dimensions and 64 token ids without texts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

VOCABULARY_SIZE = 64
_WIDTH = 64
_UINT16, _UINT32, _INT32, _FLOAT32, _STRING = 2, 4, 5, 6, 8  # gguf_type
_F32 = 0  # ggml_type
_ALIGNMENT = 32
_MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")

Value = str | int | float | np.uint16 | np.int32
Metadata = dict[str, Value]
Tensors = dict[str, npt.NDArray[np.float32]]


def write_tiny_model(path: Path, context_length: int = 8192) -> Path:
    """One layer; every position is kept."""
    return _write(path, *_tiny(context_length))


def write_split_model(folder: Path) -> list[Path]:
    """The tiny model in two files, named and marked as llama-gguf-split does."""
    metadata, tensors = _tiny(8192)
    names = list(tensors)
    half = len(names) // 2
    parts: tuple[tuple[Metadata, list[str]], ...] = ((metadata, names[:half]), ({}, names[half:]))
    paths = []
    for number, (own, held) in enumerate(parts):
        marks: Metadata = {
            "split.no": np.uint16(number),
            "split.count": np.uint16(len(parts)),
            "split.tensors.count": np.int32(len(names)),
        }
        path = folder / f"tiny-{number + 1:05}-of-{len(parts):05}.gguf"
        paths.append(_write(path, {**own, **marks}, {name: tensors[name] for name in held}))
    return paths


def write_sliding_window_model(path: Path, window: int) -> Path:
    """Four layers, three of which look back ``window`` tokens: two caches in llama.cpp."""
    more: Metadata = {
        "cohere2.attention.layer_norm_epsilon": 1e-5,
        "cohere2.attention.sliding_window": window,
        "cohere2.logit_scale": 1.0,
    }
    return _write(path, *_model("cohere2", 4, ("attn_norm", *_MATRICES), 8192, more))


def _tiny(context_length: int) -> tuple[Metadata, Tensors]:
    more: Metadata = {"llama.attention.layer_norm_rms_epsilon": 1e-5}
    names = ("output", "attn_norm", *_MATRICES[:4], "ffn_norm", *_MATRICES[4:])
    return _model("llama", 1, names, context_length, more)


def _model(
    architecture: str,
    layers: int,
    names: Sequence[str],
    context_length: int,
    more_metadata: Metadata,
) -> tuple[Metadata, Tensors]:
    random = np.random.default_rng(1)

    def tensor_for(name: str) -> npt.NDArray[np.float32]:
        if name.endswith("norm"):
            return np.ones(_WIDTH, np.float32)
        return random.normal(0, 0.2, (_WIDTH, _WIDTH)).astype(np.float32)

    places = ["token_embd", "output_norm", *(name for name in names if name == "output")]
    for layer in range(layers):
        places += [f"blk.{layer}.{name}" for name in names if name != "output"]
    tensors = {f"{place}.weight": tensor_for(place) for place in places}
    metadata: Metadata = {
        "general.architecture": architecture,
        "general.name": "tiny",
        f"{architecture}.context_length": context_length,
        f"{architecture}.embedding_length": _WIDTH,
        f"{architecture}.block_count": layers,
        f"{architecture}.feed_forward_length": _WIDTH,
        f"{architecture}.attention.head_count": 1,
        f"{architecture}.attention.head_count_kv": 1,
        f"{architecture}.rope.dimension_count": _WIDTH,
        f"{architecture}.vocab_size": VOCABULARY_SIZE,
        "tokenizer.ggml.model": "none",
        **more_metadata,
    }
    return metadata, tensors


def _write(path: Path, metadata: Metadata, tensors: Tensors) -> Path:
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    header += b"".join(_key_value(key, value) for key, value in metadata.items())
    body = b""
    for name, tensor in tensors.items():
        dimensions = tensor.shape[::-1]
        header += _text(name) + struct.pack(
            f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, _F32, len(body)
        )
        body += _padded(tensor.tobytes())
    path.write_bytes(_padded(header) + body)
    return path


def _key_value(key: str, value: Value) -> bytes:
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, np.uint16):
        return _text(key) + struct.pack("<IH", _UINT16, value)
    if isinstance(value, np.int32):
        return _text(key) + struct.pack("<Ii", _INT32, value)
    if isinstance(value, int):
        return _text(key) + struct.pack("<II", _UINT32, value)
    return _text(key) + struct.pack("<If", _FLOAT32, value)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
