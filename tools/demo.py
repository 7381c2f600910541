"""make demo: a cluster, the operator from its chart, one LlamaDeployment, a streamed answer.

Without --context it builds and starts the project's own cluster on this machine. With
--context NAME it uses the cluster behind that context of your kubeconfig and starts none.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from steps import Steps

REPOSITORY = Path(__file__).resolve().parent.parent
STATE = REPOSITORY / "build/cluster"
SYSTEM, NAMESPACE, NAME, CLAIM = "llama-system", "llama-demo", "chat", "models"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_0.gguf"
QUESTION = "Write one sentence about the sea."


@dataclass(frozen=True)
class Target:
    """The commands that reach the cluster."""

    kubectl: list[str]
    helm: list[str]


@dataclass(frozen=True)
class Image:
    """One built image: its reference and its archive."""

    reference: str
    archive: str

    @property
    def repository(self) -> str:
        return self.reference.rsplit(":", 1)[0]

    @property
    def tag(self) -> str:
        return self.reference.rsplit(":", 1)[1]


def tool(name: str) -> str:
    """The path of a tool next to this file."""
    return str(REPOSITORY / "tools" / name)


def build_images(steps: Steps) -> dict[str, Image]:
    """Build both images; returns them by name (operator, runtime)."""
    document = json.loads(steps.run([sys.executable, tool("images.py"), "--json"]))
    return {name: Image(image["reference"], image["archive"]) for name, image in document.items()}


def own_cluster(steps: Steps) -> tuple[Target, dict[str, Image], Path]:
    """Build and start the project's own cluster; returns its images and the model's folder."""
    with (
        steps.step("Build the cluster's binary, the images and the model", "17 min once, then 5 s"),
        ThreadPoolExecutor() as pool,
    ):
        binary = pool.submit(steps.run, [str(REPOSITORY / "tests/cluster/build"), "--quiet"])
        images = build_images(steps)
        model = Path(steps.run([sys.executable, tool("model.py"), "--quiet"]).strip())
        testcluster = binary.result().strip()
    with steps.step("Start the control plane and this machine as node-0", "10 s"):
        steps.run([testcluster, "node-up"])
    with steps.step("Load the images into containerd", "20 s once, then 1 s"):
        steps.run([testcluster, "load", *(image.archive for image in images.values())])
    kubeconfig = ["--kubeconfig", str(STATE / "kubeconfig")]
    return (
        Target(
            [str(STATE / "bin/kubectl"), *kubeconfig],
            [str(STATE / "bin/helm"), *kubeconfig],
        ),
        images,
        model,
    )


def exports(state: Path) -> str:
    """The shell's line after which plain kubectl and helm reach the cluster of a state folder."""
    kubeconfig, programs = (shlex.quote(str(state / name)) for name in ("kubeconfig", "bin"))
    return f"export KUBECONFIG={kubeconfig} PATH={programs}:$PATH"


def existing_cluster(
    steps: Steps, context: str, registry: str | None
) -> tuple[Target, dict[str, Image], Path]:
    """Bring the images to the cluster behind a context; returns them and the model's path."""
    for name in ("kubectl", "helm"):
        if shutil.which(name) is None:
            sys.exit(f"{name} is not on PATH: install it, it is needed to reach {context}.")
    with steps.step("Build the images and the model", "6 min once, then 5 s"):
        images = build_images(steps)
        model = Path(steps.run([sys.executable, tool("model.py"), "--quiet"]).strip())
    with steps.step(f"Bring the images to {context}", "30 s"):
        images = {name: deliver(steps, image, context, registry) for name, image in images.items()}
    return (
        Target(["kubectl", "--context", context], ["helm", "--kube-context", context]),
        images,
        model,
    )


