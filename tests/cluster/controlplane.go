package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// controlPlane lists its processes in the order in which they start.
var controlPlane = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

func runUp(s *State, _ []string) error {
	if s.controlPlaneIsUp() {
		return nil
	}
	return s.locked(s.controlPlaneUp)
}

func (s *State) controlPlaneIsUp() bool {
	up := s.allAlive(controlPlane)
	if up {
		report("control plane", "already up, KUBECONFIG=%s", s.Path("kubeconfig"))
	}
	return up
}

// controlPlaneUp starts whatever of the control plane does not run.
func (s *State) controlPlaneUp() error {
	if s.controlPlaneIsUp() {
		return nil
	}
	began := time.Now()
	a, err := s.issueCertificates()
	if err != nil {
		return err
	}
	if err := s.writeTools(); err != nil {
		return err
	}
	if err := s.startEtcd(); err != nil {
		return err
	}
	if err := s.startAPIServer(a); err != nil {
		return err
	}
	if err := s.startControllers(); err != nil {
		return err
	}
	report("control plane", "ready in %s, KUBECONFIG=%s", since(began), s.Path("kubeconfig"))
	return nil
}

func (s *State) startEtcd() error {
	if err := s.needPorts("etcd", s.etcdPort(), s.etcdPeerPort()); err != nil {
		return err
	}
	client := fmt.Sprintf("https://127.0.0.1:%d", s.etcdPort())
	peer := fmt.Sprintf("https://127.0.0.1:%d", s.etcdPeerPort())
	pair := []string{"--cert-file=" + s.certificate("etcd.crt"), "--key-file=" + s.certificate("etcd.key"),
		"--peer-cert-file=" + s.certificate("etcd.crt"), "--peer-key-file=" + s.certificate("etcd.key"),
		"--trusted-ca-file=" + s.certificate("ca.crt"), "--peer-trusted-ca-file=" + s.certificate("ca.crt"),
		"--client-cert-auth", "--peer-client-cert-auth"}
	return s.startPart("etcd", append(pair, "--name="+clusterName, "--data-dir="+s.Path("etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster="+clusterName+"="+peer,
		// The data lives no longer than the cluster: a crash of the machine may lose it.
		"--unsafe-no-fsync", "--log-level=warn")...)
}

func (s *State) startAPIServer(a *authority) error {
	if err := s.needPorts("kube-apiserver", s.apiServerPort()); err != nil {
		return err
	}
	flags := []string{
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", s.etcdPort()),
		"--etcd-cafile=" + s.certificate("ca.crt"),
		"--etcd-certfile=" + s.certificate("etcd.crt"), "--etcd-keyfile=" + s.certificate("etcd.key"),
		fmt.Sprintf("--secure-port=%d", s.apiServerPort()),
		"--client-ca-file=" + s.certificate("ca.crt"),
		"--tls-cert-file=" + s.certificate("kube-apiserver.crt"), "--tls-private-key-file=" + s.certificate("kube-apiserver.key"),
		"--kubelet-certificate-authority=" + s.certificate("ca.crt"),
		"--kubelet-client-certificate=" + s.certificate("admin.crt"), "--kubelet-client-key=" + s.certificate("admin.key"),
		"--kubelet-preferred-address-types=InternalIP",
		// The aggregation layer: the API server's own name towards added API servers.
		"--requestheader-client-ca-file=" + s.certificate("ca.crt"), "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + s.certificate("front-proxy.crt"), "--proxy-client-key-file=" + s.certificate("front-proxy.key"),
		"--enable-aggregator-routing",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.certificate("service-account.pub"),
		"--service-account-signing-key-file=" + s.certificate("service-account.key"),
		"--service-cluster-ip-range=" + serviceSubnet,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
		"--profiling=false",
	}
	if address := hostAddress(); address != "" {
		flags = append(flags, "--advertise-address="+address)
	} else {
		// No address to give to pods: the Service kubernetes stays without endpoints.
		flags = append(flags, "--bind-address=127.0.0.1", "--endpoint-reconciler-type=none")
	}
	if _, err := os.Stat(s.Path("audit-policy.yaml")); err == nil {
		flags = append(flags, "--audit-policy-file="+s.Path("audit-policy.yaml"), "--audit-log-path="+s.Path("audit.log"))
	}
	if err := s.startPart("kube-apiserver", flags...); err != nil {
		return err
	}
	if err := a.writeKubeconfig(s.Path("kubeconfig"), s.localServer(), "admin"); err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	return s.waitFor("the API server", 2*time.Minute, controlPlane[:2], func() error {
		return client.RESTClient().Get().AbsPath("/readyz").Do(context.Background()).Error()
	})
}

// startControllers starts the controller manager and the scheduler, and waits
// for the account that every pod needs.
func (s *State) startControllers() error {
	for name, port := range map[string]int{"kube-controller-manager": s.controllerManagerPort(), "kube-scheduler": s.schedulerPort()} {
		if err := s.needPorts(name, port); err != nil {
			return err
		}
		config := s.Path(name + ".kubeconfig")
		flags := []string{"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--leader-elect=false",
			// The defaults make a thousand pods wait for minutes; there is nobody to protect here.
			"--kube-api-qps=1000", "--kube-api-burst=2000",
			"--tls-cert-file=" + s.certificate("kube-apiserver.crt"), "--tls-private-key-file=" + s.certificate("kube-apiserver.key"),
			"--profiling=false"}
		if name == "kube-controller-manager" {
			flags = append(flags, "--use-service-account-credentials", "--root-ca-file="+s.certificate("ca.crt"),
				"--service-account-private-key-file="+s.certificate("service-account.key"),
				"--cluster-signing-cert-file="+s.certificate("ca.crt"), "--cluster-signing-key-file="+s.certificate("ca.key"),
				// A busy test machine is slow, not dead.
				"--node-monitor-grace-period=120s",
				"--flex-volume-plugin-dir="+s.Path("volume-plugins"))
		}
		if err := s.startPart(name, flags...); err != nil {
			return err
		}
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	return s.waitFor("the controller manager", 2*time.Minute, controlPlane, func() error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(context.Background(), "default", metav1.GetOptions{})
		return err
	})
}

func (s *State) controlPlaneDown() error {
	for _, name := range []string{"kube-scheduler", "kube-controller-manager"} {
		if err := s.stop(name, syscall.SIGTERM, time.Second); err != nil {
			return err
		}
	}
	// The API server before etcd: without etcd it takes long to end.
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if err := s.stop(name, syscall.SIGTERM, 5*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// localServer is the API server's address for clients on this machine.
func (s *State) localServer() string { return fmt.Sprintf("https://127.0.0.1:%d", s.apiServerPort()) }

func (s *State) certificate(file string) string { return s.Path("certificates", file) }

// issueCertificates makes what is missing and the kubeconfig of each client.
func (s *State) issueCertificates() (*authority, error) {
	a, err := openAuthority(s.Path("certificates"))
	if err != nil {
		return nil, err
	}
	hosts := []string{"127.0.0.1", "localhost", serviceAddress, tapAddress,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if address := hostAddress(); address != "" {
		hosts = append(hosts, address)
	}
	subjects := map[string]subject{
		"admin":                   {name: "admin", groups: []string{"system:masters"}},
		"front-proxy":             {name: "front-proxy"},
		"etcd":                    {name: "etcd", hosts: []string{"127.0.0.1", "localhost"}},
		"kube-apiserver":          {name: "kube-apiserver", hosts: hosts},
		"kube-controller-manager": {name: "system:kube-controller-manager"},
		"kube-scheduler":          {name: "system:kube-scheduler"},
		"kube-proxy":              {name: "system:kube-proxy"},
		node0:                     {name: "system:node:" + node0, groups: []string{"system:nodes"}, hosts: []string{node0, hostAddress()}},
		numaNode:                  {name: "system:node:" + numaNode, groups: []string{"system:nodes"}, hosts: []string{numaNode, numaNodeAddress}},
	}
	if hostAddress() == "" {
		delete(subjects, node0)
	}
	for name, who := range subjects {
		if err := a.issue(name, who); err != nil {
			return nil, err
		}
	}
	if err := a.issueKey("service-account"); err != nil {
		return nil, err
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if err := a.writeKubeconfig(s.Path(name+".kubeconfig"), s.localServer(), name); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// writeTools puts kubectl and helm into the folder bin; they use this cluster
// unless KUBECONFIG says another.
func (s *State) writeTools() error {
	for _, name := range []string{"kubectl", "helm"} {
		text := fmt.Sprintf("#!/bin/sh\nKUBECONFIG=${KUBECONFIG:-'%s'} exec '%s' %s \"$@\"\n", s.Path("kubeconfig"), executable(), name)
		if err := os.WriteFile(s.Path("bin", name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) allAlive(names []string) bool {
	for _, name := range names {
		if !s.find(name).alive() {
			return false
		}
	}
	return true
}

// needPorts says which port of a process that is about to start is taken.
func (s *State) needPorts(name string, ports ...int) error {
	if s.find(name).alive() {
		return nil
	}
	for _, port := range ports {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return fmt.Errorf("port %d, which %s needs, is taken ('ss -ltnp' says by whom); stop that, or set TESTCLUSTER_PORT_BASE (now %d)", port, name, s.PortBase)
		}
		listener.Close()
	}
	return nil
}

// hostAddress is this machine's IPv4 address that other machines reach, empty
// when it has none. Addresses that the cluster itself made don't count.
func hostAddress() string {
	// No packet is sent: connecting a UDP socket only picks the source address.
	if connection, err := net.Dial("udp4", "203.0.113.1:9"); err == nil {
		defer connection.Close()
		return connection.LocalAddr().(*net.UDPAddr).IP.String()
	}
	interfaces, _ := net.Interfaces()
	for _, link := range interfaces {
		if link.Flags&net.FlagLoopback != 0 || link.Flags&net.FlagUp == 0 || strings.HasPrefix(link.Name, "llama") {
			continue
		}
		addresses, _ := link.Addrs()
		for _, address := range addresses {
			if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil {
				return network.IP.String()
			}
		}
	}
	return ""
}

// report prints one line of progress.
func report(what, format string, values ...any) {
	fmt.Printf("%-15s %s\n", what, fmt.Sprintf(format, values...))
}

func since(began time.Time) string { return fmt.Sprintf("%.1f s", time.Since(began).Seconds()) }
