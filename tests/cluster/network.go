package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"llama-operator.dev/testcluster/internal/host"
)

// ownChain holds the iptables rules of the driver, in the tables filter and nat.
const ownChain = "LLAMA-TEST"

// networkUp makes the bridge of node-0's pods and the rules that let pods reach
// each other and the world. The CNI plugin uses the bridge that is there.
//
// The bridge's alias names the state folder: a machine can be node-0 of one
// cluster only.
func (s *State) networkUp() error {
	exec.Command("modprobe", "br_netfilter").Run() // often built in
	for name, value := range sysctls {
		if value == "" {
			continue
		}
		if err := host.WriteSysctl(name, value); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("cannot set the kernel setting %s: %w", name, err)
		}
	}
	if !linkExists(bridgeName) {
		if err := needFreeSubnets(); err != nil {
			return err
		}
		if err := host.RunAll(
			"ip link add "+bridgeName+" type bridge",
			"ip address add "+node0Gateway+"/24 dev "+bridgeName,
			"ip link set "+bridgeName+" alias "+s.Dir+" up",
			// A machine without a default route reaches Services too.
			"ip route add "+serviceSubnet+" dev "+bridgeName,
		); err != nil {
			return err
		}
	}
	return rulesUp()
}

func rulesUp() error {
	if exec.Command("iptables", "-w", "-t", "filter", "-S", ownChain).Run() == nil &&
		exec.Command("iptables", "-w", "-t", "nat", "-S", ownChain).Run() == nil {
		return nil
	}
	rulesDown()
	return host.RunAll(
		"iptables -w -t filter -N "+ownChain,
		"iptables -w -t filter -A "+ownChain+" -s "+podSubnet+" -j ACCEPT",
		"iptables -w -t filter -A "+ownChain+" -d "+podSubnet+" -j ACCEPT",
		"iptables -w -t filter -A "+ownChain+" -s "+tapSubnet+" -j ACCEPT",
		"iptables -w -t filter -A "+ownChain+" -d "+tapSubnet+" -j ACCEPT",
		"iptables -w -t filter -I FORWARD -j "+ownChain,
		"iptables -w -t nat -N "+ownChain,
		"iptables -w -t nat -A "+ownChain+" -s "+podSubnet+" -d "+podSubnet+" -j RETURN",
		"iptables -w -t nat -A "+ownChain+" -s "+podSubnet+" -d "+tapSubnet+" -j RETURN",
		"iptables -w -t nat -A "+ownChain+" -s "+podSubnet+" -j MASQUERADE",
		"iptables -w -t nat -A POSTROUTING -j "+ownChain,
	)
}

func rulesDown() {
	for table, builtin := range map[string]string{"filter": "FORWARD", "nat": "POSTROUTING"} {
		for _, arguments := range []string{"-D " + builtin + " -j " + ownChain, "-F " + ownChain, "-X " + ownChain} {
			exec.Command("iptables", append([]string{"-w", "-t", table}, strings.Fields(arguments)...)...).Run()
		}
	}
}

// needFreeSubnets refuses when another network of this machine overlaps ours.
func needFreeSubnets() error {
	output, err := exec.Command("ip", "-4", "route", "show").Output()
	if err != nil {
		return err
	}
	for _, route := range strings.Split(string(output), "\n") {
		for _, prefix := range []string{"10.201.", "10.202.", "10.203."} {
			if strings.HasPrefix(route, prefix) && !strings.Contains(route, " llama") {
				return fmt.Errorf("this machine has a route %q, which overlaps the cluster's networks %s, %s and %s; remove it first",
					strings.TrimSpace(route), podSubnet, serviceSubnet, tapSubnet)
			}
		}
	}
	return nil
}

// needMachine refuses when this machine is node-0 of another cluster.
func (s *State) needMachine() error {
	if alias, err := os.ReadFile("/sys/class/net/" + bridgeName + "/ifalias"); err == nil {
		if owner := strings.TrimSpace(string(alias)); owner != s.Dir {
			return fmt.Errorf("this machine is a node of another cluster, whose state is in %s; stop that first: TESTCLUSTER_STATE=%s testcluster down", owner, owner)
		}
	}
	return nil
}

func linkExists(name string) bool {
	_, err := os.Stat("/sys/class/net/" + name)
	return err == nil
}

// linksDown removes our links, and with them their routes.
func linksDown() {
	for _, name := range []string{bridgeName, tapName} {
		if linkExists(name) {
			exec.Command("ip", "link", "delete", name).Run()
		}
	}
}

// clusterChains lists, as FAMILY/TABLE/CHAIN, the iptables chains whose names
// Kubernetes, CNI or this driver gives.
func clusterChains() []string {
	var found []string
	for _, family := range []string{"iptables", "ip6tables"} {
		output, err := exec.Command(family + "-save").Output()
		if err != nil {
			continue
		}
		for _, chain := range chainsOf(string(output)) {
			found = append(found, family+"/"+chain)
		}
	}
	slices.Sort(found)
	return found
}

// chainsOf reads the output of iptables-save.
func chainsOf(text string) []string {
	var found []string
	table := ""
	for _, line := range strings.Split(text, "\n") {
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = name
		}
		if declaration, ok := strings.CutPrefix(line, ":"); ok {
			name := strings.Fields(declaration)[0]
			if strings.HasPrefix(name, "KUBE-") || strings.HasPrefix(name, "CNI-") || name == ownChain {
				found = append(found, table+"/"+name)
			}
		}
	}
	return found
}

// chainsDown removes the chains that were not there before, and the rules that
// jump to them. All chains of a table go in one transaction, since they refer
// to each other.
func (b *baseline) chainsDown() error {
	byTable := map[string][]string{}
	for _, chain := range clusterChains() {
		if !slices.Contains(b.Chains, chain) {
			at := strings.LastIndex(chain, "/")
			byTable[chain[:at]] = append(byTable[chain[:at]], chain[at+1:])
		}
	}
	for place, chains := range byTable {
		family, table, _ := strings.Cut(place, "/")
		saved, err := exec.Command(family+"-save", "-t", table).Output()
		if err != nil {
			return err
		}
		restore := exec.Command(family+"-restore", "-w", "--noflush")
		restore.Stdin = strings.NewReader(removal(table, chains, string(saved)))
		if err := host.Quietly(restore); err != nil {
			return err
		}
	}
	return nil
}

// removal is the input of iptables-restore that removes chains from a table.
func removal(table string, chains []string, saved string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "*%s\n", table)
	for _, chain := range chains {
		fmt.Fprintf(&out, ":%s - [0:0]\n", chain) // empties it
	}
	for _, line := range strings.Split(saved, "\n") {
		rule, ok := strings.CutPrefix(line, "-A ")
		if !ok {
			continue
		}
		fields := strings.Fields(rule)
		jumps := false
		for i, field := range fields[:len(fields)-1] {
			jumps = jumps || ((field == "-j" || field == "-g") && slices.Contains(chains, fields[i+1]))
		}
		if jumps && !slices.Contains(chains, fields[0]) {
			fmt.Fprintf(&out, "-D %s\n", rule)
		}
	}
	for _, chain := range chains {
		fmt.Fprintf(&out, "-X %s\n", chain)
	}
	return out.String() + "COMMIT\n"
}
