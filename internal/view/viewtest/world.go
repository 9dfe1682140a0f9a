// Package viewtest runs small histories with the real planner, and returns the resulting objects,
// for tests of views. The environment of the planner is simple: pods either become available when they
// are created or never become available, and a policy confirms routes either immediately or never.
//
//	world.go       the planner, the pods and the policy
//	record.go      the rollout state as stored in the status
//	stories.go     the histories
//	situations.go  histories with rare states of services
//	decisions.go   how the planner handles decisions at each moment of a history
package viewtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/view"
)

// The namespace and the domain of all histories.
const (
	namespace = "shop"
	domain    = "example.com"
)

// fact is the object of a release as the planner reads it.
type fact = release.Object

// world contains one service.
type world struct {
	name     string
	now      time.Time
	spec     release.Spec
	config   string // hash of the current pod template
	offers   []release.Candidate
	state    release.State
	notes    []release.Note
	objects  map[string]*fact
	broken   map[string]release.Reason // keyed by version or release: the reason why its pods never become available
	messages map[string]string         // keyed by version or release: the message of its pods
	stuck    bool                      // the policy confirms no routes from now on
	reports  map[string]release.Report
	written  map[string]map[string]int // keyed by group: weights of the routes
	titles   map[int64]string
	verdicts []v1alpha1.RefusedCandidate
	analyses map[string]*v1alpha1.ReleaseAnalysis // keyed by version
	metrics  []v1alpha1.AnalysisMetric
	reasons  map[string]string // keyed by the ID of a decision: its reason
	freezes  []v1alpha1.Freeze
	denied   []string
	seen     func() // called after each change if it is not nil
}

func newWorld(name string) *world {
	return &world{
		name: name, config: "config", now: time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC),
		spec:    release.Spec{Replicas: 3, Standby: 1, MinimumAvailable: 2, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Previews: release.Previews{MaxGroups: 2}},
		objects: map[string]*fact{}, broken: map[string]release.Reason{}, messages: map[string]string{}, reports: map[string]release.Report{},
		written: map[string]map[string]int{}, titles: map[int64]string{}, analyses: map[string]*v1alpha1.ReleaseAnalysis{}, reasons: map[string]string{},
	}
}

// push offers a version in group MAJOR.x.
func (w *world) push(version string) {
	major, _, _ := strings.Cut(version, ".")
	w.offer(release.Candidate{Slug: major + "-x", Name: major + ".x", Level: "Release", Version: version})
}

// pull offers the head commit of a pull request.
func (w *world) pull(number int64, commit, title string) {
	slug := fmt.Sprintf("cart-%d", number)
	w.titles[number] = title
	w.offers = slices.DeleteFunc(w.offers, func(c release.Candidate) bool { return c.PullRequest == number })
	w.offer(release.Candidate{Slug: slug, Name: slug, Level: "Preview", PullRequest: number, Version: commit, Time: w.now})
}

func (w *world) offer(c release.Candidate) {
	c.Release = w.releaseOf(c.Version)
	w.offers = append(w.offers, c)
	w.settle()
}

// releaseOf returns the name of the release of a version with the current configuration.
func (w *world) releaseOf(version string) string {
	suffix := w.config
	if suffix == "config" {
		suffix = "0a1b2c3d"
	}
	return fmt.Sprintf("%s-%s-%s", w.name, strings.ReplaceAll(version[:min(12, len(version))], ".", "-"), suffix)
}

// configure changes the pod template. Each offered version then belongs to another release.
func (w *world) configure(config string) {
	w.config = config
	w.offers = slices.Clone(w.offers)
	for i := range w.offers {
		w.offers[i].Release = w.releaseOf(w.offers[i].Version)
	}
	w.settle()
}

// deny denies a version of group 1.x.
func (w *world) deny(version string) {
	w.denied = append(w.denied, version)
	w.offers = slices.DeleteFunc(slices.Clone(w.offers), func(c release.Candidate) bool { return c.Version == version })
}

// settle plans until nothing changes.
func (w *world) settle() {
	for range 50 {
		if !w.plan() {
			return
		}
	}
}

