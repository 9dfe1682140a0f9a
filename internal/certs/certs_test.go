package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/internal/certs/certstest"
)

// TestTooLarge checks that input that would keep crypto/x509 busy is rejected before it is parsed, in any form and
// with any type of PEM block.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	inPKCS8 := func(der []byte) []byte {
		wrapped, err := asn1.Marshal(struct {
			Version   int
			Algorithm struct {
				OID  asn1.ObjectIdentifier
				Null asn1.RawValue
			}
			Key []byte
		}{Algorithm: struct {
			OID  asn1.ObjectIdentifier
			Null asn1.RawValue
		}{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, asn1.NullRawValue}, Key: der})
		if err != nil {
			t.Fatal(err)
		}
		return wrapped
	}
	public, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: certstest.Ones(MaxBits + 1), E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	for name, der := range map[string][]byte{
		"a factor":                         certstest.Key(t, 16_384),
		"a factor nearly filling a Secret": certstest.Key(t, 2_800_000),
		"a factor with one bit too many":   certstest.Key(t, MaxBits/2+1),
		"a factor in PKCS #8":              inPKCS8(certstest.Key(t, 16_384)),
		"a factor before truncated data":   append(inPKCS8(certstest.Key(t, 16_384)), 0x30, 0x84),
		"a modulus":                        x509.MarshalPKCS1PublicKey(&rsa.PublicKey{N: certstest.Ones(MaxBits + 1), E: 3}),
		"a modulus in a public key":        public,
		"a modulus in a certificate":       certstest.Root(t, MaxBits+8),
		"a modulus of 32 KiB in a root":    certstest.Root(t, 262_144),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range []string{"RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "CERTIFICATE", "PUBLIC KEY"} {
				text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
				if err := Check(append([]byte("a word before\n"), text...)); !errors.Is(err, ErrTooLarge) {
					t.Errorf("as %s: %v", kind, err)
				}
				if _, err := RSAKey(text); strings.HasSuffix(kind, "PRIVATE KEY") && !errors.Is(err, ErrTooLarge) {
					t.Errorf("RSAKey as %s: %v", kind, err)
				}
				if _, err := Pair(text, text); !errors.Is(err, ErrTooLarge) {
					t.Errorf("Pair as %s: %v", kind, err)
				}
				if _, err := Pool(nil, text); !errors.Is(err, ErrTooLarge) {
					t.Errorf("Pool as %s: %v", kind, err)
				}
			}
			if _, err := Parse(der); !errors.Is(err, ErrTooLarge) {
				t.Errorf("Parse: %v", err)
			}
			if _, err := PublicKey(der); !errors.Is(err, ErrTooLarge) {
				t.Errorf("PublicKey: %v", err)
			}
		})
	}
}

// TestCommonKeys checks that common keys are accepted.
func TestCommonKeys(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]pem.Block{
		"PKCS #1": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)},
		"PKCS #8": {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		got, err := RSAKey(pem.EncodeToMemory(&block))
		if err != nil || !got.Equal(key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := PublicKey(must(x509.MarshalPKIXPublicKey(key.Public()))(t)); err != nil {
		t.Error(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RSAKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(other))(t)})); err == nil {
		t.Error("an ECDSA key is read as an RSA key")
	}
	if err := CheckDER(x509.MarshalPKCS1PublicKey(&rsa.PublicKey{N: certstest.Ones(MaxBits), E: 65537})); err != nil {
		t.Errorf("a modulus of %d bits: %v", MaxBits, err)
	}
	if err := CheckDER(certstest.Root(t, MaxBits)); err != nil {
		t.Errorf("a root of %d bits: %v", MaxBits, err)
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// TestOnlyHere checks that no other code in the product passes keys or certificates to a parser.
func TestOnlyHere(t *testing.T) {
	t.Parallel()
	parsers := regexp.MustCompile(`x509\.Parse|X509KeyPair|AppendCertsFromPEM|ParseRSAP|ParseECP|ParseEdP`)
	files := 0
	for _, root := range []string{"../../apis", "../../cmd", "../../controllers", "../../internal"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch folder := filepath.Base(filepath.Dir(path)); {
			case err != nil:
				return err
			case entry.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"),
				strings.HasSuffix(folder, "test"), folder == "certs":
				return nil
			}
			files++
			text, err := os.ReadFile(path)
			if found := parsers.Find(text); found != nil {
				t.Errorf("%s calls %s: use internal/certs, which bounds the work", path, found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Fatalf("only %d files were found", files)
	}
}

// FuzzCheck checks that any input that Check accepts is parsed in bounded time.
func FuzzCheck(f *testing.F) {
	f.Add(certstest.Key(f, 2048))
	f.Add(certstest.Key(f, 16_384))
	f.Add(certstest.Root(f, 9000))
	f.Fuzz(func(t *testing.T, der []byte) {
		if CheckDER(der) != nil {
			return
		}
		key, err := x509.ParsePKCS1PrivateKey(der)
		if err != nil {
			parsed, _ := x509.ParsePKCS8PrivateKey(der)
			key, _ = parsed.(*rsa.PrivateKey)
		}
		if key != nil {
			bounded(t, key.N, key.D)
			bounded(t, key.Primes...)
		}
		if c, err := x509.ParseCertificate(der); err == nil {
			if public, ok := c.PublicKey.(*rsa.PublicKey); ok {
				bounded(t, public.N)
			}
		}
		if parsed, err := x509.ParsePKIXPublicKey(der); err == nil {
			if public, ok := parsed.(*rsa.PublicKey); ok {
				bounded(t, public.N)
			}
		}
	})
}

func bounded(t *testing.T, numbers ...*big.Int) {
	t.Helper()
	for _, n := range numbers {
		if n.BitLen() > MaxBits {
			t.Fatalf("a number of %d bits is accepted", n.BitLen())
		}
	}
}
