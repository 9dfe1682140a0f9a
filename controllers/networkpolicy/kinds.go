package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
)

// AddToScheme adds the kinds that providers write and read to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(gatewayv1.Install(s), gatewayv1alpha2.Install(s), networkingv1.AddToScheme(s), gatewayapi.AddToScheme(s), apisix.AddToScheme(s), certmanager.AddToScheme(s))
}

// NewCache is cache.New, of what providers write only with the objects that bear label
// v1alpha1.LabelPolicy. That is so for the kinds that the API server has now; one that
// it learns later is held whole until the next start.
func NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	ours, err := labels.NewRequirement(v1alpha1.LabelPolicy, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select objects of policies: %w", err)
	}
	opts.ByObject = maps.Clone(opts.ByObject)
	for _, kind := range writtenKinds() {
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
	return cache.New(config, opts)
}

// served finds the version in which the API server serves a kind, or the former one;
// none: it is "".
func served(mapper meta.RESTMapper, kind providers.Kind) (schema.GroupVersionKind, error) {
	for _, version := range kind.Versions { // One by one: a mapper may not know that a later one is gone.
		gvk := schema.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Kind}
		_, err := mapper.RESTMapping(gvk.GroupKind(), version)
		if err == nil {
			return gvk, nil
		}
		if !meta.IsNoMatchError(err) {
			return schema.GroupVersionKind{}, fmt.Errorf("look for %s of %s/%s: %w", kind.Kind, kind.Group, version, err)
		}
	}
	if kind.Former != nil {
		return served(mapper, *kind.Former)
	}
	return schema.GroupVersionKind{}, nil
}

func newObject(s *runtime.Scheme, gvk schema.GroupVersionKind) (client.Object, error) {
	o, err := s.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", gvk, err)
	}
	return o.(client.Object), nil
}

// newList makes an empty list of a kind.
func newList(s *runtime.Scheme, gvk schema.GroupVersionKind) (client.ObjectList, error) {
	gvk.Kind += "List"
	o, err := s.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", gvk, err)
	}
	return o.(client.ObjectList), nil
}

// kinds knows which kinds of the providers the API server has, and starts a watch of
// each when it has it. A kind that is missing, or that cannot be listed, is looked for
// again while a policy needs it, so that nothing waits for a restart. It holds up nobody
// who does not need it: no lock is held while the API server is asked.
type kinds struct {
	mapper meta.RESTMapper
	// every is when a policy that needs a kind which is missing is looked at again.
	every time.Duration
	// watch of a kind, which is written or only read. What fails leaves nothing behind.
	watch func(gvk schema.GroupVersionKind, written bool) error
	// channel reads whether a kind's definition is experimental.
	channel func(gvk schema.GroupVersionKind) (bool, error)

	mu   sync.Mutex
	seen map[string]seenKind
	// unread is why a kind that the API server has, as far as is known, is not watched.
	unread map[string]error
	next   map[string]time.Time
}

// seenKind is a kind that the API server has.
type seenKind struct {
	// name of the kind in the tables of the providers.
	name string
	gvk  schema.GroupVersionKind
	providers.Served
}

// allKinds are those of all providers, and Certificates.
func allKinds() []providers.Kind {
	var out []providers.Kind
	for _, p := range known {
		out = slices.Concat(out, p.Reads(), p.Writes())
	}
	return append(out, certmanager.Kind)
}

// writtenKinds are those of which objects are written, Services apart.
func writtenKinds() []providers.Kind {
	var out []providers.Kind
	for _, p := range known {
		out = append(out, p.Writes()...)
	}
	return append(out, certmanager.Kind)
}

// written says whether objects of a kind are written.
func written(kind string) bool {
	return slices.ContainsFunc(writtenKinds(), func(k providers.Kind) bool { return k.Kind == kind })
}

// writesKind says whether one provider writes objects of a kind.
func writesKind(p providers.Provider, kind string) bool {
	return slices.ContainsFunc(p.Writes(), func(k providers.Kind) bool { return k.Kind == kind })
}

// ofAnother says whether a kind is one that other providers than the policy's write.
func ofAnother(policy *v1alpha1.NetworkPolicy, kind string) bool {
	own := provider(policy)
	return !writesKind(own, kind) && slices.ContainsFunc(known, func(p providers.Provider) bool { return writesKind(p, kind) })
}

