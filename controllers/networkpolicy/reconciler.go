package networkpolicy

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/controllers/networkpolicy/probe"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// +kubebuilder:rbac:groups=hlnr.io,resources=networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=networkpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=networkpolicies,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=networkpolicies/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=hlnr.io,resources=microservices,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes;grpcroutes;tlsroutes;tcproutes;udproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=listenersets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.x-k8s.io,resources=xlistenersets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apisix.apache.org,resources=apisixroutes;apisixtlses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=gateways.gateway.networking.k8s.io;httproutes.gateway.networking.k8s.io;grpcroutes.gateway.networking.k8s.io;tlsroutes.gateway.networking.k8s.io;tcproutes.gateway.networking.k8s.io;udproutes.gateway.networking.k8s.io;listenersets.gateway.networking.k8s.io,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// fieldOwner of all that this controller writes.
const fieldOwner = "heighliner-networkpolicy"

// lookAgain is when a policy looks for what no watch tells of.
const lookAgain = time.Minute

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
	// given is when Services were given back, by policy.
	given writeTimes
	// setBacks of routes of others.
	setBacks setBacks
	// probes of routes.
	probes  *probe.Pool
	metrics *metrics
	// wakes keeps when to look again when a pass ends in an error.
	wakes status.Wakes
}
