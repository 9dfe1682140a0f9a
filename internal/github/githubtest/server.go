// Package githubtest provides an in-process GitHub server for tests and demos. The server sends only responses that GitHub's reference documents:
// each response is built from an example that is stored together with the URL of the page that contains the example. The server rejects requests that
// the reference does not describe, and records them as failures that a test can check.
//
// The server supports authentication (tokens, GitHub Apps and their installations), pagination with Link headers,
// conditional requests with ETags, the hourly limit, and failures on demand.
//
// server.go     the server, with its limits and faults
// reference.go  the reference for requests and responses
// contract.go   checks responses against GitHub's published description
// answer.go     responds to requests
// state.go      pull requests, releases and tags
// merges.go     test merges
// lag.go        reads from replicas that lag
// webhook.go    webhook deliveries
package githubtest

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/utils/clock"
)

// Prefix is the prefix of all paths, as on a GitHub Enterprise Server, which this server simulates.
const Prefix = "/api/v3"

// DefaultLimit is the number of requests per hour for each credential. AnonymousLimit applies to requests without a credential.
const (
	DefaultLimit   = 5000
	AnonymousLimit = 60
)

// tokenAge is the lifetime of an installation token.
const tokenAge = time.Hour

// Options configure a Server.
type Options struct {
	// Clock is used for dates, limits and tokens. Defaults to the real clock.
	Clock clock.PassiveClock
	// OnEvent is called after each change that emits an event, with the delivery that a webhook would receive. OnEvent may call the server.
	OnEvent func(Delivery)
}

// Server is the GitHub server, an http.Handler. All methods may be called while the server is handling
// requests.
type Server struct {
	options   Options
	reference *apiReference

	mu       sync.Mutex
	last     int64
	repos    map[int64]*Repository
	previous map[string]int64 // IDs of renamed repositories, keyed by their previous full name in lower case
	actors   map[string]*actor
	apps     map[int64]*app
	faults   []*Fault
	counted  map[Request]int
	failures []string
	requests int

	limitBy429 bool
	lag        time.Duration
}

// actor is the user or App that a credential represents, with its rate limit.
type actor struct {
	login       string
	token       string
	repos       []string          // full names; nil means all
	permissions map[string]string // nil means all
	expires     time.Time         // zero means never
	revoked     bool

	limit, used int
	reset       time.Time
}

type app struct {
	id            int64
	key           *rsa.PublicKey
	installations map[int64]*installation
	limits        actor
}

type installation struct {
	id      int64
	owner   string
	user    bool
	limits  *actor // shared by all tokens of the installation
	pattern actor

	suspended bool
}

// Request is the key by which requests are counted.
type Request struct {
	// Route is the method and path in the reference, such as "GET /repos/{owner}/{repo}/pulls".
	Route  string
	Status int
}

// Fault makes matching requests fail with a documented response.
type Fault struct {
	// Route selects the requests with this route, in the form of Request.Route; empty for all requests.
	Route string
	// Page selects a page of a list; 0 means every page.
	Page int
	// Times is the number of requests that fail; 0 means all requests until Heal.
	Times int
	// Answer is one of the constants of this package.
	Answer Answer
	// RetryAfter is sent as the Retry-After header, in whole seconds; 0 means that the header is not sent.
	RetryAfter time.Duration

	left int
}

// Answer identifies a documented error response.
type Answer string

// These are the responses for faults.
const (
	ServerError        Answer = "server-error"
	BadGateway         Answer = "bad-gateway"
	Unavailable        Answer = "unavailable"
	NotFound           Answer = "not-found"
	Gone               Answer = "gone"
	SecondaryLimit     Answer = "secondary-limit"
	SecondaryLimit429  Answer = "secondary-limit-429"
	Validation         Answer = "validation"          // 422
	TooQuickly         Answer = "too-quickly"         // 422
	DeploymentMerged   Answer = "deployment-merged"   // 202
	DeploymentConflict Answer = "deployment-conflict" // 409
)

// New returns a server without repositories or credentials. It returns an error if the reference cannot be read.
func New(o Options) (*Server, error) {
	b, err := readReference()
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Server{
		options: o, reference: b, last: 1000,
		repos: map[int64]*Repository{}, previous: map[string]int64{}, apps: map[int64]*app{}, counted: map[Request]int{},
		actors: map[string]*actor{"": {limit: AnonymousLimit}},
	}, nil
}

