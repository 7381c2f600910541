package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"llama-operator.dev/testcluster/internal/host"
)

const (
	machineProcess = "virtual-machine"
	// Each of the two NUMA nodes has this much memory and four CPUs.
	machineNodeMiB = 3072
	scratchSize    = "20G" // sparse
)

// machineOptions are what numa-node can be asked to be.
type machineOptions struct {
	Profile     string `json:"profile"`
	Accelerator string `json:"accelerator"`
}

func parseMachineOptions(arguments []string) (machineOptions, error) {
	options := machineOptions{}
	flags := flag.NewFlagSet("numa-node-up", flag.ContinueOnError)
	flags.StringVar(&options.Profile, "profile", "numa", "numa: kubelet-numa.yaml; none: a kubelet without managers")
	flags.StringVar(&options.Accelerator, "accel", "tcg", "tcg works everywhere; kvm is faster where it works")
	if err := flags.Parse(arguments); err != nil {
		return options, exitCode(2)
	}
	if flags.NArg() > 0 || (options.Profile != "numa" && options.Profile != "none") || (options.Accelerator != "tcg" && options.Accelerator != "kvm") {
		return options, errors.New("the options are --profile numa|none and --accel tcg|kvm")
	}
	return options, nil
}

func runNumaNodeUp(s *State, arguments []string) error {
	options, err := parseMachineOptions(arguments)
	if err != nil {
		return err
	}
	if err := runUp(s, nil); err != nil {
		return err
	}
	if s.machineRuns(options) && s.machineReady() == nil {
		report(numaNode, "already up")
		return nil
	}
	began := time.Now()
	if err := s.locked(func() error { return s.machineUp(options) }); err != nil {
		return err
	}
	// Not locked: the rest of the cluster can be used while the machine boots.
	if err := s.waitForMachine(); err != nil {
		return err
	}
	report(numaNode, "ready in %s", since(began))
	return nil
}

func (s *State) machineRuns(options machineOptions) bool {
	return s.find(machineProcess).alive() && s.machineOptions() == options
}

// machineUp boots the virtual machine. One that runs with other options is
// started again.
func (s *State) machineUp(options machineOptions) error {
	if s.machineRuns(options) {
		return nil
	}
	if s.find(machineProcess).alive() {
		report(numaNode, "starting again with profile %s and accelerator %s", options.Profile, options.Accelerator)
		if err := s.machineDown(); err != nil {
			return err
		}
	}
	return s.boot(options)
}

func (s *State) machineOptions() machineOptions {
	options := machineOptions{}
	text, err := os.ReadFile(s.Path("machine", "options.json"))
	if err == nil {
		json.Unmarshal(text, &options) // unreadable ones differ from any that are asked for
	}
	return options
}

func (s *State) boot(options machineOptions) error {
	if err := needRoot(numaNode); err != nil {
		return err
	}
	if err := s.needMachine(); err != nil {
		return err
	}
	if err := needMemory(); err != nil {
		return err
	}
	if err := needPackages(append(machineRequirements, nodeRequirements...)); err != nil {
		return err
	}
	disks, err := s.rootDisk()
	if err != nil {
		return err
	}
	if err := s.takeBaseline(); err != nil {
		return err
	}
	if err := s.networkUp(); err != nil {
		return err
	}
	if err := tapUp(); err != nil {
		return err
	}
	if err := s.writeMachineFiles(options, disks); err != nil {
		return err
	}
	if err := s.forgetNode(numaNode); err != nil {
		return err
	}
	report(numaNode, "booting a machine with 2 NUMA nodes, usually 1 to 2 min")
	_, err = s.start(machineProcess, s.qemu(options, disks)...)
	return err
}

// tapUp makes the link to the virtual machine and the route to its pods.
func tapUp() error {
	if !linkExists(tapName) {
		if err := host.RunAll(
			"ip tuntap add dev "+tapName+" mode tap",
			"ip address add "+tapAddress+"/24 dev "+tapName,
		); err != nil {
			return err
		}
	}
	return host.RunAll(
		"ip link set "+tapName+" up",
		"ip route replace "+numaNodePodSubnet+" via "+numaNodeAddress+" dev "+tapName,
	)
}

// needMemory refuses early: the machine takes about 3 GiB at once and up to 6.
func needMemory() error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(text), "\n") {
		var kibibytes int
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kibibytes); err == nil && kibibytes < 4<<20 {
			return fmt.Errorf("%s needs 4 GiB of free memory and this machine has %.1f; stop something", numaNode, float64(kibibytes)/(1<<20))
		}
	}
	return nil
}

// forgetNode deletes the node's object, whose state is of an earlier boot.
func (s *State) forgetNode(name string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	err = client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// waitForMachine prints each stage of the boot and returns once pods can run.
func (s *State) waitForMachine() error {
	last := ""
	return s.waitFor(numaNode, 15*time.Minute, []string{machineProcess}, func() error {
		stage, err := s.agent().stage()
		if err != nil {
			return err
		}
		if stage != last {
			report(numaNode, "%s", stage)
			last = stage
		}
		return s.machineReady()
	})
}

// machineReady is nil when the node is Ready and offers its two GPUs.
func (s *State) machineReady() error {
	if err := s.nodeReady(numaNode); err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(context.Background(), numaNode, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if gpus := node.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != 2 {
		return fmt.Errorf("%s offers %d nvidia.com/gpu instead of 2", numaNode, gpus.Value())
	}
	return nil
}

// runNumaNodeDown stops the virtual machine, which is busy even when idle, and
// leaves the rest of the cluster up.
func runNumaNodeDown(s *State, _ []string) error {
	return s.locked(func() error {
		if err := s.machineDown(); err != nil {
			return err
		}
		report(numaNode, "down")
		if !s.allAlive(controlPlane) {
			return nil
		}
		return s.forgetNode(numaNode)
	})
}

func (s *State) machineDown() error {
	// Its disks are made anew at each boot: nothing in it needs an orderly end.
	return s.stop(machineProcess, syscall.SIGTERM, 5*time.Second)
}
