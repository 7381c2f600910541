package main

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

func issued(t *testing.T, directory, name string) *x509.Certificate {
	t.Helper()
	certificate, _, err := readPair(directory, name)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestCertificatesAreTrustedThroughTheAuthority(t *testing.T) {
	directory := t.TempDir()
	a, err := openAuthority(directory)
	if err != nil {
		t.Fatal(err)
	}
	who := subject{name: "system:node:n", groups: []string{"system:nodes"}, hosts: []string{"n", "10.0.0.1"}}
	if err := a.issue("n", who); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(issued(t, directory, "ca"))
	for _, host := range []string{"n", "10.0.0.1"} {
		if _, err := issued(t, directory, "n").Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := issued(t, directory, "n").Verify(x509.VerifyOptions{Roots: roots, DNSName: "10.0.0.2"}); err == nil {
		t.Error("trusted for an address that it does not name")
	}
	client := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := issued(t, directory, "n").Verify(client); err != nil {
		t.Errorf("as a client: %v", err)
	}
}

func TestACertificateWithoutHostsIsNoServer(t *testing.T) {
	directory := t.TempDir()
	a, err := openAuthority(directory)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.issue("admin", subject{name: "admin", groups: []string{"system:masters"}}); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	server := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if _, err := issued(t, directory, "admin").Verify(server); err == nil {
		t.Error("a client's certificate serves")
	}
}

func TestCertificatesAreKeptUntilTheirSubjectChanges(t *testing.T) {
	directory := t.TempDir()
	serial := func(hosts ...string) string {
		a, err := openAuthority(directory)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.issue("server", subject{name: "server", hosts: hosts}); err != nil {
			t.Fatal(err)
		}
		return issued(t, directory, "server").SerialNumber.String()
	}
	first := serial("10.0.0.1", "a")
	if again := serial("a", "10.0.0.1"); again != first {
		t.Error("the same subject was issued again")
	}
	if moved := serial("10.0.0.2", "a"); moved == first {
		t.Error("a new address did not give a new certificate")
	}
}

func TestKeysAreReadableByTheirOwnerOnly(t *testing.T) {
	directory := t.TempDir()
	a, err := openAuthority(directory)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.issueKey("service-account"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.key", "service-account.key"} {
		info, err := os.Stat(filepath.Join(directory, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestAKubeconfigHoldsEverythingItNeeds(t *testing.T) {
	a, err := openAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.issue("admin", subject{name: "admin"}); err != nil {
		t.Fatal(err)
	}
	config, err := a.kubeconfig("https://127.0.0.1:1", "admin")
	if err != nil {
		t.Fatal(err)
	}
	user, cluster := config.AuthInfos["admin"], config.Clusters[clusterName]
	if config.CurrentContext != clusterName || len(user.ClientKeyData) == 0 || len(user.ClientCertificateData) == 0 ||
		len(cluster.CertificateAuthorityData) == 0 || cluster.InsecureSkipTLSVerify {
		t.Errorf("got %+v, %+v", user, cluster)
	}
}
