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
_UINT32, _FLOAT32, _STRING = 4, 6, 8  # gguf_type
_F32 = 0  # ggml_type
_ALIGNMENT = 32
_MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")

Metadata = dict[str, str | int | float]


def write_tiny_model(path: Path, context_length: int = 8192) -> Path:
    """One layer; every position is kept."""
    more: Metadata = {"llama.attention.layer_norm_rms_epsilon": 1e-5}
    names = ("output", "attn_norm", *_MATRICES[:4], "ffn_norm", *_MATRICES[4:])
    return _write(path, "llama", 1, names, context_length, more)


def write_sliding_window_model(path: Path, window: int) -> Path:
    """Four layers, three of which look back ``window`` tokens: two caches in llama.cpp."""
    more: Metadata = {
        "cohere2.attention.layer_norm_epsilon": 1e-5,
        "cohere2.attention.sliding_window": window,
        "cohere2.logit_scale": 1.0,
    }
    return _write(path, "cohere2", 4, ("attn_norm", *_MATRICES), 8192, more)


def _write(
    path: Path,
    architecture: str,
    layers: int,
    names: Sequence[str],
    context_length: int,
    more_metadata: Metadata,
) -> Path:
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


def _key_value(key: str, value: str | int | float) -> bytes:
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, int):
        return _text(key) + struct.pack("<II", _UINT32, value)
    return _text(key) + struct.pack("<If", _FLOAT32, value)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
