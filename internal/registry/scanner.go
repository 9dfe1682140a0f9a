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

// Request says where to scan, as whom, and how fresh an answer must be.
type Request struct {
	// Repository without tag or digest: "ghcr.io/acme/web".
	Repository string
	// Insecure allows plain HTTP; to localhost and private IP addresses HTTP is
	// allowed anyway. It has no effect with the workload identity, whose credential is sent only over HTTPS.
	Insecure bool
	// Auth is the credential; zero is anonymous.
	Auth Credential
	// TLS is for a registry with certificates of its own; zero is the system's
	// authorities and no client certificate. Like Auth, it parts those who may share
	// an answer. See ParseTLS.
	TLS TLS
	// Timeout of the whole call, all pages included; 0 is DefaultTimeout.
	Timeout time.Duration
	// MaxTags that count; 0 is DefaultMaxTags. Of any list at most 100,000 are read.
	MaxTags int
	// Counts chooses the tags that count; nil: all do. Those that do not are in the list
	// as well. CountsAs identifies it: requests with the same one share a list that was
	// cut.
	Counts   func(tag string) bool `json:"-"`
	CountsAs string
	// MaxAge of an answer that may be shared; 0 asks the registry now (calls at the
	// same time still share one).
	MaxAge time.Duration
}

// Defaults of Request.
const (
	DefaultTimeout = 30 * time.Second
	DefaultMaxTags = 10_000
)

// Scan is a list of tags.
type Scan struct {
	// Tags, sorted, each once. Shared with other callers: do not modify.
	Tags []string
	// Truncated: MaxTags or a limit of pages or tags was reached and there are more, or
	// the registry gave a full page without a link to the next one, and no more when it
	// was asked otherwise. Registries list in any order, so the newest may be missing.
	Truncated bool
	// Checksum of Tags, in hexadecimal.
	Checksum string
	// Time at which the registry was asked. A caller that wants to be no staler than
	// its interval asks again at Time plus interval.
	Time time.Time

	// etag of the list, if it is one page and the registry gave one.
	etag string
}

// Image is what a tag names.
type Image struct {
	// Digest of the manifest, or of the index for several platforms.
	Digest string
	// Platforms as "linux/amd64" or "linux/arm64/v8", sorted; empty when the image
	// does not say, as charts and other artifacts do.
	Platforms []string
	// Created is when the image says that it was built; zero when it does not say,
	// or says a time of reproducible builds (before 1981). Never proof of order. Of an
	// index, Resolve knows the time of the index only; Inspect looks into an image too.
	Created time.Time
	// Labels are the annotations of the index and of the manifest, and the labels of
	// the configuration; where several say the same key, the first of these counts.
	// Set by Inspect only. At most 256 of them, 64 KiB together and 4 KiB each, those of
	// the OCI image specification (org.opencontainers.image.*) first; what is beyond is
	// left out, never cut. Shared with other callers: do not modify.
	Labels map[string]string
	// Revision is the label org.opencontainers.image.revision: by convention the commit
	// that the image was built from. Set by Inspect only.
	Revision string
	// Time at which the registry was asked for the digest.
	Time time.Time
}

// Supports reports whether the image is there for a platform. A wanted platform
// without variant takes any.
func (i Image) Supports(platform string) bool { return supports(i.Platforms, platform) }

// Options of a Scanner; the zero value is good for production.
type Options struct {
	// UserAgent of all requests; "" is "heighliner".
	UserAgent string
	// Clock for ages, pauses and the token bucket; nil is the real one.
	Clock clock.Clock
	// Outbound says which addresses may be dialled; nil refuses what is refused by
	// default, as loopback is.
	Outbound *outbound.Policy
	// Transport under the gates; nil is one that dials what Outbound allows. Another one
	// must do so itself, and be an *http.Transport for requests with TLS material, which
	// get a copy.
	Transport http.RoundTripper
	// Identity gives the credentials of requests whose Auth has WorkloadIdentity; nil: there are none.
	Identity Identity
	// PerSecond is the most requests per second to each registry with each credential, and Burst
	// how many may follow each other immediately; 0 is DefaultPerSecond, and twice PerSecond. After
	// a 429 the rate is halved, and raised again slowly.
	PerSecond float64
	Burst     int
	// MaxPages of one list; 0 is 1000.
	MaxPages int
	// MaxBody is the number of bytes read of one answer; of a page of a list, four times as
	// many. 0 is 4 MiB, above which registries refuse manifests.
	MaxBody int64
	// Backoff between three tries after a failure of the server or the network; zero
	// is 200 ms, then 600 ms.
	Backoff remote.Backoff
}

// DefaultPerSecond is the default of Options.PerSecond.
const DefaultPerSecond = 50

// Sizes of the caches.
const (
	maxListed  = 64 << 20 // bytes of all lists
	maxDigests = 16_384
	maxImages  = 32 << 20 // bytes
)

