package microservice

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
	versions "github.com/heighliner/heighliner/internal/version"
)

// observed is one Microservice together with the input to its plan.
type observed struct {
	ms     *v1alpha1.Microservice
	policy *v1alpha1.ImagePolicy
	// objects are the releases, keyed by name. The objects belong to the cache, and so do policy, offered, policies, and the specification of ms:
	// copy an object before you change it.
	objects map[string]*v1alpha1.VersionedMicroservice
	// offered contains the offered releases, keyed by the names that their objects have or would have.
	offered map[string]*v1alpha1.OfferedRelease
	config  string
	// contents are the hashes of the configuration that is part of a release, and secrets reports
	// whether the configuration includes Secrets.
	contents resources.Contents
	secrets  bool
	// copies are the copies of the configuration, keyed by the kind and name of the copy.
	copies map[resources.Source]client.Object
	// requeue is the maximum time until the next reconcile, for example to read objects that are not watched;
	// 0 means that there is no maximum.
	requeue time.Duration
	facts   release.Observed
	// freezes are the freezes that exist, whether they apply now or not.
	freezes freeze.Calendar
	// analysis is the analysis of the canary, from the specification or a template; nil if there
	// is no analysis, or if the template cannot be used.
	analysis *v1alpha1.CanaryAnalysis
	// problem is an error in the specification or in a referenced object. While there is a problem, no
	// new release starts.
	problem *status.Error
	// sourceFresh is true if the ImagePolicy's specification changed less than sourceSilence ago, and no
	// scan with the new specification has completed yet.
	sourceFresh bool
	// inLine reports whether a rollout waits for its turn, because many others are starting.
	inLine bool
	// unwritten reports whether the Microservice had no status when it began to wait in line.
	unwritten bool
	// policies are the NetworkPolicies that route to the Microservice.
	policies []v1alpha1.NetworkPolicy
	// deployment is the Deployment from which the Microservice takes over; nil if there is none.
	deployment *appsv1.Deployment
	// adopting reports whether the takeover is incomplete.
	adopting bool
}

