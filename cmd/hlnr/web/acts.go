package web

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/act"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/web"
)

// permissionsAge is how long the result of checking one of the user's permissions is reused. The result decides only which buttons
// are shown, because the API server authorizes each action again.
const permissionsAge = time.Minute

// reviewPause is the minimum time between a failed access review and the next review. It prevents a page from waiting for many reviews
// while the API server is not responding.
const reviewPause = 2 * time.Second

// Acts executes actions as the commands with the same names do, but with the permissions of a reader of the board.
type Acts struct {
	Factory *cli.Factory
	// Client returns a client that has the permissions of the reader in the context.
	Client func(ctx context.Context) (client.WithWatch, error)
	// Permissions returns the actions that the reader may take in a namespace.
	Permissions func(ctx context.Context, namespace string) []string
	// FreezePermissions reports whether the reader may create and delete freezes in a namespace, or in the cluster if
	// the namespace is empty.
	FreezePermissions func(ctx context.Context, namespace string) (freeze, thaw bool)
}

// May returns the actions that the reader may take.
func (a *Acts) May(ctx context.Context, namespace string) []string {
	return a.Permissions(ctx, namespace)
}

// MayFreeze reports whether the reader may begin and end freezes.
func (a *Acts) MayFreeze(ctx context.Context, namespace string) (freeze, thaw bool) {
	return a.FreezePermissions(ctx, namespace)
}

// PreviewFreeze does a dry run of a freeze or a thaw.
func (a *Acts) PreviewFreeze(ctx context.Context, x web.Freeze) (web.Outcome, error) {
	return a.freeze(ctx, x, true)
}

// Freeze begins or ends a freeze.
func (a *Acts) Freeze(ctx context.Context, x web.Freeze) (web.Outcome, error) {
	return a.freeze(ctx, x, false)
}

func (a *Acts) freeze(ctx context.Context, x web.Freeze, dryRun bool) (web.Outcome, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return web.Outcome{}, a.problem(ctx, err)
	}
	done, err := act.FreezeRequest{
		Thaw: x.Thaw, Namespace: x.Namespace, Name: x.Name, Until: x.Until, Indefinite: x.Indefinite, Reason: x.Reason, Selector: x.Selector, Namespaces: x.Namespaces,
		UID: x.UID, Generation: x.Generation, DryRun: dryRun,
	}.Do(ctx, a.Factory, c)
	if err != nil {
		return web.Outcome{}, a.problem(ctx, err)
	}
	uid, generation := done.Deletes()
	return web.Outcome{Text: done.Text(), Effects: done.Effects, By: done.By, Command: a.freezeCommand(x), UID: uid, Generation: generation}, nil
}

// freezeCommand returns the command that is equivalent to a freeze or thaw action on the board.
func (a *Acts) freezeCommand(x web.Freeze) string {
	words := []string{"freeze"}
	if x.Thaw {
		words[0] = "thaw"
	}
	if x.Namespace == "" {
		words = append(words, "--all-namespaces")
	} else {
		words = append(words, x.Namespace)
	}
	if x.Indefinite && !x.Thaw {
		words = append(words, "--indefinite")
	}
	return a.Factory.Program() + " " + flags(words, flag{"--name", x.Name}, flag{"--until", x.Until}, flag{"--selector", x.Selector}, flag{"--namespace-selector", x.Namespaces}, flag{"--reason", x.Reason})
}

// flag is a flag of a command with its value.
type flag struct{ name, value string }

// flags returns a command, quoted for a shell. The command consists of the given words and of the flags that have a value.
func flags(words []string, list ...flag) string {
	for _, f := range list {
		if f.value != "" {
			words = append(words, f.name, f.value)
		}
	}
	for i, word := range words {
		words[i] = cli.Quote(word)
	}
	return strings.Join(words, " ")
}

// Preview does a dry run of an action.
func (a *Acts) Preview(ctx context.Context, x web.Act) (web.Outcome, error) {
	return a.do(ctx, x, true)
}

// Do executes an action.
func (a *Acts) Do(ctx context.Context, x web.Act) (web.Outcome, error) { return a.do(ctx, x, false) }

func (a *Acts) do(ctx context.Context, x web.Act, dryRun bool) (web.Outcome, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return web.Outcome{}, a.problem(ctx, err)
	}
	done, err := act.Request{
		Verb: x.Verb, Namespace: x.Namespace, Microservice: x.Service, Target: x.Target, Group: x.Group, Until: x.Until, Reason: x.Reason, ID: x.ID, DryRun: dryRun,
	}.Do(ctx, a.Factory, c)
	if err != nil {
		return web.Outcome{}, a.problem(ctx, err)
	}
	return web.Outcome{Text: done.Text(), Effects: done.Effects, Unknown: done.Unplayed, Frozen: done.Frozen, By: done.By, Command: a.command(x)}, nil
}

