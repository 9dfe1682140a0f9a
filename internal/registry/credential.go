package registry

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// Credential is a credential for a registry. The zero value is anonymous. It prints as "anonymous" or "credential", never with its content.
type Credential struct {
	Username, Password string
	// IdentityToken is exchanged for an access token. RegistryToken is an access token.
	IdentityToken, RegistryToken string
	// WorkloadIdentity reports whether Options.Identity provides the credential for each request.
	WorkloadIdentity bool
}

// Identity provides credentials based on the identity that a cloud assigns to this process. It is called for each
// request, and caches its results.
type Identity interface {
	// Serves reports whether the Identity provides credentials for a registry, given as host[:port].
	Serves(host string) bool
	// Credential returns the credential for a registry for which Serves returns true. The message of an error is one line without secrets, and
	// is always the same for the same cause.
	Credential(ctx context.Context, host string) (Credential, error)
}

// identified is an authenticator that gets the credential of one registry from an Identity.
type identified struct {
	identity Identity
	host     string
}

// identityError reports that an Identity has no credential.
type identityError struct{ cause error }

// Error returns the message of the cause.
func (e *identityError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *identityError) Unwrap() error { return e.cause }

// Authorization calls AuthorizationContext with an empty context.
func (i identified) Authorization() (*authn.AuthConfig, error) {
	return i.AuthorizationContext(context.Background())
}

// AuthorizationContext returns the credential.
func (i identified) AuthorizationContext(ctx context.Context) (*authn.AuthConfig, error) {
	if i.identity == nil {
		return nil, &identityError{errors.New("workload identity is not enabled in the manager: see the manager's flag --registry-workload-identity")}
	}
	c, err := i.identity.Credential(ctx, i.host)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, &identityError{err}
	}
	return authn.Authorization(ctx, c.authenticator(nil, ""))
}

// Anonymous reports whether there is no credential.
func (c Credential) Anonymous() bool { return c == Credential{} }

// String returns a string that does not contain the secret.
func (c Credential) String() string {
	if c.Anonymous() {
		return "anonymous"
	}
	return "credential"
}

// GoString returns a string that does not contain the secret.
func (c Credential) GoString() string { return c.String() }

// MarshalJSON returns JSON that does not contain the secret.
func (c Credential) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// authenticator returns the authenticator that presents c to a registry. identity provides the credential if c refers
// to the manager's workload identity.
func (c Credential) authenticator(identity Identity, host string) authn.Authenticator {
	switch {
	case c.WorkloadIdentity:
		return identified{identity, host}
	case c.Anonymous():
		return authn.Anonymous
	}
	config := authn.AuthConfig{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken}
	if c.Username != "" || c.Password != "" {
		// Without the Auth field, the library would send nothing if the user name or the password is
		// empty.
		config.Auth = base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
	}
	return authn.FromConfig(config)
}

// Secret contains the name, type and data of a Kubernetes Secret, which is a pull secret or contains certificates for ParseTLS.
type Secret struct {
	Name string
	Type string
	Data map[string][]byte
	// Registry is the registry of a basic-auth Secret, as host[:port][/path]. It is the value of the annotation hlnr.io/registry of the Secret. Secrets
	// of other types contain the names of their registries.
	Registry string
}

// These are the supported types of pull secrets. The comments list their keys.
const (
	TypeDockerConfigJSON = "kubernetes.io/dockerconfigjson" // .dockerconfigjson
	TypeDockerConfig     = "kubernetes.io/dockercfg"        // .dockercfg
	TypeBasicAuth        = "kubernetes.io/basic-auth"       // username, password
)

// Match is the result of FindCredential.
type Match struct {
	// Found reports whether any Secret contains a credential for the repository. If it is false and Secrets were given, the caller must not continue
	// anonymously.
	Found bool
	// Credential is the credential that was found, and Secret is the name of its Secret.
	Credential Credential
	Secret     string
}

// FindCredential finds the credential for a repository. It uses the entry with the longest matching path prefix,
// compared by whole path segments (an entry for ghcr.io/org does not match ghcr.io/org-b). Among entries with equal
// prefixes, it uses the entry of the first Secret. Within a Secret, it sorts these entries by user name and then by
// key, and uses the first entry. The host and port must match exactly. All names for docker.io are equivalent.
// Wildcards in hosts are not supported. A basic-auth Secret is used only for Secret.Registry. Without
// Secret.Registry, it is not used, because otherwise a user who can set the repository could have the password sent
// to any host.
//
// The error lists each Secret that cannot be read, without its content. A match in another Secret is still returned.
func FindCredential(repository string, secrets ...Secret) (Match, error) {
	repo, err := parseRepository("find a credential for", repository, false)
	if err != nil {
		return Match{}, err
	}
	target := repo.RegistryStr() + "/" + repo.RepositoryStr()
	var best Match
	longest := -1
	var broken []string
	for _, s := range secrets {
		entries, err := s.entries()
		if err != nil {
			broken = append(broken, err.Error())
			continue
		}
		for _, e := range entries {
			if e.fits(target) && len(e.prefix) > longest {
				longest = len(e.prefix)
				best = Match{Found: true, Credential: e.credential, Secret: s.Name}
			}
		}
	}
	if len(broken) > 0 {
		return best, fmt.Errorf("read pull secrets: %s", strings.Join(broken, "; "))
	}
	return best, nil
}

