"""Who is next, and who takes more than a fair share: between clients, not requests.

A client has two names, (who, user): ``who`` is the API key or the address, which a client
can't choose, ``user`` the OpenAI field of that name, which it can. Everything is shared
between the first names first, and within each between its users: who invents users only
divides what is its own (docs/adr/0011-fair-to-clients.md).

The next request is one of the client that was served least, after "Fairness in Serving
Large Language Models" (Sheng and others, OSDI 2024): a client that comes back starts level
with the least served one that is there, so nobody saves up a claim and nobody starves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from llama_runtime.generation import Client

_SEEN_SECONDS = 5.0
_OUTPUT_WEIGHT = 2  # a generated token over one of a prompt, as in the paper

Level = tuple[str, ...]


class Ledger:
    """Tokens served to each client that is there."""

    def __init__(self) -> None:
        self._served: dict[Level, float] = {}
        self._present: frozenset[Client] = frozenset()
        self._seen: dict[Client, float] = {}

    def look(self, present: Iterable[Client], now: float) -> None:
        """``present`` have requests that run or wait, at ``now`` seconds."""
        here = frozenset(present)
        self._seen.update(dict.fromkeys(here, now))
        if here == self._present:
            return
        self._seen = {one: at for one, at in self._seen.items() if now - at < _SEEN_SECONDS}
        self._level({one[:1] for one in here}, {one[:1] for one in self._present})
        for who in {one[0] for one in here}:
            self._level(
                {one for one in here if one[0] == who},
                {one for one in self._present if one[0] == who},
            )
        # Who left is forgotten as soon as it would come back to the same place.
        levels = {level for one in here for level in (one[:1], one)}
        floor = min((self._served[level] for level in levels), default=None)
        self._served = {
            level: served
            for level, served in self._served.items()
            if level in levels or (floor is not None and served > floor)
        }
        self._present = here

    def _level(self, here: Collection[Level], before: Collection[Level]) -> None:
        stayed = [self._served[level] for level in here if level in before]
        floor = min(stayed, default=0.0)
        for level in here:
            if level not in before:
                self._served[level] = max(self._served.get(level, 0.0), floor)

    def charge(self, client: Client, prompt: int = 0, generated: int = 0) -> None:
        """Tokens were promised or served to a client; negative ones are given back."""
        for level in (client[:1], client):
            self._served[level] = self._served.get(level, 0.0) + prompt + _OUTPUT_WEIGHT * generated

    def order(self, client: Client) -> tuple[float, float]:
        """Sorts clients: the next one first."""
        return self._served.get(client[:1], 0.0), self._served.get(client, 0.0)

    def active(self, now: float) -> frozenset[Client]:
        """Clients that had a request within the last seconds."""
        return frozenset(one for one, at in self._seen.items() if now - at < _SEEN_SECONDS)


def over_share(
    in_flight: Mapping[Client, int], active: Collection[Client], sequences: int
) -> frozenset[Client]:
    """Clients with more requests that run or wait than their part of the sequences.

    One request is nobody's excess, however many clients there are.
    """
    names = {client[0] for client in active}
    by_name = _by_name(in_flight)

    def exceeds(count: int, parts: int) -> bool:
        return parts > 1 and count > max(sequences / parts, 1)

    return frozenset(
        client
        for client, count in in_flight.items()
        if exceeds(count, len(active)) or exceeds(by_name[client[0]], len(names))
    )


def evens_out(giver: Client, taker: Client, running: Mapping[Client, int]) -> bool:
    """Whether a sequence that goes from one client to the other makes their shares more even."""
    if giver[0] == taker[0]:
        return running.get(giver, 0) > running.get(taker, 0) + 1
    by_name = _by_name(running)
    return by_name[giver[0]] > by_name[taker[0]] + 1


def may_wait(client: Client, waiting: Mapping[Client, int], limit: int, free: int) -> bool:
    """Whether one more request of the client may wait; ``free`` will start at once.

    A full queue still takes those of a client that has less than its part of it, so that
    nobody can lock others out. With N clients it gets about ln N times too long at most.
    """
    if sum(waiting.values()) < limit + free:
        return True
    by_name, by_client = _by_name(waiting), Counter(waiting)
    by_name[client[0]] += 1
    by_client[client] += 1

    def is_within(count: int, parts: int) -> bool:
        return parts > 1 and count * parts <= limit

    return is_within(by_name[client[0]], len(+by_name)) or is_within(
        by_client[client], len(+by_client)
    )


def _by_name(counts: Mapping[Client, int]) -> Counter[str]:
    summed = Counter[str]()
    for client, count in counts.items():
        summed[client[0]] += count
    return summed
