package microservice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/status"
)

// requeueMissingSecret is the interval at which the controller reads a Secret that a fork's release is
// waiting for. Secrets are not watched.
const requeueMissingSecret = time.Minute

// confined returns a copy of the Microservice that is used to build releases from forks. Its template does not refer to
// Secrets that contain a credential for the API server. The types of Secrets are read from the API server. A
// Secret that cannot be read may contain a credential, so no release is built. A Secret that does not exist
// yet may later contain a credential too. If the Secret is optional, the release is built without the
// Secret. Otherwise, the release waits for the Secret, as its pods would.
func (r *Reconciler) confined(ctx context.Context, ms *v1alpha1.Microservice) (*v1alpha1.Microservice, error) {
	credentials := map[string]bool{}
	needed := resources.Secrets(&ms.Spec.Template.Spec)
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		var secret corev1.Secret
		err := r.live.Get(ctx, client.ObjectKey{Namespace: ms.Namespace, Name: name}, &secret)
		if apierrors.IsNotFound(err) {
			if needed[name] {
				return nil, status.NewWaiting(reasonConfigurationMissing, requeueMissingSecret, fmt.Errorf(
					"Secret %q does not exist, and releases from forks must not use credentials for the API server: create it, so that its type is known, or mark it optional", name))
			}
			credentials[name] = true
			continue
		}
		if apierrors.IsForbidden(err) {
			err = status.SecretForbidden(ms.Namespace, name, err)
		}
		if err != nil {
			return nil, fmt.Errorf("read Secret %q to check its type (releases from forks must not use credentials for the API server): %w", name, err)
		}
		credentials[name] = secret.Type == corev1.SecretTypeServiceAccountToken || secret.Type == corev1.SecretTypeBootstrapToken
	}
	out := ms.DeepCopy()
	resources.WithoutSecrets(&out.Spec.Template.Spec, func(name string) bool { return credentials[name] })
	return out, nil
}
