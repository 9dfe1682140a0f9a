package networkpolicy

import (
	"context"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/controllers/networkpolicy/probe"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// fieldOwner of everything that this controller writes.
const fieldOwner = "heighliner-networkpolicy"

// pollInterval is how often a policy reads objects that are not watched.
const pollInterval = time.Minute

// Writer writes the objects of a policy. It is apply.Writer except in tests.
type Writer interface {
	Apply(ctx context.Context, owner, desired client.Object) (apply.Outcome, error)
	Delete(ctx context.Context, owner, obj client.Object) error
}

// Reconciler reconciles NetworkPolicies.
type Reconciler struct {
	// Client reads through the cache, and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Writer of Services and routes.
	Writer Writer
	// Events of policies.
	Events status.Recorder
	// Now is the clock.
	Now func() time.Time

	// namespaces that the manager watches; empty for all.
	namespaces []string
	// started: a first reconcile has begun, so that all watches have started.
	started atomic.Bool
	// list of domains; nil if there is none to read.
	list *domainList
	// users watches user-managed routes; nil if none are watched.
	users   *userRoutes
	kinds   *kinds
	journal status.Journal
	written writeTimes
	// restored is when Services were restored, by policy.
	restored writeTimes
	// conflicts are since when the writes of policies end in conflicts.
	conflicts conflictTimes
	// reverts of user-managed routes.
	reverts reverts
	// probes of routes.
	probes  *probe.Pool
	metrics *metrics
	// requeues keeps the time at which to reconcile again when a reconcile ends in an error.
	requeues status.Requeues
}
