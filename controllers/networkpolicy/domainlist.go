package networkpolicy

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/internal/allowedhosts"
)

// domainList reads the list of domains, and caches its parsed form.
type domainList struct {
	// namespace is the namespace of the manager.
	namespace string
	// cache contains only the list. It is separate from the manager's cache, which might lack the
	// manager's namespace or the content of ConfigMaps.
	cache cache.Cache
	// age is how long the labels of a namespace remain valid after they are read. They expire
	// because namespaces are not watched.
	age time.Duration

	mu      sync.Mutex
	uid     types.UID
	version string
	rules   allowedhosts.Rules
	unread  error
	// labels contains the labels of namespaces, keyed by namespace name. Expired entries are
	// removed when the labels of a namespace are read.
	labels map[string]seenLabels
}

type seenLabels struct {
	labels map[string]string
	until  time.Time
}

// newDomainList returns a domainList, and adds its cache to a manager.
func newDomainList(mgr ctrl.Manager, namespace string, age time.Duration) (*domainList, error) {
	only := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", allowedhosts.ConfigMapName)}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{namespace: only}}},
	})
	if err != nil {
		return nil, fmt.Errorf("create cache of ConfigMap %s/%s: %w", namespace, allowedhosts.ConfigMapName, err)
	}
	return &domainList{namespace: namespace, cache: c, age: age, labels: map[string]seenLabels{}}, mgr.Add(c)
}

// read returns the rules. If the list cannot be used, unread is the cause. found is false if there
// is no list.
func (l *domainList) read(ctx context.Context) (rules allowedhosts.Rules, unread error, found bool, err error) {
	key := client.ObjectKey{Namespace: l.namespace, Name: allowedhosts.ConfigMapName}
	var list corev1.ConfigMap
	if err := l.cache.Get(ctx, key, &list, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return rules, nil, false, nil
		}
		return rules, nil, false, fmt.Errorf("get ConfigMap %q: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uid != list.UID || l.version != list.ResourceVersion {
		l.uid, l.version = list.UID, list.ResourceVersion
		if l.rules, l.unread = allowedhosts.Read(&list); l.unread != nil {
			l.unread = fmt.Errorf("ConfigMap %q: %w", key, l.unread)
		}
	}
	return l.rules, l.unread, true, nil
}

// labelsOf returns the labels of a namespace, and the time until which they are valid.
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
