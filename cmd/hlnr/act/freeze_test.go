package act

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestFreezeAndThaw checks that freeze creates a Freeze with a reason, an end and an author. During the freeze, decisions that add
// traffic are rejected with the reason, and an abort takes effect. After thaw, releases continue.
func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	p := shop(t)
	p.offer("1.1.0", "1.0.0")
	p.await("1.1.0", v1alpha1.ReleaseCanary)
	for text, args := range map[string][]string{
		"--reason is required":                      {"freeze", "--until", "4h"},
		"set --until, or --indefinite":              {"freeze", "--reason", "fair"},
		`"soon" is not a time`:                      {"freeze", "--reason", "fair", "--until", "soon"},
		"is in the past":                            {"freeze", "--reason", "fair", "--until", "2020-01-01"},
		"--selector: ":                              {"freeze", "--reason", "fair", "--until", "4h", "-l", "a in b"},
		"--namespace-selector requires":             {"freeze", "--reason", "fair", "--until", "4h", "--namespace-selector", "a=b"},
		"name a namespace, or use --all-namespaces": {"freeze", p.namespace, "-A", "--reason", "fair", "--until", "4h"},
		`the argument is "default", but --namespace is "` + p.namespace + `"`:     {"freeze", "default", "--reason", "fair", "--until", "4h"},
		`the argument is "kube-system", but --namespace is "` + p.namespace + `"`: {"thaw", "kube-system"},
		`unexpected argument "b"`: {"thaw", "a", "b"},
		`there is no freeze of namespace ` + p.namespace + ` with the name "fair"`: {"thaw", "--name", "fair"},
	} {
		p.want(cli.ExitUsage, text, args...)
	}
	p.want(cli.ExitNo, "namespace "+p.namespace+" is not frozen", "thaw")

	dry := p.want(cli.ExitYes, "Nothing was written: dry run.", "freeze", "--until", "4h", "--reason", "trade fair", "--dry-run")
	if !strings.Contains(dry, p.namespace+"/shop is frozen") {
		t.Errorf("dry run: %s", dry)
	}
	p.want(cli.ExitYes, "; 0 Microservices match now; the freeze takes effect as soon as one matches", "freeze", "--until", "4h", "--reason", "trade fair", "-l", "tier=none", "--dry-run")
	p.want(cli.ExitYes, "namespace "+p.namespace+": frozen until ", "freeze", p.namespace, "--until", "4h", "--reason", "trade fair")
	p.Frozen(t, p.namespace, "freeze")
	var f v1alpha1.Freeze
	p.get("freeze", &f)
	if f.Annotations[v1alpha1.AnnotationDecidedBy] != "ana" || f.Spec.Reason != "trade fair" || f.Spec.Until == nil || time.Until(f.Spec.Until.Time) > 4*time.Hour {
		t.Errorf("the freeze is %+v", f)
	}
	p.want(cli.ExitNo, `Freeze "freeze" already exists ("trade fair"): end it with "`+p.hlnr()+` thaw `+p.namespace+`", or choose another --name`, "freeze", "--indefinite", "--reason", "other")
	p.want(cli.ExitNo, "frozen until ", "continue", "shop")
	p.want(cli.ExitYes, "Deprecate by ana: applied", "deprecate", "shop")
	p.await("1.1.0", v1alpha1.ReleaseError)
	p.offer("1.2.0", "1.1.0", "1.0.0")
	const waits = `nothing new starts until the freeze ends: Freeze "freeze" ("trade fair", until `
	p.want(cli.ExitYes, waits, "pin", "shop", "1.2.0")
	if out := p.want(cli.ExitYes, "newer versions wait", "pin", "shop", "1.0.0"); strings.Contains(out, "freeze") {
		t.Errorf("a pin to the active release: %s", out)
	}
	p.want(cli.ExitYes, waits, "unpin", "shop")
	p.offer("1.1.0", "1.0.0")
	p.want(cli.ExitYes, "pinned to 1.0.0", "pin", "shop", "1.0.0")
	const failed = `the group follows the newest version, but not 1.1.0, which failed (`
	if done := p.preview("unpin"); !strings.Contains(done.Text(), failed) {
		t.Errorf("the preview of unpin on the board: %s", done.Text())
	}
	p.want(cli.ExitYes, failed, "unpin", "shop")
	p.offer("1.2.0", "1.1.0", "1.0.0")

	p.want(cli.ExitYes, `Freeze "freeze" by ana ("trade fair", until `, "thaw", "--dry-run")
	p.get("freeze", &f)
	if out := p.want(cli.ExitYes, `namespace `+p.namespace+`: Freeze "freeze" by ana ("trade fair", until `, "thaw"); !strings.Contains(out, `Z) is deleted; waiting releases continue`) {
		t.Errorf("thaw: %s", out)
	}
	p.await("1.2.0", v1alpha1.ReleaseCanary)
}