// needs are the kinds without which a policy cannot have what it asks for.
func needs(p *v1alpha1.NetworkPolicy) []providers.Kind {
	out := provider(p).Needs(p)
	if certmanager.Needed(p) {
		out = append(out, certmanager.Kind)
	}
	return out
}

// rests are the kinds of the objects that a policy has or needs: without a look at them
// nobody knows what leads to its releases.
func rests(p *v1alpha1.NetworkPolicy) []providers.Kind {
	out := needs(p)
	from := []string{p.Status.Provider}
	if s := p.Status.ProviderSwitch; s != nil {
		from = append(from, s.From...)
	}
	for _, former := range known {
		if former != provider(p) && slices.Contains(from, former.Name()) {
			out = append(out, former.Writes()...)
		}
	}
	for _, kind := range writtenKinds() {
		if slices.ContainsFunc(p.Status.Routes, func(s v1alpha1.RouteStatus) bool { return s.Kind == kind.Kind }) {
			out = append(out, kind)
		}
	}
	return out
}

// look for those of the kinds that are not known yet, each at most once in half of
// every, whether it was missing or could not be listed. Where somebody is at it, the
// kind is what it was before.
func (k *kinds) look(needed []providers.Kind) {
	for _, kind := range needed {
		if k.turn(kind) {
			found, err := k.find(kind)
			k.note(kind, found, err)
		}
	}
}

// turn says whether it is time to look for a kind.
func (k *kinds) turn(kind providers.Kind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.seen[kind.Kind]; ok || time.Now().Before(k.next[kind.Kind]) {
		return false
	}
	if k.next == nil {
		k.seen, k.unread, k.next = map[string]seenKind{}, map[string]error{}, map[string]time.Time{}
	}
	k.next[kind.Kind] = time.Now().Add(k.every / 2)
	return true
}

// note what became of a look.
func (k *kinds) note(kind providers.Kind, found *seenKind, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.unread, kind.Kind)
	switch {
	case err != nil:
		k.unread[kind.Kind] = err
		k.next[kind.Kind] = time.Now().Add(k.every / 2) // The look itself may have taken long.
	case found != nil:
		k.seen[kind.Kind] = *found
	}
}

// find a kind, and start its watch; nil: the API server does not have it.
func (k *kinds) find(kind providers.Kind) (*seenKind, error) {
	gvk, err := served(k.mapper, kind)
	if err != nil || gvk.Version == "" {
		return nil, err
	}
	experimental, err := k.channel(gvk)
	if err == nil {
		err = k.watch(gvk, written(kind.Kind))
	}
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, nil // Taken away: the mapper remembers it.
	case err != nil:
		return nil, err
	}
	how := providers.Served{Version: gvk.Version, Experimental: experimental}
	if gvk.Kind != kind.Kind {
		how.Group, how.Kind = gvk.Group, gvk.Kind
	}
	return &seenKind{kind.Kind, gvk, how}, nil
}

// problem names the first of the kinds that cannot be read; nil: none.
func (k *kinds) problem(rests []providers.Kind) *providers.Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kind := range rests {
		if err := k.unread[kind.Kind]; err != nil {
			return &providers.Problem{Reason: reasonMissing(kind.Group), Message: fmt.Sprintf(
				"%ss of %s cannot be read: %v: give the manager the right to list and watch them, or mend what the message names; what is live stays as it is until then", kind.Kind, kind.Group, err)}
		}
	}
	return nil
}

// reasonMissing is the reason where a kind of a group is missing.
func reasonMissing(group string) string {
	if group == gatewayv1.GroupName {
		return providers.ReasonAPIMissing
	}
	return providers.ReasonProviderAPIMissing
}

// lacks says whether one of the kinds is not known yet.
func (k *kinds) lacks(needed []providers.Kind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(needed, func(kind providers.Kind) bool { _, ok := k.seen[kind.Kind]; return !ok })
}

// known are the kinds that the API server has, in order of their names.
func (k *kinds) known() []seenKind {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]seenKind, 0, len(k.seen))
	for _, name := range sortedKeys(k.seen) {
		out = append(out, k.seen[name])
	}
	return out
}

