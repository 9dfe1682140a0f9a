package networkpolicy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/domains"
)

// ownership is what the list of domains says of a policy's namespace. Nil: there is
// no list, and every host is allowed.
type ownership struct {
	// hosts that the list gives to the namespace.
	hosts domains.Hosts
	// unread is why nobody can judge by the list; nil: all is well.
	unread error
	// until is how long the labels count by which hosts were given; zero: the list
	// names no labels.
	until time.Time
}

// refuses says why a host that a domain became is not allowed; nil: it is, or nobody
// can say.
func (o *ownership) refuses(domain, host string) error {
	switch {
	case o == nil || o.unread != nil:
		return nil
	case templated(domain):
		return o.hosts.Rendered(host)
	}
	return o.hosts.Literal(host)
}

// judgeHosts turns down the hosts that the list of domains does not give to the
// namespace. By a list that cannot be read it lets in no new host, and takes none
// away that a route of the policy has.
func (d *decider) judgeHosts(rows []*row) {
	for _, r := range rows {
		if r.host == "" {
			continue
		}
		if err := d.owned.refuses(d.policy.Spec.Domains[r.entry].Domain, r.host); err != nil {
			r.reason, r.message, r.kept = reasonDomainNotAllowed, fmt.Sprintf("%s: %v", r.source(), err), false
		}
		if d.owned != nil && d.owned.unread != nil && r.reason == "" {
			r.reason, r.kept = reasonDomainsUnreadable, d.carries(r.host)
			r.message = fmt.Sprintf("%s: nobody can say whether %q is allowed in namespace %q: no host is added, and what is served stays, until an administrator mends the list: %v",
				r.source(), r.host, d.policy.Namespace, d.owned.unread)
		}
	}
}

// carries says whether any live route of the policy has a host.
func (d *decider) carries(host string) bool {
	for _, route := range d.live {
		if slices.Contains(route.Hostnames, host) {
			return true
		}
	}
	return false
}

// forbidden says whether a live route has a host that no domain of the namespace may
// become. Such a route is never kept for the sake of its other hosts.
func (f *facts) forbidden(route *providers.Live) bool {
	return !route.User && slices.ContainsFunc(route.Hostnames, func(host string) bool { return f.owned.refuses(host, host) != nil })
}

// withdrawn is the report of domains when no Microservice says what they become:
// those whose routes go hold their hosts no longer.
func (f *facts) withdrawn(reported []v1alpha1.DomainStatus) []v1alpha1.DomainStatus {
	for i := range reported {
		d := &reported[i]
		if err := f.owned.refuses(d.Domain, d.Domain); err != nil && d.URL != "" {
			d.Programmed, d.Backends = false, nil
			d.Reason, d.Message = reasonDomainNotAllowed, err.Error()
		}
	}
	return reported
}

// domainList reads the list of domains, and remembers what it was read to.
type domainList struct {
	// namespace of the manager.
	namespace string
	// cache holds nothing but the list: that of the manager may lack its namespace,
	// and the content of ConfigMaps.
	cache cache.Cache
	// age is how long labels of a namespace count: no watch tells of them.
	age time.Duration

	mu      sync.Mutex
	uid     types.UID
	version string
	rules   domains.Rules
	unread  error
	// labels of namespaces, for as long as they count.
	labels map[string]seenLabels
}

type seenLabels struct {
	labels map[string]string
	until  time.Time
}

// newDomainList adds the cache of the list to a manager.
func newDomainList(mgr ctrl.Manager, namespace string, age time.Duration) (*domainList, error) {
	only := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", domains.ConfigMapName)}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{namespace: only}}},
	})
	if err != nil {
		return nil, fmt.Errorf("make cache of ConfigMap %s/%s: %w", namespace, domains.ConfigMapName, err)
	}
	return &domainList{namespace: namespace, cache: c, age: age, labels: map[string]seenLabels{}}, mgr.Add(c)
}

// read gives the rules, and the error for which they cannot be used. Without a list
// found is false.
func (l *domainList) read(ctx context.Context) (rules domains.Rules, unread error, found bool, err error) {
	key := client.ObjectKey{Namespace: l.namespace, Name: domains.ConfigMapName}
	var list corev1.ConfigMap
	if err := l.cache.Get(ctx, key, &list); err != nil {
		if apierrors.IsNotFound(err) {
			return rules, nil, false, nil
		}
		return rules, nil, false, fmt.Errorf("get ConfigMap %q: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uid != list.UID || l.version != list.ResourceVersion {
		l.uid, l.version = list.UID, list.ResourceVersion
		if l.rules, l.unread = domains.Read(&list); l.unread != nil {
			l.unread = fmt.Errorf("ConfigMap %q: %w", key, l.unread)
		}
	}
	return l.rules, l.unread, true, nil
}

// labelsOf gives the labels of a namespace, and until when they count.
func (l *domainList) labelsOf(ctx context.Context, live client.Reader, namespace string, now time.Time) (seenLabels, error) {
	l.mu.Lock()
	seen, ok := l.labels[namespace]
	l.mu.Unlock()
	if ok && now.Before(seen.until) {
		return seen, nil
	}
	var ns corev1.Namespace
	if err := live.Get(ctx, client.ObjectKey{Name: namespace}, &ns); err != nil {
		return seen, fmt.Errorf("get Namespace %q: %w", namespace, err)
	}
	seen = seenLabels{ns.Labels, now.Add(l.age)}
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, old := range l.labels {
		if !now.Before(old.until) {
			delete(l.labels, other)
		}
	}
	l.labels[namespace] = seen
	return seen, nil
}

// readOwnership reads what the list of domains gives to the policy's namespace.
func (r *Reconciler) readOwnership(ctx context.Context, f *facts) error {
	if r.list == nil || len(f.policy.Spec.Domains) == 0 && len(f.live) == 0 {
		return nil
	}
	rules, unread, found, err := r.list.read(ctx)
	if err != nil || !found {
		return err
	}
	f.owned = &ownership{unread: unread}
	var seen seenLabels
	if rules.ByLabels() {
		if seen, err = r.list.labelsOf(ctx, r.Live, f.policy.Namespace, f.now); err != nil {
			return err
		}
		f.owned.until = seen.until
	}
	f.owned.hosts = rules.For(f.policy.Namespace, seen.labels)
	return nil
}

// byList enqueues the policies that the list of domains is about.
func (r *Reconciler) byList(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.NetworkPolicyList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // Only a cache that is not started fails; its start enqueues everything.
	}
	var out []reconcile.Request
	for i := range list.Items {
		if p := &list.Items[i]; len(p.Spec.Domains)+len(p.Status.Domains) > 0 {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		}
	}
	return out
}
