"""Starts the operator: the watches of kopf, the controller, /healthz and /metrics."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import aiohttp
import kopf

from llama_operator.connection import NoCluster, connect
from llama_operator.controller import Controller
from llama_operator.handlers import build_registry, build_settings
from llama_operator.kube import LLAMA_DEPLOYMENT, ApiException, Kubernetes, message_of
from llama_operator.runtime_client import new_session
from llama_operator.settings import Settings, parse_settings
from llama_operator.web import health_app, metrics_app, serving

logger = logging.getLogger("llama_operator")


class CannotStart(Exception):
    """Something that the operator needs is not there; the message says what to do."""


async def run(settings: Settings, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Run until SIGTERM or SIGINT. `now` is the clock by which everything is decided.

    Raises CannotStart, and what ends a watch for good: whoever started the operator starts
    it again, and it goes on from what it finds.
    """
    try:
        connection = connect()
    except NoCluster as error:
        raise CannotStart(
            f"No cluster was found: {error}. Run in a pod or set KUBECONFIG."
        ) from error
    async with connection, new_session() as session:
        kubernetes = Kubernetes(connection)
        await _check_crd(kubernetes)
        # kopf asks for the user's name otherwise, and a pod's user has none.
        instance = os.environ.setdefault("POD_ID", socket.gethostname())
        controller = Controller(kubernetes, session, settings, instance=instance, now=now)
        await _begin(controller)
        async with (
            serving(
                health_app(controller.cache.lag, lambda: controller.told), settings.health_port
            ),
            serving(metrics_app(), settings.metrics_port),
            asyncio.TaskGroup() as group,
        ):
            work = group.create_task(controller.run())
            try:
                await kopf.operator(
                    registry=build_registry(controller),
                    settings=build_settings(),
                    standalone=True,
                    clusterwide=not settings.namespaces,
                    namespaces=settings.namespaces,
                )
            finally:
                work.cancel()


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
    except CannotStart as error:
        logger.error("%s", error)
        return 1
    except Exception:
        logger.exception("The operator cannot go on; whoever started it should start it again.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
