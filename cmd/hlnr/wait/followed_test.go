package wait

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// follow waits until 1.2.0 is active. The n-th read of the Microservice returns the result of the n-th edit of the fixture, and later reads return the
// last one.
func follow(t *testing.T, edits ...func(*snapshot)) (cli.Code, string) {
	t.Helper()
	scheme, err := cli.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
	f.Clock = quick{}
	w := newWaiter(f)
	w.name, w.namespace, w.output = "shop", "shop", &cli.Output{}
	w.question = question{version: "1.2.0", state: forActive, command: command}
	objects := []client.Object{fixture(func(*snapshot) {}).ms}
	for _, name := range []string{"c1", "c2", "c3"} {
		o := &v1alpha1.VersionedMicroservice{}
		o.Namespace, o.Name, o.Status.Message = "shop", "shop-1-2-0-"+name, name+" crashes"
		objects = append(objects, o)
	}
	reads := 0
	w.client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, server client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			ms, is := o.(*v1alpha1.Microservice)
			if !is {
				return server.Get(ctx, key, o, options...)
			}
			fixture(edits[min(reads, len(edits)-1)]).ms.DeepCopyInto(ms)
			reads++
			return nil
		},
	})
	err = w.follow(t.Context(), 5*time.Second)
	if reads < len(edits) {
		t.Errorf("the command ended after %d reads: %v", reads, err)
	}
	if err != nil {
		out.WriteString(err.Error())
	}
	return cli.CodeOf(err), out.String()
}

// configurations replaces the releases of the fixture with releases of 1.2.0 that have different configurations.
func configurations(rollout, target string, statuses ...v1alpha1.ReleaseStatus) func(*snapshot) {
	return func(s *snapshot) {
		g := &s.ms.Status.ReleaseGroups[0]
		g.Releases, g.Target.Release = nil, "shop-1-2-0-"+target
		for i, status := range statuses {
			r := v1alpha1.Release{VersionedMicroservice: "shop-1-2-0-c" + string(rune('1'+i)), SemVer: v1alpha1.SemVer{Version: "1.2.0"}, Status: status}
			if status == v1alpha1.ReleaseError {
				r.Reason = "CrashLoopBackOff"
			}
			g.Releases = append(g.Releases, r)
		}
		g.Releases[0].Promoted, g.Releases[0].Weight = 2, 100
		if rollout != "" {
			g.Rollout = &v1alpha1.Rollout{Release: "shop-1-2-0-" + rollout, Step: 7}
		}
	}
}

// TestAnotherConfigurationOfTheActiveVersion checks that the command follows the release whose rollout it saw in progress, although another release of
// the same version is active. If a release of the same version replaces the followed release, the command follows that release.
func TestAnotherConfigurationOfTheActiveVersion(t *testing.T) {
	t.Parallel()
	const active, canary, failed, deprecated = v1alpha1.ReleaseActive, v1alpha1.ReleaseCanary, v1alpha1.ReleaseError, v1alpha1.ReleaseDeprecated
	progresses := configurations("c2", "c2", active, canary)
	for name, c := range map[string]struct {
		edits []func(*snapshot)
		code  cli.Code
		text  string
	}{
		"fails": {[]func(*snapshot){progresses, configurations("", "c1", active, failed)}, cli.ExitNo,
			"1.2.0 (shop-1-2-0-c2) failed: CrashLoopBackOff: c2 crashes; 1.2.0 (shop-1-2-0-c1) has all traffic of group 1.x"},
		"becomes active": {[]func(*snapshot){progresses, configurations("", "c2", deprecated, active)}, cli.ExitYes, ""},
		"is replaced, and its replacement fails": {[]func(*snapshot){progresses, configurations("c3", "c3", active, deprecated, canary), configurations("", "c1", active, deprecated, failed)}, cli.ExitNo,
			"1.2.0 (shop-1-2-0-c3) failed: CrashLoopBackOff: c3 crashes"},
		"is replaced by the active release": {[]func(*snapshot){progresses, configurations("", "c1", active, deprecated)}, cli.ExitYes, ""},
		"is replaced by another version": {[]func(*snapshot){progresses, func(s *snapshot) {
			configurations("", "", active, deprecated)(s)
			g := &s.ms.Status.ReleaseGroups[0]
			g.Releases = append(g.Releases, v1alpha1.Release{VersionedMicroservice: "shop-1-3-0", SemVer: v1alpha1.SemVer{Version: "1.3.0"}, Status: canary})
			g.Target.Release, g.Rollout = "shop-1-3-0", &v1alpha1.Rollout{Release: "shop-1-3-0", Step: 7}
		}}, cli.ExitNo, "1.2.0 was superseded before it was active: 1.3.0 is being rolled out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, text := follow(t, c.edits...); code != c.code || !strings.Contains(text, c.text) {
				t.Errorf("exit code %d, %q; want %d and %q", code, text, c.code, c.text)
			}
		})
	}
}
