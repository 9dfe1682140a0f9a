// Package registrytest provides an OCI registry in the test process. It consists of a real registry for images, and
// a front end that adds features of other registries: pages, logins, limits and faults. It counts requests.
//
//	server.go        the server in the test process
//	authority.go     certificates
//	product.go       registries from other projects, run as processes
//	distribution.go  CNCF Distribution
//	gitea.go         Gitea
package registrytest

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/heighliner/heighliner/internal/outbound"
)

// Class is the class of a request.
type Class string

// These are the classes of requests that are counted.
const (
	Ping  Class = "Ping"
	Token Class = "Token"
	List  Class = "List"
	Head  Class = "Head" // HEAD request for a manifest
	Get   Class = "Get"  // GET request for a manifest
	Blob  Class = "Blob"
	Other Class = "Other"
)

// Server is the registry. It listens on a loopback address and stops when the test ends.
type Server struct {
	front *httptest.Server
	back  *httptest.Server // the same images without login, pages or faults

	mu       sync.Mutex
	username string
	password string
	bearer   bool
	token    int // number of the token; an increase revokes the previous token
	maxPage  int
	refuse   int // page sizes above this value are refused with 400
	tags     map[string][]string
	faults   []*fault
	counts   map[Class]int
}

type fault struct {
	matches func(*http.Request) bool
	left    int // number of remaining responses; below zero means no limit
	answer  http.HandlerFunc
}

// Option is an option for New.
type Option func(*setup)

type setup struct {
	referrers bool
	tls       *tls.Config
}

// WithReferrers makes the registry support the referrers API. Without it, clients must maintain an index under the referrers tag of the subject.
func WithReferrers() Option { return func(s *setup) { s.referrers = true } }

// WithTLS makes the registry accept only HTTPS.
func WithTLS(config *tls.Config) Option { return func(s *setup) { s.tls = config } }

// New starts a registry that allows anonymous reads, with pages of at most 1000 tags.
func New(t testing.TB, options ...Option) *Server {
	t.Helper()
	var o setup
	for _, option := range options {
		option(&o)
	}
	s := &Server{maxPage: 1000, tags: map[string][]string{}, counts: map[Class]int{}}
	s.back = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(o.referrers)))
	s.front = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.front.Config.ErrorLog = log.New(io.Discard, "", 0)
	if o.tls != nil {
		s.front.TLS = o.tls
		s.front.StartTLS()
	} else {
		s.front.Start()
	}
	t.Cleanup(s.front.Close)
	t.Cleanup(s.back.Close)
	return s
}

// Client returns an HTTP client that trusts the registry's certificate. The connections are closed when the server stops.
func (s *Server) Client() *http.Client { return s.front.Client() }

// Host returns the registry's host and port.
func (s *Server) Host() string { return s.front.Listener.Addr().String() }

// Repository returns the full name of the repository at a path.
func (s *Server) Repository(path string) string { return s.Host() + "/" + path }

// Outbound returns a policy that allows connections to loopback addresses, on which the servers of a test listen.
func Outbound() *outbound.Policy {
	policy, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8", "::1"}})
	if err != nil {
		panic(err) // cannot happen, because the entries are constant
	}
	return policy
}

// RequireBasic requires a user name and a password.
func (s *Server) RequireBasic(username, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.username, s.password, s.bearer = username, password, false
}

// RequireBearer requires a token, which the token server issues for a user name and a password. RequireBearer revokes all earlier tokens.
func (s *Server) RequireBearer(username, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.username, s.password, s.bearer = username, password, true
	s.token++
}

// LimitPages limits pages to n tags, regardless of the requested page size.
func (s *Server) LimitPages(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxPage = n
}

// RefusePagesAbove makes the registry respond with 400 to page sizes above n.
func (s *Server) RefusePagesAbove(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = n
}

// Push creates an image for platforms such as "linux/amd64", pushes it and returns its digest. For several platforms,
// it creates an index. If no platform is given, it creates an image for linux/amd64. The same path, tag and
// platforms result in the same digest.
func (s *Server) Push(t testing.TB, path, tag string, platforms ...string) string {
	t.Helper()
	switch len(platforms) {
	case 0:
		return s.PushImage(t, path, tag, Image(t, path+":"+tag, "linux/amd64", time.Time{}))
	case 1:
		return s.PushImage(t, path, tag, Image(t, path+":"+tag, platforms[0], time.Time{}))
	}
	var index v1.ImageIndex = empty.Index
	for _, p := range platforms {
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			t.Fatalf("parse platform %q: %v", p, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        Image(t, path+":"+tag, p, time.Time{}),
			Descriptor: v1.Descriptor{Platform: platform},
		})
	}
	return s.PushIndex(t, path, tag, index)
}

