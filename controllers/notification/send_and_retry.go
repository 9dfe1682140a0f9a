package notification

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/notify"
	"github.com/heighliner/heighliner/internal/outbound"
)

const (
	// minBackoff is the wait after the first failure. The wait doubles with each failure, up to maxBackoff.
	minBackoff, maxBackoff = time.Second, 5 * time.Minute
	// maxRejections is the number of rejections by the receiver after which a message is dropped, and
	// maxTrying is the maximum time for which any message is retried.
	maxRejections, maxTrying = 5, 24 * time.Hour
)

// result records that a message was accepted or dropped.
type result struct {
	job
	// called is the receiver's ID for the message; empty if the message cannot be edited.
	called string
	at     time.Time
	// dropped reports whether the message was not accepted and will not be sent again. why is the
	// reason.
	dropped bool
	why     string
}

// attempt is the state of a message that has been tried but neither accepted nor dropped.
type attempt struct {
	first      time.Time
	rejections int
}

// receiverState is a receiver's state in this process. It is lost when the process restarts. As a
// result, messages may be sent again, but no message is lost.
type receiverState struct {
	running bool
	// sending is the number of messages of the running task that will add a delivery record but have no result yet.
	sending int
	// receiver is the receiver's specification to which this state belongs.
	receiver *v1alpha1.NotificationReceiver
	// results are the results that are not in the status yet.
	results []result
	// failure describes the receiver's latest failure; empty if a message has been accepted since then. succeeded reports
	// whether the receiver has accepted a message since the process started.
	failure   string
	succeeded bool
	failures  int
	// next is the time of the next attempt after a failure.
	next     time.Time
	attempts map[string]attempt // by message ID
	cancel   context.CancelFunc
}

// done records the result of one message.
func (r *receiverState) done(x result) {
	r.results = append(r.results, x)
	if x.adds {
		r.sending--
	}
}

// policyState is a policy's state in this process.
type policyState struct {
	uid       types.UID
	receivers map[string]*receiverState
}

// send sends one message, like [notify.Sender.Send].
type send func(context.Context, *v1alpha1.NotificationReceiver, notify.Credentials, notify.Message, string) (string, *notify.Error)

// tasks send messages in the background. No method waits for a receiver.
type tasks struct {
	clock   clock.PassiveClock
	send    send
	metrics *metrics
	limits  *limits

	mu       sync.Mutex
	ctx      context.Context // nil until run is called
	enqueue  func(types.NamespacedName)
	policies map[types.NamespacedName]*policyState
}

func newTasks(c clock.PassiveClock, s send, m *metrics) *tasks {
	return &tasks{
		clock: c, send: s, metrics: m, policies: map[types.NamespacedName]*policyState{},
		limits: newLimits(),
	}
}

// run enables tasks until ctx is done. A task that ends before ctx is done calls enqueue with its policy. enqueue must be
// safe for concurrent use.
func (t *tasks) run(ctx context.Context, enqueue func(types.NamespacedName)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.enqueue = ctx, enqueue
}

// state returns the states of a policy's receivers, by name. It discards states that belong to a deleted
// policy with the same name.
func (t *tasks) state(policy types.NamespacedName, uid types.UID) map[string]receiverState {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.policies[policy]
	if p == nil || p.uid != uid {
		t.drop(policy)
		p = &policyState{uid: uid, receivers: map[string]*receiverState{}}
		t.policies[policy] = p
	}
	out := make(map[string]receiverState, len(p.receivers))
	for name, r := range p.receivers {
		out[name] = *r
	}
	return out
}

// keep cancels the tasks of receivers that were changed or removed, or of all receivers of a suspended
// policy. It forgets removed receivers whose tasks have ended. Messages that were not accepted are sent later, to
// the receivers in the specification at that time.
func (t *tasks) keep(policy types.NamespacedName, spec *v1alpha1.NotificationPolicySpec) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.policies[policy]
	if p == nil {
		return
	}
	for name, r := range p.receivers {
		at := slices.IndexFunc(spec.Receivers, func(x v1alpha1.NotificationReceiver) bool { return x.Name == name })
		if r.running && (at < 0 || spec.Suspend || !equality.Semantic.DeepEqual(*r.receiver, spec.Receivers[at])) {
			r.cancel()
		}
		if at < 0 && !r.running {
			delete(p.receivers, name)
		}
	}
}

// renew forgets the failures of changed receivers, and the wait after these failures, because both belong to
// the previous specification. While a task of a changed receiver is running, renew forgets nothing about this
// receiver. When the task ends, it calls enqueue, and renew is called again.
func (t *tasks) renew(policy types.NamespacedName, spec *v1alpha1.NotificationPolicySpec) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.policies[policy]
	if p == nil {
		return
	}
	for i := range spec.Receivers {
		receiver := &spec.Receivers[i]
		if r := p.receivers[receiver.Name]; r != nil && !r.running && r.receiver != nil && !equality.Semantic.DeepEqual(r.receiver, receiver) {
			r.receiver = receiver.DeepCopy()
			r.failure, r.failures, r.next, r.attempts = "", 0, time.Time{}, map[string]attempt{}
		}
	}
}