// wait advances time, and plans whenever the planner requests it.
func (w *world) wait(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.settle()
		next := w.requeue()
		if next.IsZero() || next.After(end) {
			next = end
		}
		w.now = next
	}
	w.settle()
}

func (w *world) observed() release.Observed {
	w.spec.Freeze = freeze.Of(freeze.All(w.freezes, nil), freeze.Subject{Namespace: namespace, Name: w.name}, w.now)
	o := release.Observed{Spec: w.spec, Config: w.config, Candidates: w.offers, State: w.state, Policies: []release.Policy{{Name: w.name}}}
	for _, version := range w.denied {
		o.Withdrawn = append(o.Withdrawn, release.Withdrawal{Slug: "1-x", Version: version, Reason: release.Denied})
	}
	facts := make([]fact, 0, len(w.objects))
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		facts = append(facts, *w.objects[name])
	}
	o.Objects = facts
	for _, slug := range slices.Sorted(maps.Keys(w.reports)) {
		o.Policies[0].Groups = append(o.Policies[0].Groups, w.reports[slug])
	}
	return o
}

func (w *world) requeue() time.Time { return release.Plan(w.observed(), w.now).RequeueTime }

// plan makes one plan, executes it, and updates the pods and the policy. It reports whether
// anything changed.
func (w *world) plan() bool {
	p := release.Plan(w.observed(), w.now)
	w.notes = slices.DeleteFunc(p.Notes, func(n release.Note) bool { return n.Event })
	changed := p.Changed || len(p.Ensure)+len(p.Retire) > 0
	w.state = p.State
	for _, e := range p.Ensure {
		o := w.objects[e.Release]
		if o == nil {
			i := slices.IndexFunc(w.offers, func(c release.Candidate) bool { return c.Release == e.Release })
			c := w.offers[i]
			o = &fact{Release: e.Release, Slug: c.Slug, Name: c.Name, Level: c.Level, Version: c.Version, PullRequest: c.PullRequest, Config: w.config, Created: w.now}
			w.objects[e.Release] = o
		}
		o.Replicas, o.Stamp = max(o.Replicas, e.Replicas), max(o.Stamp, e.Stamp)
	}
	for _, r := range p.Retire {
		if r.Delete {
			delete(w.objects, r.Release)
		} else if o := w.objects[r.Release]; o != nil {
			o.Replicas = r.Replicas
		}
	}
	for _, o := range w.objects {
		o.Available, o.Failure, o.Message = o.Replicas, "", ""
		for _, name := range []string{o.Version, o.Release} {
			if why := w.broken[name]; why != "" {
				o.Available, o.Failure, o.Message = 0, why, w.messages[name]
			}
		}
		w.exclude(o)
		w.measure(o)
	}
	changed = w.route() || changed
	if changed && w.seen != nil {
		w.seen()
	}
	return changed
}

// exclude prevents the pods of a release in an exclusive group from starting while pods of another release are
// running.
func (w *world) exclude(o *fact) {
	if !w.spec.Exclusive || o.Replicas == 0 || o.Failure == "InvalidTemplate" || w.active(o) {
		return
	}
	for _, other := range w.objects {
		if other != o && other.Slug == o.Slug && other.Replicas > 0 {
			o.Available, o.Failure, o.Message = 0, "OtherReleaseRunning", "pods of "+other.Version+" are still running"
		}
	}
}

// active reports whether a release is active.
func (w *world) active(o *fact) bool {
	return slices.ContainsFunc(w.state.Groups, func(g release.Group) bool {
		a := g.ActiveRow()
		return a != nil && a.Release == o.Release
	})
}

// measure adds the analysis of a canary's version to the object of the canary.
func (w *world) measure(o *fact) {
	a := w.analyses[o.Version]
	if a == nil {
		return
	}
	for i := range w.state.Groups {
		if run := w.state.Groups[i].Rollout; run != nil && run.Release == o.Release && !run.WaitingSince.IsZero() {
			a.Run, a.Step, a.Since = run.Sequence, int32(run.Step), metav1.NewMicroTime(run.WaitingSince)
			o.Analysis = &release.Verdict{Rollout: run.Sequence, Step: run.Step, Since: run.WaitingSince, Phase: release.VerdictPhase(a.Phase), Message: a.Message}
		}
	}
}

