package imagepolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cosign"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/preview"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// observed contains one ImagePolicy and the related objects in the cluster.
type observed struct {
	policy *v1alpha1.ImagePolicy
	// inUse contains the versions that Microservices use or pin, and the versions to which domains and listeners refer.
	inUse []version.Held
	// query is the query for the registry.
	query query
	// pinned contains the tags of an explicit list; nil for other sources.
	pinned []string
	// github is the content of a GitHub source; nil for other sources.
	github *github
	// access contains the content of Secrets. It is read before a scan.
	access access
	// selector and, for pull requests, chooser are compiled from the specification. They are nil if
	// the specification is invalid; problem then contains the error.
	selector *version.Selector
	chooser  *preview.Chooser
	// platforms are the platforms that an image must support.
	platforms []string
	// minAge is the minimum age of new versions; 0 if there is none.
	minAge time.Duration
	// recheck reports whether the offered versions must be checked again. This is the case if the specification
	// contains checks of image content and, since the last check, the specification changed or the policy was
	// not Ready.
	recheck bool
	// unverified disables signature verification.
	unverified bool
	// problem is an error that must be resolved, possibly by a user, before a scan can start; nil if there is none.
	problem *status.Error
	// stale is the reason why the content of a GitHub source may be outdated; nil if there is no such reason.
	stale *status.Error
}

// Default and minimum intervals between scans.
const (
	defaultInterval = 5 * time.Minute
	minInterval     = 5 * time.Second
)

func interval(spec *v1alpha1.ImagePolicySpec) time.Duration {
	return max(minInterval, spec.Interval.Std(defaultInterval))
}

// maxRequest is the maximum length of status.lastHandledRequest in the schema.
const maxRequest = 128

// requested returns the value of the annotation that requests a scan, truncated for the status.
func requested(policy *v1alpha1.ImagePolicy) string {
	return status.LineOf(policy.Annotations[v1alpha1.AnnotationRequestedAt], maxRequest)
}

// observe reads the policy's related objects from the cluster.
func (r *Reconciler) observe(ctx context.Context, policy *v1alpha1.ImagePolicy) (*observed, error) {
	o := fromSpec(policy, r.platform)
	if err := r.observeGitHub(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observeHeld(ctx, o); err != nil {
		return nil, err
	}
	return o, nil
}

// fromSpec returns the part of the observed state that is derived from the policy alone. platform is the
// default for spec.platforms.
func fromSpec(policy *v1alpha1.ImagePolicy, platform string) *observed {
	o := &observed{policy: policy, platforms: policy.Spec.Platforms}
	if len(o.platforms) == 0 {
		o.platforms = []string{platform}
	}
	if src := policy.Spec.Source; src != nil && src.Pinned != nil {
		o.pinned = src.Pinned.Versions
	} else if src != nil && src.GitHub != nil {
		o.github = &github{source: src.GitHub}
	}
	if o.pinned == nil {
		o.minAge = policy.Spec.MinAge.Std(0)
	}
	if err := o.compile(); err != nil {
		o.problem = status.NewTerminal(v1alpha1.ReasonInvalidSpec, err)
	}
	o.recheck = (policy.Spec.Verify != nil || policy.Spec.Match != nil && len(policy.Spec.Match.Labels) > 0) &&
		(policy.Status.ObservedGeneration != policy.Generation || !meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionReady))
	o.query = query{
		origin:    originOf(policy, o),
		timeout:   min(maxScan, policy.Spec.Timeout.Std(registry.DefaultTimeout)),
		maxTags:   int(policy.Spec.Limits.Tags),
		filter:    filterOf(&policy.Spec),
		interval:  interval(&policy.Spec),
		requested: requested(policy),
	}
	return o
}

// filterOf returns a checksum of spec.tagFilter, or "" if it is not set.
func filterOf(spec *v1alpha1.ImagePolicySpec) string {
	if spec.TagFilter == nil {
		return ""
	}
	return checksum(spec.TagFilter)
}

// paused reports whether the registry must not be scanned.
func (o *observed) paused() bool { return o.problem != nil || o.policy.Spec.Suspend }

