"""The life of the process: load, serve, watch, drain, exit."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry

from llama_runtime.api.app import create_app
from llama_runtime.api.keys import ApiKeys
from llama_runtime.api.serving import ServedModel
from llama_runtime.drain import seconds_to_refusal
from llama_runtime.generation import CureRefused, Engine, ModelUnusable, NotServing
from llama_runtime.lifecycle import Lifecycle
from llama_runtime.management import create_management_app
from llama_runtime.metrics import RequestMetrics, StatusCollector, exposition
from llama_runtime.model_watch import ModelWatch, signature
from llama_runtime.numa import NumaReport
from llama_runtime.pod_request import ActionFailed, Answer, PodRequests
from llama_runtime.requested_restart import RequestedRestart, describe_cure
from llama_runtime.servers import Server, ServerThread, create_server, listen
from llama_runtime.settings import Settings
from llama_runtime.status import Facts, resident_bytes, status_document
from llama_runtime.termination import ExitCode, write_termination_log
from llama_runtime.threads import in_daemon_thread

MODEL_LOOK_SECONDS = 5.0
ENGINE_LOOK_SECONDS = 1.0
NUMA_LOOK_SECONDS = 60.0
IDLE_LOOK_SECONDS = 0.05
CLOSE_SECONDS = 5
KEEP_SECONDS = 10  # for the sequences that the next process takes over; longer is cut off

LoadEngine = Callable[[Settings, Callable[[float], None]], Engine]
ObserveNUMA = Callable[[], NumaReport]

log = logging.getLogger(__name__)


class Exit(Exception):
    """The process can't go on."""

    def __init__(self, code: ExitCode, reason: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details


class Process:
    """One model, two servers, and what signals do to them."""

    def __init__(
        self, settings: Settings, load_engine: LoadEngine, observe_numa: ObserveNUMA
    ) -> None:
        self._settings = settings
        self._load_engine = load_engine
        self._observe_numa = observe_numa
        self._started_at = datetime.now(UTC)
        # Read by the management thread: each is replaced as a whole.
        self._lifecycle = Lifecycle()
        self._model: ServedModel | None = None
        self._model_bytes: int | None = None
        self._numa: dict[str, Any] | None = None
        self._keys = ApiKeys(settings.server_api_key_file)
        self._told_to_stop = asyncio.Event()
        self._signalled = False
        self._rss_at_load: int | None = None
        self._restart: RequestedRestart | None = None
        self._requests = PodRequests(
            settings.request_file, {"Compact": self._compact, "Restart": self._begin_restart}
        )
        self.ports: tuple[int, ...] = ()
        registry = CollectorRegistry()
        registry.register(StatusCollector(self.status))
        self._metrics = RequestMetrics(registry)
        self._exposition = lambda: exposition(registry)

    async def run(self) -> int:
        """Serves until told to stop; the exit status of the process."""
        settings = self._settings
        try:
            sockets = [
                listen(settings.host, settings.port),
                listen(settings.host, settings.management_port),
            ]
        except OSError as error:
            return self._end(
                ExitCode.BAD_FLAG,
                "AddressUnusable",
                f"Can't listen on {settings.host}, ports {settings.port} and "
                f"{settings.management_port} ({error.strerror}): choose others.",
            )
        api = create_server(
            create_app(
                self._served_model,
                keys=self._keys,
                observer=self._metrics,
                is_draining=lambda: self._lifecycle.state == "Draining",
            ),
            graceful_seconds=CLOSE_SECONDS,
        )
        management = ServerThread(
            create_management_app(lambda: self._lifecycle, self.status, self._exposition),
            sockets[1],
        )
        management.start()
        self._handle_signals()
        self.ports = tuple(bound.getsockname()[1] for bound in sockets)
        log.info("Listening", extra={"ports": self.ports})
        serving = asyncio.create_task(api.serve([sockets[0]]))
        following = asyncio.create_task(self._requests.follow())
        try:
            return await self._live(api)
        finally:
            following.cancel()
            api.should_exit = True
            await serving
            management.stop()

    def status(self) -> dict[str, Any]:
        """The document at /status; any thread."""
        model = self._model
        return status_document(
            self._settings,
            Facts(
                lifecycle=self._lifecycle,
                started_at=self._started_at,
                model_bytes=self._model_bytes,
                engine=model.engine.status() if model else None,
                numa=self._numa,
                rss_bytes=resident_bytes(),
                rss_bytes_at_load=self._rss_at_load,
                key_problem=self._keys.problem(),
                request=answer.as_dict() if (answer := self._requests.answer) else None,
            ),
        )

    def _served_model(self) -> ServedModel:
        if self._model is None or not self._lifecycle.accepts:
            raise NotServing(self._lifecycle.message, self._lifecycle.retry_after)
        return self._model

    async def _live(self, api: Server) -> int:
        """Until a signal comes, or something that can't be lived with."""
        living = asyncio.create_task(self._load_and_watch())
        stopping = asyncio.create_task(self._told_to_stop.wait())
        try:
            await asyncio.wait((living, stopping), return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
        except Exit as end:
            return self._end(end.code, end.reason, str(end), **end.details)
        except Exception as error:
            log.critical("The process can't go on", exc_info=error)
            return self._end(
                ExitCode.ENGINE_FAILED,
                "EngineFailed",
                f"The engine failed ({error}): the log has the trace.",
            )
        finally:
            living.cancel()
            stopping.cancel()
        return await self._drain(api)

    async def _load_and_watch(self) -> None:
        """Loads, again after each change of the file until it works, then watches."""
        await self._load()
        while self._model is None:
            watch = ModelWatch(self._tried)
            # A file says nothing when it changes, least of all on a network volume.
            while not watch.look(signature(self._settings.model_path)):  # noqa: ASYNC110
                await asyncio.sleep(MODEL_LOOK_SECONDS)
            await self._load()
        await self._watch(self._model.engine)

    async def _load(self) -> None:
        """Serves the model, or fails with the reason that /status shows."""
        path = self._settings.model_path
        self._tried = signature(path)
        self._model_bytes = self._tried[2] if self._tried else None
        self._lifecycle = self._lifecycle.loading()
        log.info("Loading the model", extra={"path": str(path)})
        loop, started = asyncio.get_running_loop(), time.monotonic()

        def show(progress: float) -> None:
            if self._lifecycle.state == "Loading":
                self._lifecycle = self._lifecycle.loading(progress)

        def on_progress(progress: float) -> None:
            loop.call_soon_threadsafe(show, progress)

        try:
            engine = await in_daemon_thread(
                lambda: self._load_engine(self._settings, on_progress), "load"
            )
        except ModelUnusable as error:
            log.error("The model can't be served", extra={"reason": error.reason})
            self._lifecycle = self._lifecycle.failed(error.reason, str(error))
            return
        seconds = time.monotonic() - started
        await self._check_numa()
        self._rss_at_load = resident_bytes()
        self._model = ServedModel.of(self._settings.model_alias, engine)
        self._lifecycle = self._lifecycle.serving(seconds)
        log.info("Serving", extra={"model": self._model.alias, "load_seconds": round(seconds, 3)})

    async def _check_numa(self) -> None:
        """Raises Exit where the policy is Required and can't be met."""
        report = await self._look_at_numa()
        if self._settings.numa_policy == "Required" and not report.aligned:
            self._lifecycle = self._lifecycle.failed("NUMANotAligned", report.message)
            raise Exit(
                ExitCode.NUMA_NOT_ALIGNED,
                "NUMANotAligned",
                report.message,
                numa={key: value for key, value in report.as_dict().items() if key != "message"},
            )

    async def _look_at_numa(self) -> NumaReport:
        report = await in_daemon_thread(self._observe_numa, "numa")
        if self._numa is None or self._numa["verdict"] != report.verdict:
            log.info("NUMA", extra={"verdict": report.verdict, "detail": report.message})
        self._numa = report.as_dict()
        return report

    async def _watch(self, engine: Engine) -> None:
        """Raises Exit when the engine is at its end."""
        next_numa = time.monotonic() + NUMA_LOOK_SECONDS
        while True:
            await asyncio.sleep(ENGINE_LOOK_SECONDS)
            state = engine.status().get("engine")
            if isinstance(state, dict) and state.get("failed"):
                raise Exit(ExitCode.ENGINE_FAILED, "EngineFailed", str(state["failed"]))
            if time.monotonic() >= next_numa:
                await self._look_at_numa()
                next_numa = time.monotonic() + NUMA_LOOK_SECONDS

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        """The first asks for a drain, the second ends it all at once."""
        if self._signalled:
            self._end(ExitCode.DRAINED, "Terminated", "A second signal cut the drain short.")
            os._exit(128 + number)
        self._signalled = True
        log.info("Told to stop", extra={"signal": number.name})
        self._lifecycle = self._lifecycle.draining()
        self._told_to_stop.set()

    async def _drain(self, api: Server) -> int:
        """Unready first, then refuse new requests, then wait for those that run."""
        settings, model = self._settings, self._model
        if model is None:
            return self._end_drain("Drained", "There was no model to drain.")
        started = time.monotonic()
        api.close_after_answers()
        await self._let_endpoints_go(started)
        self._lifecycle = self._lifecycle.refuse()
        model.engine.drain()
        api.close_idle()
        try:
            async with asyncio.timeout_at(started + settings.drain_delay + settings.drain_timeout):
                while self._metrics.in_flight or not model.engine.idle:  # noqa: ASYNC110
                    await asyncio.sleep(IDLE_LOOK_SECONDS)
        except TimeoutError:
            log.warning("The time for the drain is over", extra={"timeout": settings.drain_timeout})
        cut = self._metrics.in_flight
        await in_daemon_thread(lambda: model.engine.close(CLOSE_SECONDS + KEEP_SECONDS), "close")
        if not cut:
            return self._end_drain("Drained", "All requests were answered.")
        return self._end_drain(
            "DrainTimedOut",
            f"{cut} requests were cut off after {settings.drain_timeout:g} s (drainTimeout).",
        )

    async def _let_endpoints_go(self, started: float) -> None:
        """Proxies still send requests here until they hear that this pod is not ready."""
        while (  # noqa: ASYNC110
            seconds := seconds_to_refusal(
                time.monotonic(),
                started=started,
                last_arrival=self._metrics.last_arrival,
                delay=self._settings.drain_delay,
                timeout=self._settings.drain_timeout,
            )
        ) > 0:
            await asyncio.sleep(seconds)

    async def _compact(self, answer: Answer) -> str:
        if self._model is None:
            raise ActionFailed("No model is served, so there is no KV cache to compact.")
        try:
            return describe_cure(await self._model.engine.compact())
        except (NotServing, CureRefused) as error:
            raise ActionFailed(str(error)) from error

    async def _begin_restart(self, answer: Answer) -> str:
        """Never returns: the process ends, and the next one answers that it is done."""
        if self._told_to_stop.is_set():
            raise ActionFailed("The process is already stopping.")
        self._restart = RequestedRestart.of(answer, self.status(), datetime.now(UTC))
        self._lifecycle = self._lifecycle.draining("RestartRequested")
        self._told_to_stop.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    def _end_drain(self, reason: str, message: str) -> int:
        if self._restart is None:
            return self._end(ExitCode.DRAINED, reason, message)
        details = self._restart.details(datetime.now(UTC), self.status())
        return self._end(ExitCode.DRAINED, "RestartRequested", message, **details)

    def _end(self, code: ExitCode, reason: str, message: str, **details: object) -> int:
        write_termination_log(self._settings.termination_log, reason, message, **details)
        return code
