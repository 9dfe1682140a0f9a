package certs

import (
	"testing"

	"github.com/heighliner/heighliner/internal/certs/certstest"
	"github.com/heighliner/heighliner/test/await"
)

// FuzzRead checks that any text in a Secret, in PEM format or not, is read quickly, and that no key in it exceeds the maximum number of bits.
func FuzzRead(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"), []byte("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"))
	f.Add(certstest.RootPEM(f, 1024), certstest.KeyPEM(f, 1024))
	f.Add(certstest.Root(f, 2*MaxBits), certstest.Key(f, 2*MaxBits))
	f.Fuzz(func(t *testing.T, certificate, key []byte) {
		defer await.Quick(t)()
		_ = Check(certificate)
		if k, err := RSAKey(key); err == nil && k.N.BitLen() > MaxBits {
			t.Errorf("a key of %d bits is read", k.N.BitLen())
		}
		_, _ = Pool(nil, certificate)
		_, _ = Pair(certificate, key)
		_, _ = Parse(certificate)
		_, _ = PublicKey(key)
	})
}
