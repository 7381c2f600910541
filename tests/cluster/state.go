package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Names and addresses of the cluster. The subnets are ones that common tools
// (docker, podman, kind, k3s, flannel) do not take.
const (
	clusterName    = "llama-test"
	podSubnet      = "10.201.0.0/16"
	serviceSubnet  = "10.202.0.0/16"
	serviceAddress = "10.202.0.1" // of the Service kubernetes
	bridgeName     = "llama0"

	node0          = "node-0"
	node0PodSubnet = "10.201.0.0/24"
	node0Gateway   = "10.201.0.1"

	numaNode          = "numa-node"
	numaNodePodSubnet = "10.201.1.0/24"
	tapName           = "llamatap0"
	tapSubnet         = "10.203.0.0/24"
	tapAddress        = "10.203.0.1" // this machine, as the virtual machine sees it
	numaNodeAddress   = "10.203.0.2"

	// maximumStatePath keeps the paths of the sockets of node-0 within the 107
	// bytes that the kernel allows.
	maximumStatePath = 70
)

// State is the one folder that holds everything a cluster writes.
type State struct {
	Dir string
	// PortBase is the first of the ports that the cluster listens on.
	PortBase int
}

// openState finds the folder: $TESTCLUSTER_STATE, or build/cluster of the
// repository that the working directory is in.
func openState() (*State, error) {
	directory := os.Getenv("TESTCLUSTER_STATE")
	if directory == "" {
		root, err := repositoryRoot()
		if err != nil {
			return nil, err
		}
		directory = filepath.Join(root, "build", "cluster")
	}
	directory, err := filepath.Abs(directory)
	if err != nil {
		return nil, err
	}
	base := 16000
	if text := os.Getenv("TESTCLUSTER_PORT_BASE"); text != "" {
		if base, err = strconv.Atoi(text); err != nil || base < 1024 || base > 64000 {
			return nil, fmt.Errorf("TESTCLUSTER_PORT_BASE is %q; give a number from 1024 to 64000", text)
		}
	}
	return &State{Dir: directory, PortBase: base}, nil
}

func repositoryRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "tests", "cluster", "go.mod")); err == nil {
			return directory, nil
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", errors.New("the working directory is not in the repository; run it from there or set TESTCLUSTER_STATE to a folder for the state")
		}
		directory = parent
	}
}

// Path is the path of a file in the state folder.
func (s *State) Path(elements ...string) string {
	return filepath.Join(append([]string{s.Dir}, elements...)...)
}

func (s *State) port(offset int) int { return s.PortBase + offset }

func (s *State) apiServerPort() int         { return s.port(443) }
func (s *State) etcdPort() int              { return s.port(379) }
func (s *State) etcdPeerPort() int          { return s.port(380) }
func (s *State) kubeletPort() int           { return s.port(250) }
func (s *State) kubeletHealthPort() int     { return s.port(248) }
func (s *State) proxyHealthPort() int       { return s.port(256) }
func (s *State) proxyMetricsPort() int      { return s.port(249) }
func (s *State) controllerManagerPort() int { return s.port(257) }
func (s *State) schedulerPort() int         { return s.port(259) }

// create makes the folder and its fixed subfolders.
func (s *State) create() error {
	for _, name := range []string{"", "logs", "processes", "certificates", "bin"} {
		if err := os.MkdirAll(s.Path(name), 0o755); err != nil {
			return fmt.Errorf("cannot make the state folder: %w", err)
		}
	}
	return os.Chmod(s.Path("certificates"), 0o700)
}

// locked runs a change of the cluster, one driver at a time.
func (s *State) locked(change func() error) error {
	if err := s.create(); err != nil {
		return err
	}
	file, err := os.OpenFile(s.Path("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer file.Close() // which unlocks it
	descriptor := int(file.Fd())
	if syscall.Flock(descriptor, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		report("cluster", "waiting for another testcluster command to finish")
		if err := syscall.Flock(descriptor, syscall.LOCK_EX); err != nil {
			return err
		}
	}
	return change()
}

// cacheDirectory holds what is slow to make and may be shared by clusters.
func cacheDirectory() (string, error) {
	if directory := os.Getenv("LLAMA_OPERATOR_CACHE"); directory != "" {
		return directory, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w; set LLAMA_OPERATOR_CACHE", err)
	}
	return filepath.Join(cache, "llama-operator"), nil
}
