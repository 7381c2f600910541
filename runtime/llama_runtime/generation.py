"""What the API asks of the engine, and what the engine answers.

The API layer knows text, OpenAI's schema and HTTP; the engine knows token ids,
sequences and KV cells. These types are all that passes between them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen; names and meanings are llama.cpp's.

    temperature 0 is greedy. A seed of None draws one from the operating system.
    grammar is GBNF with a rule named ``root``. logprobs None asks for none, N for
    the chosen token's and those of the N most likely (natural logarithms, before
    temperature and filters).
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    logit_bias: tuple[tuple[int, float], ...] = ()
    grammar: str | None = None
    logprobs: int | None = None


Client = tuple[str, str]
"""Who asks: the API key or address behind a request, and the ``user`` it names; for fairness."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One sequence to generate: token ids in, token ids out.

    max_tokens None means: up to the end of the sequence's context. score_prompt asks for the
    logprobs of the prompt's tokens too, as many as sampling.logprobs says; it is computed anew.
    """

    prompt: tuple[int, ...]
    max_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    ignore_eos: bool = False
    cache_prompt: bool = True
    score_prompt: bool = False
    client: Client = ("", "")


@dataclass(frozen=True, slots=True)
class Token:
    """A token, generated or of a scored prompt.

    An end-of-generation token is delivered only behind a scored prompt, where every token
    has its score.
    """

    id: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    """Counts in tokens, times in seconds."""

    cached_tokens: int
    prompt_tokens: int
    predicted_tokens: int
    queue_seconds: float
    prompt_seconds: float
    predicted_seconds: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The last item of a stream: ``stop`` for an end-of-generation token, else ``length``."""

    reason: Literal["stop", "length"]
    timings: Timings


class Rejected(Exception):
    """A request that the engine does not take; the message is for the client."""


class InvalidGeneration(Rejected):
    """The request itself is wrong: an empty prompt, an unknown token id, a bad grammar."""


class DoesNotFit(Rejected):
    """Prompt and requested tokens exceed what one sequence can ever hold."""

    def __init__(
        self, prompt_tokens: int, requested_tokens: int, context_per_sequence: int
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.requested_tokens = requested_tokens
        self.context_per_sequence = context_per_sequence
        super().__init__(
            f"The prompt has {prompt_tokens} tokens and {requested_tokens} more were requested, "
            f"but a sequence holds {context_per_sequence} (contextPerSequence): "
            "shorten the prompt or ask for fewer tokens."
        )


class QueueFull(Rejected):
    """The queue is at its limit; retry_after is in seconds."""

    def __init__(self, queue_limit: int, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(
            f"All sequences are busy and {queue_limit} requests already wait: "
            f"retry in {retry_after} s."
        )


class NotServing(Rejected):
    """The engine is draining or has no model; retry_after is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class CureRefused(Exception):
    """A cure can't be done; the message says why and what to ask for instead."""


class EngineFailed(Exception):
    """A decode failed under this request; other requests may go on."""


class GrammarFailed(EngineFailed):
    """Following the grammar of this request takes more than a step may cost."""


class ModelUnusable(Exception):
    """The model can't be served; ``reason`` is one of those in docs/architecture.md.

    Raised by ``llama_runtime.engine.start``; it may be called again once the file changed.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class TokenStream(Protocol):
    """The tokens of one generation, then one Finished.

    Iterating raises EngineFailed when its decode fails. ``aclose`` before the end
    cancels: the sequence and its cells are free within one step. ``finish`` says that
    the tokens so far are the whole answer, as a stop string does: the sequence ends as
    after an end-of-generation token, and the next turn finds it in the prefix cache.
    """

    @property
    def timings(self) -> Timings:
        """What is known so far: a stop string ends a stream before its Finished."""

    @property
    def prompt_scores(self) -> tuple[Token, ...]:
        """The prompt, if it is to be scored: complete when the first item comes.

        The first token has no logprob.
        """

    def __aiter__(self) -> AsyncIterator[Token | Finished]: ...

    def finish(self) -> None: ...

    async def aclose(self) -> None: ...


class Vocabulary(Protocol):
    """Tokens and text of the loaded model; safe from any thread."""

    @property
    def size(self) -> int:
        """Token ids go from 0 to size - 1."""

    @property
    def longest_piece(self) -> int:
        """Bytes of the longest text of a token."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Takes about a second for a million characters: not for the event loop."""

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token; may end inside a UTF-8 character."""

    def is_end_of_generation(self, token: int) -> bool: ...


class Engine(Protocol):
    """One llama.cpp context and the thread that owns it."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    chat_template: str | None
    """The Jinja template inside the GGUF, if it has one."""
    bos_token: str
    eos_token: str
    context_per_sequence: int

    def submit(self, generation: Generation) -> TokenStream:
        """Queue a generation. Called on the event loop; raises Rejected at once."""

    def check_grammar(self, grammar: str) -> None:
        """Compile it, so that submit needs not; raises InvalidGeneration.

        Takes up to a second: not for the event loop.
        """

    async def embed(self, tokens: tuple[int, ...]) -> list[float]:
        """The pooled, L2-normalised embedding; raises Rejected if the model gives none."""

    async def compact(self) -> Mapping[str, object]:
        """Pack the KV cache between two steps; ``kv.lastCure`` of it.

        Raises NotServing, or CureRefused where memory does not suffice.
        """

    def drain(self) -> None:
        """Refuse new generations from now on; running and queued ones finish."""

    @property
    def idle(self) -> bool:
        """No generation runs or waits."""

    def status(self) -> dict[str, object]:
        """``kv``, ``requests`` and ``engine`` of GET /status; any thread, never waits.

        Also ``counters``, numbers that only grow, for /metrics: promptTokens (computed),
        predictedTokens, cellsSaved (prompt tokens taken from the prefix cache), prefixHits,
        evictions, hostHits, hostEvictions, moved, postponed, decodeFailures, contextRebuilds,
        steps, stepSeconds, decodeSeconds, cures (by method), cureSeconds.
        """

    def close(self, timeout: float) -> bool:
        """Stop the thread and free the context; False if it did not stop in time (seconds)."""