// recorded removes the results that the status now contains.
func (t *tasks) recorded(policy types.NamespacedName, state map[string]receiverState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.policies[policy]
	if p == nil {
		return
	}
	for name, s := range state {
		if r := p.receivers[name]; r != nil {
			r.results = r.results[min(len(s.results), len(r.results)):]
		}
	}
}

// forget cancels the tasks of a deleted policy.
func (t *tasks) forget(policy types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(policy)
}

func (t *tasks) drop(policy types.NamespacedName) {
	if p := t.policies[policy]; p != nil {
		for _, r := range p.receivers {
			if r.cancel != nil {
				r.cancel()
			}
		}
	}
	delete(t.policies, policy)
}

// start starts a task that sends messages to one receiver, one after the other. It does nothing if a task for this
// receiver is already running.
func (t *tasks) start(policy types.NamespacedName, receiver *v1alpha1.NotificationReceiver, jobs []job, credentials func(context.Context) (notify.Credentials, error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.policies[policy]
	if t.ctx == nil || p == nil {
		return
	}
	r := p.receivers[receiver.Name]
	if r == nil {
		r = &receiverState{attempts: map[string]attempt{}}
		p.receivers[receiver.Name] = r
	}
	if r.running {
		return
	}
	ctx, cancel := context.WithCancel(t.ctx)
	r.running, r.sending, r.cancel, r.receiver = true, 0, cancel, receiver
	known := map[string]attempt{}
	for _, j := range jobs {
		if j.adds {
			r.sending++
		}
		if a, ok := r.attempts[j.message.ID]; ok {
			known[j.message.ID] = a
		}
	}
	r.attempts = known
	go func() {
		defer cancel()
		for _, j := range jobs {
			if !t.one(ctx, policy.Namespace, r, receiver, j, credentials) {
				break
			}
		}
		t.mu.Lock()
		r.running, r.sending = false, 0
		enqueue := t.enqueue
		ended := t.ctx.Err() != nil
		t.mu.Unlock()
		if !ended {
			enqueue(policy)
		}
	}()
}

// one sends a message, and reports whether the next message may be sent.
func (t *tasks) one(ctx context.Context, namespace string, r *receiverState, receiver *v1alpha1.NotificationReceiver, j job, credentials func(context.Context) (notify.Credentials, error)) bool {
	called, failure := t.try(ctx, namespace, receiver, j, credentials)
	if ctx.Err() != nil && failure != nil {
		return false // The message was neither accepted nor rejected. It may be sent again later, with the same ID.
	}
	now := t.clock.Now()
	t.metrics.count(receiver.Type, failure)
	t.mu.Lock()
	defer t.mu.Unlock()
	if failure == nil {
		delete(r.attempts, j.message.ID)
		r.failure, r.succeeded, r.failures, r.next = "", true, 0, time.Time{}
		r.done(result{job: j, called: called, at: now})
		return true
	}
	if failure.Final { // Only this message failed, not the receiver.
		r.done(result{job: j, at: now, dropped: true, why: failure.Error()})
		return true
	}
	a := r.attempts[j.message.ID]
	if a.first.IsZero() {
		a.first = now
	}
	if failure.Rejected {
		a.rejections++
	}
	r.attempts[j.message.ID] = a
	r.failures++
	r.failure = failure.Error()
	r.next = now.Add(max(failure.After, backOff(r.failures)))
	if a.rejections >= maxRejections || now.Sub(a.first) >= maxTrying {
		delete(r.attempts, j.message.ID)
		r.failures, r.next = 0, time.Time{}
		r.done(result{job: j, at: now, dropped: true, why: failure.Error()})
	}
	return failure.Rejected
}

// try sends the message once. A panic counts as a rejection of this message, so that the receiver still gets the other messages.
func (t *tasks) try(ctx context.Context, namespace string, receiver *v1alpha1.NotificationReceiver, j job, credentials func(context.Context) (notify.Credentials, error)) (called string, failure *notify.Error) {
	err := contain.Panics(func() error {
		called, failure = t.deliver(ctx, namespace, receiver, j, credentials)
		return nil
	})
	if err != nil {
		failure = notify.NewError(err)
		failure.Rejected = true
	}
	return called, failure
}

// deliver reads the credentials again, so that a corrected Secret is used, and sends the message once.
func (t *tasks) deliver(ctx context.Context, namespace string, receiver *v1alpha1.NotificationReceiver, j job, credentials func(context.Context) (notify.Credentials, error)) (string, *notify.Error) {
	c, err := credentials(ctx)
	if err != nil {
		return "", notify.NewError(err)
	}
	leave, ok := t.limits.enter(ctx, namespace, outbound.HostOf(cmp.Or(c.URL, receiver.URL)))
	if !ok {
		return "", notify.NewError(ctx.Err())
	}
	defer leave()
	return t.send(ctx, receiver, c, j.message, j.edit)
}

// backOff returns the delay after the given number of failures. The delay starts at minBackoff, doubles
// with each failure, and is extended at random by up to a quarter, so that receivers that failed together
// are not retried together.
func backOff(failures int) time.Duration {
	d := min(minBackoff<<min(max(failures-1, 0), 16), maxBackoff)
	return d + rand.N(d/4)
}
