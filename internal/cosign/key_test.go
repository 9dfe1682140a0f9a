package cosign

import (
	"bytes"
	"crypto/ecdh"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/certs/certstest"
	"github.com/heighliner/heighliner/internal/cosign/cosigntest"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func TestParseKeys(t *testing.T) {
	p256, p384, ed := cosigntest.NewKey(t).PEM(t), cosigntest.NewKeyOn(t, elliptic.P384(), 0).PEM(t), cosigntest.NewEd25519(t).PEM(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	hugeKey, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: certstest.Ones(300_000), E: 3})
	if err != nil {
		t.Fatal(err)
	}
	exchange, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x25519, err := x509.MarshalPKIXPublicKey(exchange.Public())
	if err != nil {
		t.Fatal(err)
	}
	certificate, pkcs8 := registrytest.NewAuthority(t).Issue(t, time.Now().Add(time.Hour))
	for name, tc := range map[string]struct {
		data map[string][]byte
		keys int
		want string
	}{
		"P-256":                 {data: map[string][]byte{SecretKey: p256}, keys: 1},
		"P-384":                 {data: map[string][]byte{SecretKey: p384}, keys: 1},
		"Ed25519":               {data: map[string][]byte{SecretKey: ed}, keys: 1},
		"with text before it":   {data: map[string][]byte{SecretKey: append([]byte("our key\n"), p256...)}, keys: 1},
		"two":                   {data: map[string][]byte{SecretKey: append(bytes.Clone(p256), p384...)}, keys: 2},
		"too many":              {data: map[string][]byte{SecretKey: bytes.Repeat(p256, 9)}, want: "contains 9 public keys: keep at most 8"},
		"too large":             {data: map[string][]byte{SecretKey: append(bytes.Clone(p256), make([]byte, maxKeyBytes)...)}, want: "contain more than"},
		"two entries":           {data: map[string][]byte{"key.pub": p256, SecretKey: p384}, keys: 2},
		"another entry":         {data: map[string][]byte{"key.pub": p256, "cosign.key": pkcs8, "cosign.password": []byte("hunter2")}, keys: 1},
		"no entry":              {data: map[string][]byte{"key.pem": p256}, want: `does not have the key "cosign.pub"`},
		"too many in all":       {data: map[string][]byte{"a.pub": bytes.Repeat(p256, 5), "b.pub": bytes.Repeat(p384, 4)}, want: "contains 9 public keys: keep at most 8"},
		"one entry is not PEM":  {data: map[string][]byte{SecretKey: p256, "next.pub": []byte("hunter2")}, want: `the entry "next.pub" contains no public key in PEM`},
		"one entry is empty":    {data: map[string][]byte{SecretKey: nil, "next.pub": p256}, want: `the entry "cosign.pub" contains no public key in PEM`},
		"truncated second key":  {data: map[string][]byte{SecretKey: append(bytes.Clone(p256), p384[:len(p384)/2]...)}, want: "incomplete or damaged"},
		"truncated first key":   {data: map[string][]byte{SecretKey: append(bytes.Clone(p256[:len(p256)/2]), p384...)}, want: "contains no public key in PEM"},
		"no data":               {want: `does not have the key "cosign.pub"`},
		"empty":                 {data: map[string][]byte{SecretKey: nil}, want: "contains no public key in PEM"},
		"not PEM":               {data: map[string][]byte{SecretKey: []byte("hunter2")}, want: "contains no public key in PEM"},
		"private key of cosign": {data: map[string][]byte{SecretKey: block("ENCRYPTED SIGSTORE PRIVATE KEY", []byte("hunter2"))}, want: "contains a private key: store the public key instead, and generate a new key pair"},
		"private key, PKCS 8":   {data: map[string][]byte{SecretKey: pkcs8}, want: "contains a private key"},
		"private key, broken":   {data: map[string][]byte{SecretKey: []byte("-----BEGIN EC PRIVATE KEY-----\nhunter2")}, want: "contains a private key"},
		"private with public":   {data: map[string][]byte{SecretKey: append(bytes.Clone(p256), pkcs8...)}, want: "contains a private key"},
		"certificate":           {data: map[string][]byte{SecretKey: certificate}, want: "contains a certificate"},
		"RSA":                   {data: map[string][]byte{SecretKey: block("PUBLIC KEY", rsaKey)}, want: "contains an RSA key: use ECDSA P-256"},
		"RSA, PKCS 1":           {data: map[string][]byte{SecretKey: block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&private.PublicKey))}, want: "contains an RSA key"},
		"RSA, huge":             {data: map[string][]byte{SecretKey: block("PUBLIC KEY", hugeKey)}, want: "cannot be read"},
		"P-521":                 {data: map[string][]byte{SecretKey: cosigntest.NewKeyOn(t, elliptic.P521(), 0).PEM(t)}, want: "on the curve P-521: use ECDSA P-256"},
		"P-224":                 {data: map[string][]byte{SecretKey: cosigntest.NewKeyOn(t, elliptic.P224(), 0).PEM(t)}, want: "on the curve P-224"},
		"X25519":                {data: map[string][]byte{SecretKey: block("PUBLIC KEY", x25519)}, want: "of an unsupported kind"},
		"broken":                {data: map[string][]byte{SecretKey: block("PUBLIC KEY", []byte("hunter2"))}, want: "cannot be read"},
		"PGP":                   {data: map[string][]byte{SecretKey: block("PGP PUBLIC KEY BLOCK", []byte("hunter2"))}, want: "something other"},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := ParseKeys("signers", tc.data)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if len(keys.keys) != tc.keys || (keys.ID() == "") != (tc.keys == 0) {
				t.Errorf("%d keys with the ID %q, want %d", len(keys.keys), keys.ID(), tc.keys)
			}
			if (tc.want == "") != (err == nil) || !strings.Contains(message, tc.want) {
				t.Errorf("error %q, want %q", message, tc.want)
			}
			if err != nil && (!strings.HasPrefix(message, `Secret "signers"`) || strings.Contains(message, "hunter2")) {
				t.Errorf("error %q does not name the Secret, or contains its content", message)
			}
		})
	}
}

func TestKeysHaveAnID(t *testing.T) {
	one, other := cosigntest.NewKey(t).PEM(t), cosigntest.NewKey(t).PEM(t)
	parse := func(text []byte) string {
		keys, err := ParseKeys("s", map[string][]byte{SecretKey: text})
		if err != nil {
			t.Fatal(err)
		}
		return keys.ID()
	}
	if parse(one) != parse(append([]byte("a comment\n"), one...)) {
		t.Error("the same key has two IDs")
	}
	if parse(one) == parse(other) || parse(one) == parse(append(bytes.Clone(one), other...)) {
		t.Error("different keys have the same ID")
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"))
	f.Add([]byte("-----BEGIN EC PRIVATE KEY-----"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := ParseKeys("s", map[string][]byte{SecretKey: text})
		if (err == nil) != (len(keys.keys) > 0) {
			t.Errorf("%d keys and the error %v", len(keys.keys), err)
		}
	})
}
