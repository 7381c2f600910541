package fakegpus

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestEachGPUTellsItsNUMANode(t *testing.T) {
	for index, device := range newPlugin([]int64{1, 0}).devices {
		if want := []string{"gpu-0", "gpu-1"}[index]; device.ID != want || device.Topology.Nodes[0].ID != int64(1-index) {
			t.Errorf("device %d: %v", index, device)
		}
	}
}

func TestAContainerLearnsItsGPUs(t *testing.T) {
	response, err := newPlugin([]int64{0, 1}).Allocate(context.Background(), &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{
		{DevicesIds: []string{"gpu-0", "gpu-1"}}, {DevicesIds: []string{"gpu-1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for index, want := range []string{"gpu-0,gpu-1", "gpu-1"} {
		if got := response.ContainerResponses[index].Envs["NVIDIA_VISIBLE_DEVICES"]; got != want {
			t.Errorf("container %d: %q", index, got)
		}
	}
}

func TestAContainerGetsNVMLWithTheDisplaysOfItsNodes(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{
		"libnvidia-ml.so.1":              "",
		"devices/0000:00:02.0/class":     "0x020000\n", // a network card of node 1
		"devices/0000:00:02.0/numa_node": "1\n",
		"devices/0000:41:00.0/class":     "0x038000\n",
		"devices/0000:41:00.0/numa_node": "0\n",
		"devices/0000:8a:00.0/class":     "0x038000\n",
		"devices/0000:8a:00.0/numa_node": "1\n",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	library, devices := filepath.Join(folder, "libnvidia-ml.so.1"), filepath.Join(folder, "devices")
	response := &api.ContainerAllocateResponse{Envs: map[string]string{}}
	addNVML(response, library, devices, newPlugin([]int64{0, 1}).nodesOf([]string{"gpu-1", "gpu-0"}))
	if got := response.Envs[nvmlDevices]; got != "00000000:8A:00.0=- 00000000:41:00.0=-" {
		t.Errorf("got %q", got)
	}
	if len(response.Mounts) != 1 || response.Mounts[0].HostPath != library || !response.Mounts[0].ReadOnly {
		t.Errorf("got %v", response.Mounts)
	}
	without := &api.ContainerAllocateResponse{Envs: map[string]string{}}
	addNVML(without, library+".absent", devices, []string{"0"})
	if len(without.Mounts) != 0 || len(without.Envs) != 0 {
		t.Errorf("got %v", without)
	}
}