// route makes the policy write and confirm the routes that the rollout state requires.
func (w *world) route() (changed bool) {
	for i := range w.state.Groups {
		g := &w.state.Groups[i]
		if w.stuck || w.reports[g.Slug].Revision == g.TrafficRevision || len(g.Releases) == 0 {
			continue
		}
		r := release.Report{Slug: g.Slug, Revision: g.TrafficRevision, Confirmed: w.now}
		w.written[g.Slug] = map[string]int{}
		for _, row := range g.Releases {
			if row.Weight > 0 || row.Status == release.Active {
				w.written[g.Slug][row.Release] = row.Weight
				r.References = append(r.References, row.Release)
			}
			if row.Status == release.Active {
				r.Active = row.Release
			}
		}
		w.reports[g.Slug] = r
		changed = true
	}
	return changed
}

// decide records a decision about a version.
func (w *world) decide(version string, action release.Action, step, by, reason string) {
	for _, o := range w.objects {
		if o.Version == version {
			id := fmt.Sprintf("%s-%d", action, w.now.Unix())
			o.Decision = &release.Decision{Action: action, ID: id, Step: step, By: by}
			w.reasons[id] = reason
		}
	}
	w.settle()
}

// input returns the objects of the world.
func (w *world) input() view.Input {
	in := view.Input{Namespace: namespace, Repositories: []v1alpha1.GitHubRepository{}, Freezes: w.freezes}
	in.Microservices = []v1alpha1.Microservice{w.microservice()}
	in.NetworkPolicies = []v1alpha1.NetworkPolicy{w.policy()}
	in.ImagePolicies = []v1alpha1.ImagePolicy{w.imagePolicy()}
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		in.Releases = append(in.Releases, w.object(w.objects[name]))
	}
	if len(w.titles) > 0 {
		in.Repositories = append(in.Repositories, w.repository())
	}
	return in
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1}
}

// microservice returns the Microservice with the specification and the rollout state of the
// world.
func (w *world) microservice() v1alpha1.Microservice {
	ms := v1alpha1.Microservice{ObjectMeta: w.meta(w.name)}
	ms.Spec.ImagePolicyRef.Name = w.name
	ms.Spec.Template.Spec.Containers = []corev1.Container{{Name: w.name}}
	ms.Spec.Paused = w.spec.Paused
	ms.Spec.Availability.Replicas = int32(w.spec.Replicas)
	ms.Spec.Availability.Exclusive = w.spec.Exclusive
	ms.Spec.EndedGroups = w.spec.Ended
	ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = int32(w.spec.Deadline.Seconds())
	ms.Spec.Previews = &v1alpha1.Previews{MaxGroups: int32(w.spec.Previews.MaxGroups), MaxAge: "24h"}
	if len(w.spec.Steps) > 0 {
		ms.Spec.UpdateStrategy.Canary = w.canary()
	}
	for _, p := range w.spec.Pins {
		pin := v1alpha1.GroupPin{Name: p.Group, Version: p.Version, Reason: p.Reason}
		if p.By != "" {
			pin.Author = &v1alpha1.PinAuthor{Name: p.By, Pinned: p.Version}
		}
		if !p.Expire.IsZero() {
			pin.ExpireTime = &metav1.Time{Time: p.Expire}
		}
		ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Groups: []v1alpha1.GroupPin{pin}}
	}
	ms.Status.ObservedGeneration = 1
	for _, g := range w.state.Groups {
		ms.Status.ReleaseGroups = append(ms.Status.ReleaseGroups, groupOf(g))
	}
	for kind, reasons := range release.Conditions {
		w.condition(&ms, kind, reasons)
	}
	status.Set(&ms.Status.Conditions, 1, v1alpha1.ConditionReady, metav1.ConditionTrue, status.ReasonSucceeded, "")
	for i := range ms.Status.Conditions {
		ms.Status.Conditions[i].LastTransitionTime = metav1.Time{Time: w.now.Add(-time.Minute)}
	}
	return ms
}

