from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.engine.neighbours import best_id, groups, moves

COUNT = 24
ids = st.sets(st.integers(0, COUNT - 1), min_size=1)


@given(ids)
def test_groups_are_the_micro_batches_of_llama_cpp(running: set[int]) -> None:
    """split_equal accepts a sequence when its id is the last one's plus one."""
    micro_batches, last = 0, -2
    for one in sorted(running):
        micro_batches += one != last + 1
        last = one
    assert groups(running) == micro_batches


@given(ids, st.data())
def test_a_new_sequence_gets_the_id_that_leaves_the_fewest_groups(
    available: set[int], data: st.DataObject
) -> None:
    running = data.draw(st.sets(st.integers(0, COUNT - 1).filter(lambda one: one not in available)))
    chosen = best_id(available, running)
    assert chosen in available
    fewest = min(groups({*running, one}) for one in available)
    assert groups({*running, chosen}) == fewest
    assert chosen == min(one for one in available if groups({*running, one}) == fewest)


@given(ids)
def test_after_the_moves_there_is_one_group_and_nobody_was_run_over(running: set[int]) -> None:
    now = set(running)
    for origin, target in moves(running, COUNT):
        assert origin in running
        assert target not in now
        now = (now - {origin}) | {target}
        assert 0 <= target < COUNT
    assert groups(now) == 1
    assert len(now) == len(running)


@given(ids)
def test_no_other_place_takes_fewer_moves(running: set[int]) -> None:
    fewest = min(
        len(running - set(range(start, start + len(running))))
        for start in range(COUNT - len(running) + 1)
    )
    assert len(moves(running, COUNT)) == fewest
