#!/usr/bin/env python3
"""Run one command on a real two-node NUMA kernel, without hardware that has one.

    numa_vm.py [--with PATH[:GUEST_PATH]]... [--memory MIB] [--timeout S] -- COMMAND...

Boots Debian's cloud kernel in QEMU by software emulation: two NUMA nodes of two
CPUs each, and three PCI display devices whose sysfs `numa_node` is 0, 1 and -1.
COMMAND runs there as root, its output and exit status are this program's. A boot
takes 10 to 30 s and everything in the guest runs about ten times slower.

The guest (kernel, Debian with Python) is made once, as root, with debootstrap and
kept in the cache (tools/cache.py). It needs the Debian packages in REQUIRED. Its
file system lives in memory: a file's pages are page cache on the node that wrote it.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import cache

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
KERNEL = "linux-image-cloud-amd64"
PACKAGES = "python3,libgomp1,libstdc++6"
REQUIRED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "debootstrap": "debootstrap",
    "dpkg": "dpkg",
}
UNUSED = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache", "var/lib/apt", "boot")
END = "numa-vm: exit "

INIT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /tmp
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup /sys/fs/cgroup
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
cd /root
stty -F /dev/ttyS1 raw
{{ sh /command; echo "{end}$?"; }} >/dev/ttyS1 2>&1
echo o >/proc/sysrq-trigger
sleep 60
"""


class VmError(Exception):
    """The guest could not be made or did not finish. The message says what to do."""


def main() -> int:
    options = parse_arguments()
    try:
        output, status = run(
            shlex.join(options.command), options.copies, options.memory, options.timeout
        )
    except VmError as error:
        print(f"numa-vm: {error}", file=sys.stderr)
        return 124
    sys.stdout.write(output)
    return status


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--with",
        dest="copies",
        action="append",
        default=[],
        metavar="PATH[:GUEST_PATH]",
        type=parse_copy,
        help="copy a file or folder into the guest, at the same path by default",
    )
    parser.add_argument("--memory", type=int, default=1536, help="MiB of each node (default 1536)")
    parser.add_argument("--timeout", type=int, default=600, help="seconds (default 600)")
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def parse_copy(text: str) -> tuple[Path, str]:
    source, _, target = text.partition(":")
    path = Path(source).absolute()
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{source} does not exist")
    return path, target or str(path)


def run(command: str, copies: list[tuple[Path, str]], memory: int, timeout: int) -> tuple[str, int]:
    """Boot, run the shell command, and return its output and its exit status."""
    kernel, base = guest()
    with tempfile.TemporaryDirectory(prefix="numa-vm-") as work:
        initrd = Path(work, "initrd")
        with initrd.open("wb") as image:
            with base.open("rb") as stored:
                shutil.copyfileobj(stored, image)
            image.write(bytes(-image.tell() % 4))
            write_top(image, command, copies)
        console, output = Path(work, "console"), Path(work, "output")
        errors = run_qemu(qemu(kernel, initrd, memory, console, output), timeout)
        for path in (console, output):
            path.touch()
        said = console.read_text(errors="replace") + errors
        return read_output(output.read_text(errors="replace"), said, timeout)


