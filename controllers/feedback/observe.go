package feedback

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/grants"
)

// observe collects what a plan is made of; records and comments are those of ghr.
func (r *Reconciler) observe(ctx context.Context, ghr *v1alpha1.GitHubRepository) (*facts, error) {
	f := &facts{
		feedback:     ghr.Spec.Feedback,
		here:         siteOf(ghr),
		looked:       looked(ghr),
		pullRequests: ghr.Status.PullRequests,
		tags:         ghr.Status.Tags,
		records:      ghr.Status.Feedback,
		comments:     ghr.Status.Comments,
	}
	if !ghr.DeletionTimestamp.IsZero() {
		f.feedback = nil
	}
	if f.feedback == nil {
		return f, nil
	}
	var policies v1alpha1.ImagePolicyList
	if err := r.List(ctx, &policies, client.MatchingFields{indexPolicies: client.ObjectKeyFromObject(ghr).String()}); err != nil {
		return nil, fmt.Errorf("list ImagePolicies of GitHubRepository %q: %w", ghr.Name, err)
	}
	granted := map[string]bool{}
	for i := range policies.Items {
		policy := &policies.Items[i]
		if _, known := granted[policy.Namespace]; !known {
			ok, err := r.granted(ctx, ghr, policy.Namespace)
			if err != nil {
				return nil, err
			}
			granted[policy.Namespace] = ok
		}
		if !granted[policy.Namespace] || policy.DeletionTimestamp != nil {
			continue
		}
		if err := r.observeStreams(ctx, f, policy); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(f.streams, func(a, b stream) int {
		return strings.Compare(a.microservice.Namespace+"/"+a.microservice.Name, b.microservice.Namespace+"/"+b.microservice.Name)
	})
	return f, nil
}

// tooManyPulls is the reason of condition Truncated that says that not all pull
// requests are in the status.
const tooManyPulls = "TooManyPullRequests"

// looked says that the status has all open pull requests.
func looked(ghr *v1alpha1.GitHubRepository) bool {
	c := meta.FindStatusCondition(ghr.Status.Conditions, v1alpha1.ConditionTruncated)
	return ghr.Status.OpenPullRequests != nil && (c == nil || c.Status != metav1.ConditionTrue || c.Reason != tooManyPulls)
}

// observeStreams adds the Microservices of an ImagePolicy.
func (r *Reconciler) observeStreams(ctx context.Context, f *facts, policy *v1alpha1.ImagePolicy) error {
	var users v1alpha1.MicroserviceList
	if err := r.List(ctx, &users, client.InNamespace(policy.Namespace), client.MatchingFields{indexUsers: policy.Name}); err != nil {
		return fmt.Errorf("list Microservices of ImagePolicy %q: %w", policy.Name, err)
	}
	for i := range users.Items {
		ms := &users.Items[i]
		if ms.DeletionTimestamp != nil {
			continue
		}
		s := stream{policy: policy, microservice: ms, failures: map[string]string{}, settled: map[string]bool{}}
		var routes v1alpha1.NetworkPolicyList
		if err := r.List(ctx, &routes, client.InNamespace(ms.Namespace), client.MatchingFields{indexRoutes: ms.Name}); err != nil {
			return fmt.Errorf("list NetworkPolicies of Microservice %q: %w", ms.Name, err)
		}
		s.routes = slices.DeleteFunc(routes.Items, func(p v1alpha1.NetworkPolicy) bool { return p.DeletionTimestamp != nil })
		slices.SortFunc(s.routes, func(a, b v1alpha1.NetworkPolicy) int { return strings.Compare(a.Name, b.Name) })
		if err := r.observeReleases(ctx, f, &s); err != nil {
			return err
		}
		f.streams = append(f.streams, s)
	}
	return nil
}

// observeReleases reads why the releases failed that did, and which of the active ones
// came or went a while ago. It notes when the next one will have, or may tell why.
func (r *Reconciler) observeReleases(ctx context.Context, f *facts, s *stream) error {
	for _, g := range s.microservice.Status.ReleaseGroups {
		for _, row := range g.Releases {
			if row.Status != v1alpha1.ReleaseError && row.Status != v1alpha1.ReleaseActive {
				continue
			}
			name := row.VersionedMicroservice
			var release v1alpha1.VersionedMicroservice
			err := r.Get(ctx, client.ObjectKey{Namespace: s.microservice.Namespace, Name: name}, &release)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("get VersionedMicroservice %q: %w", name, err)
			}
			s.failures[name] = release.Status.Failure
			if row.Status == v1alpha1.ReleaseError {
				continue
			}
			if !row.Available && release.Status.Failure == "" {
				f.lookAgain(lookForCause)
			}
			if available := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionAvailable); available != nil {
				left := settle - r.clock.Since(available.LastTransitionTime.Time)
				s.settled[name] = left <= 0
				if left > 0 {
					f.lookAgain(left)
				}
			}
		}
	}
	return nil
}

// lookForCause is when to look whether the cause is known for which an active release
// is not available.
const lookForCause = 15 * time.Second

// granted says that ImagePolicies of a namespace may use the repository. An error in
// spec.allowedNamespaces is told by whoever looks at GitHub.
func (r *Reconciler) granted(ctx context.Context, ghr *v1alpha1.GitHubRepository, namespace string) (bool, error) {
	var ns corev1.Namespace
	if grants.NeedsLabels(ghr, namespace) {
		// Namespaces are not watched, and read for those of others only.
		if err := r.live.Get(ctx, client.ObjectKey{Name: namespace}, &ns); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get Namespace %q: %w", namespace, err)
		}
	}
	allowed, err := grants.Allows(ghr, namespace, ns.Labels)
	return allowed && err == nil, nil
}
