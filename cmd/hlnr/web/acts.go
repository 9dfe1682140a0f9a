package web

import (
	"context"
	"net/http"
	"regexp"
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

// rightsAge is how long an answer to what the user may do is used. It decides about buttons only: the API server
// decides about each act again.
const rightsAge = time.Minute

// Acts are what the commands of the same names do, with the rights of a reader.
type Acts struct {
	Factory *cli.Factory
	// Client of the reader of a context.
	Client func(ctx context.Context) (client.WithWatch, error)
	// Rights reports whether the reader of a context may decide about releases, and change services, of a namespace.
	Rights func(ctx context.Context, namespace string) (decide, change bool)
}

// May reports what the reader may do.
func (a *Acts) May(ctx context.Context, namespace string) (decide, change bool) {
	return a.Rights(ctx, namespace)
}

// Preview plays an act.
func (a *Acts) Preview(ctx context.Context, x web.Act) (web.Outcome, error) {
	return a.do(ctx, x, true)
}

// Do acts.
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
	return web.Outcome{Text: done.Text(), Effects: done.Effects, Unknown: done.Unplayed, By: done.By, Command: a.command(x)}, nil
}

// userRights are those of the user of a kubeconfig.
type userRights struct {
	now    func() time.Time
	client client.Client

	mu    sync.Mutex
	known map[string]rights // by namespace
}

// rights of the user in a namespace.
type rights struct {
	decide, change bool
	at             time.Time
}

// newActs are those of the one user of a kubeconfig.
func newActs(f *cli.Factory, c client.WithWatch) *Acts {
	user := &userRights{now: f.Now, client: c, known: map[string]rights{}}
	return &Acts{Factory: f, Client: func(context.Context) (client.WithWatch, error) { return c, nil }, Rights: user.in}
}

// in asks the API server: who may act in all namespaces costs two requests a minute, anyone else two for each
// namespace that they see.
func (a *userRights) in(ctx context.Context, namespace string) (decide, change bool) {
	if namespace != "" {
		if decide, change := a.in(ctx, ""); decide && change {
			return true, true
		}
	}
	now := a.now()
	a.mu.Lock()
	r, ok := a.known[namespace]
	a.mu.Unlock()
	if ok && now.Sub(r.at) < rightsAge {
		return r.decide, r.change
	}
	r = rights{a.allowed(ctx, namespace, "versionedmicroservices"), a.allowed(ctx, namespace, "microservices"), now}
	a.mu.Lock()
	a.known[namespace] = r
	a.mu.Unlock()
	return r.decide, r.change
}

// allowed reports whether the user may patch the objects of a resource. Without an answer they may not.
func (a *userRights) allowed(ctx context.Context, namespace, resource string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: "patch", Group: v1alpha1.GroupVersion.Group, Resource: resource,
	}}}
	return a.client.Create(ctx, review) == nil && review.Status.Allowed
}

// problem gives an error of an act the words of the command, and a status.
func (a *Acts) problem(ctx context.Context, err error) *web.Problem {
	explained := a.Factory.Explain(ctx, err)
	p := &web.Problem{Status: http.StatusBadGateway, Title: "The API server did not do this", Text: explained.Error()}
	switch code := cli.CodeOf(explained); {
	case act.IsGitOwned(err):
		p.Status, p.Title, p.Text = http.StatusConflict, "This field is managed in Git", err.Error()+". Commit the change there; the command with --print-patch prints it."
	case apierrors.IsForbidden(err):
		p.Status, p.Title = http.StatusForbidden, "The API server refused this"
	case code == cli.ExitNo:
		p.Status, p.Title = http.StatusConflict, "This makes no sense now"
	case code == cli.ExitUsage:
		p.Status, p.Title = http.StatusBadRequest, "This needs a choice"
	}
	return p
}

// command that does the same as an act.
func (a *Acts) command(x web.Act) string {
	words := []string{x.Verb, "-n", x.Namespace, x.Service}
	switch {
	case x.Target != "" && x.Verb == "rollback":
		words = append(words, "--to", x.Target)
	case x.Target != "":
		words = append(words, x.Target)
	}
	for _, flag := range []struct{ name, value string }{{"--group", x.Group}, {"--until", x.Until}, {"--reason", x.Reason}} {
		if flag.value != "" {
			words = append(words, flag.name, flag.value)
		}
	}
	for i, word := range words {
		words[i] = quoted(word)
	}
	return a.Factory.Program() + " " + strings.Join(words, " ")
}

// plain are words that mean themselves in a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// quoted gives a word as a shell reads it: a link of another site may have chosen the values of an act that a reader
// copies as a command.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
