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

// Bounds on deliveries.
const (
	// maxPayload is the maximum size of a delivery in bytes.
	maxPayload = github.MaxPayload
	// maxDeliveries is the maximum number of deliveries that are read concurrently, and maxDeliveriesFrom is the
	// maximum number from one address, which may be the address of a proxy. A slow request occupies a slot for up to
	// ten seconds. There is no limit per repository, because deliveries are read before their signatures are
	// verified. Therefore, anyone could exhaust such a limit.
	maxDeliveries     = 64
	maxDeliveriesFrom = 32
	// secretAge is how long a Secret is cached. Because of the cache, unverified deliveries cause few reads.
	// maxSecrets is the maximum number of cached Secrets.
	secretAge  = 5 * time.Second
	maxSecrets = 1024
	// rememberedFor is how long duplicates of a delivery are detected. Only the last maxRemembered deliveries
	// are remembered. GitHub sends a delivery again only if a user requests it.
	rememberedFor = 10 * time.Minute
	maxRemembered = 4096
	// maxSources is the maximum number of repositories whose delivery rates are tracked.
	maxSources = 1024
	// maxWrites is how often a write that passes deliveries to the other replicas is tried.
	maxWrites = 6
	// coalesceDelay is how long deliveries are collected before they start a poll. A single
	// user action, such as a push, causes several deliveries within a few hundred milliseconds.
	// A longer delay would be noticeable.
	coalesceDelay = time.Second
)

// Rate limits for each repository: on verified deliveries, and on the polls that these deliveries start.
const (
	deliveriesPerSecond = 20
	deliveryBurst       = 100
	pollInterval        = 10 * time.Second
	pollBurst           = 6
)

// webhookHandler accepts deliveries of GitHub's webhooks at /github/<namespace>/<name>. Deliveries are only
// hints to start a poll earlier. If a delivery is lost, the next regular poll observes the change.
//
// A GitHub App or an organization has one webhook for all of its repositories. A delivery therefore concerns
// each GitHubRepository in the namespace that refers to the same Secret and to the repository of the delivery.
//
// For a delivery without a valid signature, the handler computes only one hash, and reads the Secret of the
// webhook at most once every five seconds. Such a delivery does not count against the limits of valid
// deliveries, and its response does not reveal whether there is a webhook at the path.
//
// Every replica accepts deliveries, because a Service can send them to any replica. The replica that reconciles
// the GitHubRepository polls immediately. Other replicas request a poll with the annotation hlnr.io/deliveredAt.
// The ImagePolicies that read a GitHubRepository can be in namespaces of several replicas. Therefore, each
// replica announces new packages to all of them with the annotation hlnr.io/packageDeliveredAt.
type webhookHandler struct {
	// repositories reads from the cache, and secrets reads from the API server.
	repositories, secrets client.Reader
	writer                client.Writer
	clock                 clock.WithDelayedExecution
	// elected is closed when this replica becomes the leader.
	elected <-chan struct{}
	// holds reports whether this replica, if it is elected, reconciles a namespace.
	holds func(namespace string) bool
	hint  func(types.NamespacedName, map[int64]notice)
	count func(result string)

	slots       *slotCounter
	deliveries  *lru.Cache // time of a delivery, by repository and delivery ID
	secretCache *lru.Cache // cachedSecret, by the name of the Secret
	dummySecret []byte     // used to verify signatures if there is no Secret

	mu      sync.Mutex
	sources *lru.Cache // *deliveryState, by repository
}

// cachedSecret is the secret of a webhook with the time at which it was read.
type cachedSecret struct {
	at     time.Time
	secret []byte // nil if there is no secret
}

// deliveryState collects the deliveries for one repository.
type deliveryState struct {
	deliveries *rate.Limiter
	polls      *rate.Limiter

	mu       sync.Mutex
	pending  bool
	poll     bool
	numbers  map[int64]notice
	packages bool
	latest   time.Time // time of the latest event
}

// init sets a handler's internal fields.
func (h *webhookHandler) init() *webhookHandler {
	h.slots = &slotCounter{taken: map[string]int{}}
	h.deliveries, h.sources, h.secretCache = lru.New(maxRemembered), lru.New(maxSources), lru.New(maxSecrets)
	h.dummySecret = make([]byte, 32)
	rand.Read(h.dummySecret) // never fails
	return h
}

// Results of deliveries, as the metric reports them.
const (
	resultAccepted  = "Accepted"
	resultIgnored   = "Ignored"
	resultDuplicate = "Duplicate"
	resultUnknown   = "Unknown"
	resultTooMany   = "TooMany"
	resultFailed    = "Failed"
)

// rejections are the results of invalid deliveries, by status code.
var rejections = map[int]string{
	http.StatusUnauthorized:          "Unauthorized",
	http.StatusMethodNotAllowed:      "MethodNotAllowed",
	http.StatusRequestEntityTooLarge: "TooLarge",
	http.StatusUnsupportedMediaType:  "UnsupportedMediaType",
	http.StatusBadRequest:            "Malformed",
}

