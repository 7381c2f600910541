"""The base made by debootstrap: what it takes from this machine's apt."""

from __future__ import annotations

import pytest

import base

LISTED = """\
http://mirror.example/debian bookworm main
http://mirror.example/debian bookworm main
http://mirror.example/debian bookworm-updates main
http://mirror.example/debian-security bookworm-security main
https://other.example/node nodistro main
https://other.example/apt tools-bookworm main
"""


def test_only_the_releases_own_sources_count() -> None:
    debian = base.parse("bookworm", LISTED)
    assert debian.mirror == "http://mirror.example/debian"
    assert debian.sources_list == (
        "deb http://mirror.example/debian bookworm main\n"
        "deb http://mirror.example/debian bookworm-updates main\n"
        "deb http://mirror.example/debian-security bookworm-security main\n"
    )


def test_the_key_follows_the_sources() -> None:
    other = LISTED.replace("mirror.example", "elsewhere.example")
    assert base.parse("bookworm", LISTED).key == base.parse("bookworm", LISTED).key
    assert base.parse("bookworm", LISTED).key != base.parse("bookworm", other).key


def test_a_release_without_a_source_is_refused() -> None:
    with pytest.raises(SystemExit, match="BASE="):
        base.parse("trixie", LISTED)
