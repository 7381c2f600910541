package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"llama-operator.dev/testcluster/internal/host"
)

func runDown(s *State, _ []string) error {
	if _, err := os.Stat(s.Dir); os.IsNotExist(err) {
		report("cluster", "nothing to stop: there is no %s", s.Dir)
		return nil
	}
	return s.locked(s.down)
}

func (s *State) down() error {
	began := time.Now()
	for _, stop := range []func() error{s.machineDown, s.node0Down, s.controlPlaneDown} {
		if err := stop(); err != nil {
			return err
		}
	}
	// A mount below may be a user's own data: nothing is removed while there is one.
	if len(mountsBelow(s.Dir)) == 0 {
		entries, err := os.ReadDir(s.Dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if !slices.Contains([]string{"logs", "baseline.json", "lock"}, entry.Name()) {
				if err := os.RemoveAll(s.Path(entry.Name())); err != nil {
					return err
				}
			}
		}
	}
	if left := s.leftovers(); len(left) > 0 {
		fmt.Println(strings.Join(left, "\n"))
		return fmt.Errorf("stopped, but %d things are left, see above", len(left))
	}
	report("cluster", "down in %s; the logs are in %s", since(began), s.Path("logs"))
	return nil
}

func runLeftovers(s *State, _ []string) error {
	left := s.leftovers()
	if len(left) == 0 {
		report("cluster", "nothing is left")
		return nil
	}
	fmt.Println(strings.Join(left, "\n"))
	return exitCode(1)
}

// leftovers describes everything that a cluster of this state folder has on
// the machine, outside the folder.
func (s *State) leftovers() []string {
	var left []string
	add := func(kind string, values []string) {
		for _, value := range values {
			left = append(left, fmt.Sprintf("%-15s %s", kind, value))
		}
	}
	for _, pid := range ownedProcesses(s.Dir) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		add("process", []string{fmt.Sprintf("%d %.120s", pid, strings.ReplaceAll(string(text), "\x00", " "))})
	}
	add("mount", mountsBelow(s.Dir))
	b := s.baseline()
	if b == nil {
		return left // there has been no node
	}
	for _, name := range []string{bridgeName, tapName} {
		if linkExists(name) {
			add("link", []string{name})
		}
	}
	add("route", ownRoutes())
	for _, chain := range clusterChains() {
		if !slices.Contains(b.Chains, chain) {
			add("chain", []string{chain})
		}
	}
	for _, name := range b.changedSysctls() {
		now, _ := host.ReadSysctl(name)
		add("kernel setting", []string{fmt.Sprintf("%s is %s, was %s", name, now, b.Sysctls[name])})
	}
	for _, path := range podCgroups() {
		if filepath.Base(path) == "kubepods" {
			add("cgroup", []string{path})
		}
	}
	add("folder", b.newDirectories())
	return left
}

func ownRoutes() []string {
	output, _ := exec.Command("ip", "-4", "route", "show").Output()
	var found []string
	for _, route := range strings.Split(string(output), "\n") {
		if strings.Contains(route, " "+bridgeName+" ") || strings.Contains(route, " "+tapName+" ") {
			found = append(found, strings.TrimSpace(route))
		}
	}
	return found
}

// ownedProcesses are the programs of a cluster that name its state folder.
func ownedProcesses(state string) []int {
	programs := []string{"testcluster", "containerd", "containerd-shim-runc-v2", "qemu-system-x86_64"}
	entries, _ := os.ReadDir("/proc")
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue
		}
		program, _, _ := strings.Cut(string(text), "\x00")
		if slices.Contains(programs, filepath.Base(program)) && strings.Contains(string(text), state+"/") {
			found = append(found, pid)
		}
	}
	return found
}

// killOwned ends the shims and containers that outlived containerd.
func killOwned(state string) {
	for _, pid := range ownedProcesses(state) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(text), "containerd-shim") {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for range 50 {
		alive := false
		for _, cgroup := range podCgroups() {
			text, _ := os.ReadFile(filepath.Join(cgroup, "cgroup.procs"))
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					syscall.Kill(pid, syscall.SIGKILL)
					alive = true
				}
			}
		}
		if !alive {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// mountsBelow lists the mount points at or below a folder, deepest first.
func mountsBelow(directory string) []string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return mountPoints(string(text), directory)
}

// mountPoints reads mountinfo, where blanks in a path are written as \040.
func mountPoints(mountinfo, directory string) []string {
	var found []string
	for _, line := range strings.Split(mountinfo, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		path := strings.ReplaceAll(fields[4], `\040`, " ")
		if path == directory || strings.HasPrefix(path, directory+"/") {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	slices.Reverse(found)
	return found
}

func unmountBelow(directory string) {
	for _, path := range mountsBelow(directory) {
		if syscall.Unmount(path, 0) != nil {
			syscall.Unmount(path, syscall.MNT_DETACH)
		}
	}
}
