package hook

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/outbound"
)

// The limits of a Pool.
const (
	// maxCalls is the maximum number of concurrent calls, and maxShare is the maximum number for one namespace or
	// one host.
	maxCalls = 64
	maxShare = maxCalls / 4
	// maxHostCalls is the maximum number of concurrent calls of one namespace to one host.
	maxHostCalls = 4
	// maxStale is the maximum number of older notifications of one hook that are still delivered if there are
	// newer notifications.
	maxStale = 8
)

// Options are the options of a Pool.
type Options struct {
	// Policy defines which addresses may be called.
	Policy *outbound.Policy
	// Credentials reads the credentials of a hook in a namespace.
	Credentials func(ctx context.Context, namespace string, h *v1alpha1.Hook) (Credentials, error)
	// UserAgent is the user agent of the calls.
	UserAgent string
	// Observe is called after each call of a hook. It may be nil.
	Observe func(t v1alpha1.HookType, yes bool, took time.Duration)
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Wait returns the delay before a retry. Retries are numbered from 1. The same delay applies before an unanswered
	// check is repeated. By default, the delays are 1, 2, 4, 8 and 16 seconds, each increased by a random jitter of
	// up to a quarter of the delay.
	Wait func(retry int) time.Duration
}

// Pool calls hooks in the background. No method waits for a response. The number of concurrent calls is
// limited to 64 in total, 16 for each namespace, 16 to each host, 4 for each namespace to each host, and
// one for each hook of a release. The zero Pool is not usable. See NewPool.
type Pool struct {
	policy      *outbound.Policy
	shared      *http.Client
	credentials func(context.Context, string, *v1alpha1.Hook) (Credentials, error)
	userAgent   string
	observe     func(v1alpha1.HookType, bool, time.Duration)
	now         func() time.Time
	wait        func(int) time.Duration

	slots *outbound.Slots

	mu       sync.Mutex
	ctx      context.Context
	requeue  func(types.NamespacedName)
	releases map[types.NamespacedName]*deliveries
}

// deliveries are the deliveries of one release.
type deliveries struct {
	byID map[string]*delivery
	// last contains the latest delivery of each hook. The next delivery of a hook waits until this delivery has ended.
	last map[string]*delivery
}

// delivery is the delivery of one Call, with all its requests to the receiver.
type delivery struct {
	question Call
	order    int64
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the current call and its retries have ended
	running  bool
	outcome  *Outcome
	// edited is the time at which an edit of the hook between two calls was last observed.
	edited time.Time
	// silences counts the outcomes without an answer, and again is the time at which the check is
	// repeated after the latest such outcome.
	silences int
	again    time.Time
}

// NewPool returns a pool that makes no calls before it is started.
func NewPool(o Options) (*Pool, error) {
	shared, err := o.Policy.Client(clientOptions(nil))
	if err != nil {
		return nil, fmt.Errorf("create a client for hooks: %w", err)
	}
	p := &Pool{
		policy: o.Policy, shared: shared, credentials: o.Credentials, userAgent: o.UserAgent, observe: o.Observe, now: o.Now, wait: o.Wait,
		slots:    outbound.NewSlots(outbound.Bounds{All: maxCalls, Namespace: maxShare, Host: maxShare, NamespaceHost: maxHostCalls}),
		releases: map[types.NamespacedName]*deliveries{},
	}
	if p.observe == nil {
		p.observe = func(v1alpha1.HookType, bool, time.Duration) {}
	}
	if p.now == nil {
		p.now = time.Now
	}
	if p.wait == nil {
		p.wait = backOff
	}
	return p, nil
}

// Start enables calls until ctx is done. The pool calls requeue for each release with a new outcome.
// requeue must not block, and it must be safe for concurrent use.
func (p *Pool) Start(ctx context.Context, requeue func(types.NamespacedName)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.requeue = ctx, requeue
}

// Outcomes returns the outcomes of the calls that this process made for a release and that are still needed, keyed by
// the ID of the call.
func (p *Pool) Outcomes(release types.NamespacedName) map[string]Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]Outcome{}
	if ds := p.releases[release]; ds != nil {
		for id, d := range ds.byID {
			if d.outcome != nil {
				out[id] = *d.outcome
			}
		}
	}
	return out
}