// userPermissions answers questions about the permissions of the kubeconfig's user.
type userPermissions struct {
	now    func() time.Time
	client client.Client

	mu    sync.Mutex
	known map[right]answer
	// failed is the time of the last failed access review.
	failed time.Time
}

// right is a permission of the user in a namespace. An empty namespace means all namespaces, or the cluster if the resource is cluster-scoped.
type right struct{ namespace, verb, resource string }

type answer struct {
	allowed bool
	at      time.Time
}

// newActs returns the Acts for the kubeconfig's user.
func newActs(f *cli.Factory, c client.WithWatch) *Acts {
	user := &userPermissions{now: f.Now, client: c, known: map[right]answer{}}
	return &Acts{Factory: f, Client: func(context.Context) (client.WithWatch, error) { return c, nil }, Permissions: user.in, FreezePermissions: user.freeze}
}

// in returns the actions that the user may take in a namespace, according to access reviews. For a user with permissions in
// all namespaces, six reviews per minute are required. For other users, at most six more are required for each visible
// namespace.
func (a *userPermissions) in(ctx context.Context, namespace string) []string {
	return web.ActsOf(func(verb, resource string) bool { return a.may(ctx, namespace, verb, resource) })
}

// freeze reports whether the user may create and delete freezes in a namespace, or in the cluster if the namespace is empty.
func (a *userPermissions) freeze(ctx context.Context, namespace string) (freeze, thaw bool) {
	resource := "freezes"
	if namespace == "" {
		resource = "clusterfreezes"
	}
	return a.may(ctx, namespace, "create", resource), a.may(ctx, namespace, "delete", resource)
}

// may reports whether the user has a permission in a namespace or in all namespaces.
func (a *userPermissions) may(ctx context.Context, namespace, verb, resource string) bool {
	return a.asked(ctx, right{"", verb, resource}) || namespace != "" && a.asked(ctx, right{namespace, verb, resource})
}

// asked returns a stored result that is younger than permissionsAge, or sends an access review, which continues even if the request for the
// page ends. If the review fails, asked returns false, and does not store this result. During the reviewPause that follows, asked returns
// false without sending a review.
func (a *userPermissions) asked(ctx context.Context, r right) bool {
	now := a.now()
	a.mu.Lock()
	known, ok := a.known[r]
	paused := now.Sub(a.failed) < reviewPause
	a.mu.Unlock()
	switch {
	case ok && now.Sub(known.at) < permissionsAge:
		return known.allowed
	case paused:
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: r.namespace, Verb: r.verb, Group: v1alpha1.GroupVersion.Group, Resource: r.resource,
	}}}
	err := a.client.Create(ctx, review)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.failed = a.now()
		return false
	}
	a.known[r] = answer{review.Status.Allowed, now}
	return review.Status.Allowed
}

// problem converts an error from an action to a Problem, with the message of the command and an HTTP
// status.
func (a *Acts) problem(ctx context.Context, err error) *web.Problem {
	explained := a.Factory.Explain(ctx, err)
	p := &web.Problem{Status: http.StatusBadGateway, Title: "The API server did not perform this action", Text: explained.Error()}
	switch code := cli.CodeOf(explained); {
	case act.IsGitOwned(err):
		p.Status, p.Title, p.Text = http.StatusConflict, "This field is managed in Git", err.Error()+". Commit the change there. The command with --print-patch prints the change as a patch."
	case apierrors.IsForbidden(err):
		p.Status, p.Title = http.StatusForbidden, "The API server rejected this"
	case apierrors.IsInvalid(err):
		p.Status, p.Title = http.StatusBadRequest, "The API server rejected this"
	case code == cli.ExitNo:
		p.Status, p.Title = http.StatusConflict, "This is not possible now"
	case code == cli.ExitUsage:
		p.Status, p.Title = http.StatusBadRequest, "A choice is required"
	}
	return p
}

// command returns the command that is equivalent to an action.
func (a *Acts) command(x web.Act) string {
	words := []string{x.Verb, "-n", x.Namespace, x.Service}
	switch {
	case x.Target != "" && x.Verb == "rollback":
		words = append(words, "--to", x.Target)
	case x.Target != "":
		words = append(words, x.Target)
	}
	return a.Factory.Program() + " " + flags(words, flag{"--group", x.Group}, flag{"--until", x.Until}, flag{"--reason", x.Reason})
}
