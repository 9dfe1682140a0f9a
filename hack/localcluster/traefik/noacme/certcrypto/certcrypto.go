// Package certcrypto contains the key types.
package certcrypto

// KeyType is the type of a certificate's key.
type KeyType string

// These are the key types in Traefik's configuration.
const (
	EC256   KeyType = "P256"
	EC384   KeyType = "P384"
	RSA2048 KeyType = "2048"
	RSA4096 KeyType = "4096"
	RSA8192 KeyType = "8192"
)
