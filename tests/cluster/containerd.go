package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"llama-operator.dev/testcluster/internal/image"
)

const pauseImage = "localhost/testcluster-pause:1"

// writePauseImage writes the image of the sandbox containers from the program
// that the build put beside this binary.
func writePauseImage(path string) error {
	program, err := os.ReadFile(filepath.Join(filepath.Dir(executable()), "pause"))
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return image.Write(file, pauseImage, "pause", program)
}

// containerRuntime is one containerd: its own configuration, socket and data,
// so that a containerd which is there already is not touched.
type containerRuntime struct {
	Directory string // everything it writes, apart from the sockets of its shims
	Config    string // the folder of its configuration
}

func (r containerRuntime) socket() string { return filepath.Join(r.Directory, "containerd.sock") }

func (r containerRuntime) command() []string {
	return []string{"containerd", "--config", filepath.Join(r.Config, "containerd.toml")}
}

// config is containerd's configuration, in the version that 1.6 reads and 2.x
// migrates by itself.
func (r containerRuntime) config() string {
	return fmt.Sprintf(`version = 2
root = %[1]q
state = %[2]q
# None of these is used, and each takes time to load in a slow virtual machine.
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.native", "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = %[3]q

[plugins."io.containerd.internal.v1.opt"]
  path = %[4]q

[plugins."io.containerd.grpc.v1.cri"]
  # Without CAP_SYS_RESOURCE a sandbox can't lower its oom_score_adj and dies.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  sandbox_image = %[5]q

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[6]q
    conf_dir = %[7]q

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = %[8]q
`, filepath.Join(r.Directory, "root"), filepath.Join(r.Directory, "state"), r.socket(), filepath.Join(r.Directory, "opt"),
		pauseImage, cniPlugins, filepath.Join(r.Config, "cni"), filepath.Join(r.Directory, "runc"))
}

// cniPlugins is where Debian keeps them.
const cniPlugins = "/usr/lib/cni"

// networkConfig is the pod network of one node: a bridge, and addresses kept in
// a folder of ours. Masquerading is left to the host's own rules.
func networkConfig(bridge, subnet, data string) string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": %q,
  "plugins": [
    {"type": "bridge", "bridge": %q, "isGateway": true, "hairpinMode": true,
     "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, clusterName, bridge, data, subnet)
}

// writeConfig writes both configurations: containerd's into a folder, the
// network's into a folder cni in it.
func (r containerRuntime) writeConfig(folder, bridge, subnet string) error {
	network := networkConfig(bridge, subnet, filepath.Join(r.Directory, "addresses"))
	return writeFiles(folder, map[string]string{
		"containerd.toml":                     r.config(),
		"cni/10-" + clusterName + ".conflist": network,
	})
}

// writeFiles writes small text files, named by their paths in a folder.
func writeFiles(folder string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removePods stops every pod and removes it, which also takes down its network
// and its mounts.
func (r containerRuntime) removePods() error {
	connection, err := grpc.NewClient("unix://"+r.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	runtime := cri.NewRuntimeServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	containers, err := runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return err
	}
	for _, container := range containers.Containers {
		// Without a timeout the container is killed at once.
		if _, err := runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: container.Id}); err != nil {
			return err
		}
	}
	pods, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if _, err := runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: pod.Id}); err != nil {
			return err
		}
		if _, err := runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: pod.Id}); err != nil {
			return err
		}
	}
	return nil
}
