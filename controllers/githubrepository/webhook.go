package githubrepository

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
)

// Bounds of deliveries.
const (
	// maxPayload in bytes, most of which are not kept.
	maxPayload = github.MaxPayload
	// maxDeliveries that are read at the same time: of all, and from one address, which
	// may be that of a proxy. A slow body takes a place for ten seconds. There is no bound
	// for one repository: until its signature is checked anybody may send a delivery.
	maxDeliveries     = 64
	maxDeliveriesFrom = 32
	// secretAge is how long a Secret that was read is used, so that deliveries which
	// anybody may send cost few reads. maxSecrets are kept.
	secretAge  = 5 * time.Second
	maxSecrets = 1024
	// rememberedFor is how long a delivery that comes again counts as the same, of the
	// last maxRemembered ones. GitHub sends none again by itself; people do.
	rememberedFor = 10 * time.Minute
	maxRemembered = 4096
	// maxSources are the repositories whose rates are remembered.
	maxSources = 1024
	// coalesce is how long hints gather before they lead to a look. What people do at
	// once makes several deliveries within a few hundred milliseconds, such as a push
	// and the change of its pull request; more than a second would be waited for by
	// whoever pushed.
	coalesce = time.Second
)

// Rates for one repository: deliveries with the right signature that are looked at, and
// looks that they lead to.
const (
	deliveriesPerSecond = 20
	deliveriesAtOnce    = 100
	looksEvery          = 10 * time.Second
	looksAtOnce         = 6
)

// hooks takes deliveries of GitHub's webhooks, at /github/<namespace>/<name>. They are
// hints that something changed, and only bring looks forward; a lost one costs the
// time to the next look.
//
// A GitHub App and an organization have one webhook for all of their repositories: a
// delivery is for each GitHubRepository of the namespace that names the same Secret and
// the repository which it is about.
//
// What is not signed costs a sum, and one read of a Secret in five seconds; it takes
// nothing from what is, and learns nothing from the answer, which is the same whether
// there is a webhook at the path or not.
//
// Every replica takes deliveries, because a Service sends them to any. The leader looks
// at once. Another replica cannot: it asks for a look by the annotation
// hlnr.io/requestedAt, as people do, and has nobody to tell of packages.
type hooks struct {
	// repositories are read from the cache, and Secrets past it.
	repositories, secrets client.Reader
	writer                client.Writer
	clock                 clock.WithDelayedExecution
	// elected is closed on the leader.
	elected <-chan struct{}
	hint    func(types.NamespacedName, map[int64]notice)
	// packages is told of a package of a repository that has a new version; nil: nobody.
	packages func(types.NamespacedName, string)
	count    func(result string)

	places  *places
	seen    *lru.Cache // time of a delivery, by repository and delivery
	read    *lru.Cache // signing by the name of the Secret
	nothing []byte     // signs in place of a Secret that is not there

	mu      sync.Mutex
	sources *lru.Cache // *incoming by repository
}

// signing is what a Secret said at a time.
type signing struct {
	at     time.Time
	secret []byte // nil: there is none
}

// incoming is what comes for one repository.
type incoming struct {
	deliveries *rate.Limiter
	looks      *rate.Limiter

	mu       sync.Mutex
	pending  bool
	look     bool
	numbers  map[int64]notice
	packages map[string]bool
}

// ready gives hooks of which the fields for others are set.
func (h *hooks) ready() *hooks {
	h.places = &places{taken: map[string]int{}}
	h.seen, h.sources, h.read = lru.New(maxRemembered), lru.New(maxSources), lru.New(maxSecrets)
	h.nothing = make([]byte, 32)
	rand.Read(h.nothing) // never fails
	return h
}

// Results of deliveries, as the metric names them.
const (
	resultAccepted  = "Accepted"
	resultIgnored   = "Ignored"
	resultDuplicate = "Duplicate"
	resultUnknown   = "Unknown"
	resultTooMany   = "TooMany"
	resultFailed    = "Failed"
)

// refusals are the results of deliveries that cannot be read, by status.
var refusals = map[int]string{
	http.StatusUnauthorized:          "Unauthorized",
	http.StatusMethodNotAllowed:      "MethodNotAllowed",
	http.StatusRequestEntityTooLarge: "TooLarge",
	http.StatusUnsupportedMediaType:  "UnsupportedMediaType",
	http.StatusBadRequest:            "Malformed",
}

// ServeHTTP answers one delivery: 202 where it is accepted, ignored or known. A
// repository that is unknown, one without a webhook, and a wrong signature are all 401.
func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, result, text := h.take(r)
	h.count(result)
	switch code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "10")
	}
	if code != http.StatusAccepted {
		w.Header().Set("Connection", "close") // or the rest of the body is waited for
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}

