package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// cgroupRoot is where cgroups are mounted; tests have a tree of their own.
var cgroupRoot = "/sys/fs/cgroup"

// needCgroups says what a kubelet lacks on this machine.
func needCgroups() error {
	if text, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		for _, name := range []string{"cpu", "cpuset", "memory", "pids"} {
			if !strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+name+" ") {
				return errors.New("the cgroup controller " + name + " is not available here, so no node can run; the control plane alone works: testcluster up")
			}
		}
		return nil
	}
	for _, name := range []string{"cpu", "cpuset", "memory", "pids"} {
		if _, err := os.Stat(filepath.Join(cgroupRoot, name, "cgroup.procs")); err != nil {
			return errors.New("cgroups are not mounted at /sys/fs/cgroup (no " + name + "), so no node can run; the control plane alone works: testcluster up")
		}
	}
	return nil
}

// podCgroups are the cgroups that a kubelet made for pods, deepest first.
func podCgroups() []string {
	roots, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", "kubepods"))
	if _, err := os.Stat(filepath.Join(cgroupRoot, "kubepods")); err == nil {
		roots = append(roots, filepath.Join(cgroupRoot, "kubepods"))
	}
	var found []string
	for _, root := range roots {
		if resolved, err := filepath.EvalSymlinks(root); err != nil || resolved != root {
			continue // cpu and cpuacct may be links to the same hierarchy
		}
		filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				found = append([]string{path}, found...)
			}
			return nil
		})
	}
	return found
}

func removePodCgroups() {
	for _, path := range podCgroups() {
		os.Remove(path) // rmdir; one that still has processes stays and shows up in leftovers
	}
}
