package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"llama-operator.dev/testcluster/internal/fakegpus"
	"llama-operator.dev/testcluster/internal/host"
	"llama-operator.dev/testcluster/internal/machine"
)

// guest is the running virtual machine, seen from its agent.
type guest struct {
	settings machine.NodeSettings
	stage    atomic.Value // string: what it is doing, for the driver's progress
}

func newGuest(settings machine.NodeSettings) *guest {
	g := &guest{settings: settings}
	g.stage.Store("booted")
	return g
}

// prepare does what an init system would.
func (g *guest) prepare() error {
	mounts := []struct{ source, target, kind string }{
		{"devpts", "/dev/pts", "devpts"},
		{"shm", "/dev/shm", "tmpfs"},
		{"run", "/run", "tmpfs"},
		{"tmp", "/tmp", "tmpfs"},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2"},
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.source, m.target, m.kind, 0, ""); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.target, err)
		}
	}
	for _, directory := range []string{machine.Logs, machine.DataDisk + "/kubelet", "/var/lib/kubelet"} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	// The kubelet measures the disk below its folder, which an overlay would hide.
	if err := syscall.Mount(machine.DataDisk+"/kubelet", "/var/lib/kubelet", "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(g.settings.Hostname)); err != nil {
		return err
	}
	hosts := "127.0.0.1 localhost\n" + g.settings.Address + " " + g.settings.Hostname + "\n"
	if err := os.WriteFile("/etc/hosts", []byte(hosts), 0o644); err != nil {
		return err
	}
	for name, value := range map[string]string{"net/ipv4/ip_forward": "1", "kernel/printk": "4"} {
		if err := host.WriteSysctl(name, value); err != nil {
			return err
		}
	}
	return host.RunAll(
		"modprobe -a virtio_net br_netfilter",
		"ip link set lo up",
		"ip link set eth0 up",
		"ip address add "+g.settings.Address+"/24 dev eth0",
		"ip route add default via "+g.settings.Gateway,
	)
}

// startNode starts the programs of the node. The node is Ready some time after.
func (g *guest) startNode() error {
	g.stage.Store("starting containerd")
	g.supervise("containerd", g.settings.Containerd)
	for host.Listens(g.settings.ContainerdSocket) != nil {
		time.Sleep(200 * time.Millisecond)
	}
	g.stage.Store("importing the pause image")
	if _, err := host.ImportImage(g.settings.ContainerdSocket, g.settings.PauseImage); err != nil {
		return err
	}
	for _, program := range g.settings.Programs {
		g.supervise(program.Name, program.Command)
	}
	log, err := openLog("fake-gpus")
	if err != nil {
		return err
	}
	go fakegpus.Run(g.settings.FakeGPUs, log)
	g.stage.Store("starting the kubelet")
	return nil
}

// supervise runs a program for ever, a second after it ended again.
func (g *guest) supervise(name string, arguments []string) {
	go func() {
		for ; ; time.Sleep(time.Second) {
			log, err := openLog(name)
			if err != nil {
				fmt.Println("guest:", err)
				continue
			}
			command := exec.Command(arguments[0], arguments[1:]...)
			command.Stdout, command.Stderr = log, log
			fmt.Fprintf(log, "=== %s ended: %v\n", name, command.Run())
			log.Close()
		}
	}()
}

func openLog(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(machine.Logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
