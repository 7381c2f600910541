package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	certificateLifetime = 365 * 24 * time.Hour
	// Certificates count from an hour ago: the clock of a virtual machine may lag.
	certificateHeadStart = time.Hour
)

// authority is the certificate authority of one cluster, kept in a folder with
// everything that it signed.
type authority struct {
	directory   string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// subject is what a certificate says: the user and groups of a client, the
// names and addresses of a server. One certificate may serve as both.
type subject struct {
	name   string
	groups []string
	hosts  []string
}

// openAuthority reads the authority in a folder, or makes one.
func openAuthority(directory string) (*authority, error) {
	a := &authority{directory: directory}
	var err error
	if a.certificate, a.key, err = readPair(directory, "ca"); err == nil {
		return a, nil
	}
	template := newTemplate(subject{name: clusterName})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	a.certificate, err = a.sign("ca", template, template, a.key)
	return a, err
}

// issue makes the certificate and key NAME.crt and NAME.key, unless valid ones
// for the same subject are there.
func (a *authority) issue(name string, who subject) error {
	if old, _, err := readPair(a.directory, name); err == nil && a.covers(old, who) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := newTemplate(who)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(who.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	_, err = a.sign(name, template, a.certificate, key)
	return err
}

// issueKey makes the key pair NAME.key and NAME.pub, which sign and check the
// tokens of service accounts.
func (a *authority) issueKey(name string) error {
	path := filepath.Join(a.directory, name+".key")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(a.directory, name+".pub"), "PUBLIC KEY", public, 0o644); err != nil {
		return err
	}
	return writeKey(path, key)
}

func (a *authority) covers(old *x509.Certificate, who subject) bool {
	if old.CheckSignatureFrom(a.certificate) != nil || time.Now().Add(24*time.Hour).After(old.NotAfter) {
		return false
	}
	var hosts []string
	for _, address := range old.IPAddresses {
		hosts = append(hosts, address.String())
	}
	hosts = append(hosts, old.DNSNames...)
	wanted := slices.Clone(who.hosts)
	slices.Sort(hosts)
	slices.Sort(wanted)
	return old.Subject.CommonName == who.name && slices.Equal(old.Subject.Organization, who.groups) && slices.Equal(hosts, wanted)
}

func (a *authority) sign(name string, template, parent *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	if err := writeKey(filepath.Join(a.directory, name+".key"), key); err != nil {
		return nil, err
	}
	if err := writePEM(filepath.Join(a.directory, name+".crt"), "CERTIFICATE", der, 0o644); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func newTemplate(who subject) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the system's random source failed
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: who.name, Organization: who.groups},
		NotBefore:    time.Now().Add(-certificateHeadStart),
		NotAfter:     time.Now().Add(certificateLifetime),
	}
	for _, host := range who.hosts {
		if address := net.ParseIP(host); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}

func readPair(directory, name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certificate, err := readPEM(filepath.Join(directory, name+".crt"))
	if err != nil {
		return nil, nil, err
	}
	key, err := readPEM(filepath.Join(directory, name+".key"))
	if err != nil {
		return nil, nil, err
	}
	parsed, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.ParseECPrivateKey(key)
	return parsed, private, err
}

func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New(path + " is not PEM")
	}
	return block.Bytes, nil
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