def run_qemu(command: list[str], timeout: int) -> str:
    """Until the guest powers off or the time is up; returns what QEMU itself said."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stderr.decode(errors="replace")


def read_output(output: str, console: str, timeout: int) -> tuple[str, int]:
    found = re.search(rf"^(.*){END}(\d+)\n$", output, re.DOTALL)
    if not found:
        tail = "\n".join([*output.splitlines()[-15:], *console.splitlines()[-15:]])
        raise VmError(f"the guest did not finish in {timeout} s; its last lines:\n{tail}")
    return found[1], int(found[2])


def qemu(kernel: Path, initrd: Path, memory: int, console: Path, output: Path) -> list[str]:
    """The machine, with one serial line for the kernel and one for the command. A root bus
    with `numa_node` gives what is plugged there its node; a device on the first bus has
    none, as in most virtual machines."""
    arguments = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi"]
    arguments += ["-cpu", "max", "-smp", "4,sockets=2,cores=2,threads=1", "-m", f"{2 * memory}M"]
    for node, cpus in ((0, "0-1"), (1, "2-3")):
        arguments += ["-object", f"memory-backend-ram,id=memory{node},size={memory}M"]
        arguments += ["-numa", f"node,nodeid={node},cpus={cpus},memdev=memory{node}"]
        bus = 64 * (node + 1)
        arguments += ["-device", f"pxb-pcie,id=bus{node},bus_nr={bus},numa_node={node},bus=pcie.0"]
        arguments += ["-device", f"pcie-root-port,id=port{node},bus=bus{node},chassis={node + 1}"]
        arguments += ["-device", f"bochs-display,bus=port{node}"]
    arguments += ["-numa", "dist,src=0,dst=1,val=21"]
    arguments += ["-device", "bochs-display,bus=pcie.0"]
    arguments += ["-kernel", str(kernel), "-initrd", str(initrd)]
    # On a busy machine the emulated timer is late, which the kernel takes for a broken one.
    arguments += ["-append", "console=ttyS0 quiet panic=-1 no_timer_check nowatchdog"]
    arguments += ["-serial", f"file:{console}", "-serial", f"file:{output}", "-no-reboot"]
    return [
        *arguments,
        *shlex.split("-vga none -display none -monitor none -net none"),
    ]


def guest() -> tuple[Path, Path]:
    """The kernel and the packed root file system, made when they are not cached."""
    missing = [package for tool, package in REQUIRED.items() if not shutil.which(tool)]
    if missing:
        raise VmError(f"{', '.join(missing)} missing: apt-get install them and run again")
    recipe = "\n".join((SUITE, KERNEL, PACKAGES, *UNUSED))
    folder = cache.entry("numa-vm", cache.digest(recipe=recipe), make_guest)
    return folder / "vmlinuz", folder / "root.cpio.gz"


def make_guest(folder: Path) -> None:
    fetch_kernel(folder / "vmlinuz")
    make_root(folder / "root.cpio.gz")


def fetch_kernel(target: Path) -> None:
    depends = command_output("apt-cache", "depends", KERNEL)
    found = re.search(r"Depends: (linux-image-\S+)", depends)
    if not found:
        raise VmError(f"apt knows no package {KERNEL}; run apt-get update and try again")
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        os.chmod(work, 0o755)
        command_output("apt-get", "download", found[1], cwd=work)
        archive = next(Path(work).glob("*.deb"))
        command_output("dpkg", "-x", str(archive), work)
        next(Path(work, "boot").glob("vmlinuz-*")).rename(target)


def make_root(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        os.chmod(work, 0o755)
        root = Path(work, "root")
        include = f"--include={PACKAGES}"
        command_output("debootstrap", "--variant=minbase", include, SUITE, str(root), MIRROR)
        for name in UNUSED:
            shutil.rmtree(root / name, ignore_errors=True)
        with gzip.open(target, "wb", compresslevel=1) as image:
            for path in [root, *sorted(root.rglob("*"))]:
                write_path(image, path, str(path.relative_to(root)))
            write_entry(image, "TRAILER!!!", 0, b"")


def command_output(*command: str, cwd: str | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip()[-500:]
        raise VmError(f"{shlex.join(command)} failed with status {done.returncode}: {last}")
    return done.stdout


def write_top(
    image: BinaryIO | gzip.GzipFile, command: str, copies: list[tuple[Path, str]]
) -> None:
    """What this run adds to the guest: the copies, the command and /init."""
    made: set[str] = set()
    for source, target in copies:
        for parent in reversed(Path(target).parents[:-1]):
            if str(parent) not in made:
                made.add(str(parent))
                write_entry(image, str(parent).lstrip("/"), stat.S_IFDIR | 0o755, b"")
        for path in [source, *sorted(source.rglob("*"))]:
            write_path(image, path, str(target / path.relative_to(source)).lstrip("/"))
    write_entry(image, "command", stat.S_IFREG | 0o644, command.encode())
    init = INIT.format(end=END)
    write_entry(image, "init", stat.S_IFREG | 0o755, init.encode())
    write_entry(image, "TRAILER!!!", 0, b"")


def write_path(image: BinaryIO | gzip.GzipFile, path: Path, name: str) -> None:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        data = os.readlink(path).encode()
    elif stat.S_ISREG(status.st_mode):
        data = path.read_bytes()
    elif stat.S_ISDIR(status.st_mode):
        data = b""
    else:
        return
    # Python trusts compiled code only while the source keeps its time.
    write_entry(image, name, status.st_mode, data, int(status.st_mtime))


def write_entry(
    image: BinaryIO | gzip.GzipFile, name: str, mode: int, data: bytes, time: int = 0
) -> None:
    """One entry of the `newc` format (kernel: Documentation/driver-api/early-userspace)."""
    encoded = name.encode() + b"\0"
    numbers = (0, mode, 0, 0, 1, time, len(data), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08X" % number for number in numbers)
    image.write(header + encoded + bytes(-(len(header) + len(encoded)) % 4))
    image.write(data + bytes(-len(data) % 4))


if __name__ == "__main__":
    sys.exit(main())
