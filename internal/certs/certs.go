// Package certs reads keys and certificates that users of a namespace chose.
//
// Some that are a few kilobytes of text keep a processor busy for minutes: the work
// of RSA grows with the cube of its numbers, happens while a key is parsed, and
// nothing can cancel it. So the numbers are measured in the text, before anything
// computes with them. Nothing else in the product calls the parsers of crypto/tls
// and crypto/x509 with such text.
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

// MaxBits of an RSA modulus, which is what crypto/tls accepts from a server too.
const MaxBits = 8192

// maxPrimeBits of a factor of the modulus: two of them make one of MaxBits.
const maxPrimeBits = MaxBits / 2

// ErrTooLarge is the error for an RSA key of more than MaxBits.
var ErrTooLarge = fmt.Errorf("an RSA key has more than %d bits: use one of 2048 to 4096 bits, or ECDSA P-256", MaxBits)

// Errors of text that holds nothing that can be read.
var (
	errNoCertificate = errors.New("no certificate in PEM found: it begins with -----BEGIN CERTIFICATE-----")
	errNoKey         = errors.New("no valid RSA private key in PEM found")
	errNoPair        = errors.New("the certificate and the key are not a pair in PEM")
)

// Check refuses text in PEM with an RSA key, alone or in a certificate, of more than
// MaxBits. It takes time in proportion to the text. Text that is not PEM is not
// refused here.
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

// CheckDER is Check for the content of one block.
func CheckDER(der []byte) error {
	if tooLarge(der, 0) {
		return ErrTooLarge
	}
	return nil
}

// maxDepth is more than any key or certificate nests its numbers.
const maxDepth = 12

// firstPrime is the place of the first factor in a private key (RFC 8017, A.1.2):
// version, modulus, two exponents, then the factors.
const firstPrime = 4

// tooLarge finds an INTEGER that no parser is to meet. It sees all that encoding/asn1
// sees: where the text breaks off, so do the parsers. Strings of bytes may hold
// keys, as they do in PKCS #8 and in certificates.
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

// Pool adds the certificates of text in PEM to base; nil: to none. Errors: ErrTooLarge,
// and none being there.
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

// Pair reads a certificate, with its chain, and its key. Errors: ErrTooLarge, and
// what is no pair.
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

// Parse reads a certificate. Errors: ErrTooLarge, and those of crypto/x509.
func Parse(der []byte) (*x509.Certificate, error) {
	if err := CheckDER(der); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// PublicKey reads a public key, as x509.ParsePKIXPublicKey does. Errors: ErrTooLarge,
// and those of crypto/x509.
func PublicKey(der []byte) (any, error) {
	if err := CheckDER(der); err != nil {
		return nil, err
	}
	return x509.ParsePKIXPublicKey(der)
}

// RSAKey reads the first private key of text in PEM, in PKCS #1 or PKCS #8. Errors:
// ErrTooLarge, and what is no RSA key.
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