// observe reads the cluster and writes nothing.
func (r *Reconciler) observe(ctx context.Context, ms *v1alpha1.Microservice) (*observed, error) {
	spec, err := readSpec(ms, r.minDrain, r.clock.Now())
	o := &observed{
		ms:      ms,
		objects: map[string]*v1alpha1.VersionedMicroservice{},
		offered: map[string]*v1alpha1.OfferedRelease{},
		copies:  map[resources.Source]client.Object{},
		facts:   release.Observed{Spec: spec, State: readState(&ms.Status), Began: r.observesSince(ms.Namespace)},
	}
	if err != nil {
		o.problem = status.NewTerminal(reasonTimeZoneUnknown, err)
	}
	unmeasured, err := r.observeAnalysis(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := r.observeObjects(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeSource(ctx, o); err != nil {
		return nil, err
	}
	if err := r.proveLost(ctx, o); err != nil {
		return nil, err
	}
	if unmeasured != nil { // A canary that cannot be measured could not pass its first step.
		o.problem, o.facts.SourceStale = unmeasured, true
	}
	if err := r.observePolicies(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observePeers(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeFreezes(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeDeployment(ctx, o); err != nil {
		return nil, err
	}
	return o, nil
}

// fieldMicroservice is the field by which the API server selects the releases of a Microservice.
const fieldMicroservice = "spec.microserviceName"

// Facts returns the input for a Microservice's plan at the given time, read by a client without a cache, and all
// freezes, for plans at later times. ms may differ from the stored object, so that a change can be planned before
// it is written. Facts requires permission to get and list objects of the hlnr.io kinds and, if they are part of
// releases, ConfigMaps and Secrets. Freezes that the client is not permitted to read are omitted. problem is the
// reason why no new release would start: an error in the specification or in a referenced object. Facts assumes
// that the manager has the default minimum drain delay, 5s.
func Facts(ctx context.Context, c client.WithWatch, ms *v1alpha1.Microservice, now time.Time) (facts release.Observed, freezes freeze.Calendar, problem, err error) {
	ms = ms.DeepCopy()
	convertStatus(&ms.Status)
	plain := uncached(c)
	r := &Reconciler{Client: plain, live: plain, clock: fixedClock{now}, minDrain: minDrainDelay, guest: true}
	o, err := r.observe(ctx, ms)
	if err != nil {
		return release.Observed{}, freeze.Calendar{}, nil, err
	}
	// Assume that the manager has been running long enough for all reports to be up to date.
	o.facts.Began = time.Time{}
	if o.problem != nil {
		problem = o.problem
	}
	return o.facts, o.freezes, problem, nil
}

// fixedClock is a clock with a constant time.
type fixedClock struct{ now time.Time }

func (c fixedClock) Now() time.Time                  { return c.now }
func (c fixedClock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

func (r *Reconciler) observeObjects(ctx context.Context, o *observed) error {
	var list v1alpha1.VersionedMicroserviceList
	var err error
	if o.facts.State.Sequence == 0 {
		// The rollout state is new, or was lost and is rebuilt from the existing objects. If this list
		// came from an outdated cache, the rollout state could lack releases permanently.
		err = r.live.List(ctx, &list, client.InNamespace(o.ms.Namespace), client.MatchingFields{fieldMicroservice: o.ms.Name})
	} else {
		err = r.List(ctx, &list, client.InNamespace(o.ms.Namespace), client.MatchingFields{indexReleases: o.ms.Name}, client.UnsafeDisableDeepCopy)
	}
	if err != nil {
		return fmt.Errorf("list releases: %w", err)
	}
	for i := range list.Items {
		if c := &list.Items[i]; metav1.IsControlledBy(c, o.ms) {
			o.objects[c.Name] = c
			o.facts.Objects = append(o.facts.Objects, o.readObject(c))
		}
	}
	return r.proveAbsence(ctx, o)
}

// proveAbsence reads from the API server the releases that are in the rollout state but not in the cache, so
// that an object that is missing from a lagging cache is not mistaken for a deleted object.
func (r *Reconciler) proveAbsence(ctx context.Context, o *observed) error {
	for _, g := range o.ms.Status.ReleaseGroups {
		for _, row := range g.Releases {
			if o.objects[row.VersionedMicroservice] != nil {
				continue
			}
			var c v1alpha1.VersionedMicroservice
			err := r.live.Get(ctx, client.ObjectKey{Namespace: o.ms.Namespace, Name: row.VersionedMicroservice}, &c)
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return fmt.Errorf("get release %q: %w", row.VersionedMicroservice, err)
			case metav1.IsControlledBy(&c, o.ms):
				o.objects[c.Name] = &c
				o.facts.Objects = append(o.facts.Objects, o.readObject(&c))
			}
		}
	}
	return nil
}

// requeueIn requests a reconcile within d.
func (o *observed) requeueIn(d time.Duration) {
	if o.requeue == 0 || d < o.requeue {
		o.requeue = d
	}
}

// maxBy is the maximum length that the schema of the rollout state allows for the name of a decision's author.
const maxBy = 253

// readObject converts a release's object for the planner.
func (o *observed) readObject(c *v1alpha1.VersionedMicroservice) release.Object {
	stamp, _ := strconv.ParseInt(c.Annotations[v1alpha1.AnnotationAttempt], 10, 64)
	number, _ := strconv.ParseInt(c.Labels[v1alpha1.LabelPullRequest], 10, 64)
	number = max(0, number)
	available := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAvailable)
	object := release.Object{
		Release: c.Name, Slug: c.Spec.Group, Name: c.Spec.SemVer.Name,
		Level: levelOf(c.Labels[v1alpha1.LabelLevel], number), PullRequest: number, Version: c.Spec.SemVer.Version,
		Config:      c.Annotations[resources.AnnotationConfig],
		Created:     c.CreationTimestamp.Time,
		Terminating: !c.DeletionTimestamp.IsZero(),
		Stamp:       stamp,
		NeverActive: c.Annotations[v1alpha1.AnnotationNeverActive] == "true",
		Reported:    release.Status(c.Status.Release),
		Replicas:    int(c.Spec.Replicas),
		Available:   int(c.Status.Available),
		Unsettled:   c.Status.ObservedGeneration != c.Generation || available == nil || available.ObservedGeneration != c.Generation,
		Failure:     release.Reason(c.Status.Failure),
		Message:     c.Status.Message,
		Current:     int(c.Status.Replicas),
		Analysis:    readVerdict(c.Status.Analysis),
		ActiveJobs:  c.Status.ActiveJobs > 0 || awaitsJobs(o.ms, c),
		GateJobs:    gateJobs(&c.Status),
	}
	if i := slices.IndexFunc(c.Status.Hooks, func(h v1alpha1.HookStatus) bool { return h.Type == v1alpha1.HookPostRollout && hook.Uncreated(h) }); i >= 0 && object.ActiveJobs {
		object.UncreatedJob = c.Status.Hooks[i].Name
	}
	o.readMeasured(c, &object)
	readHooks(o.ms, c, &object)
	if d, last := c.Spec.Decision, c.Status.LastHandledDecision; d != nil && (last == nil || last.ID != d.ID) {
		object.Decision = &release.Decision{Action: release.Action(d.Action), ID: d.ID, Step: d.Step, Groups: d.Groups, By: status.LineOf(c.Annotations[v1alpha1.AnnotationDecidedBy], maxBy)}
	}
	return object
}

// levelOf returns a release's level from its label. Users can edit labels, and a level that the status schema
// rejects would prevent all writes of the rollout state.
func levelOf(label string, pullRequest int64) string {
	switch level := v1alpha1.ReleaseLevel(label); {
	case level == v1alpha1.LevelRelease, level == v1alpha1.LevelCandidate, level == v1alpha1.LevelPreview:
		return label
	case pullRequest > 0:
		return string(v1alpha1.LevelPreview)
	}
	return string(v1alpha1.LevelRelease)
}

// observeSource reads the offered and the withdrawn versions. A missing referenced object, or a
// template without a container for the image, is a problem and not an error: existing releases
// continue unless they are withdrawn. Withdrawals do not depend on the template.
func (r *Reconciler) observeSource(ctx context.Context, o *observed) error {
	o.facts.SourceStale = true
	var policy v1alpha1.ImagePolicy
	name := o.ms.Spec.ImagePolicyRef.Name
	err := r.Get(ctx, client.ObjectKey{Namespace: o.ms.Namespace, Name: name}, &policy, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		o.problem = status.NewTerminal("ImagePolicyNotFound", fmt.Errorf("spec.imagePolicyRef.name: ImagePolicy %q does not exist in this namespace; create it or correct the name", name))
	case err != nil:
		return fmt.Errorf("get ImagePolicy %q: %w", name, err)
	default:
		o.policy, o.facts.PullRequests = &policy, ofPullRequests(&policy)
		for _, x := range policy.Status.Withdrawn {
			o.facts.Withdrawn = append(o.facts.Withdrawn, release.Withdrawal{Slug: x.Group, Version: x.Version, Reason: release.WithdrawReason(x.Reason), Time: x.Time.Time})
		}
	}
	if usable, err := r.observeTemplate(ctx, o); err != nil || !usable || o.policy == nil {
		return err
	}
	o.facts.SourceStale = stale(&policy)
	for i := range policy.Status.Releases {
		offer := &policy.Status.Releases[i]
		if len(offer.Images) == 0 || offer.Held && !o.concerns(offer) {
			continue
		}
		if err := resources.CheckContainers(o.ms, &policy, offer); err != nil {
			o.problem, o.facts.SourceStale = status.NewTerminal("ContainerNotFound", err), true
		}
		name := resources.Name(o.ms.Name, offer.SemVer.Version, resources.Identity(offer, o.config))
		o.offered[name] = offer
		o.facts.Candidates = append(o.facts.Candidates, release.Candidate{
			Slug: offer.Group, Name: offer.SemVer.Name, Level: string(offer.Level), PullRequest: offer.PullRequest,
			Version: offer.SemVer.Version, Time: pushed(offer), Release: name,
		})
	}
	return nil
}

// observeTemplate reads the template, which defines everything in a new release other than its images. If the
// template is not usable, no release can start.
func (r *Reconciler) observeTemplate(ctx context.Context, o *observed) (usable bool, err error) {
	container, err := resources.Container(o.ms)
	if err != nil {
		o.problem = status.NewTerminal("ContainerNotFound", err)
		return false, nil
	}
	if usable, err := r.observeConfiguration(ctx, o); err != nil || !usable {
		return false, err
	}
	if o.config, err = r.configOf(o.ms, container, o.contents); err != nil {
		return false, err
	}
	o.facts.Config = o.config
	return true, nil
}

// knownConfig is the result of resources.Config for a Microservice whose releases have no copies of ConfigMaps or Secrets.
type knownConfig struct {
	uid        types.UID
	generation int64
	config     string
}

// configOf returns the result of resources.Config. If releases have no copies of ConfigMaps or Secrets, the result is computed
// only if the specification has changed. If an updated CustomResourceDefinition adds a default to the template, the generation
// does not change. In this case, the result is not computed again until the specification changes or the manager restarts.
func (r *Reconciler) configOf(ms *v1alpha1.Microservice, container int, contents resources.Contents) (string, error) {
	if len(contents) > 0 || r.guest {
		return resources.Config(&ms.Spec.Template, container, contents)
	}
	key := client.ObjectKeyFromObject(ms)
	if known, ok := r.configs.Load(key); ok && known.(knownConfig).uid == ms.UID && known.(knownConfig).generation == ms.Generation {
		return known.(knownConfig).config, nil
	}
	config, err := resources.Config(&ms.Spec.Template, container, nil)
	if err == nil {
		r.configs.Store(key, knownConfig{ms.UID, ms.Generation, config})
	}
	return config, err
}

// pushed returns the time at which a release was published or pushed, or zero if this time is not known.
func pushed(o *v1alpha1.OfferedRelease) time.Time {
	if o.ReleaseTime == nil {
		return time.Time{}
	}
	return o.ReleaseTime.Time
}

// stale reports whether the offer of an ImagePolicy is based on an older specification, because the current
// specification is invalid or has not been used for a scan yet.
func stale(p *v1alpha1.ImagePolicy) bool {
	stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	return p.Status.ObservedGeneration != p.Generation || stalled != nil && stalled.Reason == v1alpha1.ReasonInvalidSpec
}

// concerns reports whether this Microservice has an offer's group, or pins the offer's version. An
// ImagePolicy keeps offers beyond its limits if any Microservice uses or pins them. Offers that only other
// Microservices use must not start a group in this Microservice (rule 17).
func (o *observed) concerns(offer *v1alpha1.OfferedRelease) bool {
	return slices.ContainsFunc(o.ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.Slug == offer.Group }) ||
		slices.ContainsFunc(o.facts.Objects, func(c release.Object) bool { return c.Slug == offer.Group }) ||
		slices.ContainsFunc(o.facts.Spec.Pins, func(p release.Pin) bool {
			return versions.Names(p.Version, offer.SemVer.Version) && (p.Group == "" || p.Group == offer.Group || p.Group == offer.SemVer.Name)
		})
}

func (r *Reconciler) observePolicies(ctx context.Context, o *observed) error {
	var err error
	if o.policies, err = r.policiesOf(ctx, o.ms); err != nil {
		return err
	}
	for i := range o.policies {
		p := release.Policy{Name: o.policies[i].Name, Unreported: unreported(&o.policies[i].Status)}
		for _, g := range o.policies[i].Status.Groups {
			report := release.Report{
				Slug: g.Slug, Revision: g.Revision, References: g.References, Withheld: g.Withheld, Pinned: g.Pinned,
				Active: g.Active, Newest: g.Newest, CanaryDomains: g.CanaryDomains, Canary: g.Canary, Unrouted: g.Unrouted, Reason: g.Reason, Message: g.Message,
			}
			if g.ConfirmedTime != nil {
				report.Confirmed = g.ConfirmedTime.Time
			}
			p.Groups = append(p.Groups, report)
		}
		o.facts.Policies = append(o.facts.Policies, p)
	}
	return nil
}

// policiesOf returns the policies that refer to a Microservice.
func (r *Reconciler) policiesOf(ctx context.Context, ms *v1alpha1.Microservice) ([]v1alpha1.NetworkPolicy, error) {
	var list v1alpha1.NetworkPolicyList
	if err := r.List(ctx, &list, client.InNamespace(ms.Namespace), client.MatchingFields{index.NetworkPoliciesByMicroservice.Field: ms.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list networkpolicies.hlnr.io: %w", err)
	}
	return list.Items, nil
}

// unreported reports whether a NetworkPolicy's routes are still missing from its status. This is the case if
// the NetworkPolicy was just created, its status was lost, its routes cannot be read, or the status contains
// only references that are about to be written (traffic.Reserve). Each complete status has a provider.
func unreported(s *v1alpha1.NetworkPolicyStatus) bool { return s.Provider == "" }
