from __future__ import annotations

from typing import Any

from llama_operator.cache import Cache
from llama_operator.names import Key, Manifest
from tests.operator.objects import a_pod, a_resource

KEY = Key("default", "chat")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def a_cache() -> Cache:
    return Cache(Clock())


def versioned(manifest: Manifest, version: int, **metadata: Any) -> Manifest:
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "resourceVersion": str(version), **metadata},
    }


RESOURCE = a_resource()


def pod(version: int = 1, index: int = 0, **metadata: Any) -> Manifest:
    return versioned(a_pod(RESOURCE, index), version, **metadata)


def test_a_newer_object_replaces_an_older_one_and_never_the_other_way() -> None:
    cache = a_cache()

    assert cache.put(pod(5))
    assert not cache.put(pod(5))
    assert not cache.put(pod(4))
    assert cache.put(pod(10))

    (found,) = cache.owned("Pod", RESOURCE)
    assert found["metadata"]["resourceVersion"] == "10"


def test_an_object_that_is_gone_does_not_come_back() -> None:
    cache = a_cache()
    cache.put(pod(5))

    assert cache.drop(pod(8))
    assert not cache.put(pod(6))
    assert not cache.learn(pod(7))
    assert cache.owned("Pod", RESOURCE) == []


def test_an_object_that_only_left_the_selector_is_found_again() -> None:
    cache = a_cache()
    cache.put(pod(5))
    cache.drop(pod(8))

    assert cache.learn(pod(8))
    assert len(cache.owned("Pod", RESOURCE)) == 1


def test_what_the_api_server_does_not_know_is_gone_for_good() -> None:
    cache = a_cache()
    cache.put(pod(5))
    gone = pod()
    del gone["metadata"]["resourceVersion"]

    assert cache.drop(gone)
    assert not cache.put(pod(9))


def test_what_a_list_does_not_have_does_not_come_back_with_a_late_event() -> None:
    cache = a_cache()
    cache.put(pod(3))
    cache.compare("Pod", None, [], 8)

    assert not cache.put(pod(7))


def test_another_object_of_the_same_name_is_another() -> None:
    cache = a_cache()
    cache.put(pod(5, uid="old"))
    cache.put(pod(9, uid="new"))

    assert not cache.put(pod(8, uid="old"))
    assert not cache.drop(pod(8, uid="old"))

    (found,) = cache.owned("Pod", RESOURCE)
    assert found["metadata"]["uid"] == "new"


def test_only_what_this_very_resource_controls_is_owned() -> None:
    cache = a_cache()
    cache.put(pod(1, index=0))
    cache.put(pod(1, index=1, ownerReferences=[]))
    predecessor = {**pod()["metadata"]["ownerReferences"][0], "uid": "before"}
    cache.put(pod(1, index=2, ownerReferences=[predecessor]))

    assert [item["metadata"]["name"] for item in cache.owned("Pod", RESOURCE)] == ["chat-0"]


def test_a_pod_that_loses_its_owner_is_no_longer_owned() -> None:
    cache = a_cache()
    cache.put(pod(1))
    cache.put(pod(2, ownerReferences=[]))

    assert cache.owned("Pod", RESOURCE) == []


def test_resources_are_found_by_key() -> None:
    cache = a_cache()
    cache.put(RESOURCE)

    assert cache.resource(KEY) == RESOURCE
    assert cache.keys() == [KEY]
    cache.drop(RESOURCE)
    assert cache.resource(KEY) is None


def test_a_list_finds_what_the_watch_missed() -> None:
    cache = a_cache()
    cache.put(pod(3, index=0))
    cache.put(pod(4, index=1))

    news = cache.compare("Pod", None, [pod(4, index=1), pod(7, index=2)], 8)

    assert news == {KEY}
    assert [item["metadata"]["name"] for item in cache.owned("Pod", RESOURCE)] == [
        "chat-1",
        "chat-2",
    ]


def test_a_list_that_tells_nothing_new_is_no_news() -> None:
    cache = a_cache()
    cache.put(pod(3))

    assert cache.compare("Pod", None, [pod(3)], 8) == set()


def test_what_is_newer_than_the_list_stays() -> None:
    cache = a_cache()
    cache.put(pod(9))

    assert cache.compare("Pod", None, [], 8) == set()
    assert len(cache.owned("Pod", RESOURCE)) == 1


def test_a_list_of_one_namespace_says_nothing_about_others() -> None:
    cache = a_cache()
    cache.put(pod(3))

    assert cache.compare("Pod", "other", [], 8) == set()
    assert len(cache.owned("Pod", RESOURCE)) == 1


def test_the_watch_owes_what_a_request_told() -> None:
    clock = Clock()
    cache = Cache(clock)
    assert cache.lag() == 0

    cache.learn(pod(5))
    clock.now = 30
    assert cache.lag() == 30

    cache.put(pod(4))
    assert cache.lag() == 30
    cache.put(pod(5))
    assert cache.lag() == 0


def test_the_watch_owes_nothing_of_what_it_told_first_or_what_is_gone() -> None:
    clock = Clock()
    cache = Cache(clock)
    cache.put(pod(5))
    cache.learn(pod(5))
    clock.now = 30
    assert cache.lag() == 0

    cache.learn(pod(6))
    cache.drop(pod(7))
    clock.now = 60
    assert cache.lag() == 0


def test_everything_that_goes_is_told_once() -> None:
    gone: list[str] = []
    cache = Cache(Clock(), lambda manifest: gone.append(manifest["metadata"]["uid"]))
    cache.put(pod(1, uid="a"))
    cache.put(pod(2, uid="b"))
    assert gone == ["a"]

    cache.drop(pod(3, uid="b"))
    cache.drop(pod(3, uid="b"))
    assert gone == ["a", "b"]

    cache.put(pod(4, uid="c"))
    cache.compare("Pod", None, [], 9)
    assert gone == ["a", "b", "c"]
