package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Input contains the objects of a view, in any order. If a list is nil, the objects were not read, and the view omits
// everything that depends on them. If a list is empty, the objects were read, but there are none.
type Input struct {
	// Microservices are the services. Their statuses must already be converted
	// (MicroserviceStatus.Convert).
	Microservices []v1alpha1.Microservice
	// Releases are the VersionedMicroservices.
	Releases        []v1alpha1.VersionedMicroservice
	NetworkPolicies []v1alpha1.NetworkPolicy
	ImagePolicies   []v1alpha1.ImagePolicy
	Repositories    []v1alpha1.GitHubRepository
	// Freezes and ClusterFreezes apply to the services. Namespaces provide the labels by which ClusterFreezes select namespaces.
	Freezes        []v1alpha1.Freeze
	ClusterFreezes []v1alpha1.ClusterFreeze
	Namespaces     []corev1.Namespace
	// Templates and ClusterTemplates are shared analyses. They provide the bounds of metrics and the number and interval of rounds.
	Templates        []v1alpha1.AnalysisTemplate
	ClusterTemplates []v1alpha1.ClusterAnalysisTemplate
	// Notifications are the NotificationPolicies.
	Notifications []v1alpha1.NotificationPolicy
	// CronJobs are the CronJobs that follow active releases. All other CronJobs are ignored.
	CronJobs []batchv1.CronJob
	// Pods are the pods of releases. All other pods are ignored. PodNamespaces are the namespaces in which pods were read, or nil for all namespaces.
	Pods          []corev1.Pod
	PodNamespaces map[string]bool
	// Routes and Gateways are used by [WhyHost] and [WhyURL]. Routes and Gateways that do not belong to the given host
	// are ignored.
	Routes   []gatewayv1.HTTPRoute
	Gateways []gatewayv1.Gateway
	// Observed maps releases to their measured traffic shares.
	Observed map[types.NamespacedName]Observation
	// Namespace is the namespace in which commands run by default. Commands for services in other namespaces include the
	// namespace. If Namespace is empty, all commands include it.
	Namespace string
	// Program is the beginning of every command: the name of the program, with the flags that select the cluster. Defaults to hlnr.
	Program string
}

// Observation is a release's measured share of its group's traffic in a window.
type Observation struct {
	// Percent is the share from 0 to 100.
	Percent float64
	// Window is the duration of the measurement.
	Window time.Duration
}

// index provides the objects of a service.
type index struct {
	Input
	now      time.Time
	releases map[types.NamespacedName]*v1alpha1.VersionedMicroservice
	policies map[types.NamespacedName][]*v1alpha1.NetworkPolicy // keyed by Microservice, sorted by name
	images   map[types.NamespacedName]*v1alpha1.ImagePolicy
	repos    map[types.NamespacedName]*v1alpha1.GitHubRepository
	pods     map[types.NamespacedName][]*corev1.Pod // keyed by release, sorted by name
	together map[types.NamespacedName][]*v1alpha1.Microservice
	frozen   *freezes
}

