package notification

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/notify"
	"github.com/heighliner/heighliner/internal/view"
)

const (
	// maxDeliveries is the maximum length of status.deliveries, and maxBatch is the maximum number of
	// messages in one task.
	maxDeliveries = 512
	maxBatch      = 16
	// remembered is how long the end of each rollout is recorded individually. It is longer than any cache lag,
	// and longer than the difference between the clocks of two managers.
	remembered = 10 * time.Minute
	// maxAge is the maximum age at which the end of a rollout is reported for the first time. It is longer than
	// the time that a message usually waits for other messages to the same receiver, each of which is tried for up
	// to [maxTrying]. There is a maximum, because a policy may start to select a Microservice whose rollouts
	// ended long ago.
	maxAge = 7 * maxTrying
)

// job is a message to send to a receiver.
type job struct {
	message notify.Message
	// edit is the receiver's ID for the previous message, which is to be edited; empty for a new message.
	edit string
	fact notify.Fact
	// adds reports whether the message adds a record to status.deliveries instead of replacing one.
	adds bool
	// delivery is the record of the message for the status.
	delivery v1alpha1.NotificationDelivery
}

// plan is the plan of a policy.
type plan struct {
	status v1alpha1.NotificationPolicyStatus
	// jobs are the jobs to start, by receiver.
	jobs map[string][]job
	// dropped contains the results of dropped messages.
	dropped      []result
	requeueAfter time.Duration
}

// target is a release that may be reported.
type target struct {
	key   notify.Key
	state *view.ReleaseState
	uid   types.UID
	facts []notify.Fact
	// superseded reports whether a release that no longer exists was superseded.
	superseded bool
}

// newPlan returns the status that records accepted messages, and the messages to send next. It does not change the
// observed state.
func newPlan(o *observed, now time.Time) *plan {
	old := &o.policy.Status
	p := &plan{status: *old.DeepCopy(), jobs: map[string][]job{}}
	p.status.ObservedGeneration = o.policy.Generation
	if o.wrong != "" || o.policy.Spec.Suspend {
		p.rest(o, now)
		return p
	}
	changed := p.receivers(o, now)
	records := recordsOf(p.status.Deliveries, o.policy.Namespace)
	for i := range p.status.Receivers {
		changed = p.fold(&p.status.Receivers[i], o, records, now) || changed
	}
	targets := targetsOf(o, records)
	if changed || records.len() >= maxDeliveries {
		changed = p.forget(o, targets, records, now) || changed
	}
	if changed {
		p.prune(o, targets, records, now)
	}
	full := false
	for i := range p.status.Receivers {
		full = p.due(&p.status.Receivers[i], o, targets, records, now) || full
	}
	if changed {
		p.status.Deliveries = listOf(records)
		p.total()
	} else {
		p.keepPending(old)
	}
	for _, s := range o.releases {
		if s.Rollout {
			p.requeue(pollInterval)
			break
		}
	}
	setConditions(p, o, full)
	return p
}

// rest completes the plan of a policy that sends nothing. Transitions during a suspension are not reported
// later. For an invalid policy, the messages that receivers accepted earlier are recorded.
func (p *plan) rest(o *observed, now time.Time) {
	if o.policy.Spec.Suspend && o.wrong == "" {
		p.status.Receivers, p.status.Deliveries, p.status.Pending = nil, nil, 0
	} else {
		records, changed := recordsOf(p.status.Deliveries, o.policy.Namespace), false
		for i := range p.status.Receivers {
			changed = p.fold(&p.status.Receivers[i], o, records, now) || changed
		}
		if changed {
			p.status.Deliveries = listOf(records)
		}
	}
	setConditions(p, o, false)
}

// requeue requests a reconcile within the given time.
func (p *plan) requeue(after time.Duration) {
	if after = max(after, time.Millisecond); p.requeueAfter == 0 || after < p.requeueAfter {
		p.requeueAfter = after
	}
}

// receivers updates the receivers in the status from the specification. The end of a rollout is reported to a
// new receiver only if the rollout ends after now.
func (p *plan) receivers(o *observed, now time.Time) (changed bool) {
	var out []v1alpha1.ReceiverStatus
	for _, r := range o.policy.Spec.Receivers {
		i := slices.IndexFunc(p.status.Receivers, func(s v1alpha1.ReceiverStatus) bool { return s.Name == r.Name })
		if i >= 0 {
			out = append(out, p.status.Receivers[i])
			continue
		}
		out, changed = append(out, v1alpha1.ReceiverStatus{Name: r.Name, Since: metav1.NewMicroTime(now)}), true
	}
	changed = changed || len(out) != len(p.status.Receivers)
	p.status.Receivers = out
	return changed
}

// records contains the last report about each release to each receiver, keyed by receiver name and release.
type records map[string]map[notify.Key]v1alpha1.NotificationDelivery

// recordsOf returns the records from the list in a policy's status. namespace is the policy's namespace.
func recordsOf(list []v1alpha1.NotificationDelivery, namespace string) records {
	out := records{}
	for _, d := range list {
		out.set(notify.Key{Namespace: cmp.Or(d.Namespace, namespace), Release: d.Release}, d)
	}
	return out
}

