package networkpolicy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// AddToScheme adds to a scheme the kinds that providers read and write.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(gatewayv1.Install(s), gatewayv1alpha2.Install(s), networkingv1.AddToScheme(s), gatewayapi.AddToScheme(s), apisix.AddToScheme(s), certmanager.AddToScheme(s))
}

// NewCache returns a cache from cache.New. For kinds that providers write, the cache contains only
// objects with the label v1alpha1.LabelPolicy. This applies to the kinds that the API server serves
// when NewCache is called. Kinds that are installed later are cached without this restriction until
// the next start.
func NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	ours, err := labels.NewRequirement(v1alpha1.LabelPolicy, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select objects of policies: %w", err)
	}
	opts.ByObject = maps.Clone(opts.ByObject)
	for _, kind := range traffic.WrittenKinds() {
		gvk, err := served(opts.Mapper, kind)
		if err != nil {
			return nil, err
		}
		if gvk.Version == "" {
			continue
		}
		o, err := newObject(opts.Scheme, gvk)
		if err != nil {
			return nil, err
		}
		if opts.ByObject == nil {
			opts.ByObject = map[client.Object]cache.ByObject{}
		}
		opts.ByObject[o] = cache.ByObject{Label: labels.NewSelector().Add(*ours)}
	}
	errs := &watchErrors{}
	opts.DefaultWatchErrorHandler = errs.handle
	c, err := cache.New(config, opts)
	return kindCache{c, errs}, err
}

// served returns the version in which the API server serves a kind. The version is empty if the API
// server does not serve the kind.
func served(mapper meta.RESTMapper, kind providers.Kind) (schema.GroupVersionKind, error) {
	for _, version := range kind.Versions { // Versions are checked separately, because a mapper might not know that a later version was removed.
		gvk := schema.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Kind}
		_, err := mapper.RESTMapping(gvk.GroupKind(), version)
		if err == nil {
			return gvk, nil
		}
		if !meta.IsNoMatchError(err) {
			return schema.GroupVersionKind{}, fmt.Errorf("discover %s of %s/%s: %w", kind.Kind, kind.Group, version, err)
		}
	}
	if kind.Previous != nil {
		return served(mapper, *kind.Previous)
	}
	return schema.GroupVersionKind{}, nil
}

func newObject(s *runtime.Scheme, gvk schema.GroupVersionKind) (client.Object, error) {
	o, err := s.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", gvk, err)
	}
	return o.(client.Object), nil
}

// newList returns an empty list of a kind.
func newList(s *runtime.Scheme, gvk schema.GroupVersionKind) (client.ObjectList, error) {
	gvk.Kind += "List"
	o, err := s.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", gvk, err)
	}
	return o.(client.ObjectList), nil
}

// kinds tracks which of the providers' kinds the API server serves, and starts a watch for each.
// While a policy needs a kind that is missing or cannot be listed, kinds checks repeatedly whether
// the kind is available, so that no restart is needed. These checks do not delay policies that do not
// need the kind, because no lock is held during a request to the API server.
type kinds struct {
	mapper meta.RESTMapper
	now    func() time.Time
	// every is the time after which a policy that needs a missing kind is reconciled again.
	every time.Duration
	// watch starts a watch for a kind. written reports whether the controller writes the kind or only
	// reads it. If watch fails, the kind is not watched.
	watch func(gvk schema.GroupVersionKind, written bool) error
	// channel reports whether the definition of a kind is from the experimental channel of the Gateway API.
	channel func(gvk schema.GroupVersionKind) (bool, error)

	mu   sync.Mutex
	seen map[string]seenKind
	// unread contains, by kind, the error that explains why a kind that the API server seems to
	// serve is not watched.
	unread map[string]error
	next   map[string]time.Time
}

// seenKind is a kind that the API server serves.
type seenKind struct {
	// name is the name of the kind in the providers' tables.
	name string
	gvk  schema.GroupVersionKind
	// written reports whether the controller writes objects of the kind.
	written bool
	providers.Served
}