// take reads a delivery, and gives the answer, and its result for the metric.
func (h *hooks) take(r *http.Request) (code int, result, text string) {
	if r.Method != http.MethodPost {
		return refused(http.StatusMethodNotAllowed, "deliveries are posted")
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	leave, ok := h.places.enter(place{"all", maxDeliveries}, place{"from " + from, maxDeliveriesFrom})
	if !ok {
		return http.StatusServiceUnavailable, resultTooMany, "too many deliveries at once"
	}
	defer leave()
	key, ok := keyOf(r.URL.Path)
	if !ok {
		return unknown()
	}
	repository, secret, err := h.signer(r.Context(), key)
	if err != nil {
		return h.failed(r, "read webhook", err)
	}
	known := len(secret) > 0
	if !known {
		secret = h.nothing
	}
	event, err := github.ParseWebhook(r, secret, maxPayload)
	var e *github.WebhookError
	switch {
	case errors.As(err, &e) && e.Status == http.StatusUnauthorized && !known:
		return http.StatusUnauthorized, resultUnknown, e.Reason // the condition WebhookReady says why
	case errors.As(err, &e):
		return refused(e.Status, e.Reason)
	case err != nil:
		return h.failed(r, "read delivery", err)
	}
	if !h.source(key).deliveries.AllowN(h.clock.Now(), 1) {
		return http.StatusTooManyRequests, resultTooMany, "too many deliveries"
	}
	if h.again(key, event.Delivery) {
		return http.StatusAccepted, resultDuplicate, "taken before"
	}
	about, err := h.about(r.Context(), repository, event)
	if err != nil {
		return h.failed(r, "list GitHubRepositories", err)
	}
	followed := false
	for _, one := range about {
		followed = h.follow(one, h.source(one), event) || followed
	}
	if !followed {
		return http.StatusAccepted, resultIgnored, "ignored"
	}
	return http.StatusAccepted, resultAccepted, "accepted"
}

// signer gives the repository at a path, and the secret that signs its deliveries; nil
// without one.
func (h *hooks) signer(ctx context.Context, key types.NamespacedName) (*v1alpha1.GitHubRepository, []byte, error) {
	var repository v1alpha1.GitHubRepository
	err := h.repositories.Get(ctx, key, &repository)
	if apierrors.IsNotFound(err) || err == nil && repository.Spec.WebhookSecretRef == nil {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("get GitHubRepository: %w", err)
	}
	name := client.ObjectKey{Namespace: key.Namespace, Name: repository.Spec.WebhookSecretRef.Name}
	now := h.clock.Now()
	if known, ok := h.read.Get(name); ok && now.Sub(known.(signing).at) < secretAge {
		return &repository, known.(signing).secret, nil
	}
	var secret corev1.Secret
	// A Secret that must not be read is as good as none: the condition WebhookReady says so.
	if err := h.secrets.Get(ctx, name, &secret); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
		return nil, nil, fmt.Errorf("get Secret: %w", err)
	}
	h.read.Add(name, signing{now, secret.Data[keyWebhookSecret]})
	return &repository, secret.Data[keyWebhookSecret], nil
}

// about gives the GitHubRepositories that an event is about: of those that name the same
// Secret as the one at whose path it came, each of the repository of the event, or all
// where it names none.
func (h *hooks) about(ctx context.Context, at *v1alpha1.GitHubRepository, e github.Event) ([]types.NamespacedName, error) {
	var all v1alpha1.GitHubRepositoryList
	if err := h.repositories.List(ctx, &all, client.InNamespace(at.Namespace)); err != nil {
		return nil, err
	}
	var about []types.NamespacedName
	for i := range all.Items {
		one := &all.Items[i]
		if ref := one.Spec.WebhookSecretRef; ref != nil && ref.Name == at.Spec.WebhookSecretRef.Name && isAbout(e, one) {
			about = append(about, client.ObjectKeyFromObject(one))
		}
	}
	return about, nil
}

// isAbout reports whether an event is about a repository, by its number, which it keeps
// when it is renamed, or one of its names.
func isAbout(e github.Event, repository *v1alpha1.GitHubRepository) bool {
	return e.Repository == "" ||
		e.RepositoryID != 0 && e.RepositoryID == repository.Status.RepositoryID ||
		strings.EqualFold(e.Repository, repository.Spec.Owner+"/"+repository.Spec.Repo) ||
		strings.EqualFold(e.Repository, repository.Status.Repository)
}

// places counts what is under way, by what it takes a place of.
type places struct {
	mu    sync.Mutex
	taken map[string]int
}

// place of which there are so many.
type place struct {
	of   string
	most int
}

