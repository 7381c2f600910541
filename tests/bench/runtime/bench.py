"""The run that all scenarios share: models, rounds, and servers that take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.bench.runtime.machine import watch
from tests.bench.runtime.servers import Peer, Server, Size, serving

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured, how often, and how disturbed it was."""

    models: Mapping[str, Path]
    """By quantization."""
    rounds: int
    quick: bool
    say: Callable[[str], None]
    size: Size = field(default_factory=Size)
    disturbances: list[float] = field(default_factory=list)

    def take_turns(
        self,
        peers: Sequence[Peer],
        quantization: str,
        measure: Callable[[Server, str], Result],
        rounds: int | None = None,
    ) -> dict[str, list[Result]]:
        """Measure a fresh server of each peer in each round; the results by peer.

        The peers take turns within a round, and each round begins with another one.
        ``measure`` also gets a seed that is the same for all peers of a round.
        """
        results: dict[str, list[Result]] = {peer.name: [] for peer in peers}
        for index in range(rounds or self.rounds):
            first = index % len(peers)
            for peer in [*peers[first:], *peers[:first]]:
                with (
                    serving(peer, self.models[quantization], self.size) as server,
                    watch(server.process.pid) as disturbance,
                ):
                    results[peer.name].append(measure(server, f"round {index}"))
                self.disturbances.append(disturbance.share)
                self.say(
                    f"  round {index + 1}, {quantization}, {peer.name}: others used "
                    f"{disturbance.share:.0%} of the CPUs"
                )
        return results
