package notification

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/notify"
	"github.com/heighliner/heighliner/internal/status"
)

// Keys in the Secrets to which receivers refer.
const (
	keyURL   = "url"
	keyToken = "token"
	keySign  = "key"
	keyCA    = "ca.crt"
)

// secretReader reads Secrets one at a time from the API server, and does not cache them.
type secretReader struct{ live client.Reader }

// credentials returns the credentials for one of a policy's receivers, from Secrets in the policy's
// namespace.
func (s secretReader) credentials(ctx context.Context, namespace string, r *v1alpha1.NotificationReceiver) (c notify.Credentials, err error) {
	if r.Type == v1alpha1.ReceiverGitHubStatus {
		return s.gitHub(ctx, namespace, r)
	}
	if r.SecretRef != nil {
		data, err := s.data(ctx, namespace, "secretRef", r.SecretRef.Name)
		if err != nil {
			return c, err
		}
		c.URL, c.Token = strings.TrimSpace(string(data[keyURL])), strings.TrimSpace(string(data[keyToken]))
		if len(data[keySign]) > 0 {
			c.Key = data[keySign]
		}
		if bot := r.Type == v1alpha1.ReceiverSlack && c.Token != ""; c.URL == "" && r.URL == "" && !bot {
			return c, fmt.Errorf("secretRef: Secret %q does not have the key %q: add it, or set url", r.SecretRef.Name, keyURL)
		}
	}
	if r.CASecretRef != nil {
		data, err := s.data(ctx, namespace, "caSecretRef", r.CASecretRef.Name)
		if err != nil {
			return c, err
		}
		if c.CA = data[keyCA]; len(c.CA) == 0 {
			return c, fmt.Errorf("caSecretRef: Secret %q does not have the key %q: add it", r.CASecretRef.Name, keyCA)
		}
	}
	return c, nil
}

// gitHub returns the credentials of the GitHubRepository to which a receiver refers. namespace is the
// policy's namespace.
func (s secretReader) gitHub(ctx context.Context, namespace string, r *v1alpha1.NotificationReceiver) (c notify.Credentials, err error) {
	if r.RepositoryRef == nil {
		return c, errors.New("repositoryRef: set it to the name of a GitHubRepository")
	}
	name := r.RepositoryRef.Name
	var repository v1alpha1.GitHubRepository
	err = s.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &repository)
	switch {
	case apierrors.IsNotFound(err):
		return c, fmt.Errorf("repositoryRef: GitHubRepository %q not found in this namespace: create it, or correct the name", name)
	case err != nil:
		return c, fmt.Errorf("repositoryRef: get GitHubRepository %q: %w", name, err)
	case repository.Spec.Suspend:
		return c, fmt.Errorf("repositoryRef: GitHubRepository %q is suspended: remove its spec.suspend", name)
	case repository.Spec.CredentialsSecretRef == nil:
		return c, fmt.Errorf("repositoryRef: GitHubRepository %q has no credentials: set its spec.credentialsSecretRef to the name of a Secret", name)
	}
	data, err := s.data(ctx, namespace, fmt.Sprintf("spec.credentialsSecretRef of GitHubRepository %q", name), repository.Spec.CredentialsSecretRef.Name)
	if err != nil {
		return c, err
	}
	c.URL = cmp.Or(repository.Spec.BaseURL, github.PublicURL)
	c.Repository = github.Repo{Owner: repository.Spec.Owner, Name: repository.Spec.Repo}
	if owner, repo, found := strings.Cut(repository.Status.Repository, "/"); found && repository.Status.ObservedGeneration == repository.Generation {
		c.Repository = github.Repo{Owner: owner, Name: repo} // The repository may have been renamed.
	}
	if c.GitHub, err = github.ReadCredential(data, c.Repository.Owner); err != nil {
		return c, fmt.Errorf("spec.credentialsSecretRef of GitHubRepository %q: %w", name, err)
	}
	return c, nil
}

func (s secretReader) data(ctx context.Context, namespace, field, name string) (map[string][]byte, error) {
	var secret corev1.Secret
	err := s.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s: Secret %q not found in this namespace: create it, or correct the name", field, name)
	case apierrors.IsForbidden(err):
		return nil, status.SecretForbidden(namespace, name, err)
	case err != nil:
		return nil, fmt.Errorf("%s: get Secret %q: %w", field, name, err)
	}
	return secret.Data, nil
}
