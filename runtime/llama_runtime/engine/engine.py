"""The engine: one thread that owns the model and its context, and the door to it."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from llama_runtime.engine.context import Context
from llama_runtime.engine.embedding import Embedder
from llama_runtime.engine.fairness import may_wait
from llama_runtime.engine.gpu_memory import gpu_memory_used
from llama_runtime.engine.grammar import Grammars
from llama_runtime.engine.keeping import Kept, keep, restore
from llama_runtime.engine.model import LoadedModel, load_model
from llama_runtime.engine.scheduler import Scheduler
from llama_runtime.engine.status import Snapshot, status_of, take_snapshot
from llama_runtime.engine.stream import Item, Request, RequestStream
from llama_runtime.engine.thread_pool import ThreadPool
from llama_runtime.engine.threads import available_cpus
from llama_runtime.engine.validation import check_tokens, tokens_to_generate
from llama_runtime.engine.vocabulary import ModelVocabulary
from llama_runtime.generation import (
    Client,
    CureRefused,
    EngineFailed,
    Generation,
    ModelUnusable,
    NotServing,
    QueueFull,
)
from llama_runtime.settings import Settings

logger = logging.getLogger(__name__)

IDLE_HEARTBEAT_SECONDS = 1.0
GPU_LOOK_SECONDS = 5.0
MOST_FAULTS_IN_A_ROW = 3
LONGEST_RETRY_AFTER = 60


def load_engine(settings: Settings, on_progress: Callable[[float], None]) -> LlamaEngine:
    """Load the model and start serving it; blocks meanwhile.

    Progress goes from 0 to 1 and comes from the engine's thread. Raises ModelUnusable,
    and may be called again then.
    """
    engine = LlamaEngine(settings, on_progress)
    engine.wait_until_loaded()
    return engine


class LlamaEngine:
    """Implements llama_runtime.generation.Engine.

    llama.cpp is called from one thread only: with OpenMP a second one slows every
    later decode to a third.
    """

    model: LoadedModel
    vocabulary: ModelVocabulary
    chat_template: str | None
    bos_token: str
    eos_token: str

    def __init__(self, settings: Settings, on_progress: Callable[[float], None]) -> None:
        self.settings = settings
        self.context_per_sequence = settings.kv_context_per_sequence
        self.threads = settings.engine_threads or available_cpus()
        self.failed: str | None = None
        self.restored: Kept | None = None
        self.kept: Kept | None = None
        self.heartbeat = time.monotonic()
        self.rejected = 0
        self._on_progress = on_progress
        self._loaded: Future[None] = Future()
        self._wake = threading.Condition()
        self._inbox: deque[Request] = deque()
        self._embeddings: deque[tuple[tuple[int, ...], Future[list[float]]]] = deque()
        self._compactions: deque[Future[Mapping[str, object]]] = deque()
        self._outbox: dict[asyncio.AbstractEventLoop, list[tuple[Request, Item]]] = {}
        self._waiting: Counter[Client] = Counter()
        self._draining = False
        self._stopping = False
        self._snapshot = Snapshot()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def wait_until_loaded(self) -> None:
        """Raises ModelUnusable when the model can't be served."""
        self._loaded.result()

    # The door: event loop

    def submit(self, generation: Generation) -> RequestStream:
        """Queue a generation; raises Rejected at once."""
        self._check_serving()
        max_tokens = tokens_to_generate(generation, self.vocabulary.size, self.context_per_sequence)
        text = generation.sampling.grammar
        grammar = None if text is None else self._grammars.start(text)
        with self._wake:
            self._check_queue(generation.client)
            request = Request(
                generation, max_tokens, grammar, asyncio.get_running_loop(), self._cancellation
            )
            self._inbox.append(request)
            self._waiting[generation.client] += 1
            self._wake.notify()
        return RequestStream(request)

    def check_grammar(self, grammar: str) -> None:
        self._grammars.start(grammar)

    async def embed(self, tokens: tuple[int, ...]) -> list[float]:
        self._check_serving()
        check_tokens(tokens, self.vocabulary.size)
        answer: Future[list[float]] = Future()
        with self._wake:
            if len(self._embeddings) >= max(self.settings.server_queue_limit, 1):
                self.rejected += 1
                raise QueueFull(self.settings.server_queue_limit, 1)
            self._embeddings.append((tokens, answer))
            self._wake.notify()
        return await asyncio.wrap_future(answer)

    async def compact(self) -> Mapping[str, object]:
        self._check_alive()
        answer: Future[Mapping[str, object]] = Future()
        with self._wake:
            self._compactions.append(answer)
            self._wake.notify()
        return await asyncio.wrap_future(answer)

    def drain(self) -> None:
        self._draining = True

    @property
    def idle(self) -> bool:
        snapshot = self._snapshot
        return not (self._waiting or snapshot.running or self._embeddings)

    def status(self) -> dict[str, object]:
        return {
            **status_of(self, self._snapshot),
            "memory": {
                "vramBytes": self._gpu_memory,
                "vramBytesAtLoad": self._gpu_memory_at_load,
            },
        }

    @property
    def queued(self) -> int:
        """Requests that were taken and not yet admitted."""
        return self._waiting.total()

    def close(self, timeout: float) -> bool:
        self._draining = True
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _check_alive(self) -> None:
        if self.failed is not None:
            raise NotServing(self.failed, 5)

    def _check_serving(self) -> None:
        self._check_alive()
        if self._draining:
            raise NotServing("This server is shutting down: retry, another one will answer.", 1)

    def _check_queue(self, client: Client) -> None:
        """Called with the lock held: what waits beyond the free sequences is the queue."""
        snapshot = self._snapshot
        free = 0 if snapshot.waits_for_cells else snapshot.max_sequences - snapshot.running
        limit = self.settings.server_queue_limit
        if not may_wait(client, self._waiting, limit, free):
            self.rejected += 1
            rounds = (self._waiting.total() + 1) / snapshot.max_sequences
            seconds = math.ceil(snapshot.service_seconds * rounds)
            raise QueueFull(limit, min(max(seconds, 1), LONGEST_RETRY_AFTER))

    def _cancellation(self) -> None:
        self._scheduler.cancellations_pending = True

    # The engine's thread

    def _run(self) -> None:
        try:
            self._open()
        except BaseException as error:
            self._loaded.set_exception(error)
            return
        self._loaded.set_result(None)
        try:
            self._serve()
        except Exception as error:
            logger.exception("The engine stopped.")
            self.failed = f"The engine stopped ({error}): restart this server."
        finally:
            self._shut_down()

    def _open(self) -> None:
        model = self.model = load_model(self.settings, self._on_progress)
        self._pool = ThreadPool(self.threads, polls=not model.is_on_gpu)
        try:
            self._scheduler = Scheduler(
                self._open_context, model, self._post, self.settings.kv_host_cache
            )
        except BaseException:
            self._pool.close()
            model.close()
            raise
        self._scheduler.kv.context.warm_up()
        self.restored = restore(self._scheduler.kv, self.settings)
        self._embedder = Embedder(model, self.settings, self._pool)
        self.vocabulary = model.vocabulary
        self._grammars = Grammars(model.vocabulary)
        self.chat_template = model.chat_template
        self.bos_token = model.vocabulary.bos_token
        self.eos_token = model.vocabulary.eos_token
        self._gpu_memory_at_load = self._gpu_memory = gpu_memory_used()
        self._gpu_memory_looked = time.monotonic()
        self._publish()

    def _open_context(self) -> Context:
        return Context(self.model, self.settings, self._pool)

    def _serve(self) -> None:
        faults = 0
        while self._wait_for_work():
            try:
                self._scheduler.step()
                faults = 0
            except Exception as error:
                faults += 1
                if faults == MOST_FAULTS_IN_A_ROW or isinstance(error, ModelUnusable):
                    raise
                logger.exception("A step failed; the running requests end.")
                self._scheduler.abandon_running(f"The engine met a fault ({error}): retry.")
            if self._embeddings:
                self._answer_embedding()
            self._cure()
            self._look_at_gpu_memory()
            self._publish()
            self._flush()

    def _wait_for_work(self) -> bool:
        """False when the engine is to stop."""
        scheduler = self._scheduler
        with self._wake:
            while True:
                self.heartbeat = time.monotonic()
                if self._stopping:
                    return False
                if self._inbox:
                    scheduler.queue.extend(self._inbox)
                    self._inbox.clear()
                if not scheduler.idle or self._embeddings or self._compactions:
                    return True
                self._wake.wait(IDLE_HEARTBEAT_SECONDS)

    def _answer_embedding(self) -> None:
        tokens, answer = self._embeddings[0]
        if answer.set_running_or_notify_cancel():
            try:
                answer.set_result(self._embedder.embed(tokens))
            except Exception as error:
                answer.set_exception(error)
        self._embeddings.popleft()

    def _cure(self) -> None:
        cures = self._scheduler.cures
        while self._compactions and not (cures.must_wait and self._scheduler.running):
            answer = self._compactions.popleft()
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(cures.compact("Request").as_dict(None))
                except CureRefused as error:
                    answer.set_exception(error)
                except BaseException as error:
                    answer.set_exception(error)
                    raise
        if self._scheduler.idle:
            cures.compact_if_wasteful()

    def _post(self, request: Request, item: Item) -> None:
        self._outbox.setdefault(request.loop, []).append((request, item))

    def _flush(self) -> None:
        """Hand everything over at once: one wake-up of each event loop in a step."""
        outbox, self._outbox = self._outbox, {}
        for loop, items in outbox.items():
            try:
                loop.call_soon_threadsafe(_deliver, items)
            except RuntimeError:  # the loop is closed: nobody listens any more
                for request, _ in items:
                    request.cancel()

    def _look_at_gpu_memory(self) -> None:
        now = time.monotonic()
        if self._gpu_memory is not None and now > self._gpu_memory_looked + GPU_LOOK_SECONDS:
            self._gpu_memory, self._gpu_memory_looked = gpu_memory_used(), now

    def _publish(self) -> None:
        snapshot = take_snapshot(self._scheduler)
        with self._wake:
            self._snapshot = snapshot
            self._waiting = Counter(
                request.client for request in (*self._inbox, *self._scheduler.queue)
            )

    def _shut_down(self) -> None:
        message = self.failed or "This server was shut down."
        self._draining = True
        with self._wake:
            self._scheduler.queue.extend(self._inbox)
            self._inbox.clear()
        self._scheduler.fail_all(message)
        while self._embeddings:
            self._embeddings.popleft()[1].set_exception(EngineFailed(message))
        while self._compactions:
            self._compactions.popleft().set_exception(EngineFailed(message))
        self._publish()
        self._flush()
        if self.failed is None:
            self.kept = keep(self._scheduler.kv, self.settings)
        self._embedder.close()
        self._scheduler.close()
        self._pool.close()
        self.model.close()


def _deliver(items: list[tuple[Request, Item]]) -> None:
    for request, item in items:
        request.deliver(item)
