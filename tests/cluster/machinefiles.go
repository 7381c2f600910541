package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"llama-operator.dev/testcluster/internal/host"
	"llama-operator.dev/testcluster/internal/machine"
)

// writeMachineFiles makes everything in the folder machine: the initramfs, the
// disk with this cluster's files and the empty scratch disk.
func (s *State) writeMachineFiles(options machineOptions, disks string) error {
	if err := os.RemoveAll(s.Path("machine")); err != nil {
		return err
	}
	if err := os.Remove(s.loadedPath(numaNode)); err != nil && !os.IsNotExist(err) {
		return err
	}
	folder := s.Path("machine", "config")
	if err := os.MkdirAll(filepath.Join(folder, "certificates"), 0o700); err != nil {
		return err
	}
	if err := s.writeConfigFolder(folder, options); err != nil {
		return err
	}
	if err := makeDisk(s.Path("machine", "config.img"), folder); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	scratch := exec.Command("mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", s.Path("machine", "scratch.img"), scratchSize)
	if err := host.Quietly(scratch); err != nil {
		return err
	}
	return writeInitramfs(s.Path("machine", "initramfs"), filepath.Join(disks, "modules"))
}

// writeConfigFolder fills the disk that the machine has as machine.ConfigDisk.
func (s *State) writeConfigFolder(folder string, options machineOptions) error {
	a, err := openAuthority(s.Path("certificates"))
	if err != nil {
		return err
	}
	server := fmt.Sprintf("https://%s:%d", tapAddress, s.apiServerPort())
	for _, name := range []string{numaNode, "kube-proxy"} {
		if err := a.writeKubeconfig(filepath.Join(folder, name+".kubeconfig"), server, name); err != nil {
			return err
		}
	}
	for _, name := range []string{"ca.crt", numaNode + ".crt", numaNode + ".key"} {
		if err := copyFile(s.certificate(name), filepath.Join(folder, "certificates", name)); err != nil {
			return err
		}
	}
	program := executable()
	for from, to := range map[string]string{program: "testcluster", filepath.Join(filepath.Dir(program), "guest"): "guest"} {
		if err := copyFile(from, filepath.Join(folder, to)); err != nil {
			return err
		}
	}
	if err := writePauseImage(filepath.Join(folder, "pause.tar")); err != nil {
		return err
	}
	runtime := containerRuntime{Directory: machine.DataDisk + "/containerd", Config: machine.ConfigDisk}
	if err := runtime.writeConfig(folder, "cni0", numaNodePodSubnet); err != nil {
		return err
	}
	files := kubeletFiles{Config: machine.ConfigDisk, Root: "/var/lib/kubelet", Certificates: machine.ConfigDisk + "/certificates",
		Certificate: numaNode, Runtime: runtime, PodLogs: "/var/log/pods", Port: 10250, Health: 10248}
	if err := files.write(folder, options.Profile == "numa"); err != nil {
		return err
	}
	return s.writeSettings(folder, options, runtime, files)
}

// writeSettings writes what the agent is told and what the driver remembers.
func (s *State) writeSettings(folder string, options machineOptions, runtime containerRuntime, files kubeletFiles) error {
	program, token := machine.ConfigDisk+"/testcluster", rand.Text()
	kubelet := files.flags(machine.ConfigDisk+"/"+numaNode+".kubeconfig", numaNode, numaNodeAddress)
	proxy := proxyFlags(machine.ConfigDisk+"/kube-proxy.kubeconfig", numaNode, 10256, 10249)
	settings := machine.NodeSettings{
		Token: token, Hostname: numaNode, Address: numaNodeAddress, Port: agentPort, Gateway: tapAddress,
		Containerd: runtime.command(), ContainerdSocket: runtime.socket(), PauseImage: machine.ConfigDisk + "/pause.tar",
		Programs: []machine.Program{
			{Name: "kubelet", Command: append([]string{program, "kubelet"}, kubelet...)},
			{Name: "kube-proxy", Command: append([]string{program, "kube-proxy"}, proxy...)},
		},
		FakeGPUs: []int64{0, 1},
	}
	for path, value := range map[string]any{
		filepath.Join(folder, filepath.Base(machine.Settings)): settings,
		s.Path("machine", "options.json"):                      options,
	} {
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(s.Path("machine", "token"), []byte(token), 0o600)
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}