// discover checks the kinds that are not known yet. Each kind is checked at most once
// per k.every/2, regardless of whether it was missing or could not be listed. A kind that another
// goroutine is checking is skipped.
func (k *kinds) discover(needed []providers.Kind) {
	for _, kind := range needed {
		if k.due(kind) {
			found, err := k.find(kind)
			k.note(kind, found, err)
		}
	}
}

// due reports whether it is time to check a kind.
func (k *kinds) due(kind providers.Kind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.seen[kind.Kind]; ok || k.now().Before(k.next[kind.Kind]) {
		return false
	}
	if k.next == nil {
		k.seen, k.unread, k.next = map[string]seenKind{}, map[string]error{}, map[string]time.Time{}
	}
	k.next[kind.Kind] = k.now().Add(k.every / 2)
	return true
}

// note records the result of a check.
func (k *kinds) note(kind providers.Kind, found *seenKind, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.unread, kind.Kind)
	switch {
	case err != nil:
		k.unread[kind.Kind] = err
		k.next[kind.Kind] = k.now().Add(k.every / 2) // The check itself may have taken a long time.
	case found != nil:
		k.seen[kind.Kind] = *found
	}
}

// find finds a kind and starts its watch. It returns nil if the API server does not serve the kind.
func (k *kinds) find(kind providers.Kind) (*seenKind, error) {
	gvk, err := served(k.mapper, kind)
	if err != nil || gvk.Version == "" {
		return nil, err
	}
	written := traffic.Written(kind.Kind)
	experimental, err := k.channel(gvk)
	if err == nil {
		err = k.watch(gvk, written)
	}
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, nil // The kind was deleted, but the mapper still contains it.
	case err != nil:
		return nil, err
	}
	how := providers.Served{Version: gvk.Version, Experimental: experimental}
	if gvk.Kind != kind.Kind {
		how.Group, how.Kind = gvk.Group, gvk.Kind
	}
	return &seenKind{kind.Kind, gvk, written, how}, nil
}

// problem returns the problem with the first kind that cannot be read. It returns nil if all kinds can be read.
func (k *kinds) problem(rests []providers.Kind) *providers.Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kind := range rests {
		if err := k.unread[kind.Kind]; err != nil {
			return &providers.Problem{Reason: reasonMissing(kind.Group), Message: fmt.Sprintf(
				"objects of kind %s (%s) cannot be read: %v: allow the manager to list and watch them, or fix the cause of this error; existing routes remain unchanged until then", kind.Kind, kind.Group, err)}
		}
	}
	return nil
}

// reasonMissing returns the reason that reports a missing kind of an API group.
func reasonMissing(group string) string {
	if group == gatewayv1.GroupName {
		return providers.ReasonAPIMissing
	}
	return providers.ReasonProviderAPIMissing
}

// lacks reports whether at least one of the kinds is not known yet.
func (k *kinds) lacks(needed []providers.Kind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(needed, func(kind providers.Kind) bool { _, ok := k.seen[kind.Kind]; return !ok })
}

// knows reports whether the API server serves a kind.
func (k *kinds) knows(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.seen[name]
	return ok
}

// lose removes a kind by its Go type, such as "*v1.HTTPRoute", after stopping the watch for the kind. It returns
// an object of the kind, or nil if the kind is not known. The next reconcile that needs the kind checks it again.
func (k *kinds) lose(scheme *runtime.Scheme, goType string, stop func(client.Object)) client.Object {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, kind := range k.seen {
		if o, err := newObject(scheme, kind.gvk); err == nil && fmt.Sprintf("%T", o) == goType {
			stop(o)
			delete(k.seen, name)
			delete(k.next, name)
			return o
		}
	}
	return nil
}

// known returns the kinds that the API server serves, sorted by name.
func (k *kinds) known() []seenKind {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]seenKind, 0, len(k.seen))
	for _, name := range providers.Sorted(k.seen) {
		out = append(out, k.seen[name])
	}
	return out
}
