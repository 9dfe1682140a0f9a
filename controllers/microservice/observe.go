package microservice

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

// world is one Microservice with all that a plan about it is made from.
type world struct {
	ms       *v1alpha1.Microservice
	policy   *v1alpha1.ImagePolicy
	children map[string]*v1alpha1.VersionedMicroservice
	// offered by the name of the release that each gives.
	offered map[string]*v1alpha1.OfferedRelease
	config  string
	// contents are the hashes of what is part of a release, and secrets says that
	// there are Secrets among it.
	contents resources.Contents
	secrets  bool
	// copies of contents, by their own kind and name.
	copies map[resources.Source]client.Object
	// look is when to look again at what no watch tells of; 0: never.
	look  time.Duration
	facts release.Observed
	// problem is what is wrong with the specification or a referent; nothing new
	// starts meanwhile.
	problem *status.Error
	// policies that route to the Microservice.
	policies []v1alpha1.NetworkPolicy
	// former is the Deployment that the Microservice takes over from, and adoption how
	// far that is; nil: there is none, or it is done.
	former   *appsv1.Deployment
	adoption *adoption
	// plan that is made of the facts.
	plan release.Result
	// unwritable releases: the server refused a write to them in this pass.
	unwritable map[string]error
}

// observe reads; it writes nothing.
func (r *Reconciler) observe(ctx context.Context, ms *v1alpha1.Microservice) (*world, error) {
	spec, err := readSpec(ms, r.minDrain, r.clock.Now())
	w := &world{
		ms:       ms,
		children: map[string]*v1alpha1.VersionedMicroservice{},
		offered:  map[string]*v1alpha1.OfferedRelease{},
		copies:   map[resources.Source]client.Object{},
		facts:    release.Observed{Spec: spec, Ledger: readLedger(&ms.Status), Began: r.began.at(r.clock.Now())},
	}
	if err != nil {
		w.problem = status.NewTerminal(reasonTimeZoneUnknown, err)
	}
	if err := r.observeChildren(ctx, w); err != nil {
		return nil, err
	}
	if err := r.observeSource(ctx, w); err != nil {
		return nil, err
	}
	if err := r.proveLost(ctx, w); err != nil {
		return nil, err
	}
	if c := ms.Spec.UpdateStrategy.Canary; c != nil && c.Analysis != nil {
		if err := analysis.Check(c.Analysis); err != nil {
			// A canary that cannot be measured could only wait in its first step.
			w.problem, w.facts.SourceStale = status.NewTerminal(reasonAnalysisInvalid, err), true
		}
	}
	if err := r.observePolicies(ctx, w); err != nil {
		return nil, err
	}
	if err := r.observePeers(ctx, w); err != nil {
		return nil, err
	}
	if err := r.observeAdoption(ctx, w); err != nil {
		return nil, err
	}
	return w, nil
}

func (r *Reconciler) observeChildren(ctx context.Context, w *world) error {
	var list v1alpha1.VersionedMicroserviceList
	var err error
	if w.facts.Ledger.Sequence == 0 {
		// The record is new, or lost and rebuilt from what there is: a cache that lags
		// would leave releases out for ever.
		err = r.live.List(ctx, &list, client.InNamespace(w.ms.Namespace))
	} else {
		err = r.List(ctx, &list, client.InNamespace(w.ms.Namespace), client.MatchingFields{indexReleases: w.ms.Name})
	}
	if err != nil {
		return fmt.Errorf("list releases: %w", err)
	}
	for i := range list.Items {
		if c := &list.Items[i]; metav1.IsControlledBy(c, w.ms) {
			w.children[c.Name] = c
			w.facts.Children = append(w.facts.Children, readChild(c, w.ms))
		}
	}
	return r.proveAbsence(ctx, w)
}

