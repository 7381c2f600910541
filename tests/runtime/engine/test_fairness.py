from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.engine.context import Context
from llama_runtime.engine.fairness import Ledger, evens_out, may_wait, over_share
from llama_runtime.engine.step_plan import plan_step
from llama_runtime.generation import Client, Finished
from tests.runtime.engine.driver import Drive, both_layouts, prompt

FLOOD, POLITE, OTHER = ("flood", ""), ("polite", ""), ("other", "")

clients: st.SearchStrategy[Client] = st.tuples(st.sampled_from("abc"), st.sampled_from("uvw"))
counts = st.dictionaries(clients, st.integers(1, 40), max_size=9)


@given(st.lists(st.tuples(clients, st.integers(1, 500)), min_size=1, max_size=80))
def test_nobody_who_waits_falls_behind_by_more_than_one_request(
    requests: list[tuple[Client, int]],
) -> None:
    """While all wait, what two names were served differs by one request at most."""
    waiting = list(requests)
    ledger = Ledger()
    ledger.look([client for client, _ in waiting], 0.0)
    served = Counter[str]()
    largest = max(size for _, size in requests)
    while {client[0] for client, _ in waiting} == {client[0] for client, _ in requests}:
        request = min(waiting, key=lambda one: ledger.order(one[0]))
        waiting.remove(request)
        ledger.charge(request[0], prompt=request[1])
        served[request[0][0]] += request[1]
        names = {client[0] for client, _ in waiting}
        if len(names) > 1:
            amounts = [served[name] for name in names]
            assert max(amounts) - min(amounts) <= largest


def test_who_comes_back_starts_level_with_the_least_served() -> None:
    ledger = Ledger()
    ledger.look([FLOOD, OTHER], 0.0)
    ledger.charge(FLOOD, prompt=1000)
    ledger.charge(OTHER, generated=200)
    ledger.look([FLOOD, OTHER, POLITE], 1.0)
    assert ledger.order(POLITE)[0] == ledger.order(OTHER)[0] == 400
    # Leaving and coming back gains nothing.
    ledger.look([OTHER, POLITE], 2.0)
    ledger.look([FLOOD, OTHER, POLITE], 3.0)
    assert ledger.order(FLOOD)[0] == 1000
    assert ledger.active(3.0) == {FLOOD, OTHER, POLITE}
    ledger.look([OTHER], 9.0)
    assert ledger.active(9.0) == {OTHER}


@given(counts, st.integers(1, 64))
def test_no_single_request_and_nobody_alone_is_too_much(
    in_flight: dict[Client, int], sequences: int
) -> None:
    crowders = over_share(in_flight, set(in_flight), sequences)
    by_name = Counter[str]()
    for client, count in in_flight.items():
        by_name[client[0]] += count
    for client, count in in_flight.items():
        if len(in_flight) == 1 or (count == 1 and by_name[client[0]] == 1):
            assert client not in crowders
        elif count > sequences:
            assert client in crowders


@given(counts, clients, st.integers(0, 64))
def test_a_queue_can_not_be_locked(waiting: dict[Client, int], client: Client, limit: int) -> None:
    total = sum(waiting.values())
    taken = may_wait(client, waiting, limit, 0)
    if total < limit:
        assert taken
    elif client[0] not in {name for name, _ in waiting}:
        assert taken == (len({name for name, _ in waiting}) + 1 <= limit and bool(waiting))
    if set(waiting) <= {client}:
        assert taken == (total < limit)


def test_inventing_users_takes_nothing_from_others() -> None:
    waiting: dict[Client, int] = {}
    for index in range(10_000):
        forged = ("flood", f"user-{index}")
        if may_wait(forged, waiting, 64, 0):
            waiting[forged] = 1
    assert sum(waiting.values()) == 64
    assert may_wait(POLITE, waiting, 64, 0)
    running = {("flood", "a"): 1, ("flood", "b"): 1, ("flood", "c"): 1}
    assert evens_out(("flood", "a"), POLITE, running)
    assert not evens_out(("flood", "a"), ("flood", "d"), running)