// enter takes one place of each if there are, and gives what leaves them. It never waits.
func (p *places) enter(each ...place) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range each {
		if p.taken[one.of] >= one.most {
			return nil, false
		}
	}
	for _, one := range each {
		p.taken[one.of]++
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, one := range each {
			if p.taken[one.of]--; p.taken[one.of] == 0 {
				delete(p.taken, one.of)
			}
		}
	}, true
}

// count gives the places of something that are taken.
func (p *places) count(of string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken[of]
}

func unknown() (int, string, string) {
	return http.StatusNotFound, resultUnknown, "there is no webhook here"
}

func refused(code int, text string) (int, string, string) {
	result, ok := refusals[code]
	if !ok {
		result = resultFailed
	}
	return code, result, text
}

func (h *hooks) failed(r *http.Request, what string, err error) (int, string, string) {
	ctrl.LoggerFrom(r.Context()).Error(err, "delivery of a webhook failed", "step", what)
	return http.StatusServiceUnavailable, resultFailed, "try again"
}

// keyOf reads the path of a delivery.
func keyOf(path string) (types.NamespacedName, bool) {
	rest, ok := strings.CutPrefix(path, pathPrefix)
	namespace, name, both := strings.Cut(rest, "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return key, ok && both && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// source gives what comes for a repository that exists.
func (h *hooks) source(key types.NamespacedName) *incoming {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.sources.Get(key); ok {
		return known.(*incoming)
	}
	in := &incoming{
		deliveries: rate.NewLimiter(deliveriesPerSecond, deliveriesAtOnce),
		looks:      rate.NewLimiter(rate.Every(looksEvery), looksAtOnce),
		numbers:    map[int64]notice{}, packages: map[string]bool{},
	}
	h.sources.Add(key, in)
	return in
}

// again says that a delivery was taken before, and remembers it.
func (h *hooks) again(key types.NamespacedName, delivery string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, now := key.String()+" "+delivery, h.clock.Now()
	if at, ok := h.seen.Get(id); ok && now.Sub(at.(time.Time)) < rememberedFor {
		return true
	}
	h.seen.Add(id, now)
	return false
}

// looked are the events that lead to a look.
var looked = map[string]bool{
	"pull_request": true, "push": true, "create": true, "delete": true, "release": true,
	"repository": true, "installation": true, "installation_repositories": true,
}

// packaged are the events about a new version of a package.
var packaged = map[string]bool{"package": true, "registry_package": true}

// follow gathers what an event hints at, and reports whether it is of any interest.
func (h *hooks) follow(key types.NamespacedName, in *incoming, e github.Event) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case looked[e.Type]:
		in.look = true
		if e.Number > 0 && len(in.numbers) < maxPulls {
			in.numbers[int64(e.Number)] = in.numbers[int64(e.Number)].newer(notice{updated: e.Updated, closed: e.Closed})
		}
	case packaged[e.Type] && e.Package != "" && len(in.packages) < maxPulls:
		in.packages[e.Package] = true
	default:
		return false
	}
	if !in.pending {
		in.pending = true
		now := h.clock.Now()
		h.clock.AfterFunc(max(coalesce, in.looks.ReserveN(now, 1).DelayFrom(now)), func() { h.pass(key, in, now) })
	}
	return true
}

// pass on what was gathered since a time.
func (h *hooks) pass(key types.NamespacedName, in *incoming, since time.Time) {
	in.mu.Lock()
	look, numbers, packages := in.look, in.numbers, in.packages
	in.pending, in.look, in.numbers, in.packages = false, false, map[int64]notice{}, map[string]bool{}
	in.mu.Unlock()
	select {
	case <-h.elected:
		if look {
			h.hint(key, numbers)
		}
		for name := range packages {
			if h.packages != nil {
				h.packages(key, name)
			}
		}
	default:
		if look {
			h.request(key, since)
		}
	}
}

// request asks the leader for a look, as people do, because of hints since a time.
func (h *hooks) request(key types.NamespacedName, since time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), coalesce*10)
	defer cancel()
	repository := &v1alpha1.GitHubRepository{}
	repository.Namespace, repository.Name = key.Namespace, key.Name
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		v1alpha1.AnnotationRequestedAt: since.UTC().Format(time.RFC3339Nano),
	}}})
	if err == nil {
		err = h.writer.Patch(ctx, repository, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldOwner))
	}
	if client.IgnoreNotFound(err) != nil {
		ctrl.Log.Error(err, "ask for a look at GitHub", "githubrepository", key)
	}
}

// server serves deliveries on every replica.
type server struct {
	address string
	handler http.Handler
}

// NeedLeaderElection is false: a Service sends to any replica.
func (*server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (s *server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen for webhooks at --webhook-bind-address: %w", err)
	}
	web := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	done := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		done <- web.Shutdown(end)
	}()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	return <-done
}
