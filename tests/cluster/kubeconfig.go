package main

import (
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig is the configuration of one client, with its certificate inside
// so that the file works wherever it is copied.
func (a *authority) kubeconfig(server, name string) (*api.Config, error) {
	files := map[string][]byte{}
	for _, file := range []string{"ca.crt", name + ".crt", name + ".key"} {
		text, err := os.ReadFile(a.directory + "/" + file)
		if err != nil {
			return nil, err
		}
		files[file] = text
	}
	config := api.NewConfig()
	config.Clusters[clusterName] = &api.Cluster{Server: server, CertificateAuthorityData: files["ca.crt"]}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: files[name+".crt"], ClientKeyData: files[name+".key"]}
	config.Contexts[clusterName] = &api.Context{Cluster: clusterName, AuthInfo: name}
	config.CurrentContext = clusterName
	return config, nil
}

func (a *authority) writeKubeconfig(path, server, name string) error {
	config, err := a.kubeconfig(server, name)
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, path)
}

// client is an administrator's client for the running cluster.
func (s *State) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Path("kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	return kubernetes.NewForConfig(config)
}
