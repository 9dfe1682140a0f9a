package registry

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/heighliner/heighliner/internal/outbound"
)

// Request defines the repository to scan, the credential, and how fresh the result must be.
type Request struct {
	// Repository is the name of the repository without a tag or digest, such as "ghcr.io/acme/web".
	Repository string
	// Insecure allows plain HTTP. HTTP to localhost and private IP addresses is always allowed. Insecure has no effect if the workload identity
	// of the manager is used, because its credential is sent only over HTTPS.
	Insecure bool
	// Auth is the credential. The zero value is anonymous.
	Auth Credential
	// TLS contains the certificates for a registry that uses a private CA or requires a client certificate. The zero value
	// means the system's CAs and no client certificate. Callers share results only if their Auth and TLS are equal. See ParseTLS.
	TLS TLS
	// Timeout limits the call, including all pages; 0 means DefaultTimeout.
	Timeout time.Duration
	// MaxTags is the maximum number of tags in the result for which Counts returns true; 0 means DefaultMaxTags. At most 100,000 tags of any list are
	// read.
	MaxTags int
	// Counts selects the tags that count toward MaxTags; if it is nil, all tags count. The list also contains the other tags. CountsAs identifies
	// Counts: requests share a truncated list only if their CountsAs and MaxTags are equal.
	Counts   func(tag string) bool `json:"-"`
	CountsAs string
	// MaxAge is the maximum age of a shared result; 0 means that the registry is read now. Concurrent calls still share one request.
	MaxAge time.Duration
}

// These are the defaults of Request.
const (
	DefaultTimeout = 30 * time.Second
	DefaultMaxTags = 10_000
)

// Scan is a list of tags.
type Scan struct {
	// Tags are sorted and unique. They are shared with other callers. Do not modify them.
	Tags []string
	// Truncated reports whether tags may be missing. It is true if MaxTags or a limit on pages or tags was reached and there are more tags, or if the
	// registry returned a full page without a link to the next page, and returned no further tags for a request without a page size. Registries list
	// tags in any order, so the newest tags may be missing.
	Truncated bool
	// Checksum is the checksum of Tags, in hexadecimal.
	Checksum string
	// Time is the time of the request. To keep the result no older than an interval, repeat the scan at Time plus the interval.
	Time time.Time

	// etag is the ETag of the list, if the list has one page and the registry sent an ETag.
	etag string
}

// Image is the image of a tag.
type Image struct {
	// Digest is the digest of the manifest or, if there are several platforms, of the index.
	Digest string
	// Platforms is the sorted list of the supported platforms, such as "linux/amd64" or "linux/arm64/v8". The list is
	// empty if the artifact, such as a chart, has no platform. There are at most 128 platforms, of at most 128 bytes each.
	// Platforms beyond the limits are omitted.
	Platforms []string
	// Created is the build time in the image. It is zero if the image contains no build time, or only the time of a
	// reproducible build (before 1981). Build times do not reliably show the order of images. For an index, Resolve returns only the time of the index. If
	// the index has no time, Inspect returns the time of an image to which the index refers.
	Created time.Time
	// Labels are the annotations of the index and of the manifest, and the labels of the image configuration. If a key occurs in several of them, the
	// first value in this order is used. Labels are set only by Inspect. There are at most 256 labels, with at most 4 KiB each and 64 KiB in total. If
	// these limits are exceeded, labels of the OCI image specification (org.opencontainers.image.*) take precedence. Labels that exceed a limit are
	// omitted, never truncated. The map is shared with other callers. Do not modify it.
	Labels map[string]string
	// Revision is the label org.opencontainers.image.revision. By convention, it is the commit from which the image was built. It is set only by
	// Inspect.
	Revision string
	// Time is the time at which the digest was read.
	Time time.Time
}

// Supports reports whether the image supports a platform. A platform without a variant matches any variant.
func (i Image) Supports(platform string) bool { return supports(i.Platforms, platform) }

// Options configure a Scanner. The zero value is suitable for production.
type Options struct {
	// UserAgent is sent with all requests. Defaults to "heighliner".
	UserAgent string
	// Clock is used for the ages of results, the pauses after rate limiting, and the token bucket. Defaults to the real clock.
	Clock clock.Clock
	// Outbound defines the addresses to which the scanner may connect. Defaults to a policy that refuses, for example, loopback addresses.
	Outbound *outbound.Policy
	// Transport sends the requests. Defaults to a transport that connects only to addresses that Outbound allows. Any other transport must enforce
	// this restriction itself. For requests with TLS material, it must be an *http.Transport, which is copied.
	Transport http.RoundTripper
	// Identity provides the credentials of requests whose Auth has WorkloadIdentity set; nil means that
	// workload identity is not enabled.
	Identity Identity
	// PerSecond is the maximum number of requests per second to each registry with each credential. Defaults to DefaultPerSecond. Burst is the size of
	// the token bucket. Defaults to twice PerSecond. After a 429, the rate is halved, and then slowly raised again.
	PerSecond float64
	Burst     int
	// MaxPages is the maximum number of pages of one list; 0 means 1000.
	MaxPages int
	// MaxBody is the maximum size of one response in bytes. A page of a list may be four times as large. Defaults to 4 MiB, above which registries
	// reject manifests.
	MaxBody int64
	// Backoff determines the delays between the three attempts that are made if the server or the network fails. Defaults
	// to 200 ms, then 600 ms.
	Backoff remote.Backoff
}

