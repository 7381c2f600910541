package main

import (
	_ "embed"
	"fmt"
	"path/filepath"
)

//go:embed kubelet.yaml
var kubeletCommon string

//go:embed kubelet-numa.yaml
var kubeletNUMA string

// kubeletFiles are the paths that the kubelet of one node uses.
type kubeletFiles struct {
	Config       string // the folder of kubelet.yaml and kubelet.d
	Root         string // the kubelet's own folder
	Certificates string
	Certificate  string // name of the node's certificate
	Runtime      containerRuntime
	PodLogs      string
	Port, Health int
}

// nodeConfig is the part of the kubelet's configuration that only this node has.
func (f kubeletFiles) nodeConfig() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%[1]s
podLogsDir: %[2]s
volumePluginDir: %[3]s
port: %[4]d
healthzPort: %[5]d
authentication:
  x509: {clientCAFile: %[6]s/ca.crt}
tlsCertFile: %[6]s/%[7]s.crt
tlsPrivateKeyFile: %[6]s/%[7]s.key
`, f.Runtime.socket(), f.PodLogs, filepath.Join(f.Root, "volume-plugins"), f.Port, f.Health, f.Certificates, f.Certificate)
}

// write writes the configuration files into a folder. The kubelet merges those of
// kubelet.d over the first one, in the order of their names.
func (f kubeletFiles) write(folder string, numa bool) error {
	files := map[string]string{"kubelet.yaml": kubeletCommon, "kubelet.d/10-node.conf": f.nodeConfig()}
	if numa {
		files["kubelet.d/20-numa.conf"] = kubeletNUMA
	}
	return writeFiles(folder, files)
}

// flags are the kubelet's arguments.
func (f kubeletFiles) flags(kubeconfig, name, address string) []string {
	return []string{
		"--config=" + filepath.Join(f.Config, "kubelet.yaml"), "--config-dir=" + filepath.Join(f.Config, "kubelet.d"),
		"--kubeconfig=" + kubeconfig, "--root-dir=" + f.Root, "--hostname-override=" + name, "--node-ip=" + address,
		"--cert-dir=" + filepath.Join(f.Root, "pki"), "--v=2",
	}
}

// proxyFlags are kube-proxy's arguments. It must not touch connection tracking
// settings of the machine: 0 leaves each as it is.
func proxyFlags(kubeconfig, name string, health, metrics int) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--hostname-override=" + name, "--proxy-mode=iptables",
		"--detect-local-mode=ClusterCIDR", "--cluster-cidr=" + podSubnet, "--iptables-localhost-nodeports=false",
		fmt.Sprintf("--healthz-bind-address=127.0.0.1:%d", health), fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics),
		"--conntrack-max-per-core=0", "--conntrack-min=0",
		"--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
	}
}