func (s *Server) now() time.Time { return s.options.Clock.Now().UTC().Truncate(time.Second) }

func (s *Server) nextID() int64 { s.last++; return s.last }

func (s *Server) fail(format string, values ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, values...))
}

func (s *Server) emit(d Delivery) {
	if s.options.OnEvent != nil {
		s.options.OnEvent(d)
	}
}

// AddRepository adds a public, empty repository.
func (s *Server) AddRepository(fullName string) *Repository {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Repository{s: s, id: s.nextID(), commits: map[string]time.Time{}, parents: map[string][]string{}, commitStatuses: map[string][]CommitStatus{}}
	r.owner, r.name, _ = strings.Cut(fullName, "/")
	delete(s.previous, strings.ToLower(fullName)) // The name no longer refers to a renamed repository.
	s.repos[r.id] = r
	return r
}

// Access defines what a token allows.
type Access struct {
	// Login is the login of the token's user. Defaults to octocat.
	Login string
	// Repositories lists the full names of the repositories that the token can access; nil means all repositories.
	Repositories []string
	// Permissions maps permissions to levels, such as "deployments": "write"; nil means all permissions.
	Permissions map[string]string
}

// AddToken adds a personal access token.
func (s *Server) AddToken(token string, a Access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Login == "" {
		a.Login = "octocat"
	}
	s.actors[token] = &actor{login: a.Login, token: token, repos: a.Repositories, permissions: a.Permissions, limit: DefaultLimit}
}

// RevokeToken revokes a token, which may be the token of an installation.
func (s *Server) RevokeToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.actors[token]; a != nil {
		a.revoked = true
	}
}

// AddApp registers a GitHub App with its public key.
func (s *Server) AddApp(id int64, key *rsa.PublicKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps[id] = &app{id: id, key: key, installations: map[int64]*installation{}, limits: actor{limit: DefaultLimit}}
}

// Install installs an App for an owner, which is a user or an organization, and returns the ID of the installation. a.Login is the login of the App's
// bot.
func (s *Server) Install(appID int64, owner string, user bool, a Access) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.apps[appID]
	if known == nil {
		s.fail("install App %d: it is not registered", appID)
		return 0
	}
	if a.Login == "" {
		a.Login = "heighliner[bot]"
	}
	i := &installation{id: s.nextID(), owner: owner, user: user, limits: &actor{limit: DefaultLimit}}
	i.pattern = actor{login: a.Login, repos: a.Repositories, permissions: a.Permissions}
	known.installations[i.id] = i
	return i.id
}

// Suspend suspends or unsuspends an installation. A suspended installation issues no tokens, and its existing tokens are not accepted.
func (s *Server) Suspend(installation int64, suspended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.installation(installation); i != nil {
		i.suspended = suspended
		return
	}
	s.fail("suspend installation %d: it does not exist", installation)
}

func (s *Server) installation(id int64) *installation {
	for _, known := range s.apps {
		if i := known.installations[id]; i != nil {
			return i
		}
	}
	return nil
}

// Tokens returns the valid tokens of installations.
func (s *Server) Tokens() (tokens []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, a := range s.actors {
		if !a.expires.IsZero() && !a.revoked && s.now().Before(a.expires) {
			tokens = append(tokens, token)
		}
	}
	slices.Sort(tokens)
	return tokens
}

// SetLimit sets the number of requests that a token allows per hour, and the number of requests that remain in this hour. An empty token selects
// anonymous requests. reset is the time until the hour ends.
func (s *Server) SetLimit(token string, limit, remaining int, reset time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.limits(token)
	if a == nil {
		s.fail("set limit: the token is not known")
		return
	}
	a.limit, a.used, a.reset = limit, limit-remaining, s.now().Add(reset)
}

// LimitBy429 makes the server respond with 429 instead of 403 when the hourly limit is reached. GitHub documents both statuses.
func (s *Server) LimitBy429() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limitBy429 = true
}

