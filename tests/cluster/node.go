package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"llama-operator.dev/testcluster/internal/host"
)

// node0Processes run on this machine besides the control plane.
var node0Processes = []string{"containerd", "kubelet", "kube-proxy"}

func (s *State) node0Runtime() containerRuntime {
	return containerRuntime{Directory: s.Path("containerd"), Config: s.Path("config")}
}

func runNodeUp(s *State, _ []string) error {
	if err := runUp(s, nil); err != nil {
		return err
	}
	if s.node0IsUp() {
		return nil
	}
	return s.locked(s.node0Up)
}

func (s *State) node0IsUp() bool {
	up := s.allAlive(node0Processes) && s.nodeReady(node0) == nil
	if up {
		report(node0, "already up")
	}
	return up
}

// node0Up makes this machine a node, or starts again what died of it.
func (s *State) node0Up() error {
	if s.node0IsUp() {
		return nil
	}
	began := time.Now()
	if err := s.canBeNode(); err != nil {
		return err
	}
	if err := needPackages(nodeRequirements); err != nil {
		return err
	}
	if err := s.needPorts("kubelet", s.kubeletPort(), s.kubeletHealthPort()); err != nil {
		return err
	}
	if err := s.needPorts("kube-proxy", s.proxyHealthPort(), s.proxyMetricsPort()); err != nil {
		return err
	}
	if err := s.takeBaseline(); err != nil {
		return err
	}
	if err := s.networkUp(); err != nil {
		return err
	}
	if err := s.startContainerd(); err != nil {
		return err
	}
	if err := s.startKubelet(); err != nil {
		return err
	}
	if err := s.waitFor(node0, 2*time.Minute, node0Processes, func() error { return s.nodeReady(node0) }); err != nil {
		return err
	}
	report(node0, "ready in %s", since(began))
	return nil
}

// canBeNode refuses in a sentence what can't work, before anything is changed.
func (s *State) canBeNode() error {
	if err := needRoot(node0); err != nil {
		return err
	}
	if err := needCgroups(); err != nil {
		return err
	}
	if hostAddress() == "" {
		return errors.New("this machine has no IPv4 address besides loopback, so it can't be a node; the control plane alone works: testcluster up")
	}
	if len(s.Dir) > maximumStatePath {
		return fmt.Errorf("the path of the state folder, %s, is longer than %d characters, which leaves no room for the paths of sockets; set TESTCLUSTER_STATE to a shorter one",
			s.Dir, maximumStatePath)
	}
	if err := s.needMachine(); err != nil {
		return err
	}
	if b := s.baseline(); (b == nil || !b.Active) && len(podCgroups()) > 0 {
		return errors.New("another kubelet seems to run here: there is a cgroup kubepods; node-0 would disturb it, so stop it or use the control plane alone: testcluster up")
	}
	return nil
}

func (s *State) startContainerd() error {
	runtime := s.node0Runtime()
	if err := runtime.writeConfig(runtime.Config, bridgeName, node0PodSubnet); err != nil {
		return err
	}
	fresh, err := s.start("containerd", runtime.command()...)
	if err != nil {
		return err
	}
	if err := s.waitFor("containerd", time.Minute, []string{"containerd"}, func() error { return host.Listens(runtime.socket()) }); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	archive := s.Path("pause.tar")
	if err := writePauseImage(archive); err != nil {
		return err
	}
	_, err = host.ImportImage(runtime.socket(), archive)
	return err
}

func (s *State) startKubelet() error {
	a, err := openAuthority(s.Path("certificates"))
	if err != nil {
		return err
	}
	for _, name := range []string{node0, "kube-proxy"} {
		if err := a.writeKubeconfig(s.Path(name+".kubeconfig"), s.localServer(), name); err != nil {
			return err
		}
	}
	files := kubeletFiles{Config: s.Path("config"), Root: s.Path("kubelet"), Certificates: s.Path("certificates"), Certificate: node0,
		Runtime: s.node0Runtime(), PodLogs: s.Path("pod-logs"), Port: s.kubeletPort(), Health: s.kubeletHealthPort()}
	if err := files.write(files.Config, false); err != nil {
		return err
	}
	if err := s.startPart("kubelet", files.flags(s.Path(node0+".kubeconfig"), node0, hostAddress())...); err != nil {
		return err
	}
	return s.startPart("kube-proxy", proxyFlags(s.Path("kube-proxy.kubeconfig"), node0, s.proxyHealthPort(), s.proxyMetricsPort())...)
}

// nodeReady is nil when the node's condition Ready is true and fresh.
func (s *State) nodeReady(name string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == core.NodeReady && condition.Status == core.ConditionTrue {
			return nil
		} else if condition.Type == core.NodeReady {
			return fmt.Errorf("node %s: %s", name, condition.Message)
		}
	}
	return fmt.Errorf("node %s has no condition Ready yet", name)
}

// node0Down stops node-0 and puts the machine back into the state before it.
func (s *State) node0Down() error {
	if err := s.stop("kube-proxy", syscall.SIGTERM, 2*time.Second); err != nil {
		return err
	}
	if err := s.stop("kubelet", syscall.SIGTERM, 5*time.Second); err != nil {
		return err
	}
	if s.find("containerd").alive() {
		if err := s.node0Runtime().removePods(); err != nil {
			report(node0, "a pod did not stop in order: %v", err)
		}
	}
	if err := s.stop("containerd", syscall.SIGTERM, 10*time.Second); err != nil {
		return err
	}
	b := s.baseline()
	if b == nil || !b.Active {
		return nil // the pods on this machine, if there are any, are another kubelet's
	}
	killOwned(s.Dir)
	unmountBelow(s.Dir)
	if err := b.chainsDown(); err != nil {
		return err
	}
	linksDown()
	removePodCgroups()
	b.restoreSysctls()
	for _, directory := range b.newDirectories() {
		if len(mountsBelow(directory)) == 0 {
			os.RemoveAll(directory)
		}
	}
	b.Active = false
	return s.saveBaseline(b)
}
