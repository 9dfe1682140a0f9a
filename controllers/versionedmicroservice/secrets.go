package versionedmicroservice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/status"
)

// secretReader reads Secrets one at a time from the API server, and does not cache them.
type secretReader struct{ live client.Reader }

// Keys in the Secrets to which hooks refer.
const (
	keySign = "key"
	keyCA   = "ca.crt"
)

// Secret returns the data of a Secret.
func (s secretReader) Secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	var secret corev1.Secret
	err := s.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("Secret %q not found in this namespace: create it, or correct the name", name)
	}
	if apierrors.IsForbidden(err) {
		return nil, status.SecretForbidden(namespace, name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	return secret.Data, nil
}

// hook reads a hook's credentials.
func (s secretReader) hook(ctx context.Context, namespace string, h *v1alpha1.Hook) (hook.Credentials, error) {
	key, err := s.value(ctx, namespace, "secretRef", h.SecretRef, keySign)
	if err != nil {
		return hook.Credentials{}, err
	}
	ca, err := s.value(ctx, namespace, "caSecretRef", h.CASecretRef, keyCA)
	return hook.Credentials{Key: key, CA: ca}, err
}

func (s secretReader) value(ctx context.Context, namespace, field string, ref *v1alpha1.Reference, key string) ([]byte, error) {
	if ref == nil {
		return nil, nil
	}
	data, err := s.Secret(ctx, namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("spec.updateStrategy.canary.hooks[].%s: %w", field, err)
	}
	if len(data[key]) == 0 {
		return nil, fmt.Errorf("spec.updateStrategy.canary.hooks[].%s: Secret %q does not have the key %q: add it", field, ref.Name, key)
	}
	return data[key], nil
}
