package main

import (
	"encoding/json"
	"os"
	"slices"

	"llama-operator.dev/testcluster/internal/host"
)

// sysctls are the kernel settings that node-0 changes: the kubelet sets those
// of vm and kernel, the pod network needs the others. An empty value is one
// that the kubelet writes.
var sysctls = map[string]string{
	"vm/overcommit_memory":               "",
	"vm/panic_on_oom":                    "",
	"kernel/panic":                       "",
	"kernel/panic_on_oops":               "",
	"kernel/keys/root_maxkeys":           "",
	"kernel/keys/root_maxbytes":          "",
	"net/ipv4/ip_forward":                "1",
	"net/bridge/bridge-nf-call-iptables": "1",
	"net/ipv4/conf/all/route_localnet":   "",
	"net/ipv4/vs/conntrack":              "",
	"net/netfilter/nf_conntrack_max":     "",
}

// hostDirectories are written by the kubelet and containerd at fixed paths,
// whatever their configuration says. They are removed when they were not there before.
var hostDirectories = []string{
	"/var/lib/kubelet", "/var/log/containers", "/var/lib/cni", "/run/containerd",
	"/var/lib/containerd", "/run/netns", "/usr/libexec/kubernetes", "/var/lib/cni/results",
}

// baseline is what the machine was like before node-0 changed it. It stays in
// the state folder after down, so that leftovers can compare.
type baseline struct {
	Active      bool              `json:"active"` // the machine is changed and not yet restored
	Sysctls     map[string]string `json:"sysctls"`
	Directories []string          `json:"directories"` // those of hostDirectories that were there
	Chains      []string          `json:"chains"`      // TABLE/CHAIN of foreign Kubernetes or CNI software
}

func (s *State) baseline() *baseline {
	text, err := os.ReadFile(s.Path("baseline.json"))
	if err != nil {
		return nil
	}
	b := &baseline{}
	if json.Unmarshal(text, b) != nil {
		return nil
	}
	return b
}

func (s *State) saveBaseline(b *baseline) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.Path("baseline.json"), append(text, '\n'), 0o644)
}

// takeBaseline records the machine as it is, unless it is changed already.
func (s *State) takeBaseline() error {
	if b := s.baseline(); b != nil && b.Active {
		return nil
	}
	b := &baseline{Active: true, Sysctls: map[string]string{}}
	for name := range sysctls {
		if value, err := host.ReadSysctl(name); err == nil {
			b.Sysctls[name] = value
		}
	}
	for _, directory := range hostDirectories {
		if _, err := os.Stat(directory); err == nil {
			b.Directories = append(b.Directories, directory)
		}
	}
	b.Chains = clusterChains()
	return s.saveBaseline(b)
}

// restoreSysctls sets back every setting that differs.
func (b *baseline) restoreSysctls() {
	for _, name := range b.changedSysctls() {
		host.WriteSysctl(name, b.Sysctls[name]) // what fails shows up in leftovers
	}
}

func (b *baseline) changedSysctls() []string {
	var changed []string
	for name, value := range b.Sysctls {
		if now, err := host.ReadSysctl(name); err == nil && now != value {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

// newDirectories are those of hostDirectories that appeared since.
func (b *baseline) newDirectories() []string {
	var found []string
	for _, directory := range hostDirectories {
		if _, err := os.Stat(directory); err == nil && !slices.Contains(b.Directories, directory) {
			found = append(found, directory)
		}
	}
	return found
}
