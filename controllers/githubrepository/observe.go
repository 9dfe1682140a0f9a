package githubrepository

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/status"
)

// observed contains one GitHubRepository and the related objects in the cluster.
type observed struct {
	repository *v1alpha1.GitHubRepository
	query      query
	// offered contains the numbers of the pull requests that ImagePolicies offer.
	offered map[int64]bool
	// problem is an error that a user must fix, or nil.
	problem *status.Error
	// secretsRead reports whether the Secrets were read. They are read only before a poll.
	secretsRead bool
	// webhook is the problem with the webhook's Secret, or nil.
	webhook *status.Error
	// client is the client with the credentials of the repository.
	client *github.Client
}

// Default and minimum intervals between polls.
const (
	defaultInterval = time.Minute
	minInterval     = 5 * time.Second
)

// maxRequest is the maximum length of status.lastHandledRequest in the schema.
const maxRequest = 128

// observe reads the related objects from the cluster, except for the Secrets.
func (r *Reconciler) observe(ctx context.Context, repository *v1alpha1.GitHubRepository) (*observed, error) {
	spec := &repository.Spec
	o := &observed{repository: repository, offered: map[int64]bool{}, query: query{
		baseURL:   spec.BaseURL,
		repo:      github.Repo{Owner: spec.Owner, Name: spec.Repo},
		interval:  max(minInterval, spec.Interval.Std(defaultInterval)),
		requested: status.LineOf(repository.Annotations[v1alpha1.AnnotationRequestedAt], maxRequest),
	}}
	if spec.CredentialsSecretRef != nil {
		o.query.secret = spec.CredentialsSecretRef.Name
	}
	if spec.WebhookSecretRef != nil {
		o.query.webhook = spec.WebhookSecretRef.Name
	}
	if err := r.observeReaders(ctx, o); err != nil {
		return nil, err
	}
	return o, nil
}

// observeReaders finds the parts of the repository that ImagePolicies read, and the pull requests
// that they offer. ImagePolicies in namespaces that are not allowed to use the repository are
// ignored.
func (r *Reconciler) observeReaders(ctx context.Context, o *observed) error {
	var policies v1alpha1.ImagePolicyList
	if err := r.List(ctx, &policies, client.MatchingFields{index.ImagePoliciesByRepository.Field: client.ObjectKeyFromObject(o.repository).String()}); err != nil {
		return fmt.Errorf("list ImagePolicies: %w", err)
	}
	allowed := map[string]bool{}
	var names []string
	labels := map[string]bool{}
	for i := range policies.Items {
		p := &policies.Items[i]
		may, known := allowed[p.Namespace]
		if !known {
			var err error
			if may, err = r.allows(ctx, o, p.Namespace); err != nil {
				return err
			}
			allowed[p.Namespace] = may
		}
		if !may {
			continue
		}
		w := &o.query.wanted
		switch from := p.Spec.Source.GitHub; {
		case from.PullRequests != nil:
			w.pulls = true
			nameLabels(labels, from.PullRequests)
		case from.Releases != nil:
			w.releases = true
			if needsCommits(o.repository, p) {
				w.tags, w.commits = true, true
				names = append(names, nameOf(p))
			}
		case from.Tags != nil:
			w.tags = true
			names = append(names, nameOf(p))
		}
		for _, offered := range p.Status.Releases {
			o.offered[offered.PullRequest] = true
		}
	}
	slices.Sort(names)
	o.query.wanted.names = strings.Join(slices.Compact(names), separator)
	o.query.wanted.labels = strings.Join(slices.Sorted(maps.Keys(labels)), separator)
	return nil
}

// needsCommits reports whether the commits of releases are needed. GitHub lists these commits only with the tags.
func needsCommits(repository *v1alpha1.GitHubRepository, p *v1alpha1.ImagePolicy) bool {
	if f := repository.Spec.Feedback; f != nil && f.Deployments.Releases {
		return true
	}
	return p.Spec.Match != nil && slices.ContainsFunc(p.Spec.Match.Labels, func(l v1alpha1.LabelMatch) bool { return strings.Contains(l.Value, "{{.SHA}}") })
}

