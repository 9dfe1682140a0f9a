package traffic

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Status returns the policy's new status, and the time after which to reconcile again.
func Status(f *Observed, out *Decision, w Applied) (v1alpha1.NetworkPolicyStatus, time.Duration) {
	r := &reporter{planner: newPlanner(f), out: out, writes: w}
	now := *f.Policy.Status.DeepCopy()
	now.ObservedGeneration = f.Policy.Generation
	now.Microservice = f.Policy.MicroserviceName()
	now.Provider = ProviderOf(f.Policy).Name()
	if f.Microservice != nil {
		now.ProviderSwitch = r.providerSwitch(now.ProviderSwitch)
		now.Groups = r.groupReports()
		now.Adopted = r.adoptionReport(now.Adopted)
		now.Domains, now.Listeners = r.domainReports(now.Domains), r.listenerReports()
		r.userReports(&now)
		now.Summary.Domains, now.URL = countDomains(now.Domains)
		primary := r.primary(now.Domains)
		if primary != nil {
			now.URL = primary.URL
		}
		now.Summary.Split = r.split(primary, now.Summary.Split)
		for _, release := range r.releases {
			r.requeueAt(r.firstTrafficAt(release))
		}
	} else {
		now.Domains = f.withdrawn(now.Domains)
		now.Summary.Domains, now.URL = countDomains(now.Domains)
	}
	r.conditions(&now)
	return now, r.requeueAfter
}

// Reserve returns the status with the references that a reconcile is about to write for groups
// without a confirmed revision, and reports whether any of these references is new. This status is
// written before the objects: a manager that stops between the two writes must not leave an object
// whose references are unknown. A policy that has not reported yet does not need this early write,
// because it counts as referring to every release (protocol rule 11).
func Reserve(f *Observed, out *Decision) (now v1alpha1.NetworkPolicyStatus, more bool) {
	r := &reporter{planner: newPlanner(f), out: out}
	if now = *f.Policy.Status.DeepCopy(); now.Provider == "" {
		return now, false
	}
	for _, g := range out.groups {
		is := r.report(g.slug)
		names := Union(is.References, r.written(g.slug))
		if is.Revision > 0 || sameSet(is.References, names) {
			continue
		}
		if is.References = names; is.Split == "" {
			is.Split, is.Reason, is.Message = g.mode, ReasonPending, "the first objects of the group are being written"
		}
		now.Groups = slices.DeleteFunc(now.Groups, func(o v1alpha1.GroupTraffic) bool { return o.Slug == g.slug })
		now.Groups, more = append(now.Groups, is), true
	}
	slices.SortFunc(now.Groups, func(a, b v1alpha1.GroupTraffic) int { return strings.Compare(a.Slug, b.Slug) })
	return now, more
}

// silence is the time for which the first status of a new policy may be delayed after the policy's
// creation, or after the last progress of its Microservice, while the status reports only progress.
// maxSilence is the maximum delay, measured from the policy's creation or, if that is later, from the
// time at which a rollout last started or a release last became active for the first time.
// maxSilenceBefore is the maximum delay while the Microservice exists, but has no status yet because
// many other rollouts are starting. After 50 seconds, the Microservice reports that its first rollout
// is waiting for its turn. While it reports this, the policy needs no status. Both maximums are shorter
// than the time after which hlnr doctor reports an object without a status.
const (
	silence          = 10 * time.Second
	maxSilence       = 50 * time.Second
	maxSilenceBefore = 55 * time.Second
)