// rules converts the specification for internal/version.
func rules(spec *v1alpha1.ImagePolicySpec) version.Rules {
	rules := version.Rules{
		Scheme:   version.Scheme(spec.Versioning.Scheme),
		Parts:    int(spec.Versioning.Parts),
		Suffix:   spec.Versioning.Suffix,
		Level:    version.Level(spec.Versioning.Level),
		Range:    spec.Versioning.Range,
		GroupBy:  version.GroupBy(spec.Versioning.GroupBy),
		TwoParts: version.TwoParts(spec.Versioning.TwoParts),
		Deny:     spec.Deny,
		Limits:   version.Limits{Groups: int(spec.Limits.Groups), ReleasesPerGroup: int(spec.Limits.ReleasesPerGroup)},
	}
	if spec.Match != nil && spec.Match.Name != nil {
		rules.Match = version.NameMatch{From: spec.Match.Name.From, To: spec.Match.Name.To}
	}
	if f := spec.TagFilter; f != nil {
		rules.TagFilter = version.TagFilter{Pattern: f.Pattern, Extract: f.Extract, Exclude: f.Exclude}
	}
	return rules
}

// observeHeld finds the versions that must remain offered: the versions of Microservices' releases and pins,
// and the versions to which domains and listeners refer (protocol rule 4).
func (r *Reconciler) observeHeld(ctx context.Context, o *observed) error {
	var users v1alpha1.MicroserviceList
	if err := r.List(ctx, &users, client.InNamespace(o.policy.Namespace), client.MatchingFields{index.MicroservicesByImagePolicy.Field: o.policy.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Microservices: %w", err)
	}
	tags := map[string]string{}
	for _, offered := range o.policy.Status.Releases {
		tags[offered.Group+"/"+offered.SemVer.Version] = tagOf(offered.Images)
	}
	seen := map[version.Held]bool{}
	hold := func(h version.Held) {
		h.Tag = tags[h.Group+"/"+h.Version]
		if !seen[h] {
			seen[h] = true
			o.inUse = append(o.inUse, h)
		}
	}
	for i := range users.Items {
		ms := &users.Items[i]
		for _, h := range versionsInUse(ms) {
			hold(h)
		}
		var policies v1alpha1.NetworkPolicyList
		if err := r.List(ctx, &policies, client.InNamespace(o.policy.Namespace), client.MatchingFields{indexPins: ms.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list networkpolicies.hlnr.io: %w", err)
		}
		for j := range policies.Items {
			for _, v := range pins(&policies.Items[j]) {
				hold(version.Held{Version: v})
			}
		}
	}
	return nil
}

// tagOf returns the tag of the first image of a release. The format of an image is repository:tag@digest.
func tagOf(images []v1alpha1.ReleaseImage) string {
	if len(images) == 0 {
		return ""
	}
	ref, _, _ := strings.Cut(images[0].Image, "@")
	if i := strings.LastIndex(ref, ":"); i > strings.LastIndex(ref, "/") {
		return ref[i+1:]
	}
	return ""
}

// observeAccess reads the Secrets. It is called only before a scan, because Secrets are not cached and are
// therefore requested from the API server each time. A missing Secret, or a pull secret without an entry for a
// registry, is a problem: there is no fallback to anonymous access.
func (r *Reconciler) observeAccess(ctx context.Context, o *observed) error {
	for _, read := range []func(context.Context, *observed) error{r.observeCredentials, r.observeTLS, r.observeKeys} {
		if err := read(ctx, o); err != nil {
			return err
		}
		if o.problem != nil {
			return nil
		}
	}
	return nil
}

// secret reads the Secret to which a field refers. If the Secret does not exist, or access to it
// is forbidden, secret returns nil and adds a problem.
func (r *Reconciler) secret(ctx context.Context, o *observed, field, name string) (*corev1.Secret, error) {
	var s corev1.Secret
	err := r.Get(ctx, client.ObjectKey{Namespace: o.policy.Namespace, Name: name}, &s)
	if apierrors.IsNotFound(err) {
		o.addProblem(status.NewTerminal("SecretNotFound", fmt.Errorf("%s.name: Secret %q not found in this namespace: create it, or correct the name", field, name)))
		return nil, nil
	}
	if apierrors.IsForbidden(err) {
		o.addProblem(status.Classify(fmt.Errorf("%s.name: %w", field, status.SecretForbidden(o.policy.Namespace, name, err))))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	return &s, nil
}

func secretOf(s *corev1.Secret) registry.Secret {
	return registry.Secret{Name: s.Name, Type: string(s.Type), Data: s.Data, Registry: s.Annotations[v1alpha1.AnnotationRegistry]}
}

func (r *Reconciler) observeCredentials(ctx context.Context, o *observed) error {
	var secrets []registry.Secret
	for i, ref := range o.policy.Spec.ImagePullSecrets {
		s, err := r.secret(ctx, o, fmt.Sprintf("spec.imagePullSecrets[%d]", i), ref.Name)
		if s == nil {
			return err
		}
		secrets = append(secrets, secretOf(s))
	}
	if len(secrets) == 0 {
		for _, repository := range o.query.repositories() {
			o.access.auths = append(o.access.auths, r.identity.credential(o.policy, repository))
		}
		return nil
	}
	for _, repository := range o.query.repositories() {
		match, err := registry.FindCredential(repository, secrets...)
		switch {
		case match.Found:
			o.access.auths = append(o.access.auths, match.Credential)
		case err != nil:
			o.addProblem(status.NewTerminal("InvalidSecret", fmt.Errorf("spec.imagePullSecrets: %w", err)))
		default:
			o.addProblem(status.NewTerminal("NoCredential", fmt.Errorf("spec.imagePullSecrets: none of the Secrets has an entry for %q: add an entry, or remove the list if no credential is needed", repository)))
		}
	}
	return nil
}

// identity is the manager's identity at registries, with the namespaces whose policies may use it.
type identity struct {
	registry.Identity
	namespaces []string
}

// credential returns the credential for a repository if a policy has no imagePullSecrets: the identity's
// credential if the policy may use the identity and the identity supports the registry, and otherwise anonymous
// access. Access is also anonymous if the policy trusts its own certificate authority, because the owner of this
// authority's key could intercept the manager's credential.
func (i identity) credential(policy *v1alpha1.ImagePolicy, repository string) registry.Credential {
	if i.Identity == nil || len(i.namespaces) > 0 && !slices.Contains(i.namespaces, policy.Namespace) || policy.Spec.CertSecretRef != nil {
		return registry.Credential{}
	}
	return registry.Credential{WorkloadIdentity: i.Serves(registry.Host(repository))}
}

func (r *Reconciler) observeTLS(ctx context.Context, o *observed) error {
	ref := o.policy.Spec.CertSecretRef
	if ref == nil {
		return nil
	}
	s, err := r.secret(ctx, o, "spec.certSecretRef", ref.Name)
	if s == nil {
		return err
	}
	if o.access.tls, err = registry.ParseTLS(secretOf(s), r.clock.Now()); err != nil {
		o.addProblem(status.NewTerminal("InvalidSecret", fmt.Errorf("spec.certSecretRef: %w", err)))
	}
	return nil
}

func (r *Reconciler) observeKeys(ctx context.Context, o *observed) error {
	if o.policy.Spec.Verify == nil {
		return nil
	}
	const field = "spec.verify.cosign.keySecretRef"
	name := o.policy.Spec.Verify.Cosign.KeySecretRef.Name
	s, err := r.secret(ctx, o, field, name)
	if s == nil {
		return err
	}
	if o.access.keys, err = cosign.ParseKeys(s.Name, s.Data); err != nil {
		o.addProblem(status.NewTerminal("InvalidSecret", fmt.Errorf("%s: %w", field, err)))
	}
	return nil
}

// addProblem keeps the first problem.
func (o *observed) addProblem(e *status.Error) {
	if o.problem == nil {
		o.problem = e
	}
}