// nameOf returns the expression that selects tags by name, or "" if all tags are selected.
func nameOf(p *v1alpha1.ImagePolicy) string {
	if p.Spec.Match == nil || p.Spec.Match.Name == nil {
		return ""
	}
	return p.Spec.Match.Name.From
}

// nameLabels adds the labels that a selection of pull requests refers to, in lower case.
func nameLabels(labels map[string]bool, choice *v1alpha1.GitHubPullRequests) {
	var named []string
	if choice.Labels != nil {
		named = slices.Concat(choice.Labels.All, choice.Labels.Any, choice.Labels.None)
	}
	if choice.Forks != nil && choice.Forks.Label != "" {
		named = append(named, choice.Forks.Label)
	}
	for _, name := range named {
		labels[strings.ToLower(name)] = true
	}
}

// allows reports whether ImagePolicies in a namespace may use the repository. Namespace labels are read from
// the API server, and not from the cache.
func (r *Reconciler) allows(ctx context.Context, o *observed, namespace string) (bool, error) {
	var ns corev1.Namespace
	if o.repository.NeedsNamespaceLabels(namespace) {
		err := r.uncached.Get(ctx, client.ObjectKey{Name: namespace}, &ns)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("get namespace %q: %w", namespace, err)
		}
	}
	may, err := o.repository.AllowsNamespace(namespace, ns.Labels)
	if err != nil {
		o.addProblem(status.NewTerminal(v1alpha1.ReasonInvalidSpec, err))
	}
	return may, nil
}

// observeSecrets reads the Secrets. Each read is a request to the API server; therefore, the Secrets are
// read only before a poll. A missing Secret or key is a problem: there is no fallback to anonymous access.
func (r *Reconciler) observeSecrets(ctx context.Context, o *observed) error {
	o.secretsRead = true
	config := github.Config{BaseURL: o.repository.Spec.BaseURL}
	if ref := o.repository.Spec.CredentialsSecretRef; ref != nil {
		data, problem, err := r.secret(ctx, o, "spec.credentialsSecretRef.name", ref.Name)
		if err != nil {
			return err
		}
		o.addProblem(problem)
		if problem == nil {
			config.Credential, err = github.ReadCredential(data, o.query.repo.Owner)
			if err != nil {
				o.addProblem(status.NewTerminal("InvalidSecret", fmt.Errorf("spec.credentialsSecretRef.name: Secret %q: %w", ref.Name, err)))
			}
		}
	}
	if ref := o.repository.Spec.WebhookSecretRef; ref != nil {
		data, problem, err := r.secret(ctx, o, "spec.webhookSecretRef.name", ref.Name)
		if err != nil {
			return err
		}
		if problem == nil && len(data[keyWebhookSecret]) == 0 {
			problem = status.NewTerminal("InvalidSecret", fmt.Errorf("spec.webhookSecretRef.name: Secret %q does not have the key %q: set it to the secret of the webhook", ref.Name, keyWebhookSecret))
		}
		o.webhook = problem
	}
	if o.problem != nil {
		return nil
	}
	var err error
	if o.client, err = r.pool.Client(config); err != nil {
		reason, message := failure(err)
		o.addProblem(status.NewTerminal(reason, fmt.Errorf("%s", message)))
	}
	return nil
}

// keyWebhookSecret is the key of the Secret whose value GitHub uses to sign deliveries.
const keyWebhookSecret = "secret"

// secret reads a Secret in the repository's namespace.
func (r *Reconciler) secret(ctx context.Context, o *observed, field, name string) (map[string][]byte, *status.Error, error) {
	var s corev1.Secret
	err := r.uncached.Get(ctx, client.ObjectKey{Namespace: o.repository.Namespace, Name: name}, &s)
	if apierrors.IsNotFound(err) {
		return nil, status.NewTerminal("SecretNotFound", fmt.Errorf("%s: Secret %q not found in this namespace: create it, or correct the name", field, name)), nil
	}
	if apierrors.IsForbidden(err) {
		return nil, status.Classify(fmt.Errorf("%s: %w", field, status.SecretForbidden(o.repository.Namespace, name, err))), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	return s.Data, nil, nil
}

// addProblem keeps the first problem.
func (o *observed) addProblem(e *status.Error) {
	if o.problem == nil && e != nil {
		o.problem = e
	}
}
