package registrytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority issues certificates for a test.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority creates an authority that is valid from an hour ago until an hour from now.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registrytest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &Authority{key: newKey(t)}
	a.certificate = sign(t, template, template, a.key, a.key)
	return a
}

// PEM returns the authority's own certificate in PEM format.
func (a *Authority) PEM() []byte { return encode("CERTIFICATE", a.certificate.Raw) }

// Issue returns a certificate for hosts (names and addresses) and its key, both in PEM format. The certificate is valid from an hour ago until the
// given time, for servers and clients. If the given time is an hour ago or earlier, the certificate is valid for the hour before that time.
func (a *Authority) Issue(t testing.TB, until time.Time, hosts ...string) (certificate, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "issued"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if !until.After(template.NotBefore) {
		template.NotBefore = until.Add(-time.Hour)
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	own := newKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatalf("encode key: %v", err)
	}
	return encode("CERTIFICATE", sign(t, template, a.certificate, own, a.key).Raw), encode("PRIVATE KEY", der)
}

// Server returns the TLS configuration of a server for 127.0.0.1 and the given hosts. If clients is not nil, the server requires
// client certificates, and accepts only those that the authority in this parameter issued.
func (a *Authority) Server(t testing.TB, until time.Time, clients *Authority, hosts ...string) *tls.Config {
	t.Helper()
	certificate, key := a.Issue(t, until, append(hosts, "127.0.0.1")...)
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatalf("pair certificate and key: %v", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients != nil {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AddCert(clients.certificate)
	}
	return config
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, own, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), signer)
	if err != nil {
		t.Fatalf("make certificate: %v", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("read certificate: %v", err)
	}
	return certificate
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