// DefaultPerSecond is the default of Options.PerSecond.
const DefaultPerSecond = 50

// These are the maximum sizes of the caches.
const (
	maxListed = 64 << 20 // in bytes, for all lists together
	// maxDigests is enough for 10,000 policies that offer 13 tags each. Policies are scanned in turn, so a smaller cache would evict each tag before its
	// next scan, and the tag would be read with GET, which Docker Hub counts as a pull. An entry needs about 300 bytes.
	maxDigests = 1 << 17
	maxImages  = 32 << 20 // in bytes
)

// pullerAge is the time after which the scanner authenticates to a registry again. idleAge is the time after which an unused login is dropped.
const (
	pullerAge = 10 * time.Minute
	idleAge   = time.Hour
)

// Scanner reads registries. It is safe for concurrent use. Use one scanner for the whole process.
type Scanner struct {
	options Options
	clock   clock.Clock
	hashKey []byte // random, so that hashes of credentials are useless outside of this process

	flights flights
	lists   listCache
	digests *lru.Cache // contains digestAt values
	images  imageCache

	mu     sync.Mutex
	logins map[loginKey]*login
}

// New returns a Scanner.
func New(o Options) *Scanner {
	o.UserAgent = cmp.Or(o.UserAgent, "heighliner")
	o.PerSecond = cmp.Or(o.PerSecond, DefaultPerSecond)
	o.Burst = cmp.Or(o.Burst, max(1, int(2*o.PerSecond)))
	o.MaxPages = cmp.Or(o.MaxPages, 1000)
	o.MaxBody = cmp.Or(o.MaxBody, 4<<20)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Transport == nil {
		o.Transport = NewTransport(o.Outbound)
	}
	if o.Backoff.Steps == 0 {
		o.Backoff = remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.2, Steps: 3}
	}
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return &Scanner{
		options: o, clock: o.Clock, hashKey: key,
		lists: listCache{limit: maxListed}, digests: lru.New(maxDigests), images: imageCache{limit: maxImages},
		logins: map[loginKey]*login{},
	}
}

// List returns the tags of the repository. Every error is an *Error, or the error of the context if ctx is done first.
// An endless list and a 404 response are errors.
func (s *Scanner) List(ctx context.Context, r Request) (Scan, error) { return s.list(ctx, r) }

// Resolve returns the image of a tag. It reads an uncached tag with GET, which returns the digest and the manifest.
// Afterwards, it requests the digest at most once per MaxAge (with HEAD, or with GET if the response to HEAD is
// incomplete). It reads the content of a digest only once. Errors are the same as for List.
func (s *Scanner) Resolve(ctx context.Context, r Request, tag string) (Image, error) {
	return s.resolve(ctx, r, tag)
}

// Inspect returns an image by its digest, with its Labels and Revision. For an index, these are the Labels and Revision of the image for platform
// (such as "linux/amd64"), or of the first image if platform is empty or not supported. The content of a digest never changes and is read only once: one GET
// for an index and two for an image, some of which Resolve may already have sent. Image.Time is zero. Errors are the same as for List.
func (s *Scanner) Inspect(ctx context.Context, r Request, digest, platform string) (Image, error) {
	return s.inspect(ctx, r, digest, platform)
}

// Gone reports whether it is certain that an image no longer exists: tag and digest return 404, while witness, a tag or digest of the same repository
// that should exist, is found. All of them are requested during this call and with the same credential. A result of false without an
// error means that the image exists, or that the witness is also missing. digest may be empty if no digest was ever known.
func (s *Scanner) Gone(ctx context.Context, r Request, tag, digest, witness string) (bool, error) {
	return s.gone(ctx, r, tag, digest, witness)
}

// target is a prepared request with a parsed repository and its login.
type target struct {
	repo    name.Repository
	login   *login
	auth    Credential
	tls     TLS
	timeout time.Duration
	key     string // identifies shared results by registry, path, scheme, credential and certificates
}

func (s *Scanner) target(op string, r Request) (target, error) {
	repo, err := parseRepository(op, r.Repository, r.Insecure && !r.Auth.WorkloadIdentity)
	if err != nil {
		return target{}, err
	}
	k := loginKey{repo.RegistryStr(), s.hash(r.Auth, r.TLS)}
	login, err := s.login(k, r)
	if err != nil {
		return target{}, badTLS(op, repo.Name(), err)
	}
	return target{
		repo: repo, login: login, auth: r.Auth, tls: r.TLS,
		timeout: cmp.Or(r.Timeout, DefaultTimeout),
		key:     fmt.Sprintf("%s://%s %s", repo.Scheme(), repo.Name(), k.credential),
	}, nil
}

