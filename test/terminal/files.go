package terminal

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/change"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/doctor"
)

// manifest writes an object to a file in the form that a user would write, and returns the file's path.
func (s *Stage) manifest(o client.Object) string {
	s.Helper()
	gvk, err := s.Client.GroupVersionKindFor(o)
	if err != nil {
		s.Fatal(err)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		s.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		s.Fatal(err)
	}
	fields["apiVersion"], fields["kind"] = gvk.GroupVersion().String(), gvk.Kind
	fields["metadata"] = map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()}
	delete(fields, "status")
	text, err := yaml.Marshal(fields)
	if err != nil {
		s.Fatal(err)
	}
	file := filepath.Join(s.TempDir(), o.GetName()+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}

// offline runs the commands that do not need a cluster.
func (s *Stage) offline() {
	s.Helper()
	s.want(cli.ExitYes, []string{"hlnr "}, "version")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell", "kubectl"} {
		s.want(cli.ExitYes, []string{"__complete"}, "completion", shell)
	}
	for _, o := range s.Objects {
		s.want(cli.ExitYes, nil, "lint", "-f", s.manifest(o))
		if p, ok := o.(*v1alpha1.ImagePolicy); ok {
			s.explain(p)
		}
		if ms, ok := o.(*v1alpha1.Microservice); ok {
			bad := ms.DeepCopy()
			bad.Spec.UpdateStrategy.Canary.Steps[0].Weight = 150
			s.want(cli.ExitNo, []string{"spec.updateStrategy.canary.steps[0].weight", "100"}, "lint", "-f", s.manifest(bad))
		}
	}
}

// explain compares the text and the JSON of hlnr explain for a list of tags.
func (s *Stage) explain(p *v1alpha1.ImagePolicy) {
	s.Helper()
	args := []string{"explain", "-f", s.manifest(p), "--tags", "-"}
	r := s.wantOf("1.0.0\n1.1.0\nlatest\n", cli.ExitYes, []string{"1.1.0", "1.0.0"}, args...)
	var report map[string]any
	j := s.wantOf("1.0.0\n1.1.0\nlatest\n", cli.ExitYes, nil, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(j.Stdout), &report); err != nil || strings.Contains(j.Stdout, `"1.1.0"`) != strings.Contains(r.Stdout, "1.1.0") {
		s.Errorf("explain: %v\n%s\n%s", err, r.Stdout, j.Stdout)
	}
}

// plan plans a change to the Microservice, compares text and JSON, and checks that nothing was written.
func (s *Stage) plan() {
	s.Helper()
	before := s.microservice()
	changed := before.DeepCopy()
	c := &changed.Spec.Template.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "LOG_LEVEL", Value: "debug"})
	same, file := s.manifest(before), s.manifest(changed)
	s.want(cli.ExitYes, []string{s.Name + ": nothing changes"}, "plan", "-f", same)
	s.want(cli.ExitYes, []string{s.Name + ": nothing changes"}, "diff", "-f", same)
	for _, verb := range []string{"plan", "diff"} {
		compare(s, func(text string, r change.Report) []string {
			if len(r.Objects) != 1 || !r.Objects[0].NewRelease || len(r.Objects[0].Fields) == 0 {
				return []string{"the JSON has no new release: " + text}
			}
			want := []string{s.Name + ": is released again with the new configuration"}
			if f := r.Objects[0].Forecast; verb == "plan" && f != nil {
				want = append(want, f.Lines()...)
			}
			if verb == "diff" {
				want = append(want, r.Objects[0].Fields[0].Path)
			}
			return contains(text, want...)
		}, verb, "-f", file)
	}
	changed.Spec.UpdateStrategy.Canary.Steps[0].Weight = 150
	s.want(cli.ExitNo, []string{"not allowed"}, "plan", "-f", s.manifest(changed))
	s.want(cli.ExitUsage, nil, "diff", "-f", filepath.Join(s.TempDir(), "missing.yaml"))
	if after := s.microservice(); after.Generation != before.Generation {
		s.Errorf("a plan wrote the Microservice: generation %d, then %d", before.Generation, after.Generation)
	}
}

// doctor checks the cluster, compares text and JSON, and reads the archive.
func (s *Stage) doctor() {
	s.Helper()
	compare(s, func(text string, r doctor.Result) []string {
		var found []string
		for _, f := range r.Findings {
			found = append(found, contains(text, f.Check+": "+f.Text)...)
		}
		return found
	}, "doctor")
	file := filepath.Join(s.TempDir(), "report.tar.gz")
	s.want(s.Doctor, []string{"report written to " + file}, "doctor", "--report", file)
	if names := s.archive(file); !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, s.Name) }) {
		s.Errorf("the report contains %q, but nothing about %s", names, s.Name)
	}
}

// archive returns the names of the files in an archive.
func (s *Stage) archive(file string) (names []string) {
	s.Helper()
	f, err := os.Open(file)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		s.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			s.Fatal(err)
		}
		names = append(names, h.Name)
	}
}
