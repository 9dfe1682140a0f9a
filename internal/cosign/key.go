package cosign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/internal/certs"
)

// SecretKey is the usual name of an entry with a public key in a Secret. It is the name that cosign uses.
const SecretKey = "cosign.pub"

// These are the limits for the public keys of a Secret.
const (
	maxKeys     = 8
	maxKeyBytes = 64 << 10
)

// Keys are public keys. A signature made with any of them is sufficient. The zero value contains no keys and verifies nothing.
type Keys struct {
	keys []crypto.PublicKey
	id   string
}

// ID identifies the keys and their order. It is the SHA-256 hash of their encodings, written in hexadecimal, or empty if there are no keys. It is not a secret.
func (k Keys) ID() string { return k.id }

// ParseKeys reads the public keys of a Secret: the entries whose names end in .pub, in the order of their names. Each entry contains one or more keys
// in PEM format, as written by cosign generate-key-pair. All entries together contain at most 8 keys. A signature made with any of these keys is
// accepted, so that the old key and the new key can both be in use while a key is replaced. The error contains the name of the Secret, the name of an
// invalid entry, and the fix, but not the content of an entry.
func ParseKeys(secret string, data map[string][]byte) (Keys, error) {
	var all Keys
	id, size := sha256.New(), 0
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if !strings.HasSuffix(name, ".pub") {
			continue
		}
		if size += len(data[name]); size > maxKeyBytes {
			return Keys{}, fmt.Errorf("Secret %q: the entries whose names end in .pub contain more than %d bytes in total: store only public keys in these entries", secret, maxKeyBytes)
		}
		keys, err := parseKeys(data[name], id)
		if err != nil {
			return Keys{}, fmt.Errorf("Secret %q: the entry %q %w", secret, name, err)
		}
		all.keys = append(all.keys, keys...)
	}
	switch {
	case len(all.keys) == 0:
		return Keys{}, fmt.Errorf("Secret %q does not have the key %q: store the cosign public key under this key", secret, SecretKey)
	case len(all.keys) > maxKeys:
		return Keys{}, fmt.Errorf("Secret %q contains %d public keys: keep at most %d", secret, len(all.keys), maxKeys)
	}
	all.id = hex.EncodeToString(id.Sum(nil))
	return all, nil
}

// parseKeys reads the public keys of an entry, and adds them to the hash id. The entry must contain at least one key.
func parseKeys(text []byte, id io.Writer) ([]crypto.PublicKey, error) {
	var found []crypto.PublicKey
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		key, err := parseKey(block)
		if err != nil {
			return nil, err
		}
		found = append(found, key)
		fmt.Fprintf(id, "%d:%s", len(block.Bytes), block.Bytes)
	}
	switch begun := bytes.Count(text, []byte("-----BEGIN ")); {
	case len(found) < begun && bytes.Contains(text, []byte("PRIVATE KEY")):
		return nil, errPrivate
	case len(found) == 0:
		return nil, fmt.Errorf("contains no public key in PEM format: a public key begins with -----BEGIN PUBLIC KEY-----")
	case len(found) < begun:
		return nil, fmt.Errorf("contains a public key that is incomplete or damaged: replace it with the file that cosign wrote")
	}
	return found, nil
}

var errPrivate = fmt.Errorf("contains a private key: store the public key instead, and generate a new key pair, because others could have read the private key")

func parseKey(block *pem.Block) (crypto.PublicKey, error) {
	const use = "use ECDSA P-256, which cosign generate-key-pair creates"
	switch {
	case strings.Contains(block.Type, "PRIVATE KEY"):
		return nil, errPrivate
	case block.Type == "CERTIFICATE":
		return nil, fmt.Errorf("contains a certificate: store the public key instead; certificate-based (keyless) signatures are not supported")
	case block.Type == "RSA PUBLIC KEY":
		return nil, fmt.Errorf("contains an RSA key: %s", use)
	case block.Type != "PUBLIC KEY":
		return nil, fmt.Errorf("contains something other than a public key in PEM format: a public key begins with -----BEGIN PUBLIC KEY-----")
	}
	parsed, err := certs.PublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("contains a public key that cannot be read: replace it with the file that cosign wrote")
	}
	switch key := parsed.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return nil, fmt.Errorf("contains an ECDSA key on the curve %s: %s", key.Curve.Params().Name, use)
		}
		return key, nil
	case ed25519.PublicKey:
		return key, nil
	case *rsa.PublicKey:
		return nil, fmt.Errorf("contains an RSA key: %s", use)
	}
	return nil, fmt.Errorf("contains a public key of an unsupported kind: %s", use)
}

// signed reports whether a signature of a message was made with one of the keys.
func (k Keys) signed(message, signature []byte) bool {
	for _, key := range k.keys {
		if verify(key, message, signature) {
			return true
		}
	}
	return false
}

// verify checks a signature with the hash that cosign uses for the kind of key. For P-384, both SHA-256 and SHA-384 are accepted, because
// versions of cosign differ in the hash that they use.
func verify(key crypto.PublicKey, message, signature []byte) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		short := sha256.Sum256(message)
		if ecdsa.VerifyASN1(key, short[:], signature) {
			return true
		}
		long := sha512.Sum384(message)
		return key.Curve == elliptic.P384() && ecdsa.VerifyASN1(key, long[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, signature)
	}
	return false
}
