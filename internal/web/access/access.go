// Package access determines what readers of the board may see and do. It uses the API server's access reviews. Positive answers are cached for only a
// few seconds, so that the revocation of a permission soon takes effect. For concurrent identical reviews, only one request is sent.
//
// access.go  questions and answers
// scope.go   the objects that a reader sees
package access

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/web"
)

// These are the limits on reviews and answers, and the group of all authenticated users.
const (
	// allowedAge is how long a positive answer is used. It limits how long a revoked permission remains effective.
	allowedAge = 5 * time.Second
	// deniedAge is how long a negative answer is used.
	deniedAge = 30 * time.Second
	// outageAge is how long a cached answer is used while the API server is not responding. During that time, the revocation of a permission has
	// no effect, but the data of the board is as outdated as the answer.
	outageAge = 10 * time.Minute
	// pause is the minimum duration between a failed review and the next request to the API server.
	pause = 2 * time.Second
	// timeout is the timeout of a review.
	timeout = 5 * time.Second
	// maxReviews is the maximum number of concurrent reviews.
	maxReviews = 32
	// maxAnswers is the maximum number of cached answers.
	maxAnswers = 100_000
	// authenticated is the group of all authenticated users.
	authenticated = "system:authenticated"
)

// Options configure access.
type Options struct {
	// Review sends a review to the API server and sets the status of the review.
	Review func(ctx context.Context, review *authorizationv1.SubjectAccessReview) error
	// Clock is the only source of time.
	Clock clock.Clock
}

// Access determines the permissions of readers.
type Access struct {
	Options
	flight  singleflight.Group
	reviews chan struct{}

	mu      sync.Mutex
	answers map[question]answer
	failure error
	failed  time.Time
}

// question asks whether a reader has a permission in a namespace or in all namespaces.
type question struct{ reader, namespace, verb, group, resource string }

type answer struct {
	allowed bool
	at      time.Time
}

// New returns an Access without answers.
func New(o Options) *Access {
	return &Access{Options: o, reviews: make(chan struct{}, maxReviews), answers: map[question]answer{}}
}

// keyOf returns the key of a reader. Readers with the same user and groups have the same permissions.
func keyOf(r web.Reader) string {
	return r.User + "\x00" + strings.Join(slices.Sorted(slices.Values(r.Groups)), "\x00")
}

// Allowed reports whether a reader may use a verb on a resource in a namespace, or in all namespaces if the namespace is empty. If the API server
// does not respond, Allowed uses a cached answer from the last few minutes, or fails if there is no such answer.
func (a *Access) Allowed(ctx context.Context, r web.Reader, namespace, verb, group, resource string) (bool, error) {
	q := question{keyOf(r), namespace, verb, group, resource}
	known, is, fresh, failure := a.known(q)
	switch {
	case fresh:
		return known.allowed, nil
	case failure != nil && is:
		return known.allowed, nil
	case failure != nil:
		return false, failure
	}
	key := strings.Join([]string{q.reader, q.namespace, q.verb, q.group, q.resource}, "\x01")
	result := a.flight.DoChan(key, func() (any, error) {
		// Another review may have answered the question since the first check.
		switch known, _, fresh, failure := a.known(q); {
		case fresh:
			return known.allowed, nil
		case failure != nil:
			return false, failure
		}
		return a.review(context.WithoutCancel(ctx), r, q)
	})
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case got := <-result:
		if got.Err != nil && is {
			return known.allowed, nil
		}
		allowed, _ := got.Val.(bool)
		return allowed, got.Err
	}
}

// known returns the cached answer to a question. fresh reports whether the answer can be used without a new review. failure is the latest error
// if it is too early to call the API server again, and nil otherwise.
func (a *Access) known(q question) (known answer, is, fresh bool, failure error) {
	now := a.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	known, is = a.answers[q]
	age := now.Sub(known.at)
	limit := deniedAge
	if known.allowed {
		limit = allowedAge
	}
	is = is && age < outageAge
	if a.failure != nil && now.Sub(a.failed) < pause {
		failure = a.failure
	}
	return known, is, is && age < limit, failure
}

// review sends a review to the API server.
func (a *Access) review(ctx context.Context, r web.Reader, q question) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case a.reviews <- struct{}{}:
		defer func() { <-a.reviews }()
	case <-ctx.Done():
		return false, errors.New("too many access reviews are waiting")
	}
	asked := a.Clock.Now()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.User, Groups: append(slices.Clone(r.Groups), authenticated),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: q.namespace, Verb: q.verb, Group: q.group, Resource: q.resource},
	}}
	err := a.Review(ctx, review)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.failure, a.failed = err, asked
		return false, err
	}
	a.failure = nil
	if len(a.answers) >= maxAnswers {
		a.forget(asked)
	}
	a.answers[q] = answer{review.Status.Allowed && !review.Status.Denied, asked}
	return a.answers[q].allowed, nil
}

// forget drops the answers that are older than deniedAge, which are kept only for outages. If too many answers remain, it drops all answers.
func (a *Access) forget(now time.Time) {
	for q, known := range a.answers {
		if now.Sub(known.at) > deniedAge {
			delete(a.answers, q)
		}
	}
	if len(a.answers) >= maxAnswers {
		clear(a.answers)
	}
}

// May returns the actions that a reader may perform in a namespace: decisions about releases and changes to services. If the API server does not
// respond, and no answer is cached, May returns no actions. The API server authorizes each action again.
func (a *Access) May(ctx context.Context, r web.Reader, namespace string) []string {
	return web.ActsOf(func(verb, resource string) bool { return a.may(ctx, r, namespace, verb, resource) })
}

// MayFreeze reports whether a reader may create freezes, and whether they may delete them, in a namespace, or in the cluster if the namespace is
// empty. If the API server does not respond, and no answer is cached, both results are false.
func (a *Access) MayFreeze(ctx context.Context, r web.Reader, namespace string) (freeze, thaw bool) {
	resource := "freezes"
	if namespace == "" {
		resource = "clusterfreezes"
	}
	return a.may(ctx, r, namespace, "create", resource), a.may(ctx, r, namespace, "delete", resource)
}

// may reports whether a reader has a permission in all namespaces or in the given namespace.
func (a *Access) may(ctx context.Context, r web.Reader, namespace, verb, resource string) bool {
	allowed, err := a.Allowed(ctx, r, "", verb, v1alpha1.GroupVersion.Group, resource)
	if (err != nil || !allowed) && namespace != "" {
		allowed, err = a.Allowed(ctx, r, namespace, verb, v1alpha1.GroupVersion.Group, resource)
	}
	return err == nil && allowed
}
