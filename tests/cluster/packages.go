package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"llama-operator.dev/testcluster/internal/host"
)

// requirement is a program and the Debian package that it comes with.
type requirement struct{ program, debian string }

var (
	nodeRequirements = []requirement{
		{"containerd", "containerd"}, {"runc", "runc"}, {cniPlugins + "/bridge", "containernetworking-plugins"},
		{"iptables", "iptables"}, {"conntrack", "conntrack"}, {"ip", "iproute2"}, {"mount", "mount"},
	}
	machineRequirements = []requirement{
		{"qemu-system-x86_64", "qemu-system-x86"}, {"debootstrap", "debootstrap"}, {"mke2fs", "e2fsprogs"}, {"dpkg-deb", "dpkg"},
	}
)

// needPackages installs what is missing, and says so.
func needPackages(requirements []requirement) error {
	var missing []string
	for _, r := range requirements {
		if _, err := exec.LookPath(r.program); err != nil {
			missing = append(missing, r.debian)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks %s and has no apt-get; install them with its package manager", names)
	}
	report("packages", "installing %s with apt-get", names)
	install := append([]string{"install", "-y", "-q", "--no-install-recommends"}, missing...)
	if aptGet(install...) == nil {
		return nil
	}
	if err := aptGet("update", "-q"); err != nil {
		return fmt.Errorf("this machine lacks %s and apt-get update failed: %w", names, err)
	}
	if err := aptGet(install...); err != nil {
		return fmt.Errorf("this machine lacks %s and apt-get cannot install them: %w", names, err)
	}
	return nil
}

func aptGet(arguments ...string) error {
	command := exec.Command("apt-get", arguments...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return host.Quietly(command)
}

// needRoot says what still works without root.
func needRoot(what string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return errors.New(what + " needs root for namespaces, cgroups and iptables; without it the control plane alone works: testcluster up")
}