// Ages of logins: after these times a registry is asked again how to authenticate, and a login
// that was not used is dropped.
const (
	pullerAge = 10 * time.Minute
	idleAge   = time.Hour
)

// Scanner reads registries. It is safe for concurrent use, and meant to be one
// for the whole process.
type Scanner struct {
	options Options
	clock   clock.Clock
	hashKey []byte // so that hashes of credentials mean nothing elsewhere

	flights flights
	lists   listCache
	digests *lru.Cache // of digestAt
	images  imageCache

	mu     sync.Mutex
	logins map[loginKey]*login
}

// New makes a Scanner.
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

// List gives the tags of the repository. Every error is an *Error, or the
// context's when ctx ends first; a list without end or of 404 is an error.
func (s *Scanner) List(ctx context.Context, r Request) (Scan, error) { return s.list(ctx, r) }

// Resolve gives the image that a tag names. A tag that is not known is read by GET, which
// gives the digest and the manifest; later the digest is asked for at most once
// per MaxAge (HEAD, or GET where that does not answer fully). What stands behind
// a digest is read once. Errors as for List.
func (s *Scanner) Resolve(ctx context.Context, r Request, tag string) (Image, error) {
	return s.resolve(ctx, r, tag)
}

// Inspect gives an image by its digest, with its Labels and Revision; of an index
// those of the image for platform ("linux/amd64"), or of its first one where
// platform is "" or none of its. What a digest names never changes: it is asked for
// once, one GET for an index and two for an image, of which Resolve has made some
// already. Image.Time is zero. Errors as for List.
func (s *Scanner) Inspect(ctx context.Context, r Request, digest, platform string) (Image, error) {
	return s.inspect(ctx, r, digest, platform)
}

// Gone proves that an image does not exist any more: tag and digest answer 404
// while witness, a tag or digest of the same repository that should exist,
// answers, all asked now and with the same credential. False without an error
// means that it exists, or that the witness is missing too. digest may be "",
// when none was ever known.
func (s *Scanner) Gone(ctx context.Context, r Request, tag, digest, witness string) (bool, error) {
	return s.gone(ctx, r, tag, digest, witness)
}

// target is a request made ready: a parsed repository and the login for it.
type target struct {
	repo    name.Repository
	login   *login
	auth    Credential
	tls     TLS
	timeout time.Duration
	key     string // of everything that may be shared: registry, path, scheme, credential, certificates
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

// Host gives the registry of a repository, with its port, in one form: "ghcr.io",
// and "index.docker.io" for Docker Hub by any of its names. "" when the repository
// cannot be read.
func Host(repository string) string {
	repo, err := parseRepository("find the host of", repository, false)
	if err != nil {
		return ""
	}
	return repo.RegistryStr()
}

// maxPath is the most bytes of the path of a repository, as the library knows it. That of Docker Hub gets "library/" added.
const maxPath = 255

// parseRepository refuses schemes by hand: the library reads "https:" as a host.
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
		return name.Repository{}, badName(op, clip(text), "no repository", "write spec.image as host/path, in lower case, without tag, digest and scheme")
	}
	return repo, nil
}

// addressable reports whether a registry can be the host of a URL: "::", an IPv6 address without brackets, cannot.
func addressable(registry string) bool {
	u, err := url.Parse("https://" + registry + "/v2/")
	return err == nil && u.Host == registry && u.User == nil
}

// hash identifies a credential, certificates included, without giving it away.
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

// loginKey is what shares a gate: a registry and a credential, certificates included.
type loginKey struct{ registry, credential string }

// login is one credential at one registry: its gate, and the pullers that keep
// its tokens.
type login struct {
	gate    *gate
	options []remote.Option
	clock   clock.Clock

	mu         sync.Mutex
	pullers    map[int]*remote.Puller // by page size
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
		g := &gate{next: next, clock: s.clock, maxBody: s.options.MaxBody,
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

// retried are the answers after which a request is made again at once. 429 is
// not among them: it closes the gate.
var retried = []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout, 522}

func (l *login) touch(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = now
}

// idle reports whether nothing is lost by forgetting the login.
func (l *login) idle(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.used) > idleAge && !l.gate.paused(now)
}

// puller gives the one for a page size; 0 leaves the size to the registry. It is
// made anew now and then, since it keeps something of every repository it saw.
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

// puller gives the one for a page size, and the context of its requests.
func (t target) puller(ctx context.Context, pageSize int) (context.Context, *remote.Puller, error) {
	if t.plain() {
		ctx = withPlain(ctx)
	}
	p, err := t.login.puller(pageSize)
	return ctx, p, err
}

// fail classifies an error of the target's registry.
func (t target) fail(op, object string, err error) error {
	return classify(op, object, t, err)
}
