package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerRuntime is one containerd: its own configuration, socket and data,
// so that a containerd which is there already is not touched.
type containerRuntime struct {
	Directory  string // everything it writes, apart from the sockets of its shims
	ConfigPath string
	CNI        string // folder of the network configuration
}

func (r containerRuntime) socket() string { return filepath.Join(r.Directory, "containerd.sock") }

// config is containerd's configuration, in the version that 1.6 reads and 2.x
// migrates by itself.
func (r containerRuntime) config() string {
	return fmt.Sprintf(`version = 2
root = %[1]q
state = %[2]q

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
		pauseImage, cniPlugins, r.CNI, filepath.Join(r.Directory, "runc"))
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

func (r containerRuntime) writeConfig(bridge, subnet string) error {
	for _, directory := range []string{r.Directory, r.CNI, filepath.Dir(r.ConfigPath)} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(r.ConfigPath, []byte(r.config()), 0o644); err != nil {
		return err
	}
	network := networkConfig(bridge, subnet, filepath.Join(r.Directory, "addresses"))
	return os.WriteFile(filepath.Join(r.CNI, "10-"+clusterName+".conflist"), []byte(network), 0o644)
}

// ready is nil once containerd answers.
func (r containerRuntime) ready() error {
	_, err := r.ctr("version")
	return err
}

// importImage reads a docker or OCI archive and returns the names it brought.
func (r containerRuntime) importImage(path string) ([]string, error) {
	output, err := r.ctr("images", "import", path)
	if err != nil {
		return nil, err
	}
	return importedNames(output), nil
}

// importedNames reads the lines "unpacking NAME (DIGEST)...done" of ctr.
func importedNames(output string) []string {
	var names []string
	for _, line := range strings.Split(output, "\n") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "unpacking "); ok {
			names = append(names, strings.Fields(rest)[0])
		}
	}
	return names
}

func (r containerRuntime) ctr(arguments ...string) (string, error) {
	command := exec.Command("ctr", append([]string{"--address", r.socket(), "--namespace", "k8s.io"}, arguments...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return string(output), nil
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