// limits returns the actor whose limits apply to a token; nil for an unknown token.
func (s *Server) limits(token string) *actor {
	if i := s.installationOf(token); i != nil {
		return i.limits
	}
	return s.actors[token]
}

// installationOf returns the installation that issued a token; nil for other tokens.
func (s *Server) installationOf(token string) *installation {
	for _, known := range s.apps {
		for _, i := range known.installations {
			if strings.HasPrefix(token, tokenPrefix(i.id)) {
				return i
			}
		}
	}
	return nil
}

// Fail adds a fault. The first matching fault determines the response.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.left = f.Times
	s.faults = append(s.faults, &f)
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Count returns the number of requests since ResetCounts. An empty route selects all routes, and status 0 selects all statuses.
func (s *Server) Count(route string, status int) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for request, times := range s.counted {
		if (route == "" || route == request.Route) && (status == 0 || status == request.Status) {
			n += times
		}
	}
	return n
}

// Counts returns the number of requests for each route and status since ResetCounts.
func (s *Server) Counts() map[Request]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counted)
}

// ResetCounts sets all counts to zero.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counted)
}

// Used returns the number of requests that counted against the limit of a token in this hour.
func (s *Server) Used(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.limits(token); a != nil {
		return a.used
	}
	return 0
}

// Failures lists the requests and responses that do not conform to the reference or to GitHub's description, and other misuse of the server. Tests
// expect no failures.
func (s *Server) Failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failures)
}

// exchange is a request in progress.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	route  route
	base   string // scheme, host and prefix
	params map[string]string
	query  url.Values
	body   map[string]any
	actor  *actor // actor whose limits apply; nil before it is known
	who    *actor
	app    *app
	repo   *Repository
}

// ServeHTTP responds to a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	x := &exchange{w: w, r: r, base: scheme + "://" + r.Host + Prefix, query: r.URL.Query()}
	w.Header().Set("X-GitHub-Request-Id", fmt.Sprintf("%04X:%X", s.requests, s.now().UnixNano()))
	w.Header().Set("X-GitHub-Media-Type", "github.v3; format=json")
	s.serve(x, text)
}

func (s *Server) serve(x *exchange, text []byte) {
	requested, found := strings.CutPrefix(x.r.URL.Path, Prefix)
	if id, rest, ok := s.byID(requested); ok {
		requested = "/repos/" + s.repos[id].FullName() + rest
	}
	if found {
		x.route, x.params, found = s.reference.find(x.r.Method, requested)
	}
	if !found {
		s.fail("the reference does not describe %s %s", x.r.Method, x.r.URL.Path)
		s.refuse(x, "not-found", nil)
		return
	}
	if x.r.UserAgent() == "" {
		s.refuse(x, "no-user-agent", nil)
		return
	}
	for _, problem := range checkRequest(x.route.name(), x.query, bytes.TrimSpace(text)) {
		s.fail("%s: %s", x.route.name(), problem)
	}
	if problem := s.readParameters(x, text); problem != "" {
		s.fail("%s: %s", x.route.name(), problem)
		s.refuse(x, "validation", nil)
		return
	}
	unknown := s.authenticate(x)
	if now := s.now(); x.actor != nil && !now.Before(x.actor.reset) {
		x.actor.reset, x.actor.used = now.Add(time.Hour), 0
	}
	if fault := s.fault(x); fault != nil {
		headers := map[string]string{}
		if fault.RetryAfter > 0 {
			headers["Retry-After"] = strconv.Itoa(int(fault.RetryAfter.Seconds()))
		}
		s.refuse(x, string(fault.Answer), headers)
		return
	}
	if unknown != "" {
		s.refuse(x, unknown, nil)
		return
	}
	if x.actor.used >= x.actor.limit {
		s.refuse(x, map[bool]string{false: "primary-limit", true: "primary-limit-429"}[s.limitBy429], nil)
		return
	}
	if refused, headers := s.authorize(x); refused != "" {
		s.refuse(x, refused, headers)
		return
	}
	s.answer(x)
	if x.repo != nil && x.r.Method != http.MethodGet {
		x.repo.keep()
	}
}

