package fakegpus

import (
	"context"
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