// Silent returns how long the write of a policy's status can be delayed, or 0. The write can be
// delayed while the policy is new, no revision is confirmed, and the status reports only progress.
func Silent(f *Observed, now v1alpha1.NetworkPolicyStatus) time.Duration {
	before := f.Policy.Status
	if len(now.Routes) > 0 {
		return 0 // The rules of a user-managed route are written only after the status lists the route.
	}
	if now.Adopted != nil || now.ProviderSwitch != nil || meta.IsStatusConditionTrue(now.Conditions, v1alpha1.ConditionStalled) || meta.IsStatusConditionTrue(now.Conditions, v1alpha1.ConditionReady) {
		return 0
	}
	if before.Provider != "" || slices.ContainsFunc(now.Groups, func(g v1alpha1.GroupTraffic) bool { return g.Revision > 0 }) {
		return 0 // A status that has been written must be kept up to date, and a confirmation must be reported.
	}
	created := f.Policy.CreationTimestamp.Time
	if f.Now.Before(created) { // The clocks of the API server and the manager differ.
		return 0
	}
	if f.Microservice != nil && f.Microservice.StartDelayed() {
		return maxSilence // The Microservice reports that it is waiting for its turn.
	}
	if m := f.Microservice; m != nil && m.Status.ObservedGeneration == 0 && len(m.Status.ReleaseGroups) == 0 {
		return max(0, created.Add(maxSilenceBefore).Sub(f.Now))
	}
	started, progressed := created, created
	if f.Microservice != nil {
		started = later(created, f.Microservice.LastStart(f.Now))
		progressed = later(created, lastProgress(f.Microservice, f.Now))
	}
	end := progressed.Add(silence)
	if last := started.Add(maxSilence); end.After(last) {
		end = last
	}
	return max(0, end.Sub(f.Now))
}

// lastProgress returns the latest time at which a rollout started or traffic changed. Times after now are
// ignored, because they are from a manager whose clock was ahead.
func lastProgress(m *v1alpha1.Microservice, now time.Time) (last time.Time) {
	for _, g := range m.Status.ReleaseGroups {
		if g.TrafficTime != nil && !g.TrafficTime.After(now) {
			last = later(last, g.TrafficTime.Time)
		}
		if g.Rollout != nil && !g.Rollout.StartedTime.After(now) {
			last = later(last, g.Rollout.StartedTime.Time)
		}
	}
	return last
}

// adoptionReport returns the progress of the adoption of a Service.
func (r *reporter) adoptionReport(prev *v1alpha1.AdoptedService) *v1alpha1.AdoptedService {
	name := AdoptedName(r.Policy)
	if name == "" {
		return nil
	}
	out := &v1alpha1.AdoptedService{ServiceName: name, Release: r.Selected(name)}
	if prev != nil && prev.ServiceName == name && out.Release != "" {
		out.AdoptedTime = prev.AdoptedTime
	}
	for _, s := range r.out.Services {
		if s.Adopted && out.AdoptedTime == nil && r.carriedOut(s).Accepted && !r.writes.touched(AppliedServiceKey(name)) {
			out.AdoptedTime = &metav1.MicroTime{Time: r.Now}
		}
	}
	return out
}

// providerSwitch returns the progress of a provider switch.
func (r *reporter) providerSwitch(prev *v1alpha1.ProviderSwitch) *v1alpha1.ProviderSwitch {
	var now v1alpha1.ProviderSwitch
	for _, name := range r.previousRoutes() {
		if from := r.Live[name].Provider; !slices.Contains(now.From, from) {
			now.From = append(now.From, from)
		}
	}
	if len(now.From) == 0 {
		return nil
	}
	slices.Sort(now.From)
	if !r.out.replaced {
		return &now
	}
	if now.ReplacedTime = (&metav1.MicroTime{Time: r.Now}); prev != nil && prev.ReplacedTime != nil && r.sameProvider() {
		now.ReplacedTime = prev.ReplacedTime
	}
	r.requeueAt(now.ReplacedTime.Add(r.drain()))
	return &now
}

// Unsettled returns a message if a decision routes to a release other than the one that mainOf returns for
// its group, if a route has not been confirmed yet, or if objects are still being written. Otherwise, it
// returns "".
func Unsettled(f *Observed, out *Decision, w Applied) string {
	r := &reporter{planner: newPlanner(f), out: out, writes: w}
	for _, g := range out.groups {
		for name := range g.weights {
			if a := mainOf(g.group); g.routed && (a == nil || a.VersionedMicroservice != name) {
				return fmt.Sprintf("release group %q has no active release with a ready endpoint", g.group.Name)
			}
		}
	}
	for _, route := range out.Routes {
		if v := r.routeState(route); !v.Accepted {
			return v.Message
		}
	}
	if len(w.Changed) > 0 {
		return "objects are being written"
	}
	return ""
}
