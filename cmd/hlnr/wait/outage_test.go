package wait

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocks "k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// quick is a clock that makes every wait short.
type quick struct{ clocks.RealClock }

func (quick) After(time.Duration) <-chan time.Time { return time.After(time.Millisecond) }

// TestOutage checks that the wait continues after short outages of the API server, and ends if the Microservice is deleted.
func TestOutage(t *testing.T) {
	t.Parallel()
	scheme, err := cli.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		second error // the error of the second read
		remove bool  // whether the Microservice is deleted before the second read
		code   cli.Code
		text   string
	}{
		"busy":           {apierrors.NewServiceUnavailable("it restarts"), false, cli.ExitYes, "hlnr: the API server is not responding, and hlnr is trying again: it restarts"},
		"no response":    {errors.New("connection refused\x1b[2J"), false, cli.ExitYes, "and hlnr is trying again: connection refused[2J"},
		"no permissions": {apierrors.NewUnauthorized("expired"), false, cli.ExitFailed, "expired"},
		"deleted":        {nil, true, cli.ExitNo, "Microservice shop was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fixture(func(s *snapshot) { s.ms.Status.ReleaseGroups[0].Releases[0].Status = v1alpha1.ReleasePending })
			var out, errOut bytes.Buffer
			f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
			f.Clock = quick{}
			w := newWaiter(f)
			w.name, w.namespace, w.output = "shop", "shop", &cli.Output{}
			w.question = question{version: "1.2.0", state: forActive, command: command}
			reads := 0
			w.client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(s.ms).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, server client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					ms, is := o.(*v1alpha1.Microservice)
					if !is {
						return server.Get(ctx, key, o, options...)
					}
					reads++
					switch {
					case reads == 2 && c.remove:
						if err := server.Delete(ctx, s.ms.DeepCopy()); err != nil {
							return err
						}
					case reads == 2:
						return c.second
					}
					err := server.Get(ctx, key, o, options...)
					if err == nil && reads > 2 {
						ms.Status.ReleaseGroups[0].Releases[0].Status = v1alpha1.ReleaseActive
					}
					return err
				},
			})
			err := w.follow(t.Context(), time.Minute)
			text := errOut.String()
			if err != nil {
				text += err.Error()
			}
			if cli.CodeOf(err) != c.code || !strings.Contains(text, c.text) {
				t.Errorf("exit code %d, %q; want %d and %q", cli.CodeOf(err), text, c.code, c.text)
			}
		})
	}
}
