package act

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/wait"
	"github.com/heighliner/heighliner/test/await"
)

// see runs a command that writes nothing.
func (p *person) see(command cli.NewCommand, args ...string) (cli.Code, string) {
	var out bytes.Buffer
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
	code := cli.Run(p.Context(), f, slices.Concat(args, []string{"--kubeconfig", p.Kubeconfig(), "-n", p.namespace, "--as", "ana", "--as-group", "system:masters"}), command)
	return code, out.String()
}

// aimed waits until the manager has observed the specification, the version is the target of the group, and the group has no rollout.
func (p *person) aimed(version string) {
	p.Helper()
	await.Nil(p, func(context.Context) error {
		var ms v1alpha1.Microservice
		p.get("shop", &ms)
		g := ms.Status.ReleaseGroups[0]
		i := slices.IndexFunc(g.Releases, func(r v1alpha1.Release) bool { return r.VersionedMicroservice == g.Target.Release })
		if ms.Status.ObservedGeneration != ms.Generation || i < 0 || g.Releases[i].SemVer.Version != version || g.Rollout != nil {
			return fmt.Errorf("target %+v, rollout %+v", g.Target, g.Rollout)
		}
		return nil
	})
}

// TestWaitForAPinToASupersededVersion checks the effect of a pin to a version that was superseded before it became active. The pin starts the version, unless a
// pause or a freeze delays the start. During the delay, the hlnr wait command printed by hlnr pin reports that the version is waiting, not that it was
// superseded.
func TestWaitForAPinToASupersededVersion(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"paused": {"pause", "shop"}, "frozen": {"freeze", "--until", "4h", "--reason", "trade fair"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := shop(t)
			p.offer("1.1.0", "1.0.0")
			p.await("1.1.0", v1alpha1.ReleaseCanary)
			p.offer("1.2.0", "1.1.0", "1.0.0")
			p.await("1.1.0", v1alpha1.ReleaseDeprecated)
			p.await("1.2.0", v1alpha1.ReleaseCanary)
			p.want(cli.ExitYes, "", args...)
			if name == "frozen" {
				p.Frozen(t, p.namespace, "freeze")
			}
			p.want(cli.ExitYes, "to wait until this takes effect: "+p.hlnr()+" wait -n "+p.namespace+" shop 1.1.0", "pin", "shop", "1.1.0")
			p.aimed("1.1.0")
			if code, out := p.see(wait.NewCommand, "wait", "shop", "1.1.0", "--timeout", "10s"); code != cli.ExitWaits || !strings.Contains(out, name) {
				t.Errorf("exit code %d, want %d; %s", code, cli.ExitWaits, out)
			}
		})
	}
}
