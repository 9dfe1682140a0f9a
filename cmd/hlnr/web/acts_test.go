package web

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/web"
)

// TestCommandIsQuoted checks the quoting of the command for an action, because users copy the command into a shell, and
// the values in the command might come from a link on another site.
func TestCommandIsQuoted(t *testing.T) {
	a := &Acts{Factory: &cli.Factory{}}
	for name, test := range map[string]struct {
		act  web.Act
		want []string
	}{
		"plain":   {web.Act{Verb: "pin", Target: "1.0.0", Group: "1.x", Reason: "ticket-4711"}, []string{"pin", "-n", "shop", "cart", "1.0.0", "--group", "1.x", "--reason", "ticket-4711"}},
		"words":   {web.Act{Verb: "rollback", Target: "1.0.0", Until: "Mon 08:00"}, []string{"rollback", "-n", "shop", "cart", "--to", "1.0.0", "--until", "Mon 08:00"}},
		"program": {web.Act{Verb: "pin", Target: "1.0.0; touch x", Reason: "$(touch x) `touch x` \"$HOME\" it's \\ \n!"}, []string{"pin", "-n", "shop", "cart", "1.0.0; touch x", "--reason", "$(touch x) `touch x` \"$HOME\" it's \\ \n!"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.act.Namespace, test.act.Service = "shop", "cart"
			out, err := exec.CommandContext(t.Context(), "sh", "-c", "each() { for word; do printf '%s\\0' \"$word\"; done; }; each "+a.command(test.act)).Output()
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, test.want) {
				t.Errorf("the shell reads %q from %s, want %q", got, a.command(test.act), test.want)
			}
		})
	}
}

// TestProblemOfAValue checks that a value that the API server rejects, such as a reason that is too long, is not reported as a missing choice.
func TestProblemOfAValue(t *testing.T) {
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{})
	err := apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Microservice").GroupKind(), "shop", field.ErrorList{field.TooLong(field.NewPath("spec"), "", 128)})
	if p := (&Acts{Factory: f}).problem(t.Context(), err); p.Status != http.StatusBadRequest || p.Title != "The API server rejected this" || !strings.Contains(p.Text, "128") {
		t.Errorf("%+v", p)
	}
}

// TestFailedReview checks that the result of a failed review is not stored, that a failed review is followed by a short pause, and that a
// review continues even if the reader's request is canceled.
func TestFailedReview(t *testing.T) {
	t.Parallel()
	var failure error
	reviews := 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		reviews++
		o.(*authorizationv1.SelfSubjectAccessReview).Status.Allowed = true
		return errors.Join(ctx.Err(), failure)
	}}).Build()
	now := time.Now()
	user := &userPermissions{now: func() time.Time { return now }, client: c, known: map[right]answer{}}
	question := right{"shop", "create", "freezes"}
	failure = errors.New("the API server is busy")
	if user.asked(t.Context(), question) {
		t.Error("a failed review allows the action")
	}
	failure = nil
	if user.asked(t.Context(), question) || reviews != 1 {
		t.Errorf("%d reviews, want a pause after the first", reviews)
	}
	now = now.Add(reviewPause)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // The reader has closed the page.
	if !user.asked(ctx, question) {
		t.Error("the failure is reused, or the review ends with the request")
	}
	if !user.asked(t.Context(), question) || reviews != 2 {
		t.Errorf("%d reviews, want 2", reviews)
	}
}
