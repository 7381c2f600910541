"""Runs in the two-node guest: each scenario in a cgroup of its own, with the cpuset that a
kubelet would give it, seen by the process as a container sees it.

    in_guest.py MODEL NVML_FOLDER BENCH    all of them; prints {scenario: measured} as its last line
    in_guest.py look POLICY          what a process without a model finds, twice
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from llama_runtime.numa import NUMAPolicy, NumaWatch, observe, prepare

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1  # linux/sockios.h, linux/if.h
GROUPS = Path("/sys/fs/cgroup")
DISPLAY = {0: "00000000:41:00.0", 1: "00000000:81:00.0", None: "00000000:00:03.0"}
# Into the cgroup $0, then into a container's view of it.
ENTER = """
echo $$ >/sys/fs/cgroup/$0/cgroup.procs
exec unshare --cgroup --mount sh -ec '
umount /sys/fs/cgroup
mount -t cgroup2 cgroup /sys/fs/cgroup
exec "$@"' enter "$@"
"""


@dataclass(frozen=True)
class Scenario:
    """``cached``: the node whose page cache holds the model file, None for no model. ``gpus``:
    the nodes of display devices that NVML calls GPUs, None for a device without a node."""

    cpus: str = "2-3"
    mems: str = "1"
    policy: NUMAPolicy = "Required"
    quota: str = "max 100000"
    cached: int | None = None
    mmap: bool = False
    computes: bool = False
    gpus: tuple[int | None, ...] = ()
    moved_to: str = ""


SCENARIOS = {
    "bound": Scenario(cached=0, computes=True),
    "mmap-cached-here": Scenario(cached=1, mmap=True),
    "mmap-cached-there": Scenario(cached=0, mmap=True),
    "moves-to-gpu": Scenario(cpus="0-3", mems="0-1", policy="Preferred", cached=0, gpus=(1,)),
    "moves-to-limit": Scenario(cpus="0-3", mems="0-1", policy="Preferred", quota="200000 100000"),
    "unbound": Scenario(cpus="0-3", mems="0-1", policy="None"),
    "cpus-alone": Scenario(mems="0-1", cached=1),
    "gpu-here": Scenario(gpus=(1,)),
    "gpu-there": Scenario(gpus=(0,)),
    "gpus-on-both": Scenario(gpus=(0, 1)),
    "gpu-unknown": Scenario(gpus=(None,)),
    "cpuset-changes": Scenario(moved_to="0-1"),
}


def main() -> None:
    if sys.argv[1] == "look":
        look(cast(NUMAPolicy, sys.argv[2]))
        return
    model, library, bench = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    (GROUPS / "cgroup.subtree_control").write_text("+cpuset +cpu")
    bring_up_loopback()
    copies = {node: copy_on(node, model) for node in (0, 1)}
    measured = {}
    for name, scenario in SCENARIOS.items():
        print(name, file=sys.stderr, flush=True)
        make_group(name, scenario)
        environment = dict(os.environ)
        if scenario.gpus:
            devices = " ".join(f"{DISPLAY[node]}=-" for node in scenario.gpus)
            environment |= {"LD_LIBRARY_PATH": library, "FAKE_NVML_DEVICES": devices}
        if scenario.cached is None:
            measured[name] = measure_look(name, scenario, environment)
        else:
            measured[name] = measure_runtime(name, scenario, copies[scenario.cached], environment)
    measured["bench-remote"] = measure_bench(bench, copies[1], memory_node=0)
    print(json.dumps(measured))


def measure_bench(program: str, model: Path, memory_node: int) -> dict[str, Any]:
    """What make bench-numa runs, with the CPUs of node 1; its times mean nothing here."""
    print("bench-remote", file=sys.stderr, flush=True)
    options = f"--cpus 2-3 --memory-node {memory_node} --generate 2"
    done = subprocess.run(
        [sys.executable, program, "--model", str(model), *options.split()],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


def copy_on(node: int, model: Path) -> Path:
    """A copy whose pages lie on the node, because a CPU of the node wrote them."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {2 * node})
    copy = Path(f"/dev/shm/cached-on-{node}.gguf")
    shutil.copyfile(model, copy)
    os.sched_setaffinity(0, everywhere)
    return copy


