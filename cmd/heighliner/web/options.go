package web

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/certs"
	"github.com/heighliner/heighliner/internal/web"
	"github.com/heighliner/heighliner/internal/web/identity"
)

// minSession and maxSession are the bounds of --session-duration.
const minSession, maxSession = time.Minute, 24 * time.Hour

// providerTimeout is the timeout of each request to the identity provider.
const providerTimeout = 10 * time.Second

// maxProvider is the maximum size of a response from the identity provider, in bytes.
const maxProvider = 1 << 20

// Options are the values of the server's flags, and the values that the caller provides.
type Options struct {
	// Config is used to connect to the cluster, with the permissions of the server.
	Config  *rest.Config
	Version string
	Clock   clock.Clock
	Log     *slog.Logger
	// Listener, if it is set, replaces --bind-address.
	Listener net.Listener

	url, title, bindAddress, probeAddress string
	certFile, keyFile                     string
	readOnly                              bool
	groups                                []string

	issuer, clientID, clientSecretFile, caFile  string
	scopes                                      []string
	userClaim, userPrefix, groupsClaim, gPrefix string
	session                                     time.Duration
	sessionKeyFile                              string
	proxyCAFile                                 string
	proxyNames, proxyUsers, proxyGroups         []string
	proxySeparator                              string
}

// addFlags adds the flags. The flags for an identity provider and a proxy are named like the flags of kube-apiserver.
func (o *Options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.url, "url", "", "URL at which users open the board, such as https://board.example.com; required")
	f.StringVar(&o.title, "title", "cluster", "cluster name that the board shows")
	f.StringVar(&o.bindAddress, "bind-address", ":8080", "address at which the board is served")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.StringVar(&o.certFile, "tls-cert-file", "", "file with the certificate of the board; the file is read again for each connection. Without this flag, the board is served over HTTP, and a Gateway must terminate TLS")
	f.StringVar(&o.keyFile, "tls-private-key-file", "", "file with the private key for the certificate")
	f.BoolVar(&o.readOnly, "read-only", false, "hide all actions, and reject them; the permission to impersonate is not required")
	f.StringSliceVar(&o.groups, "groups", nil, "groups, with their prefix, from which the board determines the permissions of its users; other groups are ignored; defaults to all")

	f.StringVar(&o.issuer, "oidc-issuer-url", "", "URL of the identity provider, with https://")
	f.StringVar(&o.clientID, "oidc-client-id", "", "client ID of the board at the identity provider; the redirect URL is --url, followed by /login/callback")
	f.StringVar(&o.clientSecretFile, "oidc-client-secret-file", "", "file with the client secret; empty for a public client")
	f.StringVar(&o.caFile, "oidc-ca-file", "", "file with the CA certificate of the identity provider; defaults to the public CAs")
	f.StringSliceVar(&o.scopes, "oidc-scopes", []string{"profile", "email"}, "scopes to request in addition to openid")
	f.StringVar(&o.userClaim, "oidc-username-claim", "sub", "claim with the user name")
	f.StringVar(&o.userPrefix, "oidc-username-prefix", "oidc:", "prefix of user names; - means no prefix. Use the prefix that the API server uses, so that users have the same permissions on the board")
	f.StringVar(&o.groupsClaim, "oidc-groups-claim", "groups", "claim with the groups, as a list of strings; empty means no groups")
	f.StringVar(&o.gPrefix, "oidc-groups-prefix", "oidc:", "prefix of group names; - means no prefix")
	f.DurationVar(&o.session, "session-duration", time.Hour, "maximum duration of a session; a session also ends when the identity provider's token expires")
	f.StringVar(&o.sessionKeyFile, "session-key-file", "", "file with the session key, 32 bytes, base64-encoded; defaults to a random key, and sessions then end when the server stops")

	f.StringVar(&o.proxyCAFile, "requestheader-client-ca-file", "", "file with the certificate of the CA that signs the client certificate of an authenticating proxy; requires --tls-cert-file")
	f.StringSliceVar(&o.proxyNames, "requestheader-allowed-names", nil, "common names of the allowed client certificates; if empty, all certificates that the CA signed are allowed")
	f.StringSliceVar(&o.proxyUsers, "requestheader-username-headers", []string{"X-Forwarded-User"}, "headers with the user name; the first header with a value is used")
	f.StringSliceVar(&o.proxyGroups, "requestheader-group-headers", []string{"X-Forwarded-Groups"}, "headers with groups")
	f.StringVar(&o.proxySeparator, "requestheader-group-separator", ",", "separator of groups within a header; empty if each header contains one group")
}

