"""Starts the operator: the watches of kopf, the controller, /healthz and /metrics."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import aiohttp
import kopf

from llama_operator.connection import NoCluster, connect
from llama_operator.controller import Controller
from llama_operator.handlers import build_registry, build_settings
from llama_operator.kube import LLAMA_DEPLOYMENT, ApiException, Kubernetes, message_of
from llama_operator.leadership import Leadership, NotLeading
from llama_operator.runtime_client import new_session
from llama_operator.settings import Settings, parse_settings
from llama_operator.web import health_app, metrics_app, serving

logger = logging.getLogger("llama_operator")


class CannotStart(Exception):
    """Something that the operator needs is not there; the message says what to do."""


async def run(settings: Settings, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Run until SIGTERM or SIGINT. `now` is the clock by which everything is decided.

    Raises CannotStart, NotLeading, and what ends a watch for good: whoever started the
    operator starts it again, and it goes on from what it finds.
    """
    try:
        connection = connect()
    except NoCluster as error:
        raise CannotStart(
            f"No cluster was found: {error}. Run in a pod or set KUBECONFIG."
        ) from error
    # kopf asks for the user's name otherwise, and a pod's user has none.
    instance = os.environ.setdefault("POD_ID", f"{socket.gethostname()}-{secrets.token_hex(4)}")
    stop = _stop_flag()
    async with connection, new_session() as session:
        leadership = None
        kubernetes = Kubernetes(connection)
        if settings.lease is not None:
            leadership = Leadership(kubernetes, settings.lease, instance, clock=_clock)
            kubernetes = Kubernetes(connection, leadership.seconds_left)
        controller = Controller(kubernetes, session, settings, instance=instance, now=now)

        def ready() -> bool:
            return controller.told or (leadership is not None and leadership.standby)

        def dead() -> str | None:
            return controller.freshness.dead() if controller.told else None

        async with (
            serving(health_app(controller.cache.lag, ready, dead), settings.health_port),
            serving(metrics_app(), settings.metrics_port),
        ):
            work = _work(controller, kubernetes, settings, stop)
            await (work if leadership is None else _lead(leadership, work, stop))


async def _lead(
    leadership: Leadership, work: Coroutine[Any, Any, None], stop: asyncio.Event
) -> None:
    """Do the work once this process leads, and as long as it does."""
    if not await _unless(stop, leadership.acquire()):
        work.close()
        return
    try:
        async with asyncio.TaskGroup() as tasks:
            hold = tasks.create_task(leadership.hold())
            await work
            hold.cancel()
    except ExceptionGroup as group:
        if (lost := group.subgroup(NotLeading)) is not None:
            raise lost.exceptions[0] from None
        raise
    finally:
        await leadership.release()


async def _unless(stop: asyncio.Event, wanted: Coroutine[Any, Any, None]) -> bool:
    """Wait for it; False when the flag was raised before."""
    flag, task = asyncio.create_task(stop.wait()), asyncio.create_task(wanted)
    await asyncio.wait((flag, task), return_when=asyncio.FIRST_COMPLETED)
    for left in (flag, task):
        left.cancel()
    await asyncio.gather(flag, task, return_exceptions=True)
    if task.cancelled():
        return False
    task.result()
    return True


async def _work(
    controller: Controller, kubernetes: Kubernetes, settings: Settings, stop: asyncio.Event
) -> None:
    await _check_crd(kubernetes)
    await _begin(controller)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(controller.run())
        try:
            await kopf.operator(
                registry=build_registry(controller),
                settings=build_settings(),
                standalone=True,
                clusterwide=not settings.namespaces,
                namespaces=settings.namespaces,
                stop_flag=stop,
            )
        finally:
            work.cancel()


def _stop_flag() -> asyncio.Event:
    """Raised by SIGTERM and SIGINT until kopf listens for them itself: they do nothing by
    themselves to the first process of a container."""
    flag = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, flag.set)
    return flag


def _clock() -> float:
    """Seconds that never go back and go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def _begin(controller: Controller) -> None:
    try:
        await controller.begin()
    except ApiException as error:
        raise CannotStart(
            f"The API server does not let the operator list what it owns: {message_of(error)}. "
            "Grant the rights in docs/operator.md."
        ) from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CannotStart(f"The API server does not answer: {error}. Look at it.") from error


async def _check_crd(kubernetes: Kubernetes) -> None:
    try:
        served = await kubernetes.serves(LLAMA_DEPLOYMENT)
    except ApiException as error:
        raise CannotStart(f"The API server answers: {message_of(error)}. Look at it.") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CannotStart(f"The API server does not answer: {error}. Look at it.") from error
    if not served:
        raise CannotStart(
            f"The API server does not know {LLAMA_DEPLOYMENT.plural}: "
            "apply the CRD of this version (kubectl apply --server-side -f crds/)."
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """The program. 0 after SIGTERM, 1 when it cannot start or go on, 2 for a bad flag."""
    settings = parse_settings(arguments)
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    try:
        asyncio.run(run(settings))
    except (CannotStart, NotLeading) as error:
        logger.error("%s", error)
        return 1
    except Exception:
        logger.exception("The operator cannot go on; whoever started it should start it again.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