// ServeHTTP handles one delivery. It responds with 202 if the delivery is accepted, ignored or a
// duplicate, and 401 for an unknown repository, a repository without a webhook, or an invalid
// signature.
func (h *webhookHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, result, text := h.receive(r)
	h.count(result)
	switch code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "10")
	}
	if code != http.StatusAccepted {
		w.Header().Set("Connection", "close") // do not wait for the rest of the body
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}

// receive reads a delivery, and returns the response and the result for the metric.
func (h *webhookHandler) receive(r *http.Request) (code int, result, text string) {
	if r.Method != http.MethodPost {
		return rejected(http.StatusMethodNotAllowed, "use POST")
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	leave, ok := h.slots.enter(slot{"all", maxDeliveries}, slot{"from " + from, maxDeliveriesFrom})
	if !ok {
		return http.StatusServiceUnavailable, resultTooMany, "too many concurrent deliveries"
	}
	defer leave()
	key, ok := keyOf(r.URL.Path)
	if !ok {
		return notFound()
	}
	repository, secret, err := h.secretOf(r.Context(), key)
	if err != nil {
		return h.internalError(r, "read webhook", err)
	}
	known := len(secret) > 0
	if !known {
		secret = h.dummySecret
	}
	event, err := github.ParseWebhook(r, secret, maxPayload)
	var e *github.WebhookError
	switch {
	case errors.As(err, &e) && e.Status == http.StatusUnauthorized && !known:
		return http.StatusUnauthorized, resultUnknown, e.Reason // the condition WebhookReady reports a Secret that is missing or cannot be read
	case errors.As(err, &e):
		return rejected(e.Status, e.Reason)
	case err != nil:
		return h.internalError(r, "read delivery", err)
	}
	if !h.stateOf(key).deliveries.AllowN(h.clock.Now(), 1) {
		return http.StatusTooManyRequests, resultTooMany, "too many deliveries"
	}
	about, err := h.repositoriesOf(r.Context(), repository, event)
	if err != nil {
		return h.internalError(r, "list GitHubRepositories", err)
	}
	if h.isDuplicate(key, event.Delivery) {
		return http.StatusAccepted, resultDuplicate, "duplicate delivery"
	}
	followed := false
	for _, one := range about {
		followed = h.collect(one, h.stateOf(one), event) || followed
	}
	if !followed {
		return http.StatusAccepted, resultIgnored, "ignored"
	}
	return http.StatusAccepted, resultAccepted, "accepted"
}

// secretOf returns the repository at a path, and its webhook's secret, which is nil if it does not exist. Both
// are nil if the repository does not exist or has no webhook.
func (h *webhookHandler) secretOf(ctx context.Context, key types.NamespacedName) (*v1alpha1.GitHubRepository, []byte, error) {
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
	if known, ok := h.secretCache.Get(name); ok && now.Sub(known.(cachedSecret).at) < secretAge {
		return &repository, known.(cachedSecret).secret, nil
	}
	var secret corev1.Secret
	// A Secret that the manager is not permitted to read is handled like a missing Secret. The condition
	// WebhookReady reports the problem.
	if err := h.secrets.Get(ctx, name, &secret); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
		return nil, nil, fmt.Errorf("get Secret: %w", err)
	}
	h.secretCache.Add(name, cachedSecret{now, secret.Data[keyWebhookSecret]})
	return &repository, secret.Data[keyWebhookSecret], nil
}

