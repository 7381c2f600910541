package fakegpus

import (
	"os"
	"path/filepath"
	"strings"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// nvmlLibrary is where a test may put a stand-in for NVIDIA's NVML on the node.
	nvmlLibrary = "/opt/fake-nvml/libnvidia-ml.so.1"
	// A container finds it where NVIDIA's container toolkit mounts the real one on Debian.
	nvmlInContainer = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
	// nvmlDevices tells the stand-in which PCI devices are GPUs: "BUS_ID=- BUS_ID=-".
	nvmlDevices = "FAKE_NVML_DEVICES"
)

// addNVML gives a container the stand-in for NVML, when the node has it. Its GPUs
// are PCI display devices of the same NUMA nodes, spelled as NVML spells bus ids.
func addNVML(response *api.ContainerAllocateResponse, library, pciDevices string, nodes []string) {
	if _, err := os.Stat(library); err != nil {
		return
	}
	var gpus []string
	for _, node := range nodes {
		if id := display(pciDevices, node); id != "" {
			gpus = append(gpus, "0000"+strings.ToUpper(id)+"=-")
		}
	}
	response.Envs[nvmlDevices] = strings.Join(gpus, " ")
	response.Mounts = append(response.Mounts, &api.Mount{HostPath: library, ContainerPath: nvmlInContainer, ReadOnly: true})
}

// display is the bus id of the first PCI display device of a NUMA node.
func display(pciDevices, node string) string {
	found, _ := filepath.Glob(pciDevices + "/*")
	for _, device := range found {
		class, _ := os.ReadFile(device + "/class")
		own, _ := os.ReadFile(device + "/numa_node")
		if strings.HasPrefix(string(class), "0x03") && strings.TrimSpace(string(own)) == node {
			return filepath.Base(device)
		}
	}
	return ""
}
