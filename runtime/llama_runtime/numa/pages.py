"""On which NUMA nodes this process's memory lies (proc(5), /proc/PID/numa_maps)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

NODE_PAGES = re.compile(r" N(\d+)=(\d+)")
PAGE_SIZE = re.compile(r" kernelpagesize_kB=(\d+)")
FILE = re.compile(r" file=(\S+)")


def read_pages(root: Path = Path("/")) -> dict[int, int] | None:
    """Node to KiB of the pages that count, None when the kernel has no numa_maps.

    What counts is what llama.cpp reads and writes while it decodes: anonymous memory
    (heap, stacks, the KV cache, a model loaded without mmap) and mapped files that hold
    data (a model loaded with mmap). Programs and shared libraries don't count: their
    pages are shared with every process of the node that has the image, lie where the
    first of them put them, and nothing a pod does can move them.

    Walks the page tables: about 15 ms for each GiB of 4-KiB pages.
    """
    try:
        code = code_files((root / "proc/self/maps").read_text(errors="surrogateescape").split("\n"))
        numa_maps = (root / "proc/self/numa_maps").read_text(errors="surrogateescape")
    except OSError:
        return None
    return count_pages(numa_maps.split("\n"), code)


def code_files(maps: Iterable[str]) -> frozenset[str]:
    """Files of which some part is mapped executable, from the lines of /proc/PID/maps."""
    fields = (line.split(maxsplit=5) for line in maps)
    return frozenset(part[5] for part in fields if len(part) == 6 and "x" in part[1])


def count_pages(numa_maps: Iterable[str], code: frozenset[str]) -> dict[int, int]:
    kib: dict[int, int] = {}
    for line in numa_maps:
        file = FILE.search(line)
        if file and unescape(file[1]) in code:
            continue
        size = PAGE_SIZE.search(line)
        for node, pages in NODE_PAGES.findall(line):
            kib[int(node)] = kib.get(int(node), 0) + int(pages) * int(size[1] if size else 4)
    return kib


def unescape(path: str) -> str:
    """numa_maps writes a blank as ``\\040``; maps leaves it as it is."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