def make_group(name: str, scenario: Scenario) -> None:
    group = GROUPS / name
    group.mkdir()
    (group / "cpuset.cpus").write_text(scenario.cpus)
    (group / "cpuset.mems").write_text(scenario.mems)
    (group / "cpu.max").write_text(scenario.quota)


def start(
    name: str, arguments: list[str], environment: dict[str, str], output: int | None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["sh", "-ec", ENTER, name, sys.executable, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=output,
        text=True,
    )


def measure_look(name: str, scenario: Scenario, environment: dict[str, str]) -> dict[str, Any]:
    child = start(name, [__file__, "look", scenario.policy], environment, subprocess.PIPE)
    assert child.stdout
    first = child.stdout.readline()
    if scenario.moved_to:
        (GROUPS / name / "cpuset.cpus").write_text(scenario.moved_to)
    second, _ = child.communicate("\n")
    if child.returncode:
        sys.exit(f"{name} ended with status {child.returncode}")
    return {"numa": json.loads(first), "later": json.loads(second)}


def look(policy: NUMAPolicy) -> None:
    prepare(policy)
    watch = NumaWatch(lambda enough: observe(policy, enough=enough))
    print(json.dumps(watch.look().as_dict()), flush=True)
    sys.stdin.readline()
    print(json.dumps(watch.look().as_dict()), flush=True)


def measure_runtime(
    name: str, scenario: Scenario, model: Path, environment: dict[str, str]
) -> dict[str, Any]:
    """Starts the runtime, waits until it serves and stops it; or until it gives up."""
    log = Path(f"/tmp/{name}.json")
    flags = f"--numa-policy {scenario.policy} --engine-gpu-layers 0 --log-level warning "
    flags += "--drain-delay 0 --drain-timeout 5 --kv-max-sequences 2 --kv-context-per-sequence 512 "
    flags += "--engine-mmap" if scenario.mmap else "--no-engine-mmap"
    paths = ["--model-path", str(model), "--model-alias", "chat", "--termination-log", str(log)]
    runtime = start(name, ["-m", "llama_runtime", *flags.split(), *paths], environment, None)
    measured: dict[str, Any] = {}
    while runtime.poll() is None:
        status = read_status()
        if status["state"] == "Serving":
            if scenario.computes:
                threading.Thread(target=complete, daemon=True).start()
            measured["threads"] = affinities(runtime.pid, seconds=5)
            measured["numa"] = read_status()["numa"]
            runtime.terminate()
            break
        # Otherwise it waits for a better file, and would for ever.
        if status["state"] == "Failed" and status["reason"] != "NUMANotAligned":
            sys.exit(f"{name} failed: {status['message']}")
        time.sleep(1)
    measured["exit"] = runtime.wait()
    measured["termination"] = json.loads(log.read_text())
    return measured


def read_status() -> dict[str, Any]:
    try:
        with urllib.request.urlopen("http://127.0.0.1:8081/status") as response:
            status: dict[str, Any] = json.load(response)
            return status
    except urllib.error.URLError:
        return {"state": "Starting"}


def affinities(runtime: int, seconds: float) -> list[list[int]]:
    """The affinity of every thread of the runtime that is seen meanwhile."""
    masks: dict[int, list[int]] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for task in Path(f"/proc/{runtime}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                masks[int(task.name)] = sorted(os.sched_getaffinity(int(task.name)))
        time.sleep(0.02)
    return list(masks.values())


def complete() -> None:
    """Makes llama.cpp compute; how long that takes in emulation is of no interest."""
    body = json.dumps({"model": "chat", "prompt": "The sea", "max_tokens": 1}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request("http://127.0.0.1:8080/v1/completions", body, headers)
    with contextlib.suppress(OSError), urllib.request.urlopen(request) as response:
        response.read()


if __name__ == "__main__":
    main()