@both_layouts
def test_clients_take_turns_and_each_keeps_its_order(drive: Drive, layout: str) -> None:
    driver = drive(kv_layout=layout, kv_max_sequences=1, kv_total_context=None)
    flood = [driver.submit(prompt(seed, 30), 4, client=FLOOD) for seed in range(5)]
    polite = [driver.submit(prompt(seed, 30), 4, client=POLITE) for seed in range(10, 12)]
    driver.run()
    order = sorted(
        [*flood, *polite], key=lambda request: (request.admitted or 0, request.ended or 0)
    )
    assert order == [flood[0], polite[0], flood[1], polite[1], *flood[2:]]


@both_layouts
def test_a_client_with_every_sequence_gives_one_back_before_it_has_answered(
    drive: Drive, layout: str
) -> None:
    driver = drive(kv_layout=layout)
    alone = drive(kv_layout=layout)
    flood = [driver.submit(prompt(seed, 150), 20, client=FLOOD) for seed in range(6)]
    driver.scheduler.step()
    assert len(driver.scheduler.running) == 4
    polite = driver.submit(prompt(9, 20), 5, client=POLITE)
    driver.scheduler.step()
    assert polite.admitted is not None
    assert driver.scheduler.counters.postponed == 1
    driver.check()
    # Its own second request waits: more would not be fair.
    driver.submit(prompt(10, 20), 5, client=FLOOD)
    driver.scheduler.step()
    assert driver.scheduler.counters.postponed == 1
    driver.run()
    assert isinstance(driver.end(polite), Finished)
    for seed, request in enumerate(flood):
        single = alone.submit(prompt(seed, 150), 20, cache_prompt=False)
        alone.run()
        assert driver.tokens(request) == alone.tokens(single)


def test_a_stream_that_has_begun_is_not_interrupted(drive: Drive) -> None:
    driver = drive()
    flood = [driver.submit(prompt(seed, 5), 30, client=FLOOD) for seed in range(4)]
    driver.scheduler.step()
    polite = driver.submit(prompt(9, 5), 5, client=POLITE)
    driver.run()
    assert driver.scheduler.counters.postponed == 0
    assert all(len(driver.tokens(request)) == 30 for request in flood)
    assert len(driver.tokens(polite)) == 5


def test_a_crowding_client_adds_little_to_a_step(drive: Drive) -> None:
    seen: list[dict[Client, int]] = []

    class Watching(Context):
        def decode(self, rows):  # type: ignore[no-untyped-def]
            by_id = {one.id: one.client for one in driver.scheduler.running}
            counts = Counter[Client]()
            for row in rows:
                counts[by_id[row.sequence]] += len(row.tokens)
            seen.append(dict(counts))
            return super().decode(rows)

    driver = drive(Watching, kv_max_sequences=6)
    driver.scheduler.counters.prompt_speed = 400.0
    for seed in range(5):
        driver.submit(prompt(seed, 200), 1, client=FLOOD)
    driver.scheduler.step()
    # Alone it takes the whole batch, beside others a twentieth of a second.
    assert seen[0] == {FLOOD: 64}
    driver.submit(prompt(9, 40), 3, client=POLITE)
    driver.scheduler.counters.prompt_speed = 400.0
    driver.scheduler.step()
    assert seen[1] == {FLOOD: 20, POLITE: 40}
    driver.run()


def test_even_parts_of_half_a_batch_and_the_shortest_first(drive: Drive) -> None:
    driver = drive(kv_max_sequences=4)
    for seed in range(3):
        driver.submit(prompt(seed, 200), 1, client=FLOOD)
    driver.submit(prompt(3, 100), 1, client=OTHER)
    driver.scheduler._admit()
    plan = plan_step(driver.scheduler.running, 64, 4)
    counts = {sequence.client: 0 for sequence, _ in plan}
    for sequence, row in plan:
        counts[sequence.client] += len(row.tokens)
    assert counts == {FLOOD: 16, OTHER: 48}
