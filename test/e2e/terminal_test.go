//go:build e2e

package e2e

import (
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/test/terminal"
)

// TestTerminal runs all hlnr commands during rollouts, compares their text output with their JSON output and
// the objects, and controls a rollout with keys in a tmux terminal. A test in cmd/heighliner runs the same
// scenario without a node.
func TestTerminal(t *testing.T) {
	s := newService(t, "terminal").steps(terminal.Steps()...)
	s.images.Spec.Versioning.GroupBy = v1alpha1.GroupByMajor
	play := &terminal.Stage{
		T: t, Client: env.Client, Hlnr: filepath.Join(env.root, "bin", "hlnr"), Kubeconfig: env.Kubeconfig,
		Namespace: s.namespace, Name: s.app, Objects: []client.Object{s.images, s.ms, s.network},
		Push: func(version string, broken bool) {
			if broken {
				s.push(version, "FAIL_READINESS", "true")
				return
			}
			s.push(version)
		},
		Host:    func(group string) string { return group + "." + s.name + ".localhost" },
		Gateway: "infra/public",
		Log:     "serving",
		Doctor:  cli.ExitYes,
		Limit:   patience,
	}
	play.Play()
}