// channel of a kind's definition, as its project writes it.
func (r *Reconciler) channel(gvk schema.GroupVersionKind) (bool, error) {
	if gvk.Group != gatewayv1.GroupName {
		return false, nil // Only the Gateway API has channels.
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	name := strings.ToLower(gvk.Kind) + "s." + gvk.Group
	ctx, cancel := context.WithTimeout(context.Background(), lookAgain/2)
	defer cancel()
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, crd)
	if apierrors.IsForbidden(err) {
		return false, nil // A manager that may see namespaces only does without.
	}
	if err != nil {
		return false, fmt.Errorf("get CustomResourceDefinition %q: %w", name, err)
	}
	return crd.Annotations["gateway.networking.k8s.io/channel"] == "experimental", nil
}

// readRoutes reads the objects that carry routes, whichever provider made them, and
// what the policy's own provider looks at.
func (r *Reconciler) readRoutes(ctx context.Context, f *facts) error {
	f.live, f.written = map[string]*providers.Live{}, map[string]time.Time{}
	scene := providers.Scene{
		Policy: f.policy, Microservice: microserviceName(f.policy),
		Served: map[string]providers.Served{}, Referents: map[providers.Reference]client.Object{},
	}
	seen := r.kinds.known()
	for _, kind := range seen {
		scene.Served[kind.name] = kind.Served
		if !written(kind.name) {
			continue
		}
		list, err := newList(r.Client.Scheme(), kind.gvk)
		if err != nil {
			return err
		}
		if err := r.Client.List(ctx, list, ownObjects(f)...); err != nil {
			return fmt.Errorf("list %ss: %w", kind.gvk.Kind, err)
		}
		if meta.LenList(list) > 0 && ofAnother(f.policy, kind.name) {
			// Of a kind that was taken away meanwhile the cache remembers what there was.
			if err := r.Live.List(ctx, list, labelled(f)...); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return fmt.Errorf("list %ss: %w", kind.gvk.Kind, err)
			}
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			if o := o.(client.Object); metav1.IsControlledBy(o, f.policy) {
				o.GetObjectKind().SetGroupVersionKind(kind.gvk) // A typed list leaves it out.
				scene.Objects = append(scene.Objects, o)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if err := r.readReferents(ctx, f, &scene, seen); err != nil {
		return err
	}
	if err := r.readUsers(ctx, f, &scene, seen); err != nil {
		return err
	}
	if err := r.readProbed(ctx, f, &scene); err != nil {
		return err
	}
	f.see(scene)
	for name := range f.live {
		f.written[name] = r.written.last(client.ObjectKey{Namespace: f.policy.Namespace, Name: name})
	}
	return nil
}

func (r *Reconciler) readReferents(ctx context.Context, f *facts, scene *providers.Scene, seen []seenKind) error {
	for _, ref := range provider(f.policy).Refers(f.policy) {
		if err := r.readReferent(ctx, ref, scene, seen); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) readReferent(ctx context.Context, ref providers.Reference, scene *providers.Scene, seen []seenKind) error {
	i := slices.IndexFunc(seen, func(k seenKind) bool { return k.name == ref.Kind })
	if i < 0 {
		return nil
	}
	o, err := newObject(r.Client.Scheme(), seen[i].gvk)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	switch err := r.Client.Get(ctx, key, o); {
	case err == nil:
		scene.Referents[ref] = o
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get %s %q: %w", ref.Kind, key, err)
	}
	return nil
}

// see gives the facts the views of a scene: that of the policy's own provider, and the
// routes that others have left.
func (f *facts) see(scene providers.Scene) {
	f.scene, f.live, f.views, f.rest = scene, map[string]*providers.Live{}, nil, nil
	own := provider(f.policy)
	ofRoutes := map[client.Object]bool{}
	for _, p := range known {
		view := p.See(scene)
		f.views = append(f.views, view)
		if p == own {
			f.view = view
		}
		for name, live := range view.Live() {
			live.Provider = p.Name()
			f.live[name] = live
			for _, o := range live.Objects {
				ofRoutes[o] = true
			}
		}
	}
	for _, o := range scene.Objects {
		if !ofRoutes[o] {
			f.rest = append(f.rest, o)
		}
	}
}

// referenceKey is a reference in one word, for an index.
func referenceKey(ref providers.Reference) string {
	return ref.Kind + "/" + ref.Namespace + "/" + ref.Name
}
