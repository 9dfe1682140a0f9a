package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// identity is a certificate signed by the cluster's authority.
type identity struct {
	file   string
	name   string
	groups []string
	names  []string // DNS names and IP addresses. If there are any, the certificate is a serving certificate.
}

var identities = []identity{
	{file: "apiserver", name: "kube-apiserver", names: []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"127.0.0.1", nodeAddress, apiService}},
	{file: "apiserver-kubelet", name: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
	{file: "admin", name: "admin", groups: []string{"system:masters"}},
	{file: "controller-manager", name: "system:kube-controller-manager"},
	{file: "scheduler", name: "system:kube-scheduler"},
	{file: "kube-proxy", name: "system:kube-proxy"},
	{file: "kubelet", name: "system:node:" + nodeName, groups: []string{"system:nodes"}},
	{file: "traefik", name: "localcluster:traefik"},
	{file: "prometheus", name: "localcluster:prometheus"},
	{file: "gateway", name: "localcluster:gateway", names: []string{"localhost", "*.localhost", "*.shop.localhost", "*.preview.localhost"}},
}

// writePKI creates a new authority, a certificate for each identity, the key pair for service accounts, and
// the kubeconfig files.
func (c *Config) writePKI(now time.Time) error {
	authority, authorityKey, err := newAuthority(now)
	if err != nil {
		return err
	}
	authorityPEM := pemBlock("CERTIFICATE", authority.Raw)
	if err := writeFile(c.path("pki", "ca.crt"), authorityPEM, 0o644); err != nil {
		return err
	}
	for _, id := range identities {
		certificate, key, err := sign(id, authority, authorityKey, now)
		if err != nil {
			return err
		}
		if err := writeFile(c.path("pki", id.file+".crt"), certificate, 0o644); err != nil {
			return err
		}
		if err := writeFile(c.path("pki", id.file+".key"), key, 0o600); err != nil {
			return err
		}
		inside := kubeconfig(fmt.Sprintf("https://%s:%d", nodeAddress, apiPort), authorityPEM, certificate, key)
		if err := writeFile(c.path("pki", id.file+".kubeconfig"), inside, 0o600); err != nil {
			return err
		}
		if id.file == "admin" {
			outside := kubeconfig(fmt.Sprintf("https://127.0.0.1:%d", c.Ports.API), authorityPEM, certificate, key)
			if err := writeFile(c.kubeconfig(), outside, 0o600); err != nil {
				return err
			}
		}
	}
	return c.writeServiceAccountKey()
}

func (c *Config) writeServiceAccountKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("generate service account key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	if err := writeFile(c.path("pki", "service-account.pub"), pemBlock("PUBLIC KEY", public), 0o644); err != nil {
		return err
	}
	return writeFile(c.path("pki", "service-account.key"), pemBlock("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), 0o600)
}

func newAuthority(now time.Time) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate authority key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "localcluster"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("create authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("read authority: %w", err)
	}
	return certificate, key, nil
}

// sign returns the certificate and the key of an identity in PEM format.
func sign(id identity, authority *x509.Certificate, authorityKey crypto.Signer, now time.Time) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate key of %s: %w", id.name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("generate serial number of %s: %w", id.name, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: id.name, Organization: id.groups},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(id.names) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, n := range id.names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, n)
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, authority, private.Public(), authorityKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of %s: %w", id.name, err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key of %s: %w", id.name, err)
	}
	return pemBlock("CERTIFICATE", raw), pemBlock("EC PRIVATE KEY", encoded), nil
}

func pemBlock(kind string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}

// kubeconfig returns a client configuration with embedded credentials.
func kubeconfig(server string, authority, certificate, key []byte) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: localcluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: localcluster
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: localcluster
  context: {cluster: localcluster, user: localcluster}
current-context: localcluster
`, server, encode(authority), encode(certificate), encode(key))
}
