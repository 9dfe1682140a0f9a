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

// fieldOwner is the field manager for all writes by this controller.
const fieldOwner = "heighliner-networkpolicy"

// pollInterval is the interval at which objects that are not watched are read.
const pollInterval = time.Minute

// Writer writes the objects of a policy. It is apply.Writer except in tests.
type Writer interface {
	Apply(ctx context.Context, owner, desired client.Object) (apply.Outcome, error)
	Delete(ctx context.Context, owner, obj client.Object) error
}

// Reconciler reconciles NetworkPolicies.
type Reconciler struct {
	// Client reads from the cache, and writes to the API server.
	Client client.Client
	// Live reads from the API server, without the cache.
	Live client.Reader
	// Writer writes Services and routes.
	Writer Writer
	// Events records the events for policies.
	Events status.Recorder
	// Now is the clock.
	Now func() time.Time

	// namespaces are the namespaces that the manager watches; empty means all.
	namespaces []string
	// started reports whether the first reconcile has begun. All watches have started before the first
	// reconcile begins.
	started atomic.Bool
	// list reads the list of domains; nil if the manager uses no list.
	list *domainList
	// users watches user-managed routes; nil if no routes are watched.
	users   *userRoutes
	kinds   *kinds
	journal status.Journal
	written recentTimes
	// restored contains the times at which Services and user-managed routes were restored, keyed by
	// policy.
	restored recentTimes
	// ready contains the times at which Services became ready, keyed by policy.
	ready readyTimes
	// conflicts contains the times at which writes began to fail with conflicts, keyed by policy.
	conflicts conflictTimes
	// reverts records the content that was last written to user-managed routes, so that the controller
	// waits before it writes content again that another client has reverted repeatedly.
	reverts reverts
	// probes sends the probes of routes.
	probes  *probe.Pool
	metrics *metrics
	// requeues records the time at which to reconcile again when a reconcile ends in an error.
	requeues status.Requeues
}
