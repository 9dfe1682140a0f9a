package web

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/heighliner/heighliner/internal/certs"
)

// certificates returns a configuration that reads the files for each connection, so that certificates can be renewed
// while the server is running. If clientCAFile is set, the server refuses connections without a client certificate
// signed by a CA in this file.
func certificates(certFile, keyFile, clientCAFile string) (*tls.Config, error) {
	load := func() (*tls.Config, error) {
		pair, err := pairOf(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate of the board: %w", err)
		}
		c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair}}
		if clientCAFile != "" {
			var pool *x509.CertPool
			if pool, err = poolOf(clientCAFile); err != nil {
				return nil, fmt.Errorf("--requestheader-client-ca-file: %w", err)
			}
			c.ClientCAs, c.ClientAuth = pool, tls.RequireAndVerifyClientCert
		}
		return c, nil
	}
	c, err := load()
	if err != nil {
		return nil, err
	}
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return load() }
	return c, nil
}

// pairOf returns the certificate and the key from two files.
func pairOf(certFile, keyFile string) (tls.Certificate, error) {
	certificate, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return certs.Pair(certificate, key)
}
