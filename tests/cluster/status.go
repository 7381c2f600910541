package main

import "fmt"

// nodeProcesses are those of node-0 and of the virtual machine, in the order
// in which they start.
var nodeProcesses = []string{"containerd", "kubelet", "kube-proxy", machineProcess}

func runStatus(s *State, _ []string) error {
	stopped := 0
	for _, name := range append(append([]string{}, controlPlane...), nodeProcesses...) {
		record := s.find(name)
		line := func(format string, values ...any) {
			fmt.Printf("%-24s %s\n", name, fmt.Sprintf(format, values...))
		}
		switch {
		case record.alive():
			line("running, pid %d, %s", record.PID, s.logPath(name))
		case record != nil:
			line("died; start it again with up, node-up or numa-node-up; see %s", s.logPath(name))
			stopped++
		default:
			line("not started")
		}
	}
	if s.allAlive(controlPlane) {
		fmt.Printf("KUBECONFIG=%s\n", s.Path("kubeconfig"))
		fmt.Printf("kubectl and helm are in %s\n", s.Path("bin"))
	}
	if stopped > 0 {
		return exitCode(1)
	}
	return nil
}