// entry is a credential and the prefix of the repositories to which it applies: host and path,
// without a trailing slash.
type entry struct {
	prefix     string
	key        string // as spelled in the Secret
	credential Credential
}

func (e entry) fits(target string) bool {
	return target == e.prefix || strings.HasPrefix(target, e.prefix+"/")
}

// dockerConfigEntry is the entry for one registry in a Docker configuration.
type dockerConfigEntry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// entries returns the credentials of the Secret in a fixed order.
func (s Secret) entries() ([]entry, error) {
	var auths map[string]dockerConfigEntry
	switch s.Type {
	case TypeBasicAuth:
		c := Credential{Username: string(s.Data["username"]), Password: string(s.Data["password"])}
		if c.Anonymous() {
			return nil, fmt.Errorf("Secret %q has neither username nor password: set both keys", s.Name)
		}
		prefix, err := s.registry()
		if err != nil {
			return nil, err
		}
		return []entry{{prefix: prefix, credential: c}}, nil
	case TypeDockerConfigJSON:
		var config struct {
			Auths map[string]dockerConfigEntry `json:"auths"`
		}
		if err := s.decode(".dockerconfigjson", &config); err != nil {
			return nil, err
		}
		auths = config.Auths
	case TypeDockerConfig:
		if err := s.decode(".dockercfg", &auths); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("Secret %q has type %q: use %s, %s or %s", s.Name, s.Type, TypeDockerConfigJSON, TypeDockerConfig, TypeBasicAuth)
	}
	entries := make([]entry, 0, len(auths))
	for _, key := range slices.Sorted(maps.Keys(auths)) {
		c, err := auths[key].credential()
		if err != nil {
			return nil, fmt.Errorf("Secret %q: entry %q: %w", s.Name, key, err)
		}
		if prefix := prefixOf(key); prefix != "" && !c.Anonymous() {
			entries = append(entries, entry{prefix, key, c})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.prefix, b.prefix), strings.Compare(a.credential.Username, b.credential.Username), strings.Compare(a.key, b.key))
	})
	return entries, nil
}

// registry returns the registry of a basic-auth Secret.
func (s Secret) registry() (string, error) {
	const remedy = "annotate it with hlnr.io/registry=host[:port][/path], the registry that its password may be sent to"
	if s.Registry == "" {
		return "", fmt.Errorf("Secret %q has type %s, which does not name a registry: %s", s.Name, s.Type, remedy)
	}
	prefix := prefixOf(s.Registry)
	if host, _, _ := strings.Cut(prefix, "/"); !registryHost.MatchString(host) {
		return "", fmt.Errorf("Secret %q: annotation hlnr.io/registry is %q, which is not a registry: %s", s.Name, clip(s.Registry), remedy)
	}
	return prefix, nil
}

// registryHost matches a host name or an address, with an optional port.
var registryHost = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]+)?$`)

func (s Secret) decode(key string, into any) error {
	data, ok := s.Data[key]
	if !ok {
		return fmt.Errorf("Secret %q does not have the key %q", s.Name, key)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("Secret %q: key %q is not a Docker configuration in JSON", s.Name, key)
	}
	return nil
}

func (d dockerConfigEntry) credential() (Credential, error) {
	c := Credential{Username: d.Username, Password: d.Password, IdentityToken: d.IdentityToken, RegistryToken: d.RegistryToken}
	if d.Auth == "" {
		return c, nil
	}
	decoded, err := decodeBase64(d.Auth)
	if err != nil {
		return Credential{}, fmt.Errorf("auth is not username:password in base64")
	}
	username, password, ok := strings.Cut(strings.TrimRight(string(decoded), "\x00"), ":")
	if !ok {
		return Credential{}, fmt.Errorf("auth is not username:password in base64")
	}
	if c.Username == "" && c.Password == "" {
		c.Username, c.Password = username, password
	}
	return c, nil
}

// decodeBase64 decodes standard base64 with or without padding and line breaks.
func decodeBase64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(s), "="))
}

// prefixOf returns the normal form of a key: without the scheme and API version, with the host in lower case, and with one name for Docker Hub.
func prefixOf(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(key), "https://"), "http://")
	host, path, _ := strings.Cut(key, "/")
	switch path = strings.Trim(path, "/"); path {
	case "v1", "v2":
		path = ""
	default:
		path = strings.TrimPrefix(strings.TrimPrefix(path, "v1/"), "v2/")
	}
	switch host = strings.ToLower(host); host {
	case "docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		host = name.DefaultRegistry
	}
	if path == "" {
		return host
	}
	return host + "/" + path
}
