package networkpolicy

import (
	"context"
	"fmt"
	"maps"
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

	"github.com/heighliner/heighliner/internal/allowedhosts"
)

// domainList reads the list of domains, and caches its parsed form.
type domainList struct {
	// namespace is the namespace of the manager.
	namespace string
	// cache contains only the list. It is separate from the manager's cache, which might lack the
	// manager's namespace or the content of ConfigMaps.
	cache cache.Cache
	// age is how often the labels of a namespace are read again, because namespaces are not watched.
	age time.Duration

	mu      sync.Mutex
	uid     types.UID
	version string
	rules   allowedhosts.Rules
	unread  error
	// labels contains the labels of the namespaces whose policies depend on them, keyed by namespace name.
	labels map[string]map[string]string
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
	return &domainList{namespace: namespace, cache: c, age: age, labels: map[string]map[string]string{}}, mgr.Add(c)
}

// read returns the rules. If the list cannot be used, unread is the cause. found is false if there
// is no list.
func (l *domainList) read(ctx context.Context) (rules allowedhosts.Rules, unread error, found bool, err error) {
	key := client.ObjectKey{Namespace: l.namespace, Name: allowedhosts.ConfigMapName}
	var list corev1.ConfigMap
	if err := l.cache.Get(ctx, key, &list, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.uid, l.rules, l.unread = "", allowedhosts.Rules{}, nil
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

// labelsOf returns the labels of a namespace. Before they are known, they are read from the API server.
func (l *domainList) labelsOf(ctx context.Context, live client.Reader, namespace string) (map[string]string, error) {
	l.mu.Lock()
	labels, known := l.labels[namespace]
	l.mu.Unlock()
	if known {
		return labels, nil
	}
	var ns corev1.Namespace
	if err := live.Get(ctx, client.ObjectKey{Name: namespace}, &ns); err != nil {
		return nil, fmt.Errorf("get Namespace %q: %w", namespace, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if labels, known := l.labels[namespace]; known {
		return labels, nil // All policies use the same labels, so poll notices if the labels of any policy are outdated.
	}
	l.labels[namespace] = ns.Labels
	return ns.Labels, nil
}

// poll reads the labels of all known namespaces again, one after another, until ctx is done. No labels become older than age, unless all
// reads take longer than half of it. It calls changed for each namespace with other labels, so that only the policies of these namespaces are
// reconciled. It forgets the namespaces for which used returns false.
func (l *domainList) poll(ctx context.Context, live client.Reader, used func(namespace string) bool, changed func(namespace string)) {
	for {
		l.mu.Lock()
		if !l.rules.ByLabels() {
			clear(l.labels)
		}
		namespaces := slices.Sorted(maps.Keys(l.labels))
		l.mu.Unlock()
		// Labels that are read for the first time after this moment are read again in the next round.
		start, pause := time.Now(), l.age/2/time.Duration(len(namespaces)+1)
		for i, namespace := range append(namespaces, "") {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(start.Add(time.Duration(i+1) * pause))):
			}
			switch {
			case namespace == "":
			case !used(namespace):
				l.mu.Lock()
				delete(l.labels, namespace)
				l.mu.Unlock()
			case l.differs(ctx, live, namespace):
				changed(namespace)
			}
		}
	}
}

// differs reads the labels of a known namespace again, and reports whether they are different. If the namespace no longer exists or
// must not be read, the labels are forgotten, so that the next reconcile reports the error. After other errors, the known labels
// remain valid.
func (l *domainList) differs(ctx context.Context, live client.Reader, namespace string) bool {
	var ns corev1.Namespace
	err := live.Get(ctx, client.ObjectKey{Name: namespace}, &ns)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		delete(l.labels, namespace)
		return true
	case err != nil:
		return false
	}
	before := l.labels[namespace]
	l.labels[namespace] = ns.Labels
	return !maps.Equal(before, ns.Labels)
}