// TestNamespacesOfFreezes checks that freeze and thaw reject a namespace that does not exist, and flags that select both a namespace and the
// cluster.
func TestNamespacesOfFreezes(t *testing.T) {
	t.Parallel()
	p := begin(t)
	call := func(args ...string) (cli.Code, string) {
		var out bytes.Buffer
		f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
		code := cli.Run(t.Context(), f, append(args, "--kubeconfig", p.Kubeconfig(), "--as", "ana", "--as-group", "system:masters"), Commands...)
		return code, out.String()
	}
	for _, c := range []struct {
		text string
		args []string
	}{
		{`there is no namespace with the name "` + p.namespace + `x"; did you mean "` + p.namespace + `"?`, []string{"freeze", p.namespace + "x", "--indefinite", "--reason", "fair"}},
		{`there is no namespace with the name "` + p.namespace + `x"`, []string{"freeze", "-n", p.namespace + "x", "--indefinite", "--reason", "fair", "--dry-run"}},
		{`there is no namespace with the name "` + p.namespace + `x"`, []string{"thaw", p.namespace + "x"}},
		{"name a namespace, or use --all-namespaces", []string{"freeze", "-A", "-n", p.namespace, "--indefinite", "--reason", "fair", "--dry-run"}},
		{"name a namespace, or use --all-namespaces", []string{"thaw", "-A", "-n", p.namespace}},
	} {
		if code, out := call(c.args...); code != cli.ExitUsage || !strings.Contains(out, c.text) {
			t.Errorf("%q: exit code %d, %s; want %d and %q", c.args, code, out, cli.ExitUsage, c.text)
		}
	}
	for _, args := range [][]string{{"freeze", p.namespace, "-n", p.namespace, "--indefinite", "--reason", "fair"}, {"thaw", p.namespace}} {
		if code, out := call(args...); code != cli.ExitYes {
			t.Errorf("%q: exit code %d, %s", args, code, out)
		}
	}
}

