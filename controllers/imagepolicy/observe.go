package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// observed is one ImagePolicy with what the cluster says about it.
type observed struct {
	policy *v1alpha1.ImagePolicy
	// held are the versions that Microservices hold, and those that pins and domains
	// name.
	held []version.Held
	// question to the registry.
	question question
	// pinned are the tags of a source that is written by hand; nil for a registry.
	pinned []string
	// auth is the credential, read where a look is to begin.
	auth registry.Credential
	// selector is made from the specification; nil where problem says why.
	selector *version.Selector
	// platforms that an image must be there for.
	platforms []string
	// minAge of what is offered for the first time; 0: none.
	minAge time.Duration
	// problem is what somebody must change.
	problem *status.Error
}

// intervals of looks: the default, and the least.
const (
	defaultInterval = 5 * time.Minute
	minInterval     = 5 * time.Second
)

func interval(spec *v1alpha1.ImagePolicySpec) time.Duration {
	return max(minInterval, spec.Interval.Std(defaultInterval))
}

// maxRequest is the schema's bound on status.lastHandledRequest.
const maxRequest = 128

// requested is the word that asks for a look now, as far as the status can keep it.
func requested(policy *v1alpha1.ImagePolicy) string {
	return status.LineOf(policy.Annotations[v1alpha1.AnnotationRequestedAt], maxRequest)
}

// observe reads the cluster; it writes nothing.
func (r *Reconciler) observe(ctx context.Context, policy *v1alpha1.ImagePolicy) (*observed, error) {
	o := specified(policy, r.platform)
	if err := r.observeHeld(ctx, o); err != nil {
		return nil, err
	}
	return o, nil
}

// specified is what the policy says by itself; platform is the one that an image must
// be there for where it names none.
func specified(policy *v1alpha1.ImagePolicy, platform string) *observed {
	o := &observed{policy: policy, platforms: policy.Spec.Platforms}
	if len(o.platforms) == 0 {
		o.platforms = []string{platform}
	}
	selector, err := version.Compile(rules(&policy.Spec))
	if err != nil {
		o.problem = status.NewTerminal(v1alpha1.ReasonInvalidSpec, errors.New(status.Line(strings.ReplaceAll(err.Error(), "\n", "; "))))
	}
	o.selector = selector
	if src := policy.Spec.Source; src != nil && src.Pinned != nil {
		o.pinned = src.Pinned.Versions
	}
	if o.pinned == nil {
		o.minAge = policy.Spec.MinAge.Std(0)
	}
	var secrets []string
	for _, ref := range policy.Spec.ImagePullSecrets {
		secrets = append(secrets, ref.Name)
	}
	o.question = question{
		origin: origin{
			repository: policy.Spec.Image,
			insecure:   policy.Spec.Insecure,
			secrets:    strings.Join(secrets, "\n"),
			pinned:     strings.Join(o.pinned, "\n"),
		},
		timeout:   min(maxLook, policy.Spec.Timeout.Std(registry.DefaultTimeout)),
		maxTags:   int(policy.Spec.Limits.Tags),
		interval:  interval(&policy.Spec),
		requested: requested(policy),
	}
	return o
}

// quiet says that the registry is not to be asked.
func (o *observed) quiet() bool { return o.problem != nil || o.policy.Spec.Suspend }

// rules gives the specification in the terms of internal/version.
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
	if f := spec.TagFilter; f != nil {
		rules.TagFilter = version.TagFilter{Pattern: f.Pattern, Extract: f.Extract, Exclude: f.Exclude}
	}
	return rules
}

// observeHeld finds the versions that must stay offered: rows of the ledgers, pins
// of Microservices, and domains with a version (protocol rule 4).
func (r *Reconciler) observeHeld(ctx context.Context, o *observed) error {
	in := client.InNamespace(o.policy.Namespace)
	var users v1alpha1.MicroserviceList
	if err := r.List(ctx, &users, in, client.MatchingFields{indexUsers: o.policy.Name}); err != nil {
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
			o.held = append(o.held, h)
		}
	}
	for i := range users.Items {
		ms := &users.Items[i]
		for _, h := range heldBy(ms) {
			hold(h)
		}
		var policies v1alpha1.NetworkPolicyList
		if err := r.List(ctx, &policies, in, client.MatchingFields{indexPins: ms.Name}); err != nil {
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

// tagOf reads the tag of a release's first image, written repository:tag@digest.
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

// observeCredential reads the pull secrets, one by one and past the cache, which is
// why it is done for a look and not for each pass. One that is missing, or that has no entry for the registry, is a problem: never go on as
// nobody.
func (r *Reconciler) observeCredential(ctx context.Context, o *observed) error {
	var secrets []registry.Secret
	for i, ref := range o.policy.Spec.ImagePullSecrets {
		var s corev1.Secret
		err := r.Get(ctx, client.ObjectKey{Namespace: o.policy.Namespace, Name: ref.Name}, &s)
		if apierrors.IsNotFound(err) {
			o.fault(status.NewTerminal("SecretNotFound", fmt.Errorf("spec.imagePullSecrets[%d].name: there is no Secret %q in this namespace; create it or correct the name", i, ref.Name)))
			return nil
		}
		if err != nil {
			return fmt.Errorf("get Secret %q: %w", ref.Name, err)
		}
		secrets = append(secrets, registry.Secret{
			Name: s.Name, Type: string(s.Type), Data: s.Data, Registry: s.Annotations[v1alpha1.AnnotationRegistry],
		})
	}
	if len(secrets) == 0 {
		return nil
	}
	match, err := registry.FindCredential(o.policy.Spec.Image, secrets...)
	switch {
	case match.Found:
		o.auth = match.Credential
	case err != nil:
		o.fault(status.NewTerminal("InvalidSecret", fmt.Errorf("spec.imagePullSecrets: %w", err)))
	default:
		o.fault(status.NewTerminal("NoCredential", fmt.Errorf("spec.imagePullSecrets: none of the Secrets has an entry for %q; add one, or remove the list to look as nobody", o.policy.Spec.Image)))
	}
	return nil
}

// fault keeps the first problem.
func (o *observed) fault(e *status.Error) {
	if o.problem == nil {
		o.problem = e
	}
}