func newIndex(in Input, now time.Time) *index {
	x := &index{
		Input: in, now: now,
		releases: map[types.NamespacedName]*v1alpha1.VersionedMicroservice{}, policies: map[types.NamespacedName][]*v1alpha1.NetworkPolicy{},
		images: map[types.NamespacedName]*v1alpha1.ImagePolicy{}, repos: map[types.NamespacedName]*v1alpha1.GitHubRepository{},
		pods: map[types.NamespacedName][]*corev1.Pod{}, together: map[types.NamespacedName][]*v1alpha1.Microservice{},
		frozen: newFreezes(in, now),
	}
	x.Program = cmp.Or(in.Program, "hlnr")
	for i := range in.Releases {
		r := &in.Releases[i]
		x.releases[key(r.Namespace, r.Name)] = r
	}
	for i := range in.NetworkPolicies {
		p := &in.NetworkPolicies[i]
		k := key(p.Namespace, p.MicroserviceName())
		x.policies[k] = append(x.policies[k], p)
	}
	for _, list := range x.policies {
		slices.SortFunc(list, func(a, b *v1alpha1.NetworkPolicy) int { return strings.Compare(a.Name, b.Name) })
	}
	for i := range in.ImagePolicies {
		p := &in.ImagePolicies[i]
		x.images[key(p.Namespace, p.Name)] = p
	}
	for i := range in.Repositories {
		r := &in.Repositories[i]
		x.repos[key(r.Namespace, r.Name)] = r
	}
	for i := range in.Pods {
		p := &in.Pods[i]
		if name := p.Labels[v1alpha1.LabelRelease]; name != "" {
			k := key(p.Namespace, name)
			x.pods[k] = append(x.pods[k], p)
		}
	}
	for _, list := range x.pods {
		slices.SortFunc(list, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	}
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		if name := togetherOf(ms); name != "" {
			k := key(ms.Namespace, name)
			x.together[k] = append(x.together[k], ms)
		}
	}
	return x
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// togetherOf returns the name under which a service is rolled out together with other services, or "".
func togetherOf(ms *v1alpha1.Microservice) string {
	if c := ms.Spec.UpdateStrategy.Canary; c != nil && c.Together != nil {
		return c.Together.Name
	}
	return ""
}

// service is a Microservice with its objects from the index.
type service struct {
	*index
	ms       *v1alpha1.Microservice
	policies []*v1alpha1.NetworkPolicy
}

func (x *index) service(ms *v1alpha1.Microservice) *service {
	return &service{index: x, ms: ms, policies: x.policies[key(ms.Namespace, ms.Name)]}
}

// release returns the object of a release. It returns nil if there is none, or if the object was not read.
func (s *service) release(name string) *v1alpha1.VersionedMicroservice {
	return s.releases[key(s.ms.Namespace, name)]
}

// steps returns the canary steps of a group. Previews have no steps.
func (s *service) steps(g *v1alpha1.ReleaseGroup) []v1alpha1.CanaryStep {
	if c := s.ms.Spec.UpdateStrategy.Canary; c != nil && !isPreview(g) {
		return c.Steps
	}
	return nil
}

// isPreview reports whether a group belongs to a pull request.
func isPreview(g *v1alpha1.ReleaseGroup) bool {
	return g.Level == v1alpha1.LevelPreview || g.PullRequest > 0
}

// report is the report of a policy about a group.
type report struct {
	policy *v1alpha1.NetworkPolicy
	v1alpha1.GroupTraffic
}

// cause describes why a policy has not programmed the group.
func (r report) cause() string {
	return "NetworkPolicy " + r.policy.Name + ": " + cmp.Or(r.Message, r.Reason, "not programmed")
}

// reports returns the reports about a group, one for each policy that has a report.
func (s *service) reports(slug string) (out []report) {
	for _, p := range s.policies {
		for i := range p.Status.Groups {
			if p.Status.Groups[i].Slug == slug {
				out = append(out, report{p, p.Status.Groups[i]})
				break
			}
		}
	}
	return out
}

// Command returns an hlnr command that users can copy. It includes the namespace unless that namespace is
// home, the namespace in which commands run by default.
func Command(program, home, namespace, verb string, args ...string) string {
	words := []string{program, verb}
	if namespace != home {
		words = append(words, "-n", namespace)
	}
	return strings.Join(append(words, args...), " ")
}

// act returns a command for a service.
func (s *service) act(verb string, args ...string) Action {
	target := ""
	if len(args) > 0 {
		target = args[len(args)-1]
	}
	return Action{Verb: verb, Command: Command(s.Program, s.Namespace, s.ms.Namespace, verb, append([]string{s.ms.Name}, args...)...), Target: target}
}

// actOn returns a command for a release. The command contains the version of the release, or its name if another release of the
// service has the same version.
func (s *service) actOn(verb string, r *v1alpha1.Release, args ...string) Action {
	return s.act(verb, append([]string{s.nameOf(r)}, args...)...)
}

// nameOf returns the name by which commands refer to a release.
func (s *service) nameOf(r *v1alpha1.Release) string {
	n := 0
	for i := range s.ms.Status.ReleaseGroups {
		for _, other := range s.ms.Status.ReleaseGroups[i].Releases {
			if other.SemVer.Version == r.SemVer.Version {
				n++
			}
		}
	}
	if n > 1 {
		return r.VersionedMicroservice
	}
	return r.SemVer.Version
}

// run is the rollout of a group, as recorded in the rollout state. It includes fields that are not
// meant for users.
type run struct {
	release               string
	step                  int32
	started, waitingSince time.Time
	stepRevision          int64
	waited                time.Duration
	interrupted           bool
	continued             int32
	sequence              int64
	gate                  v1alpha1.Gate
	gateTime, grace       time.Time
	from, waitsFor        string
	approvals             []v1alpha1.StepApproval
}

// runOf returns the rollout of a group, or nil.
func runOf(g *v1alpha1.ReleaseGroup) *run {
	r := g.Rollout
	if r == nil || r.Release == "" {
		return nil
	}
	out := &run{
		release: r.Release, step: max(0, r.Step), started: r.StartedTime.Time, waitingSince: micro(r.WaitingSince),
		interrupted: r.Interrupted, continued: r.Continued, sequence: r.Sequence, gate: r.Gate, gateTime: micro(r.GateTime), from: r.From, waitsFor: r.WaitsFor, approvals: r.Approvals,
	}
	if in := r.Internal; in != nil {
		out.stepRevision, out.grace = in.StepRevision, micro(in.GraceTime)
		if in.Waited != nil {
			out.waited = max(0, in.Waited.Duration)
		}
	}
	return out
}

// settledOf returns the settled revision of a group. The rollout does not wait for policies that have
// not confirmed this revision.
func settledOf(g *v1alpha1.ReleaseGroup) int64 {
	if g.Internal == nil {
		return 0
	}
	return g.Internal.SettledRevision
}

// hadTraffic reports whether a route has ever targeted a release.
func hadTraffic(r *v1alpha1.Release) bool { return r.Internal != nil && r.Internal.Routed }