// proveAbsence asks the server about releases of the ledger that the cache does
// not hold: a cache that lags must not look like an object that is gone.
func (r *Reconciler) proveAbsence(ctx context.Context, w *world) error {
	for _, g := range w.ms.Status.ReleaseGroups {
		for _, row := range g.Releases {
			if w.children[row.VersionedMicroservice] != nil {
				continue
			}
			var c v1alpha1.VersionedMicroservice
			err := r.live.Get(ctx, client.ObjectKey{Namespace: w.ms.Namespace, Name: row.VersionedMicroservice}, &c)
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return fmt.Errorf("get release %q: %w", row.VersionedMicroservice, err)
			case metav1.IsControlledBy(&c, w.ms):
				w.children[c.Name] = &c
				w.facts.Children = append(w.facts.Children, readChild(&c, w.ms))
			}
		}
	}
	return nil
}

// lookIn asks for another look after d at the latest.
func (w *world) lookIn(d time.Duration) {
	if w.look == 0 || d < w.look {
		w.look = d
	}
}

// maxBy is the schema's bound on a decision's author in the ledger.
const maxBy = 253

// readChild gives the planner's view of a release's object.
func readChild(c *v1alpha1.VersionedMicroservice, ms *v1alpha1.Microservice) release.Child {
	stamp, _ := strconv.ParseInt(c.Annotations[v1alpha1.AnnotationAttempt], 10, 64)
	number, _ := strconv.ParseInt(c.Labels[v1alpha1.LabelPullRequest], 10, 64)
	number = max(0, number)
	available := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAvailable)
	child := release.Child{
		Release: c.Name, Slug: c.Spec.Group, Name: c.Spec.SemVer.Name,
		Level: levelOf(c.Labels[v1alpha1.LabelLevel], number), PullRequest: number, Version: c.Spec.SemVer.Version,
		Config:      c.Annotations[resources.AnnotationConfig],
		Created:     c.CreationTimestamp.Time,
		Terminating: !c.DeletionTimestamp.IsZero(),
		Stamp:       stamp,
		NeverActive: c.Annotations[v1alpha1.AnnotationNeverActive] == "true",
		Told:        release.Status(c.Status.Release),
		Replicas:    int(c.Spec.Replicas),
		Available:   int(c.Status.Available),
		Unsettled:   c.Status.ObservedGeneration != c.Generation || available == nil || available.ObservedGeneration != c.Generation,
		Failure:     release.Reason(c.Status.Failure),
		Message:     c.Status.Message,
		Current:     int(c.Status.Replicas),
		Analysis:    readVerdict(c.Status.Analysis),
	}
	readMeasured(ms, c, &child)
	readHooks(ms, c, &child)
	if d := c.Spec.Decision; d != nil {
		child.Decision = &release.Decision{Action: release.Action(d.Action), ID: d.ID, Step: d.Step, By: status.LineOf(c.Annotations[v1alpha1.AnnotationDecidedBy], maxBy)}
	}
	return child
}

// levelOf is the level of a release by its label. Labels may be edited: with a level
// that the schema of the status does not know, no ledger could be written any more.
func levelOf(label string, pullRequest int64) string {
	switch level := v1alpha1.ReleaseLevel(label); {
	case level == v1alpha1.LevelRelease, level == v1alpha1.LevelCandidate, level == v1alpha1.LevelPreview:
		return label
	case pullRequest > 0:
		return string(v1alpha1.LevelPreview)
	}
	return string(v1alpha1.LevelRelease)
}

