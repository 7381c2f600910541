package main

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

func decode(t *testing.T, text string) kubelet.KubeletConfiguration {
	t.Helper()
	var config kubelet.KubeletConfiguration
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return config
}

func TestKubeletConfigurationsHaveNoUnknownField(t *testing.T) {
	files := kubeletFiles{Config: "/d", Root: "/k", Certificates: "/c", Certificate: "n", Runtime: containerRuntime{Directory: "/r"}, PodLogs: "/l", Port: 1, Health: 2}
	node := decode(t, files.nodeConfig())
	if node.TLSCertFile != "/c/n.crt" || node.Authentication.X509.ClientCAFile != "/c/ca.crt" || node.ContainerRuntimeEndpoint != "unix:///r/containerd.sock" {
		t.Errorf("got %+v", node)
	}
	common := decode(t, kubeletCommon)
	if common.Authentication.Anonymous.Enabled == nil || *common.Authentication.Anonymous.Enabled {
		t.Error("the kubelet lets anybody in")
	}
}

// The kubelet refuses to start when the sums differ.
func TestReservedMemoryAddsUp(t *testing.T) {
	config := decode(t, kubeletNUMA)
	reserved := resource.Quantity{}
	for _, node := range config.ReservedMemory {
		reserved.Add(node.Limits["memory"])
	}
	wanted := resource.MustParse(config.SystemReserved["memory"])
	wanted.Add(resource.MustParse(config.EvictionHard["memory.available"]))
	if reserved.Cmp(wanted) != 0 {
		t.Errorf("reservedMemory is %s, systemReserved and evictionHard are %s", &reserved, &wanted)
	}
}

func TestOnlyTheNUMAProfileHasManagers(t *testing.T) {
	for numa, want := range map[bool]int{true: 2, false: 1} {
		folder := t.TempDir()
		if err := (kubeletFiles{}).write(folder, numa); err != nil {
			t.Fatal(err)
		}
		found, _ := filepath.Glob(filepath.Join(folder, "kubelet.d", "*.conf"))
		if len(found) != want {
			t.Errorf("numa %v: %v", numa, found)
		}
	}
}

func TestContainerdKeepsEverythingInItsFolder(t *testing.T) {
	config := containerRuntime{Directory: "/state/containerd", Config: "/state/config"}.config()
	for _, line := range []string{`root = "/state/containerd/root"`, `address = "/state/containerd/containerd.sock"`,
		`conf_dir = "/state/config/cni"`, `sandbox_image = "` + pauseImage + `"`, `restrict_oom_score_adj = true`} {
		if !strings.Contains(config, line) {
			t.Errorf("no line %s in\n%s", line, config)
		}
	}
}