// Host returns the registry of a repository, including any port, in normalized form, such as "ghcr.io". For all names of
// Docker Hub, it returns "index.docker.io". It returns an empty string if the repository is invalid.
func Host(repository string) string {
	repo, err := parseRepository("find the host of", repository, false)
	if err != nil {
		return ""
	}
	return repo.RegistryStr()
}

// maxPath is the maximum length, in bytes, that the library allows for the path of a repository. For Docker Hub, the length includes the
// added "library/".
const maxPath = 255

// parseRepository parses the name of a repository. It rejects schemes, because the library parses "https:" as a host.
func parseRepository(op, text string, insecure bool) (name.Repository, error) {
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	repo, err := name.NewRepository(text, options...)
	if err == nil && len(repo.RepositoryStr()) > maxPath {
		err = errors.New("too long")
	}
	if err != nil || strings.Contains(text, "//") || !addressable(repo.RegistryStr()) {
		return name.Repository{}, badName(op, clip(text), "not a valid repository", "write spec.image as host/path, in lower case, without a tag, digest or scheme")
	}
	return repo, nil
}

// addressable reports whether a registry can be the host of a URL. For example, "::", an IPv6 address without brackets, cannot.
func addressable(registry string) bool {
	u, err := url.Parse("https://" + registry + "/v2/")
	return err == nil && u.Host == registry && u.User == nil
}

// hash returns a hash that identifies a credential, including certificates, without revealing it.
func (s *Scanner) hash(c Credential, t TLS) string {
	mac := hmac.New(sha256.New, s.hashKey)
	if c.WorkloadIdentity {
		fmt.Fprint(mac, "workload identity:")
	}
	for _, field := range []string{c.Username, c.Password, c.IdentityToken, c.RegistryToken, t.CA, t.Certificate, t.Key} {
		fmt.Fprintf(mac, "%d:%s", len(field), field)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// loginKey identifies a login: a registry and a credential, including certificates.
type loginKey struct{ registry, credential string }

// login contains the gate for one credential at one registry, and the pullers that cache the tokens of the credential.
type login struct {
	gate    *gate
	options []remote.Option
	clock   clock.Clock

	mu         sync.Mutex
	pullers    map[int]*remote.Puller // keyed by page size
	born       time.Time
	used       time.Time
	noPageSize bool
}

func (s *Scanner) login(k loginKey, r Request) (*login, error) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.logins[k]
	if !ok {
		next, err := r.TLS.over(s.options.Transport)
		if err != nil {
			return nil, err
		}
		for k, old := range s.logins {
			if old.idle(now) {
				delete(s.logins, k)
			}
		}
		g := &gate{host: k.registry, next: next, clock: s.clock, maxBody: s.options.MaxBody,
			bucket: rate.NewLimiter(rate.Limit(s.options.PerSecond), s.options.Burst), rate: rate.Limit(s.options.PerSecond)}
		l = &login{gate: g, clock: s.clock, options: []remote.Option{
			remote.WithAuth(r.Auth.authenticator(s.options.Identity, k.registry)), remote.WithTransport(g), remote.WithUserAgent(s.options.UserAgent),
			remote.WithRetryBackoff(s.options.Backoff), remote.WithRetryStatusCodes(retried...),
		}}
		s.logins[k] = l
	}
	l.touch(now)
	return l, nil
}

// retried contains the status codes after which a request is retried. It does not contain 429, which closes the gate.
var retried = []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout, 522}

func (l *login) touch(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = now
}

// idle reports whether the login can be dropped without losing state.
func (l *login) idle(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.used) > idleAge && !l.gate.paused(now)
}

// puller returns the puller for a page size; 0 leaves the size to the registry. Pullers are replaced regularly, because they keep state about every
// repository.
func (l *login) puller(pageSize int) (*remote.Puller, error) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pullers == nil || now.Sub(l.born) > pullerAge {
		l.pullers, l.born = map[int]*remote.Puller{}, now
	}
	if p, ok := l.pullers[pageSize]; ok {
		return p, nil
	}
	p, err := remote.NewPuller(append(l.options[:len(l.options):len(l.options)], remote.WithPageSize(pageSize))...)
	if err != nil {
		return nil, err
	}
	l.pullers[pageSize] = p
	return p, nil
}

// puller returns the puller for a page size, and the context for its requests.
func (t target) puller(ctx context.Context, pageSize int) (context.Context, *remote.Puller, error) {
	if t.plain() {
		ctx = withPlain(ctx)
	}
	p, err := t.login.puller(pageSize)
	return ctx, p, err
}

// fail classifies an error from the target's registry.
func (t target) fail(op, object string, err error) error {
	return classify(op, object, t, err)
}