func (r records) set(key notify.Key, d v1alpha1.NotificationDelivery) {
	if r[d.Receiver] == nil {
		r[d.Receiver] = map[notify.Key]v1alpha1.NotificationDelivery{}
	}
	r[d.Receiver][key] = d
}

func (r records) get(receiver string, key notify.Key) *v1alpha1.NotificationDelivery {
	if d, ok := r[receiver][key]; ok {
		return &d
	}
	return nil
}

func (r records) len() (n int) {
	for _, of := range r {
		n += len(of)
	}
	return n
}

// listOf returns the records as a list for the status, in a stable order.
func listOf(r records) (out []v1alpha1.NotificationDelivery) {
	for _, of := range r {
		for _, d := range of {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.NotificationDelivery) int {
		return cmp.Or(strings.Compare(a.Receiver, b.Receiver), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Microservice, b.Microservice), strings.Compare(a.Release, b.Release))
	})
	return out
}

// fold records the results of a receiver's last task.
func (p *plan) fold(s *v1alpha1.ReceiverStatus, o *observed, records records, now time.Time) (changed bool) {
	state := o.state[s.Name]
	for _, r := range state.results {
		key := notify.Key{Namespace: cmp.Or(r.delivery.Namespace, o.policy.Namespace), Release: r.delivery.Release}
		known := records.get(s.Name, key)
		message := r.called
		if r.dropped {
			message = r.edit // Keep the ID for the next edit.
		}
		records.set(key, notify.Advance(known, r.delivery, &r.fact, r.message.ID, message))
		if r.dropped {
			p.dropped = append(p.dropped, r)
		} else {
			at := metav1.NewMicroTime(r.at)
			s.LastDeliveryTime = &at
		}
		changed = true
	}
	return reportFailure(s, state, now) || changed
}

// targetsOf returns the releases that may be reported: existing releases, and reported releases that no longer exist. The latter have no
// facts.
func targetsOf(o *observed, records records) map[notify.Key]target {
	out := map[notify.Key]target{}
	for i := range o.releases {
		s := &o.releases[i]
		if s.Preview && !o.policy.Spec.Previews {
			continue
		}
		key := notify.KeyOf(*s)
		out[key] = target{key: key, state: s, uid: s.Microservice.UID, facts: notify.FactsOf(*s)}
	}
	for _, of := range records {
		for key, d := range of {
			if _, there := out[key]; !there && !notify.Ended(d.Event) && o.gone(key, d) {
				out[key] = target{key: key, superseded: o.superseded(key)}
			}
		}
	}
	return out
}

// gone reports whether a reported release no longer exists. A release that exists but that the policy no
// longer selects is not gone.
func (o *observed) gone(key notify.Key, d v1alpha1.NotificationDelivery) bool {
	name := [2]string{key.Namespace, d.Microservice}
	if !o.chosen(key.Namespace) || o.existing[name] && !o.services[name] {
		return false
	}
	return !slices.ContainsFunc(o.releases, func(s view.ReleaseState) bool { return notify.KeyOf(s) == key })
}

// superseded reports whether a release that no longer exists is the most recently superseded release of its group.
func (o *observed) superseded(key notify.Key) bool {
	return slices.ContainsFunc(o.releases, func(s view.ReleaseState) bool {
		return s.Microservice.Namespace == key.Namespace && s.Group.Internal != nil && s.Group.Internal.LastSuperseded == key.Release
	})
}

// of returns the last report about a release to a receiver, and the fact to report next. Each is nil if there is none.
func (t target) of(r *v1alpha1.NotificationReceiver, records records, since time.Time) (known *v1alpha1.NotificationDelivery, due *notify.Fact) {
	known = records.get(r.Name, t.key)
	facts := t.facts
	if t.state == nil {
		if known == nil || notify.Ended(known.Event) {
			return known, nil
		}
		facts = []notify.Fact{notify.RemovedFact(known, t.superseded)}
	}
	return known, notify.Due(r, known, facts, since)
}

// sinceOf returns the time after which a rollout must have ended for its end to be reported to a receiver.
func sinceOf(s *v1alpha1.ReceiverStatus, now time.Time) time.Time {
	if oldest := now.Add(-maxAge); oldest.After(s.Since.Time) {
		return oldest
	}
	return s.Since.Time
}

// inRollout reports whether the rollout of a release is in progress.
func (t target) inRollout() bool {
	return slices.ContainsFunc(t.facts, func(f notify.Fact) bool { return !notify.Ended(f.Event) })
}

// isUncreated reports whether the rollout of a release is in progress, but its object does not exist yet.
func (t target) isUncreated() bool {
	return t.state != nil && t.state.Rollout && t.state.Object == nil
}