// condition sets a condition from the planner's notes, as the controller does.
func (w *world) condition(ms *v1alpha1.Microservice, kind release.Condition, reasons []release.Reason) {
	for _, reason := range reasons {
		for _, n := range w.notes {
			if n.Reason == reason {
				holds := kind != release.ConditionPinned || reason == release.Pinned
				status.Set(&ms.Status.Conditions, 1, string(kind), status.True(holds), string(reason), n.Message)
				return
			}
		}
	}
}

func (w *world) canary() *v1alpha1.CanaryStrategy {
	c := &v1alpha1.CanaryStrategy{}
	for _, st := range w.spec.Steps {
		step := v1alpha1.CanaryStep{Name: st.Name, Weight: int32(st.Weight)}
		if st.Approval {
			step.Approval = &v1alpha1.CanaryApproval{Count: int32(st.Approvers), From: st.ApproversFrom}
		}
		if st.Pause > 0 {
			step.Pause = &v1alpha1.CanaryPause{Duration: v1alpha1.DurationOf(st.Pause)}
		}
		if st.Window != nil {
			step.Window = &v1alpha1.DeployWindow{TimeZone: "Europe/Zurich", Days: []v1alpha1.Weekday{"Monday", "Tuesday", "Wednesday"}, From: "09:00", To: "16:00"}
		}
		c.Steps = append(c.Steps, step)
	}
	if w.spec.Analysis {
		c.Analysis = &v1alpha1.CanaryAnalysis{Count: 5, Metrics: w.metrics}
	}
	return c
}

// object returns the object of a release.
func (w *world) object(c *fact) v1alpha1.VersionedMicroservice {
	o := v1alpha1.VersionedMicroservice{ObjectMeta: w.meta(c.Release)}
	o.Labels = map[string]string{v1alpha1.LabelMicroservice: w.name}
	o.CreationTimestamp = metav1.Time{Time: c.Created}
	o.Spec.MicroserviceName, o.Spec.Group, o.Spec.Replicas = w.name, c.Slug, int32(c.Replicas)
	o.Spec.Template.Spec.Containers = []corev1.Container{{Name: w.name, Image: "registry.example.com/" + w.name}}
	o.Spec.SemVer = v1alpha1.SemVer{Name: c.Name, Version: c.Version}
	o.Spec.Images = w.images(c.Version)
	if d := c.Decision; d != nil {
		o.Spec.Decision = &v1alpha1.Decision{Action: v1alpha1.DecisionAction(d.Action), ID: d.ID, Step: d.Step, Reason: w.reasons[d.ID]}
	}
	s := &o.Status
	s.ObservedGeneration, s.Replicas, s.Available = 1, int32(c.Available), int32(c.Available)
	s.Failure, s.Message, s.Analysis = string(c.Failure), c.Message, w.analyses[c.Version]
	available, reason := c.Available >= c.Replicas && c.Replicas > 0, "Available"
	if !available {
		reason = "Starting"
		if c.Failure != "" {
			reason = string(c.Failure)
		}
	}
	status.Set(&s.Conditions, 1, v1alpha1.ConditionAvailable, status.True(available), reason, c.Message)
	s.Conditions[0].LastTransitionTime = metav1.Time{Time: c.Created.Add(38 * time.Second)}
	return o
}

// images returns the images of a version.
func (w *world) images(version string) []v1alpha1.ReleaseImage {
	digest := "sha256:" + strings.Repeat("4be1c02d", 8)
	return []v1alpha1.ReleaseImage{{Image: fmt.Sprintf("registry.example.com/%s:v%s@%s", w.name, version, digest), Digest: digest}}
}