// Image creates an image with the given platform, label and build time.
func Image(t testing.TB, label, platform string, created time.Time) v1.Image {
	t.Helper()
	p, err := v1.ParsePlatform(platform)
	if err != nil {
		t.Fatalf("parse platform %q: %v", platform, err)
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, Created: v1.Time{Time: created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Labels: map[string]string{"label": label}},
	})
	if err != nil {
		t.Fatalf("make image %q: %v", label, err)
	}
	return image
}

// PushImage pushes an image and returns its digest.
func (s *Server) PushImage(t testing.TB, path, tag string, image v1.Image) string {
	t.Helper()
	ref := s.reference(t, path, tag)
	if err := remote.Write(ref, image); err != nil {
		t.Fatalf("push %s:%s: %v", path, tag, err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatalf("digest of %s:%s: %v", path, tag, err)
	}
	return digest.String()
}

// PushIndex pushes an index and returns its digest.
func (s *Server) PushIndex(t testing.TB, path, tag string, index v1.ImageIndex) string {
	t.Helper()
	ref := s.reference(t, path, tag)
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatalf("push %s:%s: %v", path, tag, err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatalf("digest of %s:%s: %v", path, tag, err)
	}
	return digest.String()
}

// PushReferrer pushes an image without a tag, and returns the digest of its manifest. subject is the digest of the manifest's subject. If the
// registry has no referrers API, the index at the referrers tag of the subject lists the manifest.
func (s *Server) PushReferrer(t testing.TB, path, subject string, image v1.Image) string {
	t.Helper()
	backend := strings.TrimPrefix(s.back.URL, "http://") + "/" + path + "@"
	ref, err := name.NewDigest(backend + subject)
	if err != nil {
		t.Fatalf("name %s@%s: %v", path, subject, err)
	}
	desc, err := remote.Head(ref)
	if err != nil {
		t.Fatalf("find %s@%s: %v", path, subject, err)
	}
	referrer := mutate.Subject(image, *desc).(v1.Image)
	digest, err := referrer.Digest()
	if err != nil {
		t.Fatalf("digest of a referrer of %s@%s: %v", path, subject, err)
	}
	if ref, err = name.NewDigest(backend + digest.String()); err != nil {
		t.Fatalf("name %s@%s: %v", path, digest, err)
	}
	if err := remote.Write(ref, referrer); err != nil {
		t.Fatalf("push a referrer of %s@%s: %v", path, subject, err)
	}
	return digest.String()
}

func (s *Server) reference(t testing.TB, path, tag string) name.Tag {
	t.Helper()
	ref, err := name.NewTag(strings.TrimPrefix(s.back.URL, "http://") + "/" + path + ":" + tag)
	if err != nil {
		t.Fatalf("name %s:%s: %v", path, tag, err)
	}
	return ref
}

// Delete removes a tag or a digest. The tags of a removed digest remain.
func (s *Server) Delete(t testing.TB, path, identifier string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodDelete, s.back.URL+"/v2/"+path+"/manifests/"+identifier, nil)
	if err != nil {
		t.Fatalf("delete %s from %s: %v", identifier, path, err)
	}
	resp, err := s.back.Client().Do(req)
	if err != nil {
		t.Fatalf("delete %s from %s: %v", identifier, path, err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("delete %s from %s: %s", identifier, path, resp.Status)
	}
}

// SetTags replaces the tag list of a path with the given tags in this order, regardless of existing images. If
// tags is nil, the actual list is restored.
func (s *Server) SetTags(path string, tags []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tags == nil {
		delete(s.tags, path)
		return
	}
	s.tags[path] = slices.Clone(tags)
}

// Fail uses answer to respond to the next n requests of a class or, if n is below zero, to all requests of the class.
func (s *Server) Fail(class Class, n int, answer http.HandlerFunc) {
	s.FailWhen(func(r *http.Request) bool { return classOf(r) == class }, n, answer)
}

// FailWhen uses answer to respond to the next n matching requests or, if n is below zero, to all matching requests.
func (s *Server) FailWhen(matches func(*http.Request) bool, n int, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault{matches, n, answer})
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Requests returns the number of requests of a class.
func (s *Server) Requests(class Class) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[class]
}

// Total returns the total number of requests.
func (s *Server) Total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, n := range s.counts {
		total += n
	}
	return total
}

// Status returns a handler that responds with a status and an error of the OCI specification. headers contains alternating names and values.
func Status(status int, code string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"request 4711"}]}`, code)
	}
}

// Page returns a handler that responds with a page of tags and a link to next. If next is empty, the page is the last one.
func Page(next string, tags ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writePage(w, "", tags, next) }
}

// Huge returns a handler that responds with n bytes of JSON.
func Huge(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"name":"`)
		chunk := strings.Repeat("x", 4096)
		for ; n > 0; n -= len(chunk) {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
		io.WriteString(w, `"}`)
	}
}