// observeSource reads what is offered, and what is withdrawn. A referent that is missing
// or a template that has no container for the image is a problem, not an error: what runs
// continues, unless it is withdrawn, which depends on no template.
func (r *Reconciler) observeSource(ctx context.Context, w *world) error {
	w.facts.SourceStale = true
	var policy v1alpha1.ImagePolicy
	name := w.ms.Spec.ImagePolicyRef.Name
	err := r.Get(ctx, client.ObjectKey{Namespace: w.ms.Namespace, Name: name}, &policy)
	switch {
	case apierrors.IsNotFound(err):
		w.problem = status.NewTerminal("ImagePolicyNotFound", fmt.Errorf("spec.imagePolicyRef.name: there is no ImagePolicy %q in this namespace; create it or correct the name", name))
	case err != nil:
		return fmt.Errorf("get ImagePolicy %q: %w", name, err)
	default:
		w.policy, w.facts.PullRequests = &policy, ofPullRequests(&policy)
		for _, x := range policy.Status.Withdrawn {
			w.facts.Withdrawn = append(w.facts.Withdrawn, release.Withdrawal{Slug: x.Group, Version: x.Version, Reason: release.WithdrawReason(x.Reason), Time: x.Time.Time})
		}
	}
	if usable, err := r.observeTemplate(ctx, w); err != nil || !usable || w.policy == nil {
		return err
	}
	w.facts.SourceStale = stale(&policy)
	for i := range policy.Status.Releases {
		o := &policy.Status.Releases[i]
		if len(o.Images) == 0 || o.Held && !w.concerns(o) {
			continue
		}
		if err := resources.CheckContainers(w.ms, &policy, o); err != nil {
			w.problem, w.facts.SourceStale = status.NewTerminal("ContainerNotFound", err), true
		}
		name := resources.Name(w.ms.Name, o.SemVer.Version, resources.Identity(o, w.config))
		w.offered[name] = o
		w.facts.Candidates = append(w.facts.Candidates, release.Candidate{
			Slug: o.Group, Name: o.SemVer.Name, Level: string(o.Level), PullRequest: o.PullRequest,
			Version: o.SemVer.Version, Time: pushed(o), Release: name,
		})
	}
	return nil
}

// observeTemplate reads what every new release is made of besides its images. Without it
// there is nothing that could start again.
func (r *Reconciler) observeTemplate(ctx context.Context, w *world) (usable bool, err error) {
	container, err := resources.Container(w.ms)
	if err != nil {
		w.problem = status.NewTerminal("ContainerNotFound", err)
		return false, nil
	}
	if usable, err := r.observeConfiguration(ctx, w); err != nil || !usable {
		return false, err
	}
	if w.config, err = resources.Config(&w.ms.Spec.Template, container, w.contents); err != nil {
		return false, err
	}
	w.facts.Config = w.config
	return true, nil
}

// pushed is when a release was published or pushed; zero: not known.
func pushed(o *v1alpha1.OfferedRelease) time.Time {
	if o.ReleaseTime == nil {
		return time.Time{}
	}
	return o.ReleaseTime.Time
}

// stale says that what an ImagePolicy offers was decided by an older specification:
// it has not looked yet, or cannot read the present one.
func stale(p *v1alpha1.ImagePolicy) bool {
	stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	return p.Status.ObservedGeneration != p.Generation || stalled != nil && stalled.Reason == v1alpha1.ReasonInvalidSpec
}

func (r *Reconciler) observePolicies(ctx context.Context, w *world) error {
	var list v1alpha1.NetworkPolicyList
	if err := r.List(ctx, &list, client.InNamespace(w.ms.Namespace), client.MatchingFields{indexNetworkPolicies: w.ms.Name}); err != nil {
		return fmt.Errorf("list networkpolicies.hlnr.io: %w", err)
	}
	w.policies = list.Items
	for i := range list.Items {
		p := release.Policy{Name: list.Items[i].Name}
		for _, g := range list.Items[i].Status.Groups {
			report := release.Report{
				Slug: g.Slug, Revision: g.Revision, References: g.References, Masked: g.Withheld, Pinned: g.Pinned,
				Active: g.Active, Newest: g.Newest, CanaryDomains: g.CanaryDomains, Canary: g.Canary, Unrouted: g.Unrouted, Reason: g.Reason, Message: g.Message,
			}
			if g.ConfirmedTime != nil {
				report.Confirmed = g.ConfirmedTime.Time
			}
			p.Groups = append(p.Groups, report)
		}
		w.facts.Policies = append(w.facts.Policies, p)
	}
	return nil
}
