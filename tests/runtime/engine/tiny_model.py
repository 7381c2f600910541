"""A GGUF file of a llama model with random weights: real llama.cpp, hardly any computing.

It has one layer, 64 dimensions and 64 token ids without texts.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

VOCABULARY_SIZE = 64
_WIDTH = 64
_UINT32, _FLOAT32, _STRING = 4, 6, 8  # gguf_type
_F32 = 0  # ggml_type
_ALIGNMENT = 32


def write_tiny_model(path: Path, context_length: int = 8192) -> Path:
    random = np.random.default_rng(1)

    def matrix(rows: int, columns: int) -> npt.NDArray[np.float32]:
        return random.normal(0, 0.2, (rows, columns)).astype(np.float32)

    ones = np.ones(_WIDTH, np.float32)
    tensors = {
        "token_embd.weight": matrix(VOCABULARY_SIZE, _WIDTH),
        "output_norm.weight": ones,
        "output.weight": matrix(VOCABULARY_SIZE, _WIDTH),
        "blk.0.attn_norm.weight": ones,
        "blk.0.attn_q.weight": matrix(_WIDTH, _WIDTH),
        "blk.0.attn_k.weight": matrix(_WIDTH, _WIDTH),
        "blk.0.attn_v.weight": matrix(_WIDTH, _WIDTH),
        "blk.0.attn_output.weight": matrix(_WIDTH, _WIDTH),
        "blk.0.ffn_norm.weight": ones,
        "blk.0.ffn_gate.weight": matrix(_WIDTH, _WIDTH),
        "blk.0.ffn_up.weight": matrix(_WIDTH, _WIDTH),
        "blk.0.ffn_down.weight": matrix(_WIDTH, _WIDTH),
    }
    metadata: dict[str, str | int | float] = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.context_length": context_length,
        "llama.embedding_length": _WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": _WIDTH,
        "llama.attention.head_count": 1,
        "llama.attention.head_count_kv": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": _WIDTH,
        "llama.vocab_size": VOCABULARY_SIZE,
        "tokenizer.ggml.model": "none",
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
