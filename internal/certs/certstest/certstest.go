// Package certstest creates keys and certificates whose numbers are too large to compute with in a reasonable time.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Ones returns the number whose binary form consists of the given number of ones.
func Ones(bits uint) *big.Int {
	return new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), bits), big.NewInt(1))
}

// Key returns an RSA private key in PKCS #1 format. The first factor of the key has the given number of bits. The key omits the precomputed
// values, so that a parser must compute them.
func Key(t testing.TB, bits uint) []byte {
	t.Helper()
	der, err := asn1.Marshal(struct {
		Version int
		N       *big.Int
		E       int
		D, P, Q *big.Int
	}{0, big.NewInt(1<<20 + 7), 65537, big.NewInt(3), Ones(bits), big.NewInt(1<<20 + 9)})
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// KeyPEM returns the result of Key in PEM format.
func KeyPEM(t testing.TB, bits uint) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: Key(t, bits)})
}

// Root returns the certificate of a certificate authority. The RSA modulus of the certificate has the given number of bits.
func Root(t testing.TB, bits uint) []byte {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsa.PublicKey{N: Ones(bits), E: 1<<31 - 1}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// RootPEM returns the result of Root in PEM format.
func RootPEM(t testing.TB, bits uint) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: Root(t, bits)})
}
