// testcluster is a real Kubernetes cluster on one machine. Every part of it
// (API server, kubelet, kubectl, ...) is in this one binary: the first argument
// names a command of the driver, or the part to run with its own flags.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

// command is one word that the driver understands.
type command struct {
	arguments string
	help      string
	run       func(state *State, arguments []string) error
}

func commands() map[string]command {
	return map[string]command{
		"up":             {"", "start the control plane: etcd, API server, controller manager, scheduler", runUp},
		"node-up":        {"", "add this machine as node-0: containerd, kubelet, kube-proxy (needs root)", runNodeUp},
		"numa-node-up":   {"[--profile numa|none] [--accel tcg|kvm]", "add a virtual machine with two NUMA nodes as numa-node (needs root)", runNumaNodeUp},
		"numa-node-down": {"", "stop the virtual machine alone", runNumaNodeDown},
		"load":           {"IMAGE.tar...", "import image archives into the nodes that are up", runLoad},
		"copy":           {"FILE NODE:/PATH", "put a file on a node", runCopy},
		"vm-exec":        {"COMMAND [ARGUMENT...]", "run a command inside the virtual machine of numa-node", runVMExec},
		"vm-log":         {"NAME", "print the log of a process of the virtual machine, such as kubelet", runVMLog},
		"kstatus":        {"", "read objects as JSON, print what Flux and helm make of their status", runKstatus},
		"status":         {"", "print what runs and where its log is", runStatus},
		"down":           {"", "stop everything that was started, and clean up behind it", runDown},
		"leftovers":      {"", "print what a cluster left on this machine; exit 1 if there is anything", runLeftovers},
	}
}

func main() {
	if len(os.Args) < 2 {
		usage(os.Stderr)
		os.Exit(2)
	}
	name, arguments := os.Args[1], os.Args[2:]
	if name == "help" || name == "--help" || name == "-h" {
		usage(os.Stdout)
		return
	}
	if part, ok := parts()[name]; ok {
		os.Args = os.Args[1:]
		os.Exit(part(arguments))
	}
	command, ok := commands()[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "testcluster: there is no command or part %q; 'testcluster help' lists them\n", name)
		os.Exit(2)
	}
	keepOpenFiles()
	state, err := openState()
	if err == nil {
		err = command.run(state, arguments)
	}
	if err != nil {
		if exit, ok := err.(exitCode); ok {
			os.Exit(int(exit))
		}
		fmt.Fprintf(os.Stderr, "testcluster %s: %v\n", name, err)
		os.Exit(1)
	}
}

// exitCode ends the driver with this code and no further message.
type exitCode int

func (code exitCode) Error() string { return fmt.Sprintf("exit code %d", int(code)) }

func usage(out *os.File) {
	fmt.Fprintln(out, "usage: testcluster COMMAND")
	order := []string{"up", "node-up", "numa-node-up", "numa-node-down", "load", "copy", "vm-exec", "vm-log", "kstatus", "status", "down", "leftovers"}
	all := commands()
	for _, name := range order {
		fmt.Fprintf(out, "  %s\n        %s\n", strings.TrimSpace(name+" "+all[name].arguments), all[name].help)
	}
	var names []string
	for name := range parts() {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(out, "or a part with its own flags: %s\n", strings.Join(names, ", "))
	fmt.Fprintln(out, "state: $TESTCLUSTER_STATE (default build/cluster in the repository); ports: $TESTCLUSTER_PORT_BASE (default 16000)")
}
