// Package workloadidentity provides credentials for the registries of cloud providers. It uses the identity that the cloud assigns to the process, so that no
// Secret is needed. It supports Amazon ECR, Azure Container Registry and Google Artifact Registry, each through the cloud's own library.
//
// identity.go  Identity: finds the cloud of a registry, and caches credentials until they expire
// aws.go       Amazon ECR
// azure.go     Azure Container Registry
// google.go    Google Artifact Registry and Container Registry
// errors.go    errors with fixed messages that explain why there is no credential
package workloadidentity

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/heighliner/heighliner/internal/registry"
)

// These are the names of the clouds as they are specified in flags.
const (
	AWS    = "aws"
	Azure  = "azure"
	Google = "google"
)

// Clouds contains the supported clouds, sorted.
var Clouds = []string{AWS, Azure, Google}

const (
	// requestTimeout limits the time for all requests for one credential.
	requestTimeout = 15 * time.Second
	// retryDelay is how long a failure is cached. During this time, no request is sent for the same scope. All callers get the previous credential if
	// it has not expired, or else the failure.
	retryDelay = 30 * time.Second
	// renewBefore is how long before its expiry a credential is replaced. If half of the credential's lifetime is shorter, that duration is used
	// instead.
	renewBefore = 5 * time.Minute
	// maxCredentials is the maximum number of cached credentials. A limit is needed because users choose the registries.
	maxCredentials = 256
)

// Options configure an Identity.
type Options struct {
	// Clouds lists the enabled clouds: one or more of those in the package variable Clouds.
	Clouds []string
	// Registries is the transport for requests to hosts that users choose through the name of a registry. It must connect
	// only to addresses that users are allowed to choose.
	Registries http.RoundTripper
	// Services is the transport for requests to the identity services of a cloud, including metadata services. The environment of the process,
	// not a user, determines these services. Defaults to http.DefaultTransport.
	Services http.RoundTripper
	// Clock is used for the lifetime of credentials. Defaults to the real clock.
	Clock clock.PassiveClock
}

// source provides the credentials of one cloud.
type source interface {
	// scope returns a key that is the same for all hosts with the same credential. It returns "" if the host is not a
	// registry of the cloud.
	scope(host string) string
	// credential returns the credential for a host whose scope is not empty, and the expiry of the credential.
	credential(ctx context.Context, host string) (registry.Credential, time.Time, error)
}

// Identity implements registry.Identity for clouds. It is safe for concurrent use.
type Identity struct {
	sources []source
	clock   clock.PassiveClock
	flights singleflight.Group
	mu      sync.Mutex
	known   *lru.Cache // contains *known values, keyed by scope
}

// known contains the latest credential of a scope, and the latest error.
type known struct {
	credential     registry.Credential
	renew, expires time.Time
	err            error
	retry          time.Time
}

var _ registry.Identity = (*Identity)(nil)

// New returns an Identity. It sends no request. It returns an error if a cloud is not supported.
func New(o Options) (*Identity, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Services == nil {
		o.Services = http.DefaultTransport
	}
	services, registries := client(o.Services), client(o.Registries)
	i := &Identity{clock: o.Clock, known: lru.New(maxCredentials)}
	for _, cloud := range slices.Compact(slices.Sorted(slices.Values(o.Clouds))) {
		switch cloud {
		case AWS:
			i.sources = append(i.sources, newAWS(services, registries))
		case Azure:
			i.sources = append(i.sources, newAzure(services, registries))
		case Google:
			i.sources = append(i.sources, newGoogle(services))
		default:
			return nil, fmt.Errorf("%q is not a supported cloud: use one of %s", cloud, strings.Join(Clouds, ", "))
		}
	}
	return i, nil
}

// Serves reports whether a registry, given as host[:port], belongs to an enabled cloud.
func (i *Identity) Serves(host string) bool {
	_, scope := i.source(host)
	return scope != ""
}

func (i *Identity) source(host string) (source, string) {
	for _, s := range i.sources {
		if scope := s.scope(host); scope != "" {
			return s, scope
		}
	}
	return nil, ""
}

// Credential returns the credential for a registry for which Serves returns true. The credential is requested once for all callers, and again before
// it expires. If it cannot be renewed, the old credential is used until its expiry. After a failure, 30 seconds pass before the credential is
// requested again. The error is an *Error, or the error of the context.
func (i *Identity) Credential(ctx context.Context, host string) (registry.Credential, error) {
	source, scope := i.source(host)
	if source == nil {
		return registry.Credential{}, &Error{Service: "the registry " + host, Detail: "does not belong to a cloud with workload identity enabled"}
	}
	if k := i.recall(scope); k != nil {
		return k.credential, k.err
	}
	flight := i.flights.DoChan(scope, func() (any, error) {
		if k := i.recall(scope); k != nil { // Another request may have ended after the first check.
			return k, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		c, expires, err := source.credential(ctx, host)
		return i.record(scope, c, expires, err), nil
	})
	select {
	case <-ctx.Done():
		return registry.Credential{}, ctx.Err()
	case result := <-flight:
		k := result.Val.(*known)
		return k.credential, k.err
	}
}

// recall returns the cached state of a scope, or nil if a credential must be requested.
func (i *Identity) recall(scope string) *known {
	i.mu.Lock()
	defer i.mu.Unlock()
	value, ok := i.known.Get(scope)
	if !ok {
		return nil
	}
	k, now := value.(*known), i.clock.Now()
	switch {
	case now.Before(k.renew):
		return k
	case now.Before(k.retry) && now.Before(k.expires):
		return &known{credential: k.credential}
	case now.Before(k.retry):
		return &known{err: k.err}
	}
	return nil
}

// record caches the result of a request and returns the new state for the callers.
func (i *Identity) record(scope string, c registry.Credential, expires time.Time, err error) *known {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	if err != nil {
		k := &known{err: err, retry: now.Add(retryDelay)}
		if before, ok := i.known.Get(scope); ok && now.Before(before.(*known).expires) {
			k.credential, k.expires = before.(*known).credential, before.(*known).expires
		}
		i.known.Add(scope, k)
		if now.Before(k.expires) {
			return &known{credential: k.credential}
		}
		return &known{err: err}
	}
	life := expires.Sub(now)
	k := &known{credential: c, expires: expires, renew: expires.Add(-min(renewBefore, life/2))}
	i.known.Add(scope, k)
	return k
}
