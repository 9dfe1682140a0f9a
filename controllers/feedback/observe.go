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
	"github.com/heighliner/heighliner/internal/index"
)

// observe reads the objects that a plan is based on. The records and comments are from the status of ghr.
func (r *Reconciler) observe(ctx context.Context, ghr *v1alpha1.GitHubRepository) (*observed, error) {
	f := &observed{
		feedback:             ghr.Spec.Feedback,
		repository:           repositoryOf(ghr),
		pullRequestsComplete: pullRequestsComplete(ghr),
		pullRequests:         ghr.Status.PullRequests,
		tags:                 ghr.Status.Tags,
		records:              ghr.Status.Feedback,
		comments:             ghr.Status.Comments,
	}
	if !ghr.DeletionTimestamp.IsZero() {
		f.feedback = nil
	}
	if f.feedback == nil {
		return f, nil
	}
	var policies v1alpha1.ImagePolicyList
	if err := r.List(ctx, &policies, client.MatchingFields{index.ImagePoliciesByRepository.Field: client.ObjectKeyFromObject(ghr).String()}); err != nil {
		return nil, fmt.Errorf("list ImagePolicies of GitHubRepository %q: %w", ghr.Name, err)
	}
	granted := map[string]bool{}
	for i := range policies.Items {
		policy := &policies.Items[i]
		if _, known := granted[policy.Namespace]; !known {
			ok, err := r.allows(ctx, ghr, policy.Namespace)
			if err != nil {
				return nil, err
			}
			granted[policy.Namespace] = ok
		}
		if !granted[policy.Namespace] || policy.DeletionTimestamp != nil {
			continue
		}
		if policy.Spec.Source.GitHub.PullRequests != nil && ghr.Status.OpenPullRequests == nil {
			continue // The pull requests have not been read since the policy selected them.
		}
		if err := r.observeServices(ctx, f, policy); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(f.services, func(a, b service) int {
		return strings.Compare(a.microservice.Namespace+"/"+a.microservice.Name, b.microservice.Namespace+"/"+b.microservice.Name)
	})
	return f, nil
}

// reasonTooManyPullRequests is the reason for the Truncated condition if not all pull requests fit
// into the status.
const reasonTooManyPullRequests = "TooManyPullRequests"

// pullRequestsComplete reports whether the status contains all open pull requests.
func pullRequestsComplete(ghr *v1alpha1.GitHubRepository) bool {
	c := meta.FindStatusCondition(ghr.Status.Conditions, v1alpha1.ConditionTruncated)
	return ghr.Status.OpenPullRequests != nil && (c == nil || c.Status != metav1.ConditionTrue || c.Reason != reasonTooManyPullRequests)
}

// observeServices adds to f the Microservices that refer to an ImagePolicy.
func (r *Reconciler) observeServices(ctx context.Context, f *observed, policy *v1alpha1.ImagePolicy) error {
	var users v1alpha1.MicroserviceList
	if err := r.List(ctx, &users, client.InNamespace(policy.Namespace), client.MatchingFields{index.MicroservicesByImagePolicy.Field: policy.Name}); err != nil {
		return fmt.Errorf("list Microservices of ImagePolicy %q: %w", policy.Name, err)
	}
	for i := range users.Items {
		ms := &users.Items[i]
		if ms.DeletionTimestamp != nil {
			continue
		}
		s := service{policy: policy, microservice: ms, failures: map[string]string{}, commits: map[string]string{}, stable: map[string]bool{}}
		var routes v1alpha1.NetworkPolicyList
		if err := r.List(ctx, &routes, client.InNamespace(ms.Namespace), client.MatchingFields{index.NetworkPoliciesByMicroservice.Field: ms.Name}); err != nil {
			return fmt.Errorf("list NetworkPolicies of Microservice %q: %w", ms.Name, err)
		}
		s.routes = slices.DeleteFunc(routes.Items, func(p v1alpha1.NetworkPolicy) bool { return p.DeletionTimestamp != nil })
		slices.SortFunc(s.routes, func(a, b v1alpha1.NetworkPolicy) int { return strings.Compare(a.Name, b.Name) })
		if err := r.observeReleases(ctx, f, &s); err != nil {
			return err
		}
		f.services = append(f.services, s)
	}
	return nil
}

// observeReleases determines the commits and failures of releases, and which active releases are stable. It requests
// another reconcile for the time at which another release can become stable, and within causePollInterval if it is not
// known why an active release is not available.
func (r *Reconciler) observeReleases(ctx context.Context, f *observed, s *service) error {
	for _, g := range s.microservice.Status.ReleaseGroups {
		for _, row := range g.Releases {
			name := row.VersionedMicroservice
			var release v1alpha1.VersionedMicroservice
			err := r.Get(ctx, client.ObjectKey{Namespace: s.microservice.Namespace, Name: name}, &release)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("get VersionedMicroservice %q: %w", name, err)
			}
			s.commits[name] = release.Annotations[v1alpha1.AnnotationCommit]
			if row.Status == v1alpha1.ReleaseError || row.Status == v1alpha1.ReleaseActive {
				s.failures[name] = release.Status.Failure
			}
			if row.Status != v1alpha1.ReleaseActive {
				continue
			}
			if !row.Available && release.Status.Failure == "" {
				f.requeueWithin(causePollInterval)
			}
			if available := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionAvailable); available != nil {
				left := stabilizationPeriod - r.clock.Since(available.LastTransitionTime.Time)
				s.stable[name] = left <= 0
				if left > 0 {
					f.requeueWithin(left)
				}
			}
		}
	}
	return nil
}

// causePollInterval is the interval at which the controller checks why an active release is not
// available.
const causePollInterval = 15 * time.Second

// allows reports whether ImagePolicies in a namespace may use the repository. The githubrepository
// controller reports errors in spec.allowedNamespaces.
func (r *Reconciler) allows(ctx context.Context, ghr *v1alpha1.GitHubRepository, namespace string) (bool, error) {
	var ns corev1.Namespace
	if ghr.NeedsNamespaceLabels(namespace) {
		// Namespaces are not watched. A Namespace is read from the API server, and only if a selector requires its labels.
		if err := r.live.Get(ctx, client.ObjectKey{Name: namespace}, &ns); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get Namespace %q: %w", namespace, err)
		}
	}
	allowed, err := ghr.AllowsNamespace(namespace, ns.Labels)
	return allowed && err == nil, nil
}
