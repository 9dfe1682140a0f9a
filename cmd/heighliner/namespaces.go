package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/heighliner/heighliner/internal/watches"
)

const (
	// permissionsPoll is the time between two reads of the permissions in namespaces that are not watched.
	permissionsPoll = 30 * time.Second
	// minRun is the minimum time for which the manager runs before it restarts to watch another namespace. The kubelet resets its back-off
	// for a container that has run for 10 minutes. Therefore, a team that repeatedly removes and creates the RoleBinding of its namespace
	// cannot increase this back-off, during which the manager would not run for any namespace.
	minRun = 10 * time.Minute
)

// permissions reads the permissions of the manager in namespaces.
type permissions struct {
	client kubernetes.Interface
}

// lacking returns the kinds that the manager must watch but is not allowed to list and watch. The keys of the result are the namespaces
// in which permissions are missing. They include deleted namespaces, because the Roles in these namespaces are gone.
func (r permissions) lacking(ctx context.Context, namespaces []string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range namespaces {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: name}}
		answer, err := r.client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("read the manager's permissions in namespace %q: %w", name, err)
		}
		missing, err := r.missing(ctx, name, answer.Status)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			out[name] = strings.Join(missing, ", ")
		}
	}
	return out, nil
}

// missing returns the kinds that the rules do not allow the manager to list and watch. If the authorizer cannot list all rules,
// missing asks the API server about each of these kinds.
func (r permissions) missing(ctx context.Context, namespace string, rules authorizationv1.SubjectRulesReviewStatus) ([]string, error) {
	var out []string
	for group, resources := range watches.Kinds() {
		for _, resource := range resources {
			lacks := func(verb string) bool { return !allows(rules, group, resource, verb) }
			if !slices.ContainsFunc(watches.Verbs(), lacks) {
				continue
			}
			if rules.Incomplete {
				allowed, err := r.ask(ctx, namespace, group, resource, watches.Verbs()...)
				if err != nil {
					return nil, err
				}
				if allowed {
					continue
				}
			}
			out = append(out, watches.Name(group, resource))
		}
	}
	slices.Sort(out)
	return out, nil
}

// ask reports whether the manager may use all of the verbs on a resource.
func (r permissions) ask(ctx context.Context, namespace, group, resource string, verbs ...string) (bool, error) {
	for _, verb := range verbs {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource},
		}}
		answer, err := r.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("read the manager's permission to %s %s in namespace %q: %w", verb, resource, namespace, err)
		}
		if !answer.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}

// allows reports whether any rule without resource names allows a verb on a resource.
func allows(rules authorizationv1.SubjectRulesReviewStatus, group, resource, verb string) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
	}
	return slices.ContainsFunc(rules.ResourceRules, func(rule authorizationv1.ResourceRule) bool {
		return len(rule.ResourceNames) == 0 && has(rule.APIGroups, group) && has(rule.Resources, resource) && has(rule.Verbs, verb)
	})
}

// watchable returns the namespaces that can be watched and, for each of the others, the kinds that the manager is not allowed to list
// and watch. If the manager watched a namespace in which it lacks permissions, such as a deleted namespace, no controller would start.
func (r permissions) watchable(ctx context.Context, namespaces []string, log logr.Logger) ([]string, map[string]string, error) {
	lacking, err := r.lacking(ctx, namespaces)
	if err != nil || len(lacking) == 0 {
		return namespaces, nil, err
	}
	var out []string
	for _, name := range namespaces {
		if missing, lacks := lacking[name]; lacks {
			log.Error(nil, "a namespace is not watched, because the manager lacks permissions there: upgrade the Helm release, which creates a Role and a RoleBinding in each namespace, or remove the namespace from the list of namespaces",
				"namespace", name, "cannotList", missing)
			continue
		}
		out = append(out, name)
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("--namespace: the manager lacks permissions in all of these namespaces: %s; in each of them, create the Role and the RoleBinding named heighliner-manager from the Helm chart", strings.Join(namespaces, ", "))
	}
	return out, lacking, nil
}

// omitUnwatchable removes from the options the namespaces that cannot be watched. If it removed any, it returns a
// Runnable that stops the manager when one of these namespaces can be watched. Otherwise, it returns nil.
func (o *options) omitUnwatchable(ctx context.Context, config *rest.Config, log logr.Logger) (ctrlmanager.Runnable, error) {
	if len(o.namespaces) == 0 {
		return nil, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create the client for permission checks: %w", err)
	}
	r := permissions{client}
	namespaces, lacking, err := r.watchable(ctx, o.namespaces, log)
	if err != nil || len(lacking) == 0 {
		return nil, err
	}
	o.namespaces = namespaces
	return restart{permissions: r, lacks: lacking, every: permissionsPoll, after: time.Now().Add(minRun)}, nil
}

// restart is a Runnable that stops the manager when it has the permissions to watch another namespace, because namespaces cannot be added to a running cache.
type restart struct {
	permissions
	lacks map[string]string // The keys are namespaces, and the values list the kinds that the manager is not allowed to list and watch.
	every time.Duration
	after time.Time
}

// NeedLeaderElection returns false, because each replica reads the permissions itself.
func (restart) NeedLeaderElection() bool { return false }

// Start returns an error when the manager has the permissions to watch another namespace. If the API server does not
// respond, Start retries later.
func (r restart) Start(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(r.lacks))
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if now.Before(r.after) {
				continue
			}
		}
		still, err := r.lacking(ctx, names)
		if err != nil {
			continue
		}
		for _, name := range names {
			if _, lacks := still[name]; !lacks {
				return fmt.Errorf("namespace %q can be watched now: the manager must restart", name)
			}
		}
	}
}
