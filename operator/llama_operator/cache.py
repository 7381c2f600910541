"""What the watches told, and what the operator's own requests told since.

Objects are replaced by newer ones only: an answer to our own write is known before the
watch tells of it, and a late event must not undo it. Resource versions of one kind can be
compared as numbers (KEP-5504).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from math import inf

from llama_operator.api import KIND
from llama_operator.compact import compact
from llama_operator.names import Key, Manifest

REMEMBERED_DELETIONS = 10_000

ObjectId = tuple[str, str, str]
"""Kind, namespace and name."""


def object_id(manifest: Manifest) -> ObjectId:
    """What tells the object from every other that exists."""
    metadata = manifest["metadata"]
    return manifest["kind"], metadata["namespace"], metadata["name"]


def owner_key(manifest: Manifest) -> Key | None:
    """The LlamaDeployment that the object is or that controls it."""
    metadata = manifest["metadata"]
    if manifest["kind"] == KIND:
        return Key(metadata["namespace"], metadata["name"])
    owner = controller(manifest)
    if owner is None or owner.get("kind") != KIND:
        return None
    return Key(metadata["namespace"], owner["name"])


def controller(manifest: Manifest) -> Manifest | None:
    """The owner reference that controls the object."""
    for owner in manifest["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            found: Manifest = owner
            return found
    return None


def version(manifest: Manifest) -> int:
    """The resource version as a number; 0 when it is none."""
    text = manifest["metadata"].get("resourceVersion", "")
    return int(text) if text.isdigit() else 0


class Cache:
    """The newest known state of every LlamaDeployment and of what they own."""

    def __init__(
        self, clock: Callable[[], float], gone: Callable[[Manifest], None] = lambda manifest: None
    ) -> None:
        """`clock` gives seconds that never go back; `gone` hears of every object that is gone."""
        self._clock = clock
        self._tell_gone = gone
        self._objects: dict[ObjectId, Manifest] = {}
        self._owned: dict[Key, set[ObjectId]] = {}
        self._gone: OrderedDict[str, float] = OrderedDict()
        self._awaited: dict[str, tuple[int, float]] = {}

    def put(self, manifest: Manifest) -> bool:
        """Take an object that the watch told of; whether it is news."""
        self._arrived(manifest)
        return self._take(manifest)

    def learn(self, manifest: Manifest) -> bool:
        """Take an object that a request told of; the watch has to tell of it too. Is it news?"""
        if not self._take(manifest):
            return False
        self._awaited.setdefault(manifest["metadata"]["uid"], (version(manifest), self._clock()))
        return True

    def drop(self, manifest: Manifest, *, at: int | None = None) -> bool:
        """The object is gone; whether that is news. Another of the same name stays.

        `at` is the version at which it was gone, by default its own. A watch also tells this
        of an object that its selector does not select any more: it may be found again, then
        at this version or a newer one. An object without a version is gone for good.
        """
        uid = manifest["metadata"]["uid"]
        self._awaited.pop(uid, None)
        self._gone[uid] = at or version(manifest) or inf
        while len(self._gone) > REMEMBERED_DELETIONS:
            self._gone.popitem(last=False)
        found = self._objects.get(object_id(manifest))
        if found is None or found["metadata"]["uid"] != uid:
            return False
        self._forget(found)
        self._tell_gone(found)
        return True

    def resource(self, key: Key) -> Manifest | None:
        """The LlamaDeployment."""
        return self._objects.get((KIND, key.namespace, key.name))

    def keys(self) -> list[Key]:
        """Every LlamaDeployment."""
        return [Key(namespace, name) for kind, namespace, name in self._objects if kind == KIND]

    def owned(self, kind: str, resource: Manifest) -> list[Manifest]:
        """The objects of a kind that this very resource controls, in order of the name."""
        metadata = resource["metadata"]
        ids = self._owned.get(Key(metadata["namespace"], metadata["name"]), set())
        found = (self._objects[item] for item in sorted(ids) if item[0] == kind)
        return [
            manifest
            for manifest in found
            if (owner := controller(manifest)) is not None and owner["uid"] == metadata["uid"]
        ]

    def objects(self, kind: str) -> list[Manifest]:
        """Every object of a kind."""
        return [manifest for item, manifest in self._objects.items() if item[0] == kind]

    def compare(
        self, kind: str, namespace: str | None, listed: Iterable[Manifest], listed_at: int
    ) -> set[Key]:
        """Take a full list and the version it was made at; the keys for which that was news."""
        comparison = self.comparison(kind, namespace)
        return comparison.take(listed) | comparison.end(listed_at)

    def comparison(self, kind: str, namespace: str | None) -> Comparison:
        """Begin to take a full list that comes in pages."""
        return Comparison(self, kind, namespace)

    def lag(self) -> float:
        """Seconds for which the watch has owed the oldest change that it has not told; else 0."""
        oldest = min((since for _, since in self._awaited.values()), default=None)
        return 0.0 if oldest is None else self._clock() - oldest

    def _arrived(self, manifest: Manifest) -> None:
        uid = manifest["metadata"]["uid"]
        awaited = self._awaited.get(uid)
        if awaited is not None and version(manifest) >= awaited[0]:
            del self._awaited[uid]

    def _take(self, manifest: Manifest) -> bool:
        metadata = manifest["metadata"]
        if version(manifest) < self._gone.get(metadata["uid"], 0):
            return False
        self._gone.pop(metadata["uid"], None)
        found = self._objects.get(object_id(manifest))
        if found is not None:
            if version(found) >= version(manifest):
                return False
            self._forget(found)
            if found["metadata"]["uid"] != metadata["uid"]:
                self._tell_gone(found)
        self._objects[object_id(manifest)] = compact(manifest)
        if (key := owner_key(manifest)) is not None:
            self._owned.setdefault(key, set()).add(object_id(manifest))
        return True

    def _forget(self, manifest: Manifest) -> None:
        item = object_id(manifest)
        self._objects.pop(item, None)
        key = owner_key(manifest)
        if key is not None and (ids := self._owned.get(key)) is not None:
            ids.discard(item)
            if not ids:
                del self._owned[key]


class Comparison:
    """A full list against what the cache had when it began.

    What the cache has and the list has not is gone, unless it is newer than the list.
    """

    def __init__(self, cache: Cache, kind: str, namespace: str | None) -> None:
        self._cache = cache
        self._missing = {
            manifest["metadata"]["uid"]: manifest
            for manifest in cache.objects(kind)
            if namespace in (None, manifest["metadata"]["namespace"])
        }

    def take(self, page: Iterable[Manifest]) -> set[Key]:
        """Take a part of the list; the keys for which that was news."""
        news = set()
        for manifest in page:
            self._missing.pop(manifest["metadata"]["uid"], None)
            if self._cache.learn(manifest):
                news.add(owner_key(manifest))
        return {key for key in news if key is not None}

    def end(self, listed_at: int) -> set[Key]:
        """That was all, as it was at this version; the keys for which an absence was news."""
        news = set()
        for manifest in self._missing.values():
            if version(manifest) <= listed_at and self._cache.drop(manifest, at=listed_at + 1):
                news.add(owner_key(manifest))
        return {key for key in news if key is not None}
