package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// podProcess is a process in the cgroup of a pod.
func podProcess(t *testing.T) *exec.Cmd {
	t.Helper()
	previous := cgroupRoot
	cgroupRoot = t.TempDir()
	t.Cleanup(func() { cgroupRoot = previous })
	process := exec.Command("sleep", "600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill() })
	pod := filepath.Join(cgroupRoot, "kubepods", "pod1")
	if err := os.MkdirAll(pod, 0o755); err != nil {
		t.Fatal(err)
	}
	pids := []byte(strconv.Itoa(process.Process.Pid) + "\n")
	if err := os.WriteFile(filepath.Join(pod, "cgroup.procs"), pids, 0o644); err != nil {
		t.Fatal(err)
	}
	return process
}

func TestDownLeavesThePodsOfAnotherKubeletAlone(t *testing.T) {
	process := podProcess(t)
	s := newState(t)
	for _, b := range []*baseline{nil, {Active: false}} {
		if b != nil {
			if err := s.saveBaseline(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.node0Down(); err != nil {
			t.Fatal(err)
		}
		if _, state, err := processIdentity(process.Process.Pid); err != nil || state == "Z" {
			t.Fatalf("the pod's process is gone with the baseline %+v", b)
		}
	}
}

func TestWhatOutlivesTheNodeIsKilled(t *testing.T) {
	process := podProcess(t)
	killOwned(t.TempDir())
	if err := process.Wait(); err == nil {
		t.Error("the pod's process ended by itself")
	}
}