// policy returns a NetworkPolicy with a host for the newest group, and a host for each group.
func (w *world) policy() v1alpha1.NetworkPolicy {
	p := v1alpha1.NetworkPolicy{ObjectMeta: w.meta(w.name)}
	p.Spec.Ports = []v1alpha1.NetworkPort{{Name: "http", Port: 80}}
	p.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public"}}}}
	p.Spec.Domains = []v1alpha1.Domain{{Domain: w.name + "." + domain}, {Domain: "{{.ReleaseGroupName}}." + w.name + "." + domain}}
	newest := true
	for _, g := range w.state.Groups {
		r, ok := w.reports[g.Slug]
		if !ok {
			continue
		}
		out := v1alpha1.GroupTraffic{Slug: g.Slug, Revision: r.Revision, ConfirmedTime: &metav1.MicroTime{Time: r.Confirmed}, References: r.References, Active: r.Active, Split: v1alpha1.SplitWeighted}
		if w.stuck && r.Revision < g.TrafficRevision {
			out.Reason, out.Message = "NotAccepted", "gateway infra/public has no listener for the host"
		}
		p.Status.Groups = append(p.Status.Groups, out)
		hosts := []string{g.Slug + "." + w.name + "." + domain}
		if newest && g.Level != "Preview" {
			hosts, newest = append([]string{w.name + "." + domain}, hosts...), false
		}
		for _, host := range hosts {
			d := v1alpha1.DomainStatus{Domain: host, URL: "https://" + host, Group: g.Slug, Programmed: r.Revision >= g.TrafficRevision}
			for _, row := range g.Releases {
				if weight, ok := w.written[g.Slug][row.Release]; ok {
					d.Backends = append(d.Backends, v1alpha1.DomainBackend{Release: row.Release, Version: row.Version, Weight: int32(weight)})
				}
			}
			if !d.Programmed {
				d.Reason, d.Message = out.Reason, out.Message
			}
			p.Status.Domains = append(p.Status.Domains, d)
		}
	}
	return p
}

// imagePolicy returns the ImagePolicy with the offered and rejected versions.
func (w *world) imagePolicy() v1alpha1.ImagePolicy {
	p := v1alpha1.ImagePolicy{ObjectMeta: w.meta(w.name)}
	p.Spec.Image = "registry.example.com/" + w.name
	for i := len(w.offers) - 1; i >= 0; i-- {
		c := w.offers[i]
		p.Status.Releases = append(p.Status.Releases, v1alpha1.OfferedRelease{
			SemVer: v1alpha1.SemVer{Name: c.Name, Version: c.Version}, Group: c.Slug, Level: v1alpha1.ReleaseLevel(c.Level), PullRequest: c.PullRequest, Images: w.images(c.Version),
		})
	}
	for _, version := range w.denied {
		p.Status.Withdrawn = append(p.Status.Withdrawn, v1alpha1.Withdrawal{Group: "1-x", Version: version, Reason: v1alpha1.WithdrawnDenied})
	}
	if len(w.offers) > 0 {
		p.Status.Latest = p.Status.Releases[0].SemVer.Version
	}
	p.Status.Candidates = w.verdicts
	for _, v := range w.verdicts {
		p.Status.Rejected = append(p.Status.Rejected, v1alpha1.RejectedCount{Verdict: v.Verdict, Count: 1})
	}
	p.Status.Scan = &v1alpha1.ImageScan{Tags: int32(len(w.offers) + len(w.verdicts)), ChangedTime: metav1.Time{Time: w.now.Add(-time.Minute)}, Checksum: "sha256:0"}
	status.Set(&p.Status.Conditions, 1, v1alpha1.ConditionReady, metav1.ConditionTrue, status.ReasonSucceeded, "")
	if len(w.titles) > 0 {
		p.Spec.Source = &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{RepositoryRef: v1alpha1.NamespacedReference{Name: w.name}, PullRequests: &v1alpha1.GitHubPullRequests{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "preview"}}}}
	}
	return p
}

// repository returns the GitHubRepository with the pull requests.
func (w *world) repository() v1alpha1.GitHubRepository {
	r := v1alpha1.GitHubRepository{ObjectMeta: w.meta(w.name)}
	r.Spec.Owner, r.Spec.Repo = "acme", w.name
	for _, n := range slices.Sorted(maps.Keys(w.titles)) {
		pr := v1alpha1.PullRequest{Number: n, State: v1alpha1.PullRequestOpen, HeadRef: "cart", Title: w.titles[n], Author: "ana", HeadSHA: fmt.Sprintf("%040x", n), PushTime: &metav1.Time{Time: w.now.Add(-time.Hour)}}
		if i := slices.IndexFunc(w.offers, func(c release.Candidate) bool { return c.PullRequest == n }); i >= 0 {
			pr.HeadSHA = w.offers[i].Version
		} else {
			pr.Fork = true
		}
		r.Status.PullRequests = append(r.Status.PullRequests, pr)
	}
	return r
}
