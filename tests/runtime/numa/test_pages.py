from __future__ import annotations

import mmap
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from llama_runtime.numa.pages import code_files, count_pages, read_pages, unescape
from tests.runtime.numa.conftest import patient

MAPS = """\
55d000000000-55d000001000 r--p 00000000 08:01 11 /usr/bin/python3.11
55d000001000-55d000002000 r-xp 00001000 08:01 11 /usr/bin/python3.11
7f0000000000-7f0000100000 r--s 00000000 08:01 12 /models/my claim/m.gguf
7f0000200000-7f0000300000 r-xp 00000000 08:01 13 /lib/libllama.so
7f0000300000-7f0000301000 rw-p 00100000 08:01 13 /lib/libllama.so
7f0000400000-7f0000500000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
7ffd000fe000-7ffd00100000 r-xp 00000000 00:00 0 [vdso]
"""

NUMA_MAPS = """\
55d000000000 default file=/usr/bin/python3.11 mapped=1 N0=1 kernelpagesize_kB=4
55d000001000 default file=/usr/bin/python3.11 mapped=1 mapmax=9 N0=1 kernelpagesize_kB=4
7f0000000000 default file=/models/my\\040claim/m.gguf mapped=256 N0=200 N1=56 kernelpagesize_kB=4
7f0000200000 default file=/lib/libllama.so mapped=256 N0=256 kernelpagesize_kB=4
7f0000300000 default file=/lib/libllama.so anon=1 dirty=1 N1=1 kernelpagesize_kB=4
7f0000400000 prefer:1 anon=100 dirty=100 N1=100 kernelpagesize_kB=4
7f0000600000 default heap anon=10 dirty=10 N0=2 N1=8 kernelpagesize_kB=4
7f0040000000 bind:1 file=/anon_hugepage\\040(deleted) huge dirty=3 N1=3 kernelpagesize_kB=2048
7ffd00000000 default stack anon=5 dirty=5 N1=5 kernelpagesize_kB=4
7ffd000fe000 default
"""


def test_programs_and_libraries_are_the_files_mapped_executable() -> None:
    assert code_files(MAPS.splitlines()) == {"/usr/bin/python3.11", "/lib/libllama.so", "[vdso]"}


def test_counts_anonymous_memory_and_data_files_by_node() -> None:
    pages = count_pages(NUMA_MAPS.splitlines(), code_files(MAPS.splitlines()))
    assert pages == {0: 4 * (200 + 2), 1: 4 * (56 + 100 + 8 + 5) + 2048 * 3}


def test_libraries_on_another_node_do_not_count() -> None:
    remote = NUMA_MAPS.replace("N0=256", "N0=999999")
    code = code_files(MAPS.splitlines())
    assert count_pages(remote.splitlines(), code) == count_pages(NUMA_MAPS.splitlines(), code)


def test_a_library_in_a_folder_with_a_blank_is_still_a_library() -> None:
    code = code_files(["7f00-7f10 r-xp 00000000 08:01 13 /opt/my libs/libllama.so"])
    line = "7f00 default file=/opt/my\\040libs/libllama.so mapped=9 N0=9 kernelpagesize_kB=4"
    assert count_pages([line], code) == {}


def test_blanks_in_a_path_are_escaped_by_the_kernel() -> None:
    assert unescape("/models/a\\040b\\134c") == "/models/a b\\c"


@patient
@given(st.dictionaries(st.integers(0, 63), st.integers(1, 10**9), min_size=1))
def test_every_page_is_counted_once(pages: dict[int, int]) -> None:
    counts = " ".join(f"N{node}={number}" for node, number in pages.items())
    line = f"7f0000400000 default anon=1 dirty=1 active=0 {counts} kernelpagesize_kB=4"
    assert count_pages([line, "7f0 default"], frozenset()) == {
        node: 4 * number for node, number in pages.items()
    }


def test_a_kernel_without_numa_maps_is_unknown(tmp_path: Path) -> None:
    assert read_pages(tmp_path) is None


def test_memory_that_this_process_touches_shows_up() -> None:
    before = sum((read_pages() or {}).values())
    size = 64 << 20
    with mmap.mmap(-1, size) as memory:
        memory.write(bytes(size))
        after = sum((read_pages() or {}).values())
    assert after - before >= 64 << 10


def test_a_mapped_data_file_shows_up(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(bytes(32 << 20))
    before = sum((read_pages() or {}).values())
    with file.open("rb") as data, mmap.mmap(data.fileno(), 0, prot=mmap.PROT_READ) as memory:
        assert sum(memory[:: mmap.PAGESIZE]) == 0
        after = sum((read_pages() or {}).values())
    assert after - before >= 32 << 10
