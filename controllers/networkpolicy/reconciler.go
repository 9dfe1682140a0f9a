package networkpolicy

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/controllers/networkpolicy/probe"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// fieldOwner of all that this controller writes.
const fieldOwner = "heighliner-networkpolicy"

// pollInterval is when a policy looks for what no watch reports.
const pollInterval = time.Minute

// Writer writes the children of a policy. It is apply.Writer but for tests.
type Writer interface {
	Apply(ctx context.Context, owner, desired client.Object) (apply.Outcome, error)
	Delete(ctx context.Context, owner, obj client.Object) error
}

// Reconciler makes what policies say true.
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

	// list of domains; nil: none is looked for.
	list *domainList
	// users watches routes of others; nil: none.
	users   *userRoutes
	kinds   *kinds
	journal status.Journal
	written writeTimes
	// restored is when Services were restored, by policy.
	restored writeTimes
	// conflicts are when the writes of policies began to meet conflicts.
	conflicts conflictTimes
	// reverts of routes of others.
	reverts reverts
	// probes of routes.
	probes  *probe.Pool
	metrics *metrics
	// requeues keep the time at which to reconcile again when a reconcile ends in an error.
	requeues status.Requeues
}
