package microservice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/compact"
	"github.com/heighliner/heighliner/internal/status"
)

// Reasons for configuration errors.
const (
	reasonConfigurationMissing = "ConfigurationMissing"
	reasonSecretsForbidden     = status.ReasonSecretsForbidden
)

const (
	// requeueSecrets is the interval at which Secrets that are part of a release are read. Secrets are read
	// one by one, and are neither watched nor kept in memory.
	requeueSecrets = time.Minute
	// unclaimed is how long a copy may exist without its release. An older copy without a release was created
	// by a reconcile that ended before it created the release.
	unclaimed = 10 * time.Minute
)

// CacheByObject configures a manager's cache for this controller. The cache contains a hash of each
// ConfigMap instead of its content. The cache also converts the status of Microservices, for all readers of the
// cache, to the fields of this version of Heighliner, regardless of the version that wrote the status.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}:      {Transform: compact.Trimmed(resources.TrimConfigMap)},
		&v1alpha1.Microservice{}: {Transform: compact.Trimmed(func(ms *v1alpha1.Microservice) { convertStatus(&ms.Status) })},
	}
}

// observeConfiguration reads the hashes of the configuration that is part of a release. An object that is
// missing and not optional, or that the manager is not permitted to read, is a problem and not an error: no
// new release starts, but existing releases continue.
func (r *Reconciler) observeConfiguration(ctx context.Context, o *observed) (usable bool, err error) {
	o.contents = resources.Contents{}
	var missing []string
	usable = true
	for s, optional := range resources.Tracked(o.ms) {
		if s.Kind == resources.KindSecret {
			o.requeueIn(requeueSecrets)
			o.secrets = true
		}
		obj, err := r.source(ctx, o.ms.Namespace, s, false)
		switch {
		case apierrors.IsForbidden(err):
			o.problem, usable = forbidden(o.ms.Namespace, err), false
		case err != nil:
			return false, fmt.Errorf("get %s: %w", s, err)
		case obj == nil && optional:
			o.contents[s] = ""
		case obj == nil:
			missing = append(missing, s.String())
		case tracks(obj):
			o.contents[s] = hashOf(obj)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		usable = false
		o.problem = status.NewTerminal(reasonConfigurationMissing,
			fmt.Errorf("spec.template refers to objects that do not exist in this namespace: %s; existing releases keep running, and no new release starts; create these objects, or mark the references as optional", strings.Join(missing, ", ")))
	}
	readable, err := r.observeCopies(ctx, o)
	return usable && readable, err
}

// source reads a ConfigMap or a Secret. It returns nil if the object does not exist. It reads a ConfigMap
// from the cache, which contains only the hash. If all is set, it reads the ConfigMap with its content from
// the API server. If the cache does not contain a ConfigMap, source reads it from the API server, because the
// cache may lag.
func (r *Reconciler) source(ctx context.Context, namespace string, s resources.Source, all bool) (client.Object, error) {
	var obj client.Object = &corev1.ConfigMap{}
	readers := []client.Reader{r.Client, r.live}
	if s.Kind == resources.KindSecret {
		obj, readers = &corev1.Secret{}, readers[1:]
	}
	if all {
		readers = readers[len(readers)-1:]
	}
	for _, reader := range readers {
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.Name}, obj)
		if !apierrors.IsNotFound(err) {
			return obj, err
		}
	}
	return nil, nil
}

// tracks reports whether an object may be part of a release.
func tracks(obj client.Object) bool {
	secret, ok := obj.(*corev1.Secret)
	return !ok || resources.Tracks(secret.Type)
}

func hashOf(obj client.Object) string {
	if secret, ok := obj.(*corev1.Secret); ok {
		return resources.HashOfSecret(secret)
	}
	return resources.HashOfConfigMap(obj.(*corev1.ConfigMap))
}

// forbidden returns the error for missing permission to read or create Secrets.
func forbidden(namespace string, err error) *status.Error {
	problem := status.NewTerminal(reasonSecretsForbidden,
		fmt.Errorf("spec.configuration.track: All requires the permissions that the kustomize component config/components/secrets grants in namespace %q: %w", namespace, err))
	problem.After = requeueSecrets
	return problem
}
