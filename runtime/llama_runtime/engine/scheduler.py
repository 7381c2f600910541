"""Continuous batching: one llama_decode for all running sequences in each step."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from llama_runtime.engine.batch import Row
from llama_runtime.engine.context import (
    DECODED,
    INVALID_BATCH,
    NO_SLOT,
    Context,
    Logits,
    leaves_state_untouched,
)
from llama_runtime.engine.counters import Counters
from llama_runtime.engine.cures import Cures
from llama_runtime.engine.decode_speed import DecodeSpeed, DecodeStep
from llama_runtime.engine.fairness import Ledger, evens_out, over_share
from llama_runtime.engine.gathering import Gathering
from llama_runtime.engine.kv_cache import KVCache
from llama_runtime.engine.model import LoadedModel
from llama_runtime.engine.prefix_sharing import hand_over_prefix, share_computed_prefixes
from llama_runtime.engine.prompt_scores import score_prompts
from llama_runtime.engine.sampling import LogitsUnusable, Sampler, greedy
from llama_runtime.engine.sequence import RunningSequence
from llama_runtime.engine.step_plan import plan_step
from llama_runtime.engine.stream import Item, Request
from llama_runtime.generation import Client, EngineFailed, Finished, GrammarFailed, Token

logger = logging.getLogger(__name__)

MOST_FAILURES_IN_A_ROW = 3
# How often to see who is there while nobody comes; those who left wait for that.
LOOK_SECONDS = 0.5
# What a client that crowds others out may add to a step: this time, but at least so many tokens.
CROWDERS_SECONDS = 0.05
FEWEST_TOKENS = 16

Step = list[tuple[RunningSequence, Row]]


class Scheduler:
    """Takes requests in order of arrival for each client, the least served one's first, and
    computes. Owned by the engine's thread.

    A request is admitted when a sequence is free and when the cells that it may come to
    need are not promised to others: what was admitted can always finish.
    """

    def __init__(
        self,
        open_context: Callable[[], Context],
        model: LoadedModel,
        deliver: Callable[[Request, Item], None],
        host_cache: int = 0,
    ) -> None:
        self._open_context = open_context
        self._model = model
        self._deliver = deliver
        self.kv = KVCache(open_context(), model, host_cache)
        self.gathering = Gathering(model.size_bytes, on_gpu=model.is_on_gpu)
        self.queue: deque[Request] = deque()
        self.ledger = Ledger()
        self.running: list[RunningSequence] = []
        self.counters = Counters()
        self.speed = DecodeSpeed()
        self.cures = Cures(self.kv, self.speed, self._rebuild)
        self.cancellations_pending = False
        self.waits_for_cells = False
        self._failures_in_a_row = 0
        self._next_look = 0.0

    @property
    def idle(self) -> bool:
        return not self.running and not self.queue

    def step(self) -> None:
        """Admit, compute one batch, deliver a token to every sequence that got one."""
        started = time.monotonic()
        if self.cancellations_pending:
            self._drop_cancelled()
        self._admit()
        share_computed_prefixes(self.running, self.kv)
        self.gathering.before_step(self.running, self.kv)
        crowders: frozenset[Client] = frozenset()
        if any(one.remaining > 1 for one in self.running):
            crowders = self._crowders()
        context = self.kv.context
        plan = plan_step(
            self.running,
            context.batch_size,
            context.max_outputs,
            crowders,
            self._crowders_limit(),
        )
        if plan:
            self._compute(plan)
            self.counters.steps += 1
            self.counters.step_seconds += time.monotonic() - started

    def fail_all(self, message: str) -> None:
        """The engine can't go on: every request ends with EngineFailed."""
        for sequence in list(self.running):
            self._end(sequence, EngineFailed(message))
        while self.queue:
            self._end_queued(self.queue.popleft(), EngineFailed(message))

    def close(self) -> None:
        self.kv.context.close()

    # Admission

    def _drop_cancelled(self) -> None:
        self.cancellations_pending = False
        for request in [request for request in self.queue if request.cancelled]:
            self.queue.remove(request)
            self._end_queued(request, None)
        for sequence in [sequence for sequence in self.running if sequence.request.cancelled]:
            if sequence.request.is_complete:
                self._finish(sequence, "stop")
            else:
                self._end(sequence, None)

    def _admit(self) -> None:
        now = time.monotonic()
        if self.queue or now > self._next_look:
            self.ledger.look(
                [*(one.client for one in self.queue), *(one.client for one in self.running)], now
            )
            self._next_look = now + LOOK_SECONDS
        self.waits_for_cells = False
        while self.queue:
            request = self._next_request()
            if request is None:
                return
            self.queue.remove(request)
            self._start(request)

    def _next_request(self) -> Request | None:
        """The one to start now: the first of the client that was served least.

        Without a free sequence it is the first for which another client gives one back.
        """
        first: dict[Client, Request] = {}
        for request in self.queue:
            first.setdefault(request.client, request)
        turns = sorted(first.values(), key=lambda one: self.ledger.order(one.client))
        if self.kv.has_room_for_a_sequence:
            self.waits_for_cells = not self._cells_suffice_for(turns[0])
            return None if self.waits_for_cells else turns[0]
        for request in turns:
            if self._cells_suffice_for(request) and self._make_way_for(request):
                return request
        return None

    def _make_way_for(self, request: Request) -> bool:
        """A client with more sequences gives one back that has not answered anything yet."""
        running = Counter(one.client for one in self.running)
        candidates = [
            one
            for one in self.running
            if one.request.first_token is None and evens_out(one.client, request.client, running)
        ]
        if not candidates:
            return False
        # Of those that lose the least, the one that came last.
        victim = min(reversed(candidates), key=lambda one: one.computed)
        hand_over_prefix(victim, self.running, self.kv)
        self.running.remove(victim)
        victim.sampler.close()
        self._leave_prefix(victim)
        self.ledger.charge(victim.client, prompt=-len(victim.request.prompt))
        victim.request.admitted = None
        self.queue.appendleft(victim.request)
        self.counters.postponed += 1
        return True

    def _crowders(self) -> frozenset[Client]:
        in_flight = Counter([one.client for one in self.queue])
        in_flight.update(one.client for one in self.running)
        active = self.ledger.active(time.monotonic())
        return over_share(in_flight, active, self.kv.context.max_sequences)

    def _crowders_limit(self) -> int:
        return max(round(self.counters.prompt_speed * CROWDERS_SECONDS), FEWEST_TOKENS)

    def _cells_suffice_for(self, request: Request) -> bool:
        account = self.kv.account
        if not self.kv.context.unified:
            return True
        growth = sum(
            sequence.request.promised - account.length(sequence.id) for sequence in self.running
        )
        # Cached sequences don't count: they go when their cells are needed.
        held = account.distinct(sequence.id for sequence in self.running)
        return held + growth + request.promised <= account.capacity

    def _start(self, request: Request) -> None:
        request.admitted = time.monotonic()
        sampler = Sampler(
            self._model.vocabulary,
            request.generation.sampling,
            ignore_eos=request.generation.ignore_eos,
            grammar=request.grammar,
        )
        place, cached, source, shared = self.kv.place(
            request.prompt, self.running, private=not request.takes_prefix
        )
        sequence = RunningSequence(place, request, sampler)
        sequence.computed = request.cached_tokens = cached
        sequence.source, sequence.shared = source, shared
        self.running.append(sequence)
        self.ledger.charge(request.client, prompt=len(request.prompt))

    # Computing

    def _compute(self, plan: Step) -> None:
        rows = [row for _, row in plan]
        self.kv.make_room(sum(len(row.tokens) for row in rows))
        started = time.monotonic()
        try:
            result, indices = self.kv.decode(rows)
        except ValueError:
            logger.exception("A batch was refused before llama.cpp saw it.")
            result, indices = INVALID_BATCH, []
        if result != DECODED:
            self._recover(plan, result)
            return
        self._failures_in_a_row = 0
        self._measure(rows, started)
        outputs: list[tuple[RunningSequence, int]] = []
        prompt_tokens = 0
        scores = False
        for (sequence, row), index in zip(plan, indices, strict=True):
            sequence.computed += len(row.tokens)
            sequence.is_suspect = False
            prompt_tokens += _prompt_part(sequence, row)
            scores |= sequence.scores is not None
            if not sequence.remaining:
                outputs.append((sequence, index))
        if lines := sum(row.outputs for row in rows):
            # Reading the logits waits for the computation.
            logits = self.kv.context.logits(lines)
            self._choose_tokens(outputs, score_prompts(plan, logits) if scores else logits)
        self.counters.computed(prompt_tokens, time.monotonic() - started, scores=scores)

    def _measure(self, rows: list[Row], started: float) -> None:
        """Only steps that generate say something about the cache; prompts are another work."""
        if any(len(row.tokens) > 1 for row in rows):
            return
        self.kv.context.synchronize()
        seconds, account = time.monotonic() - started, self.kv.account
        depth = max(row.start for row in rows) + 1
        self.speed.record(
            DecodeStep(len(rows), depth, seconds, account.used, account.span, account.capacity)
        )

    def _choose_tokens(
        self, outputs: list[tuple[RunningSequence, int]], logits: Sequence[Logits] | Logits
    ) -> None:
        """``logits``: a line of llama.cpp's own buffer for each output."""
        if not outputs:
            return
        chosen: list[Token | EngineFailed | None]
        if all(sequence.sampler.is_plain_greedy for sequence, _ in outputs):
            for (sequence, _), row in zip(outputs, logits, strict=True):
                sequence.sampler.forbid(row)
            chosen = [
                EngineFailed(str(LogitsUnusable())) if token is None else Token(token)
                for token in greedy(logits)
            ]
        else:
            chosen = [
                self._choose_token(sequence, index, row)
                for (sequence, index), row in zip(outputs, logits, strict=True)
            ]
        for (sequence, _), token in zip(outputs, chosen, strict=True):
            self._advance(sequence, token)

    def _choose_token(
        self, sequence: RunningSequence, index: int, row: npt.NDArray[np.float32]
    ) -> Token | EngineFailed | None:
        try:
            if sequence.scores is not None:
                sequence.request.prompt_scores = sequence.scores.result()
                sequence.scores = None
            return sequence.sampler.choose(self.kv.context.pointer, index, row, sequence.tokens)
        except LogitsUnusable as error:
            return EngineFailed(str(error))
        except GrammarFailed as error:
            return error

    def _advance(self, sequence: RunningSequence, token: Token | EngineFailed | None) -> None:
        request = sequence.request
        if isinstance(token, EngineFailed):
            self._end(sequence, token)
            return
        if request.first_token is None:
            request.first_token = time.monotonic()
        if request.predicted_tokens >= request.max_tokens:
            self._finish(sequence, "length")
            return
        ends = token is None or self._ends(sequence, token)
        if token is None or (ends and not request.generation.score_prompt):
            self._finish(sequence, "stop")
        else:
            sequence.append(token.id)
            request.predicted_tokens += 1
            self.counters.predicted_tokens += 1
            self.ledger.charge(request.client, generated=1)
            self._deliver(request, token)
            if ends:
                self._finish(sequence, "stop")
            elif request.predicted_tokens == request.max_tokens:
                self._finish(sequence, "length")

    def _ends(self, sequence: RunningSequence, token: Token) -> bool:
        if sequence.request.generation.ignore_eos:
            return False
        return self._model.vocabulary.is_end_of_generation(token.id)

    # Failures

    def _recover(self, plan: Step, result: int) -> None:
        """Only what fails alone, or again and again, ends; the others go on."""
        self.counters.decode_failures += 1
        self._failures_in_a_row += 1
        logger.error("llama_decode gave %d for %d sequences.", result, len(plan))
        if not leaves_state_untouched(result):
            self.cures.rebuild("DecodeFailed")
        elif result == NO_SLOT:
            self.kv.evict_all()
        if len(plan) > 1 and self._failures_in_a_row < MOST_FAILURES_IN_A_ROW:
            for sequence, _ in plan:
                sequence.is_suspect = True
            return
        for sequence, _ in plan:
            self._end(
                sequence,
                EngineFailed(f"llama.cpp could not compute this request (result {result}): retry."),
            )

    def _rebuild(self) -> None:
        """A fresh context; running sequences compute all their tokens again."""
        self.counters.context_rebuilds += 1
        self.kv.context.close()
        self.kv.forget()
        self.kv.start_over(self._open_context(), [sequence.id for sequence in self.running])
        for sequence in self.running:
            sequence.computed = 0

    def abandon_running(self, message: str) -> None:
        """After a fault of unknown extent: running requests end, queued ones get a new context."""
        for sequence in list(self.running):
            self._end(sequence, EngineFailed(message))
        self.cures.rebuild("DecodeFailed")

    # Ends

    def _finish(self, sequence: RunningSequence, reason: Literal["stop", "length"]) -> None:
        request = sequence.request
        request.ended = time.monotonic()
        self._end(sequence, Finished(reason, request.timings))

    def _end(self, sequence: RunningSequence, item: Finished | EngineFailed | None) -> None:
        hand_over_prefix(sequence, self.running, self.kv)
        self.running.remove(sequence)
        sequence.sampler.close()
        if isinstance(item, Finished):
            self._leave_prefix(sequence)
        else:
            self.kv.release(sequence.id)
        self._close(sequence.request, item)

    def _leave_prefix(self, sequence: RunningSequence) -> None:
        if sequence.is_private:
            self.kv.release(sequence.id)
        else:
            self.kv.retain(sequence.id, sequence.tokens[: sequence.computed])

    def _end_queued(self, request: Request, item: EngineFailed | None) -> None:
        self._close(request, item)

    def _close(self, request: Request, item: Finished | EngineFailed | None) -> None:
        request.ended = time.monotonic()
        if isinstance(item, Finished):
            self.counters.served(request.ended - (request.admitted or request.ended))
        elif item is None:
            self.counters.cancelled += 1
        else:
            self.counters.failed += 1
        if item is not None:
            self._deliver(request, item)


def _prompt_part(sequence: RunningSequence, row: Row) -> int:
    """Tokens of the row that belong to the prompt."""
    return max(min(row.start + len(row.tokens), len(sequence.request.prompt)) - row.start, 0)