// forget removes the records of rollouts that have ended in a way that the receiver does not want to be notified of. It reports
// whether there were any.
func (p *plan) forget(o *observed, targets map[notify.Key]target, records records, now time.Time) (found bool) {
	for i := range p.status.Receivers {
		s := &p.status.Receivers[i]
		for key, d := range records[s.Name] {
			t, there := targets[key]
			if !there || notify.Ended(d.Event) || t.state != nil && !slices.ContainsFunc(t.facts, func(f notify.Fact) bool { return notify.Ended(f.Event) }) {
				continue
			}
			if _, due := t.of(o.receiver(s.Name), records, sinceOf(s, now)); due == nil {
				delete(records[s.Name], key)
				found = true
			}
		}
	}
	return found
}

// prune removes records of releases that can no longer be reported, and advances the time from which the ends of
// rollouts are reported to receivers.
func (p *plan) prune(o *observed, targets map[notify.Key]target, records records, now time.Time) {
	for i := range p.status.Receivers {
		s := &p.status.Receivers[i]
		since := now.Add(-remembered)
		for _, t := range targets {
			if _, f := t.of(o.receiver(s.Name), records, sinceOf(s, now)); f != nil && notify.Ended(f.Event) && !f.Time.After(since) {
				since = f.Time.Add(-time.Microsecond)
			}
		}
		if since.After(s.Since.Time) {
			s.Since = metav1.NewMicroTime(since.Truncate(time.Microsecond))
		}
	}
	for name, of := range records {
		i := slices.IndexFunc(p.status.Receivers, func(s v1alpha1.ReceiverStatus) bool { return s.Name == name })
		if i < 0 {
			delete(records, name)
			continue
		}
		for key, d := range of {
			t, there := targets[key]
			over := notify.Ended(d.Event) && !d.Time.After(p.status.Receivers[i].Since.Time) && !t.inRollout()
			if !there || over {
				delete(of, key)
			}
		}
	}
}

// due adds the next messages for a receiver to the plan. It reports whether messages are waiting because
// status.deliveries is full.
func (p *plan) due(s *v1alpha1.ReceiverStatus, o *observed, targets map[notify.Key]target, records records, now time.Time) (full bool) {
	state, receiver := o.state[s.Name], o.receiver(s.Name)
	var jobs []job
	room := maxDeliveries - records.len() - p.count() - o.sending()
	for _, t := range targets {
		if receiver.Type == v1alpha1.ReceiverGitHubStatus && t.isUncreated() {
			continue // The commit is not known until the object exists.
		}
		if known, f := t.of(receiver, records, sinceOf(s, now)); f != nil {
			jobs = append(jobs, newJob(o.policy, receiver, t, known, *f))
		}
	}
	slices.SortFunc(jobs, func(a, b job) int {
		return cmp.Or(a.fact.Time.Compare(b.fact.Time), a.compareEnds(b), strings.Compare(a.message.ID, b.message.ID))
	})
	s.Pending = int32(len(jobs))
	if state.running {
		return false // The task enqueues the policy when it ends.
	}
	if wait := state.next.Sub(now); wait > 0 && len(jobs) > 0 {
		p.requeue(wait)
		return false
	}
	for _, j := range jobs {
		if len(p.jobs[s.Name]) == maxBatch {
			break
		}
		if records.get(s.Name, notify.Key{Namespace: j.message.Namespace, Release: j.message.Release}) == nil {
			if room <= 0 {
				full = true
				continue
			}
			room--
			j.adds = true
		}
		p.jobs[s.Name] = append(p.jobs[s.Name], j)
	}
	return full
}

// compareEnds orders the ends of rollouts before other transitions. One plan can report the end of a rollout and the start of the next
// rollout of the same commit, and GitHub shows only the latest status of a commit.
func (j job) compareEnds(other job) int {
	switch first, second := notify.Ended(j.fact.Event), notify.Ended(other.fact.Event); {
	case first == second:
		return 0
	case first:
		return -1
	}
	return 1
}

// sending returns the number of records that running tasks may still add.
func (o *observed) sending() (n int) {
	for _, s := range o.state {
		n += s.sending
	}
	return n
}

// count returns the number of messages that are about to be sent.
func (p *plan) count() (n int) {
	for _, jobs := range p.jobs {
		n += len(jobs)
	}
	return n
}

// newJob returns the job for a message.
func newJob(policy *v1alpha1.NotificationPolicy, receiver *v1alpha1.NotificationReceiver, t target, known *v1alpha1.NotificationDelivery, f notify.Fact) job {
	d := v1alpha1.NotificationDelivery{Receiver: receiver.Name, Release: t.key.Release}
	if t.key.Namespace != policy.Namespace {
		d.Namespace = t.key.Namespace
	}
	if t.state != nil {
		d.Microservice, d.Version = t.state.Microservice.Name, t.state.Row.SemVer.Version
	} else {
		d.Microservice, d.Version = known.Microservice, known.Version
	}
	id := notify.ID(policy.UID, receiver.Name, t.uid, t.key.Release, &f)
	about := notify.Advance(known, d, &f, id, "")
	return job{
		message: notify.NewMessage(notify.About{Policy: policy, Receiver: receiver, Delivery: about, State: t.state, Fact: f, ID: id}),
		edit:    notify.Edits(known, &f), fact: f, delivery: d,
	}
}