// Ask starts the due calls of a release, unless they are in progress, and returns the time at which the
// next call is due. It returns the zero time if no call becomes due before there is a new outcome. Calls that
// are no longer in questions are canceled, except for notifications in progress.
func (p *Pool) Ask(release types.NamespacedName, questions, due []Call) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return time.Time{}
	}
	ds := p.releases[release]
	if ds != nil {
		ds.retain(questions)
		if len(ds.byID) == 0 {
			delete(p.releases, release)
			ds = nil
		}
	}
	var next time.Time
	for _, q := range due {
		if ds == nil {
			ds = &deliveries{byID: map[string]*delivery{}, last: map[string]*delivery{}}
			p.releases[release] = ds
		}
		if at := p.deliver(release, ds, q); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Forget cancels all calls of a release.
func (p *Pool) Forget(release types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ds := p.releases[release]; ds != nil {
		for _, d := range ds.byID {
			d.cancel()
		}
		delete(p.releases, release)
	}
}

// Releases returns the number of releases with calls or outcomes.
func (p *Pool) Releases() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.releases)
}

// retain cancels calls that are no longer needed. Notifications in progress continue. If too many notifications of
// a hook are in progress, the oldest notifications are canceled.
func (ds *deliveries) retain(questions []Call) {
	stale := map[string][]*delivery{}
	for id, d := range ds.byID {
		if slices.ContainsFunc(questions, func(q Call) bool { return q.Body.ID == id }) {
			continue
		}
		if message(d.question.Hook.Type) && d.running {
			name := d.question.Hook.Name
			stale[name] = append(stale[name], d)
			continue
		}
		d.cancel()
		delete(ds.byID, id)
	}
	for _, late := range stale {
		slices.SortFunc(late, func(a, b *delivery) int { return int(b.order - a.order) })
		for _, d := range late[min(len(late), maxStale):] {
			d.cancel()
			delete(ds.byID, d.question.Body.ID)
		}
	}
	for name, d := range ds.last {
		if ds.byID[d.question.Body.ID] != d && !d.running {
			delete(ds.last, name)
		}
	}
}

// deliver starts a call, unless the call is in progress, its final response has been received, or it is
// not due yet. If it is not due yet, deliver returns the time at which it is due.
func (p *Pool) deliver(release types.NamespacedName, ds *deliveries, q Call) time.Time {
	d := ds.byID[q.Body.ID]
	switch {
	case d == nil:
		d = &delivery{}
		ds.byID[q.Body.ID] = d
	case d.running:
		return time.Time{}
	case d.outcome != nil:
		asked := polled(q.Hook.Type) || checks(q.Hook.Type) && d.outcome.Unanswered
		if !asked || d.outcome.Yes || d.outcome.Refused {
			return time.Time{} // The next reconcile reads the outcome.
		}
		at := d.outcome.Time.Add(interval(&q.Hook))
		if !polled(q.Hook.Type) {
			at = d.again
		}
		if !equality.Semantic.DeepEqual(d.question.Hook, q.Hook) {
			d.edited = p.now() // A user who fixed the hook should see the result immediately.
		} else if at.After(p.now()) {
			return at
		}
	}
	var before <-chan struct{}
	if last := ds.last[q.Hook.Name]; last != nil && last.running {
		before = last.ended
	}
	order := int64(0)
	if last := ds.last[q.Hook.Name]; last != nil {
		order = last.order + 1
	}
	ctx, cancel := context.WithCancel(p.ctx)
	d.question, d.order, d.cancel, d.ended, d.running = q, order, cancel, make(chan struct{}), true
	ds.last[q.Hook.Name] = d
	attempts := 0
	if d.outcome != nil {
		attempts = d.outcome.Attempts
	}
	go p.run(ctx, release, d, q, attempts, before)
	return time.Time{}
}

// run delivers one Call, and then requeues the release, which is waiting for the outcome.
func (p *Pool) run(ctx context.Context, release types.NamespacedName, d *delivery, q Call, attempts int, before <-chan struct{}) {
	outcome, ok := p.try(ctx, release.Namespace, q, attempts, before)
	p.mu.Lock()
	d.running = false
	if ok {
		outcome.Edited = d.edited
		d.outcome = &outcome
		if outcome.Unanswered {
			d.silences++
			d.again = outcome.Time.Add(p.wait(d.silences))
		}
	}
	d.cancel()
	close(d.ended)
	requeue := p.requeue
	p.mu.Unlock()
	if ok {
		requeue(release)
	}
}