// repositoriesOf returns the GitHubRepositories that an event concerns. They refer to the same Secret
// as the GitHubRepository at the path and, if the event contains a repository, to this repository.
func (h *webhookHandler) repositoriesOf(ctx context.Context, at *v1alpha1.GitHubRepository, e github.Event) ([]types.NamespacedName, error) {
	var all v1alpha1.GitHubRepositoryList
	if err := h.repositories.List(ctx, &all, client.InNamespace(at.Namespace), client.UnsafeDisableDeepCopy); err != nil {
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

// isAbout reports whether an event concerns a repository. It compares the ID, which does not change when a
// repository is renamed, and the names. An event without a repository concerns every repository.
func isAbout(e github.Event, repository *v1alpha1.GitHubRepository) bool {
	return e.Repository == "" ||
		e.RepositoryID != 0 && e.RepositoryID == repository.Status.RepositoryID ||
		strings.EqualFold(e.Repository, repository.Spec.Owner+"/"+repository.Spec.Repo) ||
		strings.EqualFold(e.Repository, repository.Status.Repository)
}

func notFound() (int, string, string) {
	return http.StatusNotFound, resultUnknown, "webhook not found"
}

func rejected(code int, text string) (int, string, string) {
	result, ok := rejections[code]
	if !ok {
		result = resultFailed
	}
	return code, result, text
}

func (h *webhookHandler) internalError(r *http.Request, what string, err error) (int, string, string) {
	ctrl.LoggerFrom(r.Context()).Error(err, "webhook delivery failed", "step", what)
	return http.StatusServiceUnavailable, resultFailed, "try again"
}

// keyOf parses the path of a delivery.
func keyOf(path string) (types.NamespacedName, bool) {
	rest, ok := strings.CutPrefix(path, pathPrefix)
	namespace, name, both := strings.Cut(rest, "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return key, ok && both && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// stateOf returns the delivery state of a repository, and creates the state if there is none. The repository must exist.
func (h *webhookHandler) stateOf(key types.NamespacedName) *deliveryState {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.sources.Get(key); ok {
		return known.(*deliveryState)
	}
	in := &deliveryState{
		deliveries: rate.NewLimiter(deliveriesPerSecond, deliveryBurst),
		polls:      rate.NewLimiter(rate.Every(pollInterval), pollBurst),
		numbers:    map[int64]notice{},
	}
	h.sources.Add(key, in)
	return in
}

// isDuplicate reports whether a delivery was received before, and records it.
func (h *webhookHandler) isDuplicate(key types.NamespacedName, delivery string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, now := key.String()+" "+delivery, h.clock.Now()
	if at, ok := h.deliveries.Get(id); ok && now.Sub(at.(time.Time)) < rememberedFor {
		return true
	}
	h.deliveries.Add(id, now)
	return false
}

// pollEvents are the events that start a poll.
var pollEvents = map[string]bool{
	"pull_request": true, "push": true, "create": true, "delete": true, "release": true,
	"repository": true, "installation": true, "installation_repositories": true,
}

// packageEvents are the events about a new version of a package.
var packageEvents = map[string]bool{"package": true, "registry_package": true}

// collect records an event for the next flush, and reports whether the event is relevant.
func (h *webhookHandler) collect(key types.NamespacedName, in *deliveryState, e github.Event) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case pollEvents[e.Type]:
		in.poll = true
		if e.Number > 0 && len(in.numbers) < maxPullRequests {
			in.numbers[int64(e.Number)] = in.numbers[int64(e.Number)].newest(notice{updated: e.Updated, closed: e.Closed})
		}
	case packageEvents[e.Type] && e.Package != "":
		in.packages = true
	default:
		return false
	}
	now := h.clock.Now()
	in.latest = now
	if !in.pending {
		in.pending = true
		h.clock.AfterFunc(max(coalesceDelay, in.polls.ReserveN(now, 1).DelayFrom(now)), func() { h.flush(key, in) })
	}
	return true
}

// flush starts or requests a poll, and announces packages, for the events that were collected.
func (h *webhookHandler) flush(key types.NamespacedName, in *deliveryState) {
	in.mu.Lock()
	poll, numbers, packages, at := in.poll, in.numbers, in.packages, in.latest.UTC().Format(time.RFC3339Nano)
	in.pending, in.poll, in.numbers, in.packages = false, false, map[int64]notice{}, false
	in.mu.Unlock()
	annotations := map[string]string{}
	if packages {
		annotations[v1alpha1.AnnotationPackageDeliveredAt] = at
	}
	switch {
	case poll && h.reconciles(key.Namespace):
		h.hint(key, numbers)
	case poll:
		annotations[v1alpha1.AnnotationDeliveredAt] = at
	}
	if len(annotations) > 0 {
		go h.passOn(key, annotations)
	}
}

// reconciles reports whether this replica polls the repositories of a namespace.
func (h *webhookHandler) reconciles(namespace string) bool {
	select {
	case <-h.elected:
		return h.holds(namespace)
	default:
		return false
	}
}

// passOn sets annotations of a GitHubRepository, through which other replicas observe deliveries. If all writes fail, the next regular
// poll or scan finds the changes.
func (h *webhookHandler) passOn(key types.NamespacedName, annotations map[string]string) {
	err := h.annotate(key, annotations)
	for n := 1; err != nil && n < maxWrites; n++ {
		<-h.clock.After(pollInterval)
		err = h.annotate(key, annotations)
	}
	if err != nil {
		ctrl.Log.Error(err, "failed to pass a webhook delivery to the other replicas", "githubrepository", key)
	}
}

// annotate sets annotations of a GitHubRepository, through which other replicas observe deliveries. It does nothing if the
// GitHubRepository no longer exists.
func (h *webhookHandler) annotate(key types.NamespacedName, annotations map[string]string) error {
	ctx, cancel := context.WithTimeout(context.Background(), coalesceDelay*10)
	defer cancel()
	repository := &v1alpha1.GitHubRepository{}
	repository.Namespace, repository.Name = key.Namespace, key.Name
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err == nil {
		err = h.writer.Patch(ctx, repository, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldOwner))
	}
	return client.IgnoreNotFound(err)
}