// byID parses a path that contains the ID of a repository instead of its name. Requests for a previous name are redirected to such a path.
func (s *Server) byID(path string) (int64, string, bool) {
	rest, ok := strings.CutPrefix(path, "/repositories/")
	if !ok {
		return 0, "", false
	}
	number, rest, more := strings.Cut(rest, "/")
	if more {
		rest = "/" + rest
	}
	id, err := strconv.ParseInt(number, 10, 64)
	return id, rest, err == nil && s.repos[id] != nil
}

// readParameters rejects parameters that the reference does not contain.
func (s *Server) readParameters(x *exchange, text []byte) string {
	for name := range x.query {
		if !slices.Contains(x.route.Query, name) {
			return fmt.Sprintf("the reference has no query parameter %q", name)
		}
	}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &x.body); err != nil {
			return "the body is not a JSON object"
		}
	}
	for name := range x.body {
		if !slices.Contains(x.route.Body, name) {
			return fmt.Sprintf("the reference has no parameter %q in the body", name)
		}
	}
	return ""
}

func (s *Server) fault(x *exchange) *Fault {
	page := max(1, x.number("page"))
	for i, f := range s.faults {
		if f.Route != "" && f.Route != x.route.name() || f.Page != 0 && f.Page != page {
			continue
		}
		if f.Times > 0 {
			if f.left--; f.left == 0 {
				s.faults = slices.Delete(slices.Clone(s.faults), i, i+1)
			}
		}
		return f
	}
	return nil
}

// number returns a parameter of the path or the query as a number; 0 if it is missing.
func (x *exchange) number(name string) int {
	text := x.params[name]
	if text == "" {
		text = x.query.Get(name)
	}
	n, _ := strconv.Atoi(text)
	return n
}

// authenticate determines the actor of a request. It returns the name of an error, or an empty string if
// it succeeds.
func (s *Server) authenticate(x *exchange) string {
	scheme, token, _ := strings.Cut(x.r.Header.Get("Authorization"), " ")
	if token != "" && scheme != "Bearer" && scheme != "token" {
		return "bad-credentials"
	}
	if x.route.Actor == "app" {
		return s.authenticateApp(x, token)
	}
	a := s.actors[token]
	if a == nil || a.revoked || !a.expires.IsZero() && !s.now().Before(a.expires) {
		return "bad-credentials"
	}
	x.who, x.actor = a, s.limits(token)
	if i := s.installationOf(token); i != nil && i.suspended {
		return "suspended"
	}
	return ""
}

func tokenPrefix(installation int64) string { return fmt.Sprintf("ghs_%d_", installation) }

// authenticateApp checks the signature of an App, which must be valid for at most ten minutes.
func (s *Server) authenticateApp(x *exchange, token string) string {
	var claims jwt.RegisteredClaims
	_, err := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithTimeFunc(s.now), jwt.WithIssuedAt(), jwt.WithExpirationRequired()).
		ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) {
			id, _ := strconv.ParseInt(claims.Issuer, 10, 64)
			if x.app = s.apps[id]; x.app == nil {
				return nil, jwt.ErrTokenUnverifiable
			}
			return x.app.key, nil
		})
	if err != nil || claims.IssuedAt == nil || claims.ExpiresAt.After(s.now().Add(10*time.Minute)) {
		return "bad-signature"
	}
	x.actor = &x.app.limits
	return ""
}