def deliver(steps: Steps, image: Image, context: str, registry: str | None) -> Image:
    """Put one image where the nodes of an existing cluster find it."""
    if registry is not None:
        reference = f"{registry.rstrip('/')}/{image.reference.rsplit('/', 1)[-1]}"
        steps.run(["buildah", "push", f"docker-archive:{image.archive}", f"docker://{reference}"])
        return Image(reference, image.archive)
    kind, _, cluster = context.partition("-")
    if kind == "kind":
        steps.run(["kind", "load", "image-archive", image.archive, "--name", cluster])
    elif kind == "k3d":
        steps.run(["k3d", "image", "import", image.archive, "--cluster", cluster])
    elif context == "minikube":
        steps.run(["minikube", "image", "load", image.archive])
    elif context == "default" and shutil.which("k3s"):
        steps.run(["k3s", "ctr", "images", "import", image.archive])
    elif context == "llama-test":
        steps.run(
            [
                steps.run([str(REPOSITORY / "tests/cluster/build"), "--quiet"]).strip(),
                "load",
                image.archive,
            ]
        )
    else:
        sys.exit(
            f"How images reach {context} is unknown: "
            "give a registry that its nodes can pull from, make demo KUBE_CONTEXT=… REGISTRY=…"
        )
    return image


def install_operator(steps: Steps, target: Target, images: dict[str, Image]) -> None:
    """Install or upgrade the chart and wait for its rollout."""
    with steps.step("Install the operator from its chart", "15 s"):
        steps.run(
            [*target.helm, "upgrade", "--install", "--take-ownership", "llama-operator",
             str(REPOSITORY / "helm/llama-operator"),
             "--namespace", SYSTEM, "--create-namespace",
             "--set", f"image.repository={images['operator'].repository}",
             "--set", f"image.tag={images['operator'].tag}",
             "--set", f"runtimeImage={images['runtime'].reference}"]
        )  # fmt: skip
        steps.run([*target.kubectl, "--namespace", SYSTEM, "rollout", "status",
                   "deployment/llama-operator", "--timeout=180s"])  # fmt: skip


def apply(steps: Steps, target: Target, *documents: dict[str, object]) -> None:
    """kubectl apply of the documents."""
    steps.run([*target.kubectl, "apply", "-f", "-"], stdin=yaml.safe_dump_all(documents))


def host_path_claim(model: Path) -> list[dict[str, object]]:
    """A volume over the folder of the model on node-0, and the claim for it."""
    volume: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{NAMESPACE}-{CLAIM}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "hostPath": {"path": str(model.parent), "type": "Directory"},
            "claimRef": {"namespace": NAMESPACE, "name": CLAIM},
        },
    }
    return [volume, claim("ReadOnlyMany", storage_class="")]


def claim(access_mode: str, storage_class: str | None = None) -> dict[str, object]:
    """The claim that holds the model; storage_class None takes the cluster's default."""
    spec: dict[str, object] = {
        "accessModes": [access_mode],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": NAMESPACE},
        "spec": spec,
    }


def loader(image: str) -> dict[str, object]:
    """A pod that holds the claim open for writing while the model is copied into it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "model-loader", "namespace": NAMESPACE},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "loader",
                    "image": image,
                    "command": ["/opt/venv/bin/python", "-c", "import time; time.sleep(3600)"],
                    "volumeMounts": [{"name": "models", "mountPath": "/models"}],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
            "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": CLAIM}}],
        },
    }


def copy_model(steps: Steps, target: Target, image: str, model: Path) -> None:
    """Put the model on a claim of the cluster's default storage class."""
    kubectl = [*target.kubectl, "--namespace", NAMESPACE]
    apply(steps, target, claim("ReadWriteOnce"), loader(image))
    steps.run([*kubectl, "wait", "--for=condition=Ready", "pod/model-loader", "--timeout=180s"])
    receive = (
        "import shutil, sys; "
        f"shutil.copyfileobj(sys.stdin.buffer, open('/models/{MODEL_FILE}', 'wb'))"
    )
    with model.open("rb") as source:
        subprocess.run(
            [*kubectl, "exec", "-i", "model-loader", "--", "/opt/venv/bin/python", "-c", receive],
            stdin=source,
            check=True,
        )
    steps.run([*kubectl, "delete", "pod", "model-loader", "--wait=true"])