// validate returns an error if the server cannot run with these flags.
func (o *Options) validate() error {
	u, err := url.Parse(o.url)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return fmt.Errorf("--url: invalid value %q: must be https:// with a host and without a path, such as https://board.example.com", o.url)
	case (o.issuer == "") == (o.proxyCAFile == ""):
		return errors.New("choose how users log in: --oidc-issuer-url for an identity provider, or --requestheader-client-ca-file for an authenticating proxy; anonymous users are not supported")
	case o.issuer != "" && o.clientID == "":
		return errors.New("--oidc-client-id is required with --oidc-issuer-url")
	case (o.certFile == "") != (o.keyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file must be set together")
	case o.proxyCAFile != "" && o.certFile == "":
		return errors.New("--requestheader-client-ca-file requires --tls-cert-file: the proxy presents its certificate over TLS")
	case o.proxyCAFile != "" && len(o.proxyUsers) == 0:
		return errors.New("--requestheader-username-headers: at least one header is required")
	case o.session < minSession || o.session > maxSession:
		return fmt.Errorf("--session-duration: invalid value %s: must be from %s to %s", o.session, minSession, maxSession)
	}
	return nil
}

// hosts returns the allowed values of the Host header, which are derived from --url.
func (o *Options) hosts() []string {
	u, err := url.Parse(o.url)
	if err != nil {
		return nil // validate rejects such a URL.
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port != "" && port != "443" {
		return []string{host}
	}
	host = strings.TrimSuffix(host, ":443") // Browsers omit the default port.
	return []string{host, host + ":443"}
}

// identity returns the web.Identity that identifies the users of the board.
func (o *Options) identity() (web.Identity, error) {
	if o.proxyCAFile != "" {
		return &identity.Proxy{
			Rules: identity.Rules{Groups: o.groups}, Names: o.proxyNames, UserHeaders: o.proxyUsers, GroupHeaders: o.proxyGroups, Separator: o.proxySeparator, Clock: o.Clock,
		}, nil
	}
	secret, err := fileText(o.clientSecretFile, "--oidc-client-secret-file")
	if err != nil {
		return nil, err
	}
	key, err := o.key()
	if err != nil {
		return nil, err
	}
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	return identity.NewOIDC(identity.OIDCOptions{
		Claims: identity.Claims{Rules: identity.Rules{UserPrefix: prefix(o.userPrefix), GroupsPrefix: prefix(o.gPrefix), Groups: o.groups}, User: o.userClaim, Groups: o.groupsClaim},
		Issuer: o.issuer, ClientID: o.clientID, ClientSecret: secret, Scopes: o.scopes, URL: o.url, Key: key, Length: o.session, Client: client, Clock: o.Clock,
	})
}

// prefix returns the prefix that a flag sets. As in kube-apiserver, "-" means no prefix.
func prefix(text string) string {
	if text == "-" {
		return ""
	}
	return text
}

// key returns the session key, or nil for a random key.
func (o *Options) key() ([]byte, error) {
	text, err := fileText(o.sessionKeyFile, "--session-key-file")
	if err != nil || text == "" {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != identity.KeyLength {
		return nil, fmt.Errorf("--session-key-file: the file must contain %d bytes, base64-encoded, such as the output of \"openssl rand -base64 %d\"", identity.KeyLength, identity.KeyLength)
	}
	return key, nil
}

// client returns the HTTP client for requests to the identity provider.
func (o *Options) client() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.caFile != "" {
		pool, err := poolOf(o.caFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &http.Client{Transport: bounded{transport}, Timeout: providerTimeout}, nil
}

// bounded limits the size of responses.
type bounded struct{ next http.RoundTripper }

// RoundTrip sends a request, and limits the size of its response.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxProvider)
	}
	return response, err
}

// fileText returns the text of the file that a flag refers to, without surrounding white space. It is empty if the flag
// is not set.
func fileText(file, name string) (string, error) {
	if file == "" {
		return "", nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	text := string(bytes.TrimSpace(raw))
	if text == "" {
		return "", fmt.Errorf("%s: %s is empty", name, file)
	}
	return text, nil
}

// poolOf returns a pool with the certificates in a file.
func poolOf(file string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := certs.Pool(nil, raw)
	if err != nil {
		return nil, fmt.Errorf("%s contains no usable certificate: %w", file, err)
	}
	return pool, nil
}