// authorize finds the repository, and checks whether the credential is allowed to see it and to perform the request.
func (s *Server) authorize(x *exchange) (string, map[string]string) {
	switch {
	case x.route.Actor == "app":
		return "", nil
	case x.params["owner"] == "" && s.installationOf(x.who.token) != nil, x.params["owner"] == "" && x.who.token == "":
		return "no-permission", nil // Installations and anonymous requests do not represent users.
	case x.params["owner"] == "":
		return "", nil
	}
	full := x.params["owner"] + "/" + x.params["repo"]
	visible := func(r *Repository) bool {
		if x.who.token == "" {
			return !r.private
		}
		return !r.private && x.r.Method == http.MethodGet || x.who.repos == nil || slices.ContainsFunc(x.who.repos, func(name string) bool { return strings.EqualFold(name, r.FullName()) })
	}
	if id, moved := s.previous[strings.ToLower(full)]; moved && visible(s.repos[id]) {
		_, rest, _ := strings.Cut(x.r.URL.Path, "/repos/"+full)
		location := fmt.Sprintf("%s/repositories/%d%s", x.base, id, rest)
		if x.r.URL.RawQuery != "" {
			location += "?" + x.r.URL.RawQuery
		}
		name := "moved-temporarily"
		if x.r.Method == http.MethodGet {
			name = "moved"
		}
		return name, map[string]string{"Location": location}
	}
	for _, r := range s.repos {
		if strings.EqualFold(r.FullName(), full) {
			x.repo = r
		}
	}
	switch {
	case x.repo == nil, !visible(x.repo):
		return "not-found", nil
	case !s.permitted(x):
		return "no-permission", map[string]string{"X-Accepted-GitHub-Permissions": x.route.Permission}
	case x.repo.archived && x.r.Method != http.MethodGet:
		return "archived", nil
	case x.r.Method == http.MethodGet:
		x.repo = x.repo.seen()
	}
	return "", nil
}

// permitted reports whether the credential has one of the permissions of the route.
func (s *Server) permitted(x *exchange) bool {
	if x.who.token == "" {
		return x.r.Method == http.MethodGet
	}
	if x.who.permissions == nil {
		return true
	}
	for one := range strings.SplitSeq(x.route.Permission, "; ") {
		name, level, _ := strings.Cut(one, "=")
		has := x.who.permissions[name]
		if name == "metadata" || has == level || has == "write" {
			return true
		}
	}
	return false
}

// refuse responds with an error from the reference.
func (s *Server) refuse(x *exchange, name string, headers map[string]string) {
	name = "error-" + strings.TrimPrefix(name, "error-")
	e, ok := s.reference.examples[name]
	if !ok {
		s.fail("response %q: the reference has no such example", name)
		e.Status = http.StatusInternalServerError
	}
	for header, value := range headers {
		x.w.Header().Set(header, value)
	}
	s.write(x, e.Status, e.Body, "")
}

// write sends a response and counts it. It records a failure if the reference or GitHub's description does not allow the response.
func (s *Server) write(x *exchange, status int, body any, link string) {
	if x.route.Path != "" && !slices.Contains(x.route.Statuses, status) && !s.reference.everywhere[status] {
		s.fail("%s: the reference has no response with status %d for this route", x.route.name(), status)
	}
	text, problems := answerText(x.route.name(), status, body)
	for _, problem := range problems {
		s.fail("%s: response with status %d: %s", x.route.name(), status, problem)
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	if status == http.StatusOK {
		// GitHub's reference does not specify whether the ETag also covers the Link header, or whether a 304 response has a Link header. This
		// server assumes neither.
		// The ETag also covers the credential. Therefore, when a client starts to use a new token of the same installation, its first request for
		// each stored response counts against the limit.
		sum := sha256.New()
		fmt.Fprintf(sum, "%s%q", text, x.r.Header.Get("Authorization"))
		tag := fmt.Sprintf(`W/"%x"`, sum.Sum(nil))
		h.Set("ETag", tag)
		if x.r.Method == http.MethodGet && x.r.Header.Get("If-None-Match") == tag {
			status = http.StatusNotModified
		}
	}
	if created, ok := body.(map[string]any); ok && status == http.StatusCreated && created["url"] != nil && created["url"] != "" {
		h.Set("Location", fmt.Sprint(created["url"]))
	}
	if link != "" && status != http.StatusNotModified {
		h.Set("Link", link)
	}
	if x.actor != nil {
		free := status == http.StatusNotModified && (x.who == nil || x.who.token != "")
		if !free && x.actor.used < x.actor.limit {
			x.actor.used++
		}
		h.Set("X-RateLimit-Limit", strconv.Itoa(x.actor.limit))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(x.actor.limit-x.actor.used))
		h.Set("X-RateLimit-Used", strconv.Itoa(x.actor.used))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(x.actor.reset.Unix(), 10))
		h.Set("X-RateLimit-Resource", "core")
	}
	s.counted[Request{x.route.name(), status}]++
	x.w.WriteHeader(status)
	if status != http.StatusNotModified {
		x.w.Write(text)
	}
}