def wait_until_ready(steps: Steps, target: Target) -> None:
    """Wait for Ready=True, showing the Ready condition's message on the way."""
    for _ in range(300):
        text = steps.run([*target.kubectl, "--namespace", NAMESPACE, "get", "llama", NAME,
                          "-o", "json"])  # fmt: skip
        resource = json.loads(text)
        conditions = resource.get("status", {}).get("conditions", [])
        ready = next((c for c in conditions if c["type"] == "Ready"), None)
        if ready is not None:
            steps.detail = f"{ready['reason']}: {ready['message']}"
            if (
                ready["status"] == "True"
                and resource["status"]["observedGeneration"] == resource["metadata"]["generation"]
            ):
                return
        time.sleep(1)
    sys.exit(f"{NAME} is not Ready after 5 minutes. {steps.detail}")


@contextmanager
def port_forward(target: Target) -> Iterator[str]:
    """Forward a free local port to the Service; yields the base URL."""
    process = subprocess.Popen(
        [*target.kubectl, "--namespace", NAMESPACE, "port-forward", f"service/{NAME}", ":80"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        yield f"http://127.0.0.1:{line.split('127.0.0.1:')[1].split()[0]}"
    finally:
        process.terminate()
        process.wait()


def ask(steps: Steps, base: str) -> None:
    """Stream one answer to the terminal, then its speed."""
    body = {
        "model": NAME,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": 96,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    steps.console.print(f"\n[bold]> {QUESTION}[/bold]")
    timings: dict[str, float] = {}
    with httpx.stream("POST", f"{base}/v1/chat/completions", json=body, timeout=120) as response:
        if response.status_code != 200:
            sys.exit(f"The model answered {response.status_code}: {response.read().decode()}")
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            timings = chunk.get("timings") or timings
            for choice in chunk["choices"]:
                print(choice["delta"].get("content") or "", end="", flush=True)
    print()
    if timings:
        steps.console.print(
            f"[dim]{timings['predicted_n']} tokens, "
            f"{timings['predicted_per_second']:.1f} tokens per second[/dim]\n"
        )


def main() -> None:
    """Run the demo from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--context", help="use the cluster behind this kubeconfig context")
    parser.add_argument("--registry", help="push the images there, for a cluster that pulls")
    arguments = parser.parse_args()
    started = time.monotonic()
    steps = Steps(total=5 if arguments.context else 6)
    if arguments.context:
        target, images, model = existing_cluster(steps, arguments.context, arguments.registry)
    else:
        target, images, model = own_cluster(steps)
    install_operator(steps, target, images)
    with steps.step("Provide the model and apply examples/demo.yaml", "10 s"):
        apply(
            steps,
            target,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        )
        if arguments.context:
            copy_model(steps, target, images["runtime"].reference, model)
        else:
            apply(steps, target, *host_path_claim(model))
        steps.run(
            [
                *target.kubectl,
                "apply",
                "-n",
                NAMESPACE,
                "-f",
                str(REPOSITORY / "examples/demo.yaml"),
            ]
        )
    with steps.step("Wait for the model to be served", "10 s"):
        wait_until_ready(steps, target)
    with port_forward(target) as base:
        ask(steps, base)
    command = [*target.kubectl, "--namespace", NAMESPACE, "get", "llama"]
    steps.console.print(f"[bold]$ {' '.join(command)}[/bold]")
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    steps.console.print(f"[dim]{time.monotonic() - started:.0f} s in all.[/dim]")
    if not arguments.context:
        steps.console.print("[dim]The cluster goes on running: make cluster-down stops it.[/dim]")
        print(f"To reach it:\n\n    {exports(STATE)}\n    kubectl -n {NAMESPACE} get llama")


if __name__ == "__main__":
    main()
