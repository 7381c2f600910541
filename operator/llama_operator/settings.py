"""The operator's flags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from llama_operator.api import KIND
from llama_operator.names import Key


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator is started with."""

    runtime_image: str
    """Image of the pods whose resource names none."""

    namespaces: tuple[str, ...]
    """The namespaces to serve; all of them when empty."""

    lease: Key | None
    """The Lease by which one of several operators acts; without one it acts at once."""

    resync_seconds: float
    """Time between two full lists."""

    workers: int
    """Resources that are looked at at the same time."""

    max_concurrent_restarts: int
    """LlamaDeployments of which a pod may be restarted at the same time."""

    health_port: int
    metrics_port: int
    log_level: str


def parse_settings(arguments: Sequence[str] | None = None) -> Settings:
    """The settings in the arguments, by default those of the command line.

    A bad flag ends the process with status 2 and a sentence.
    """
    parser = argparse.ArgumentParser(
        prog="llama-operator",
        description=f"Turns {KIND} resources into pods that serve llama.cpp.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--runtime-image",
        required=True,
        metavar="IMAGE",
        help="image of the pods whose resource names none",
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        dest="namespaces",
        metavar="NAME",
        help="a namespace to serve, can be given more than once; default: all",
    )
    parser.add_argument(
        "--lease",
        type=_key,
        metavar="NAMESPACE/NAME",
        help="Lease by which one of several operators acts; default: none, it acts at once",
    )
    parser.add_argument(
        "--resync-seconds",
        type=_positive,
        default=600.0,
        metavar="SECONDS",
        help="time between two full lists; default: %(default)g",
    )
    parser.add_argument(
        "--workers",
        type=int,
        choices=range(1, 129),
        default=16,
        metavar="N",
        help="resources that are looked at at the same time, 1 to 128; default: %(default)s",
    )
    parser.add_argument(
        "--max-concurrent-restarts",
        type=int,
        choices=range(1, 1001),
        default=1,
        metavar="N",
        help="LlamaDeployments of which a pod may be restarted at the same time, 1 to 1000; "
        "default: %(default)s",
    )
    parser.add_argument("--health-port", type=_port, default=8080, metavar="PORT")
    parser.add_argument("--metrics-port", type=_port, default=9090, metavar="PORT")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info"
    )
    found = parser.parse_args(arguments)
    return Settings(
        runtime_image=found.runtime_image,
        namespaces=tuple(dict.fromkeys(found.namespaces)),
        lease=found.lease,
        resync_seconds=found.resync_seconds,
        workers=found.workers,
        max_concurrent_restarts=found.max_concurrent_restarts,
        health_port=found.health_port,
        metrics_port=found.metrics_port,
        log_level=found.log_level,
    )


def _key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text} is not NAMESPACE/NAME")
    return Key(namespace, name)


def _positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 (any) to 65535")
    return number
