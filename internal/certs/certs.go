// Package certs parses untrusted keys and certificates.
//
// A few kilobytes of input can keep a processor busy for minutes: the cost of RSA grows with the cube of the size of its numbers, and parsing a
// key cannot be canceled. Therefore, this package checks the size of the numbers before it parses them. No other package calls the parsers of
// crypto/tls and crypto/x509 with untrusted input.
package certs

import (
	"bytes"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// MaxBits is the maximum size of an RSA modulus. It equals the limit of crypto/tls for the certificates that peers send.
const MaxBits = 8192

// maxPrimeBits is the maximum size of a factor of the modulus. The product of two such factors has at most MaxBits bits.
const maxPrimeBits = MaxBits / 2

// ErrTooLarge is the error for an RSA key with more than MaxBits bits.
var ErrTooLarge = fmt.Errorf("an RSA key has more than %d bits: use a key of 2048 to 4096 bits, or ECDSA P-256", MaxBits)

// These errors report invalid input.
var (
	errNoCertificate = errors.New("no valid certificate in PEM format found: a certificate begins with -----BEGIN CERTIFICATE-----")
	errNoKey         = errors.New("no valid RSA private key in PEM format found")
	errNoPair        = errors.New("the certificate and the key are not a matching pair in PEM format")
)

// Check rejects PEM data that contains an RSA key with more than MaxBits bits, either alone or in a certificate. It runs in linear time. It
// accepts input that is not in PEM format.
func Check(text []byte) error {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		if err := CheckDER(block.Bytes); err != nil {
			return err
		}
	}
}

// CheckDER does the same as Check for the content of one PEM block.
func CheckDER(der []byte) error {
	if tooLarge(der, 0) {
		return ErrTooLarge
	}
	return nil
}

// maxDepth is greater than the nesting depth of the numbers in any key or certificate.
const maxDepth = 12

// firstPrime is the index of the first factor in a private key (RFC 8017, A.1.2). The version, the modulus and two exponents precede the
// factors.
const firstPrime = 4

// tooLarge reports whether the input contains an INTEGER that is too large for the parsers. It visits the same elements as encoding/asn1, and
// also those inside octet strings and bit strings, because PKCS #8 and certificates store keys in such strings.
func tooLarge(der []byte, depth int) bool {
	if depth == maxDepth {
		return false
	}
	for place := 0; len(der) > 0; place++ {
		var element asn1.RawValue
		rest, err := asn1.Unmarshal(der, &element)
		if err != nil {
			return false
		}
		der = rest
		switch content := element.Bytes; {
		case element.IsCompound:
			if tooLarge(content, depth+1) {
				return true
			}
		case element.Class != asn1.ClassUniversal:
		case element.Tag == asn1.TagInteger:
			limit := MaxBits
			if place >= firstPrime {
				limit = maxPrimeBits
			}
			if bitLen(content) > limit {
				return true
			}
		case element.Tag == asn1.TagOctetString && tooLarge(content, depth+1),
			element.Tag == asn1.TagBitString && len(content) > 0 && tooLarge(content[1:], depth+1):
			return true
		}
	}
	return false
}

func bitLen(number []byte) int {
	number = bytes.TrimLeft(number, "\x00")
	if len(number) == 0 {
		return 0
	}
	return len(number)*8 - bits.LeadingZeros8(number[0])
}

// Pool adds the certificates in PEM-encoded text to base, or to an empty pool if base is nil. It returns ErrTooLarge if Check
// does, and another error if the text contains no certificates.
func Pool(base *x509.CertPool, text []byte) (*x509.CertPool, error) {
	if base == nil {
		base = x509.NewCertPool()
	}
	if err := Check(text); err != nil {
		return nil, err
	}
	if !base.AppendCertsFromPEM(text) {
		return nil, errNoCertificate
	}
	return base, nil
}

// Pair parses a certificate, its chain, and its key. It returns ErrTooLarge if Check does, and another error if the certificate and
// the key do not match.
func Pair(certificate, key []byte) (tls.Certificate, error) {
	for _, text := range [][]byte{certificate, key} {
		if err := Check(text); err != nil {
			return tls.Certificate{}, err
		}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, errNoPair
	}
	return pair, nil
}

// Parse parses a certificate. It returns ErrTooLarge if CheckDER does, and otherwise the error from crypto/x509.
func Parse(der []byte) (*x509.Certificate, error) {
	if err := CheckDER(der); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// PublicKey parses a public key, as x509.ParsePKIXPublicKey does. It returns ErrTooLarge if CheckDER
// does, and otherwise the error from crypto/x509.
func PublicKey(der []byte) (any, error) {
	if err := CheckDER(der); err != nil {
		return nil, err
	}
	return x509.ParsePKIXPublicKey(der)
}

// RSAKey parses the first private key in PEM-encoded text. The key can be in PKCS #1 or PKCS #8 format. RSAKey returns ErrTooLarge if
// CheckDER does, and another error if there is no private key or if the first one is not a valid RSA key.
func RSAKey(text []byte) (*rsa.PrivateKey, error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errNoKey
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if err := CheckDER(block.Bytes); err != nil {
			return nil, err
		}
		if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return key, nil
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if key, ok := parsed.(*rsa.PrivateKey); ok && err == nil {
			return key, nil
		}
		return nil, errNoKey
	}
}