// TestThawChooses checks that thaw without --name does not end a freeze that has spec.periods, and ends no freeze if there are several freezes.
// Without --force, thaw does not end a freeze that a GitOps tool manages. The name of an ended freeze can be used again, unless a GitOps tool
// manages the ended freeze.
func TestThawChooses(t *testing.T) {
	t.Parallel()
	p := begin(t)
	now := time.Now()
	create := func(name string, rules v1alpha1.FreezeRules, manager string) {
		t.Helper()
		rules.Reason = "fair"
		f := &v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: "admin"}}, Spec: v1alpha1.FreezeSpec{FreezeRules: rules}}
		if err := p.Client.Create(t.Context(), f, client.FieldOwner(manager)); err != nil {
			t.Fatal(err)
		}
	}
	past := metav1.NewTime(now.Add(-time.Hour))
	create("freeze", v1alpha1.FreezeRules{Until: &past}, "kubectl")
	create("old-git", v1alpha1.FreezeRules{Until: &past}, "kustomize-controller")
	for _, args := range [][]string{nil, {"--dry-run"}} {
		p.want(cli.ExitNo, `Freeze "old-git" has ended, but is managed by Flux (field manager kustomize-controller), which would restore it: choose another --name`,
			append([]string{"freeze", "--indefinite", "--reason", "incident", "--name", "old-git"}, args...)...)
	}
	p.want(cli.ExitNo, "is not frozen", "thaw")
	var before, after v1alpha1.Freeze
	p.get("freeze", &before)
	p.want(cli.ExitYes, "Nothing was written: dry run.", "freeze", "--indefinite", "--reason", "incident", "--dry-run")
	if p.get("freeze", &after); after.UID != before.UID {
		t.Error("a dry run replaced the freeze")
	}
	p.want(cli.ExitYes, "frozen by ana until you run \""+p.hlnr()+" thaw "+p.namespace+"\"; 0 Microservices", "freeze", "--indefinite", "--reason", "incident")
	p.want(cli.ExitYes, "is deleted", "thaw")

	create("year-end", v1alpha1.FreezeRules{Periods: []v1alpha1.FreezePeriod{{From: past, To: metav1.NewTime(now.Add(time.Hour))}}}, "kubectl")
	p.want(cli.ExitNo, `Freeze "year-end" has spec.periods`, "thaw")
	create("git", v1alpha1.FreezeRules{Indefinite: true}, "kustomize-controller")
	p.want(cli.ExitUsage, "choose one with --name: git, year-end", "thaw")
	p.want(cli.ExitNo, `Freeze "git" is managed by Flux`, "thaw", "--name", "git")
	p.want(cli.ExitYes, "is deleted", "thaw", "--name", "git", "--force")
	p.want(cli.ExitYes, "is deleted", "thaw", "--name", "year-end")
}

// TestThawOfAReplacedFreeze checks that a request to delete the freeze that a preview showed does not delete another freeze that has replaced it
// under the same name.
func TestThawOfAReplacedFreeze(t *testing.T) {
	t.Parallel()
	p := begin(t)
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{})
	previewed := func() FreezeRequest {
		t.Helper()
		r := FreezeRequest{Thaw: true, Namespace: p.namespace, Name: "freeze", DryRun: true}
		done, err := r.Do(t.Context(), f, p.Client)
		if err != nil {
			t.Fatal(err)
		}
		r.UID, r.Generation = done.Deletes()
		r.DryRun = false
		return r
	}
	p.want(cli.ExitYes, "frozen by ana until you run ", "freeze", "--indefinite", "--reason", "incident")
	r := previewed()
	p.want(cli.ExitYes, `Freeze "freeze" by ana ("incident", indefinite) is deleted`, "thaw")
	p.want(cli.ExitYes, "frozen by ana until you run ", "freeze", "--indefinite", "--reason", "trade fair")
	if _, err := r.Do(t.Context(), f, p.Client); cli.CodeOf(err) != cli.ExitNo || !strings.Contains(err.Error(), `Freeze "freeze" was changed or replaced after the preview`) {
		t.Errorf("thaw of the replaced freeze: %v", err)
	}
	p.get("freeze", &v1alpha1.Freeze{})
	if _, err := previewed().Do(t.Context(), f, p.Client); err != nil {
		t.Error(err)
	}
}

// TestFreezeOfTheCluster checks that a ClusterFreeze selects namespaces by their labels, and that the output contains the name of the
// ClusterFreeze.
func TestFreezeOfTheCluster(t *testing.T) {
	t.Parallel()
	p := begin(t)
	namespace, name := p.namespace, "all-"+p.namespace
	p.namespace = "" // --all-namespaces is rejected together with --namespace.
	p.want(cli.ExitYes, "cluster: frozen by ana until you run \""+p.hlnr()+" thaw --all-namespaces --name "+name+"\"; 0 Microservices",
		"freeze", "-A", "--namespace-selector", "kubernetes.io/metadata.name="+namespace, "--indefinite", "--reason", "upgrade", "--name", name)
	out := p.want(cli.ExitYes, "clusterfreeze.hlnr.io/"+name, "thaw", "-A", "--name", name, "-o", "name")
	if strings.TrimSpace(out) != "clusterfreeze.hlnr.io/"+name {
		t.Errorf("-o name prints %q", out)
	}
}
