"""The scenarios of in_guest.py, run once in the two-node guest for all tests."""

from __future__ import annotations

import json
import os
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

import llama_runtime
from tests.cluster_fixtures import cannot
from tests.numa_vm import in_guest, numa_vm
from tests.runtime.numa import conftest as numa_conftest

REPOSITORY = Path(__file__).resolve().parents[2]
SITE, RUNTIME, MODEL, NVML = "/opt/site", "/opt/runtime", "/opt/model.gguf", "/opt/nvml"
BENCH = "/opt/place.py"


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Scenario to what its process measured in the guest. Takes minutes."""
    libraries, model = os.environ.get("LLAMA_CPP_LIB_PATH"), os.environ.get("LLAMA_TEST_MODEL")
    if not libraries or not model:
        cannot("LLAMA_CPP_LIB_PATH and LLAMA_TEST_MODEL are not set: run make unit or make test")
    if os.geteuid() != 0:
        cannot("making the guest's file system needs root")
    nvml = numa_conftest.build_nvml(tmp_path_factory.mktemp("nvml"))
    copies = [(path, f"{SITE}/{path.name}") for path in site_packages()]
    copies += [
        (Path(llama_runtime.__path__[0]), f"{RUNTIME}/llama_runtime"),
        (Path(in_guest.__file__), "/opt/in_guest.py"),
        (REPOSITORY / "tests/bench/numa/place.py", BENCH),
        (Path(libraries), "/opt/libllama"),
        (Path(model), MODEL),
        (nvml, f"{NVML}/{nvml.name}"),
    ]
    command = (
        f"PYTHONPATH={SITE}:{RUNTIME} LLAMA_CPP_LIB_PATH=/opt/libllama "
        f"python3 /opt/in_guest.py {MODEL} {NVML} {BENCH} 2>&1"
    )
    output, status = numa_vm.run(command, copies, memory=1536, timeout=3000)
    assert status == 0, output
    answer: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return answer


def site_packages() -> list[Path]:
    """Files and folders of what the runtime depends on, from this environment."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    queue, seen = list(project["optional-dependencies"]["runtime"]), set[str]()
    paths: set[Path] = set()
    while queue:
        name = re.split(r"[^A-Za-z0-9._-]", queue.pop(), maxsplit=1)[0]
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # needed on other systems only
            continue
        tops = {file.parts[0] for file in found.files or []} - {".."}
        paths |= {Path(str(found.locate_file(top))) for top in tops}
        queue += [wanted for wanted in found.requires or [] if "extra ==" not in wanted]
    return sorted(paths)