// Slow returns a handler that begins a response and never ends it. The client must cancel the request.
func Slow() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"name":"`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// Text returns a handler that responds with 200 and text that is not JSON, such as a maintenance page.
func Text(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

func classOf(r *http.Request) Class {
	elements := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parent := ""
	if len(elements) > 1 {
		parent = elements[len(elements)-2]
	}
	switch {
	case r.URL.Path == "/token":
		return Token
	case r.URL.Path == "/v2/":
		return Ping
	case strings.HasSuffix(r.URL.Path, "/tags/list"):
		return List
	case parent == "manifests" && r.Method == http.MethodHead:
		return Head
	case parent == "manifests" && r.Method == http.MethodGet:
		return Get
	case parent == "blobs":
		return Blob
	}
	return Other
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	class := classOf(r)
	if answer := s.count(class, r); answer != nil {
		answer(w, r)
		return
	}
	switch {
	case class == Token:
		s.giveToken(w, r)
	case !s.admits(r):
		s.challenge(w)
	case class == List:
		s.list(w, r)
	default:
		s.back.Config.Handler.ServeHTTP(w, r)
	}
}

// count counts a request, and returns the handler of the first remaining fault that matches the
// request, or nil if there is no such fault.
func (s *Server) count(class Class, r *http.Request) http.HandlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[class]++
	for _, f := range s.faults {
		if f.left != 0 && f.matches(r) {
			f.left--
			return f.answer
		}
	}
	return nil
}

func (s *Server) admits(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bearer {
		return r.Header.Get("Authorization") == fmt.Sprintf("Bearer token-%d", s.token)
	}
	return s.knows(r)
}

// knows reports whether the request contains the required user name and password.
func (s *Server) knows(r *http.Request) bool {
	username, password, _ := r.BasicAuth()
	return username == s.username && password == s.password
}

func (s *Server) challenge(w http.ResponseWriter) {
	s.mu.Lock()
	bearer := s.bearer
	s.mu.Unlock()
	scheme := `Basic realm="registrytest"`
	if bearer {
		scheme = fmt.Sprintf(`Bearer realm="%s/token",service="registrytest"`, s.front.URL)
	}
	Status(http.StatusUnauthorized, "UNAUTHORIZED", "WWW-Authenticate", scheme)(w, nil)
}

func (s *Server) giveToken(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	known, token := s.knows(r), s.token
	s.mu.Unlock()
	if !known {
		Status(http.StatusUnauthorized, "UNAUTHORIZED")(w, r)
		return
	}
	fmt.Fprintf(w, `{"token":"token-%d"}`, token)
}

// list responds with a page, and with a link to the next page if there are more tags.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v2/"), "/tags/list")
	s.mu.Lock()
	tags, set := s.tags[path]
	maxPage, refuse := s.maxPage, s.refuse
	s.mu.Unlock()

	n := maxPage
	if text := r.URL.Query().Get("n"); text != "" {
		asked, err := strconv.Atoi(text)
		if err != nil || asked < 1 || refuse > 0 && asked > refuse {
			Status(http.StatusBadRequest, "UNSUPPORTED")(w, r)
			return
		}
		n = min(asked, maxPage)
	}
	if !set {
		var ok bool
		if tags, ok = s.trueTags(w, r, path); !ok {
			return
		}
	}
	start, _ := strconv.Atoi(r.URL.Query().Get("from"))
	start = min(max(start, 0), len(tags))
	end := min(start+n, len(tags))
	next := ""
	if end < len(tags) {
		next = fmt.Sprintf("/v2/%s/tags/list?n=%d&from=%d", path, n, end)
	}
	writePage(w, path, tags[start:end], next)
}

// trueTags requests the tags from the real registry. If that registry does not respond with a list of tags,
// trueTags sends its response to the client, and returns false.
func (s *Server) trueTags(w http.ResponseWriter, r *http.Request, path string) ([]string, bool) {
	answer := httptest.NewRecorder()
	all := r.Clone(r.Context())
	all.URL = &url.URL{Path: "/v2/" + path + "/tags/list"}
	s.back.Config.Handler.ServeHTTP(answer, all)
	var page struct {
		Tags []string `json:"tags"`
	}
	if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &page) != nil {
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
		return nil, false
	}
	return page.Tags, true
}

func writePage(w http.ResponseWriter, path string, tags []string, next string) {
	if next != "" {
		w.Header().Set("Link", fmt.Sprintf("<%s>; rel=\"next\"", next))
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"name": path, "tags": tags})
}
