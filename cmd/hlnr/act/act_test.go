package act

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/manager"
)

var cluster *manager.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(manager.Run(m, &cluster))
}

// person is a user at a terminal, in their own namespace.
type person struct {
	testing.TB
	*manager.Cluster
	namespace string
}

func begin(t *testing.T) *person {
	t.Helper()
	return &person{t, cluster, cluster.Namespace(t)}
}

// hlnr returns the beginning of commands in messages, which contains the flags that select the cluster.
func (p *person) hlnr() string { return "hlnr --kubeconfig " + p.Kubeconfig() }

// call runs a command as the user ana, who has all permissions.
func (p *person) call(args ...string) (code cli.Code, stdout, stderr string) {
	p.Helper()
	return p.as([]string{"--as", "ana", "--as-group", "system:masters"}, args...)
}

func (p *person) as(who []string, args ...string) (code cli.Code, stdout, stderr string) {
	p.Helper()
	var out, err bytes.Buffer
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &err})
	code = cli.Run(p.Context(), f, slices.Concat(args, []string{"--kubeconfig", p.Kubeconfig(), "-n", p.namespace}, who), Commands...)
	return code, out.String(), err.String()
}

// want runs a command, and checks its exit code and a part of its output or its error.
func (p *person) want(code cli.Code, text string, args ...string) string {
	p.Helper()
	if slices.Contains([]string{"continue", "adopt", "deprecate", "abort", "retry", "promote"}, args[0]) {
		args = append(args, "--timeout", await.Limit.String()) // A busy machine might need this much time.
	}
	got, stdout, stderr := p.call(args...)
	answer := stdout
	if code != cli.ExitYes && stderr != "" {
		answer = stderr
	}
	if got != code || !strings.Contains(answer, text) {
		p.Fatalf("%s: exit code %d, output %q, error %q; want %d and %q", strings.Join(args, " "), got, stdout, stderr, code, text)
	}
	return stdout
}

func (p *person) get(name string, o client.Object) {
	p.Helper()
	if err := p.Client.Get(p.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, o); err != nil {
		p.Fatal(err)
	}
}

func (p *person) spec() v1alpha1.MicroserviceSpec {
	p.Helper()
	var ms v1alpha1.Microservice
	p.get("shop", &ms)
	return ms.Spec
}

func (p *person) await(version string, status v1alpha1.ReleaseStatus) *v1alpha1.VersionedMicroservice {
	p.Helper()
	return p.Await(p, p.namespace, "shop", version, status)
}

func (p *person) offer(versions ...string) {
	p.Helper()
	p.Offer(p, p.namespace, "shop", versions...)
}

// shop returns a user with a Microservice shop that runs 1.0.0. The Microservice has two steps: one that requires approval, and one that
// takes an hour.
func shop(t *testing.T) *person {
	t.Helper()
	p := begin(t)
	p.Microservice(t, p.namespace, "shop",
		v1alpha1.CanaryStep{Name: "tenth", Weight: 10, Approval: &v1alpha1.CanaryApproval{}},
		v1alpha1.CanaryStep{Name: "half", Weight: 50, Pause: &v1alpha1.CanaryPause{Duration: "1h"}})
	p.offer("1.0.0")
	p.await("1.0.0", v1alpha1.ReleaseActive)
	return p
}

// TestDecisions checks decisions about canaries and failed releases, and that each decision contains the user name that the API
// server reports.
func TestDecisions(t *testing.T) {
	t.Parallel()
	p := shop(t)
	p.want(cli.ExitNo, "shop has no release to continue: 1.0.0 is active", "continue", "shop")
	p.want(cli.ExitNo, `Adopt is not possible: shop 1.0.0 is already active`, "adopt", "shop", "1.0.0")
	p.want(cli.ExitNo, `to pin the release that was active before, run "`+p.hlnr()+` rollback -n `+p.namespace+` shop"`, "deprecate", "shop", "1.0.0")
	p.offer("1.1.0", "1.0.0")
	name := p.await("1.1.0", v1alpha1.ReleaseCanary).Name

	p.want(cli.ExitNo, "shop 1.1.0 is in step tenth, not in half", "continue", "shop", "--step", "half")
	p.want(cli.ExitUsage, `there is no release or Microservice with the name "shpo" in namespace `+p.namespace+`; did you mean "shop"?`, "continue", "shpo")
	p.want(cli.ExitUsage, `there is no release of shop with the name "1.1.1"; did you mean "1.1.0"?`, "continue", "shop", "1.1.1")
	p.want(cli.ExitUsage, `invalid argument "`+strings.Repeat("ä", 257)+`" for "--reason" flag: it has 257 characters, but at most 256 are allowed`, "continue", "shop", "--reason", strings.Repeat("ä", 257))
	dry := p.want(cli.ExitYes, "1.1.0: Continue of step tenth by ana", "continue", "shop", "--dry-run")
	if !strings.Contains(dry, "after 1h") || !strings.Contains(dry, "Nothing was written: dry run.") {
		t.Errorf("dry run: %s", dry)
	}
	if p.await("1.1.0", v1alpha1.ReleaseCanary).Spec.Decision != nil {
		t.Error("a dry run wrote a decision")
	}

	p.want(cli.ExitYes, "shop 1.1.0: Continue of step tenth by ana: applied", "continue", name, "--reason", strings.Repeat("ä", 256))
	release := p.await("1.1.0", v1alpha1.ReleaseCanary)
	if d := release.Spec.Decision; d == nil || d.Step != "tenth" || d.Reason != strings.Repeat("ä", 256) || release.Annotations[v1alpha1.AnnotationDecidedBy] != "ana" {
		t.Errorf("decision %+v, signed by %q", d, release.Annotations[v1alpha1.AnnotationDecidedBy])
	}
	if !slices.ContainsFunc(release.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "hlnr" }) {
		t.Errorf("the field manager hlnr wrote nothing: %+v", release.ManagedFields)
	}
	await.Nil(t, func(context.Context) error {
		var ms v1alpha1.Microservice
		p.get("shop", &ms)
		if r := ms.Status.ReleaseGroups[0].Rollout; r == nil || r.Step != 2 {
			return fmt.Errorf("the rollout is %+v, want step 2", r)
		}
		return nil
	})
	p.want(cli.ExitNo, "shop 1.1.0 is in step half, not in tenth", "continue", "shop", "1.1.0", "--step", "tenth")

	stdout := p.want(cli.ExitYes, "", "promote", "shop", "v1.1.0", "--full", "-o", "json")
	var done Done
	if err := json.Unmarshal([]byte(stdout), &done); err != nil || done.Action != "Adopt" || done.Outcome != "Applied" || done.By != "ana" || done.Object != "versionedmicroservice.hlnr.io/"+name {
		t.Errorf("%v: %s", err, stdout)
	}
	p.await("1.1.0", v1alpha1.ReleaseActive)

	p.offer("1.2.0", "1.1.0", "1.0.0")
	p.await("1.2.0", v1alpha1.ReleaseCanary)
	p.want(cli.ExitYes, "  1.x: 1.1.0, which is active, gets all traffic\nNothing was written: dry run.\n", "deprecate", "shop", "--dry-run")
	p.want(cli.ExitYes, "shop 1.2.0: Deprecate by ana: applied", "abort", "shop")
	p.await("1.2.0", v1alpha1.ReleaseError)
	p.want(cli.ExitNo, `failed (Aborted): to start it again, run "`+p.hlnr()+` retry -n `+p.namespace+` shop 1.2.0"`, "adopt", "shop", "1.2.0")
	p.want(cli.ExitYes, "shop 1.2.0: Retry by ana: applied", "retry", "shop")
	p.await("1.2.0", v1alpha1.ReleaseCanary)
}

// TestDecisionOfAnID checks that a release handles decisions with the same ID only once, so that a pipeline can be run again.
func TestDecisionOfAnID(t *testing.T) {
	t.Parallel()
	p := shop(t)
	p.offer("1.1.0", "1.0.0")
	p.await("1.1.0", v1alpha1.ReleaseCanary)
	p.want(cli.ExitYes, "applied", "continue", "shop", "--id", "build-7")
	name := p.await("1.1.0", v1alpha1.ReleaseCanary).Name
	decided := func() v1alpha1.HandledDecision {
		t.Helper()
		var ms v1alpha1.Microservice
		p.get("shop", &ms)
		d := recorded(&ms, name)
		if d == nil || d.ID != "build-7" {
			t.Fatalf("the Microservice records %+v", d)
		}
		return *d
	}
	before := decided()
	p.want(cli.ExitYes, "applied", "continue", "shop", "--id", "build-7")
	if after := decided(); !after.Time.Equal(&before.Time) {
		t.Errorf("handled at %s and %s", before.Time, after.Time)
	}
}

// TestRefused checks that a command prints the message from the API server about a rejected request, or the role with the missing permission.
func TestRefused(t *testing.T) {
	t.Parallel()
	p := shop(t)
	p.offer("1.1.0", "1.0.0")
	p.await("1.1.0", v1alpha1.ReleaseCanary)
	code, _, stderr := p.as([]string{"--as", "bob"}, "continue", "shop")
	if code != cli.ExitFailed || !strings.Contains(stderr, "you (bob) cannot list microservices.hlnr.io in namespace "+p.namespace) {
		t.Errorf("exit code %d, error %q", code, stderr)
	}
	// A dry run reports a missing permission to write before a missing permission to read objects that the planner needs.
	vic := metav1.ObjectMeta{Namespace: p.namespace, Name: "vic"}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: vic, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: vic, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "vic"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "vic"}},
		},
	} {
		if err := p.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for resource, args := range map[string][]string{
		"microservices.hlnr.io": {"pause", "shop", "--dry-run"}, "versionedmicroservices.hlnr.io": {"deprecate", "shop", "--dry-run"},
	} {
		await.Nil(t, func(context.Context) error { // The authorizer applies the roles with a delay.
			if code, _, stderr := p.as([]string{"--as", "vic"}, args...); code != cli.ExitFailed || !strings.Contains(stderr, "you (vic) cannot patch "+resource) {
				return fmt.Errorf("%v: exit code %d, error %q", args, code, stderr)
			}
			return nil
		})
	}
	p.want(cli.ExitUsage, "spec.decision.id: Too long", "continue", "shop", "--id", strings.Repeat("x", 65))
	p.want(cli.ExitUsage, "it has 300 characters, but at most 128 are allowed", "pin", "shop", "1.0.0", "--reason", strings.Repeat("x", 300))
}

// TestPins checks that a pin keeps a group at a version, and that removing a pin keeps other pins.
func TestPins(t *testing.T) {
	t.Parallel()
	p := shop(t)
	p.want(cli.ExitNo, "shop has no earlier release to return to (1.0.0 is active): name a version with --to", "rollback", "shop")
	p.want(cli.ExitNo, "shop is not pinned", "unpin", "shop")
	p.offer("1.1.0", "1.0.0")
	p.await("1.1.0", v1alpha1.ReleaseCanary)
	p.want(cli.ExitNo, `1.1.0 is being rolled out, and 1.0.0 is still active: to keep 1.0.0, run "`+p.hlnr()+` deprecate -n `, "rollback", "shop")
	p.want(cli.ExitYes, "applied", "adopt", "shop")
	p.await("1.1.0", v1alpha1.ReleaseActive)
	old := p.await("1.0.0", v1alpha1.ReleaseDeprecated).Name

	patch := p.want(cli.ExitYes, "kind: Microservice", "rollback", "shop", "--print-patch")
	if !strings.Contains(patch, "release: "+old) || strings.Contains(patch, "author") || p.spec().UpdateStrategy.Manual != nil {
		t.Errorf("patch for Git: %s, pins %+v", patch, p.spec().UpdateStrategy.Manual)
	}
	if effects := p.want(cli.ExitYes, "Nothing was written", "rollback", "shop", "--dry-run"); !strings.Contains(effects, "1.0.0") || p.spec().UpdateStrategy.Manual != nil {
		t.Errorf("dry run: %s, pins %+v", effects, p.spec().UpdateStrategy.Manual)
	}
	for want, args := range map[string][]string{
		"--wait: nothing is written with --dry-run":            {"--wait", "--dry-run"},
		"--timeout requires --wait":                            {"--timeout", "5m"},
		"--timeout: invalid value -1s: must be greater than 0": {"--wait", "--timeout", "-1s"},
	} {
		p.want(cli.ExitUsage, want, append([]string{"rollback", "shop"}, args...)...)
	}
	p.want(cli.ExitYes, "the release is retained, and returns without canary steps\nto wait until this takes effect: "+p.hlnr()+" wait -n "+p.namespace+" shop 1.0.0\n", "rollback", "shop", "--until", "3d", "--reason", "sessions lost")
	m := p.spec().UpdateStrategy.Manual
	if m == nil || len(m.Groups) != 1 || m.Groups[0].Name != "1.x" || m.Groups[0].Release != old || m.Groups[0].Reason != "sessions lost" || m.Groups[0].Author.Of(old) != "ana" || time.Until(m.Groups[0].ExpireTime.Time) < 70*time.Hour {
		t.Fatalf("pins %+v", m)
	}
	p.await("1.0.0", v1alpha1.ReleaseActive)
	p.want(cli.ExitNo, "shop has no earlier release to return to", "rollback", "shop") // 1.1.0 is retained too, but is a higher version.

	p.want(cli.ExitYes, `shop 1.x: pinned to 1.1.0; this replaces the pin to 1.0.0 by ana ("sessions lost"); the release is retained`, "pin", "shop", "1.1.0", "--dry-run")
	p.want(cli.ExitYes, `shop 1.x: the pin to 1.0.0 by ana ("sessions lost") is removed`, "unpin", "shop", "--dry-run")
	p.want(cli.ExitUsage, `there is no version or release of shop with the name "1.1.1"; did you mean`, "pin", "shop", "1.1.1")
	p.want(cli.ExitUsage, `there is no release group of shop with the name "2.x"; did you mean "1.x"?`, "pin", "shop", "1.1.0", "--group", "2.x")
	p.want(cli.ExitUsage, `--until: "soon" is not a time`, "pin", "shop", "1.1.0", "--until", "soon")
	p.want(cli.ExitYes, "the group follows the newest version\nto wait until this takes effect: "+p.hlnr()+" wait -n "+p.namespace+" shop 1.1.0\n", "unpin", "shop")
	p.await("1.1.0", v1alpha1.ReleaseActive)
	if out := p.want(cli.ExitYes, "the release is retained", "pin", "shop", "1.0.0", "--wait", "--timeout", await.Limit.String()); !strings.Contains(out, "  active  ") || strings.Contains(out, "to wait until this takes effect") {
		t.Errorf("pin --wait: %s", out)
	}
	p.want(cli.ExitTimeout, "1.1.0 is not active after 1ns", "pin", "shop", "1.1.0", "--wait", "--timeout", "1ns")
	p.want(cli.ExitYes, `"result":"Yes"`, "unpin", "shop", "--wait", "--timeout", await.Limit.String(), "-o", "json")
	p.await("1.1.0", v1alpha1.ReleaseActive)
	if out := p.want(cli.ExitYes, "shop 1.x: pinned to 1.1.0", "pin", "shop", "v1.1.0"); strings.Contains(out, "to wait until this takes effect") {
		t.Errorf("a pin without effect: %s", out)
	}
	p.want(cli.ExitNo, "shop 1.x is already pinned to 1.1.0", "pin", "shop", "1.1.0")
	p.want(cli.ExitYes, "the group follows the newest version", "unpin", "shop")
	if m := p.spec().UpdateStrategy.Manual; m != nil {
		t.Errorf("pins %+v", m)
	}
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	p := shop(t)
	p.want(cli.ExitNo, "shop is not paused", "resume", "shop")
	p.want(cli.ExitYes, "shop: paused", "pause", "msvc/shop")
	p.want(cli.ExitNo, "shop is already paused", "pause", "shop")
	if !p.spec().Paused {
		t.Error("not paused")
	}
	p.want(cli.ExitYes, "microservice.hlnr.io/shop\n", "resume", "shop", "-o", "name")
	if p.spec().Paused {
		t.Error("paused")
	}
	p.offer("2.0.0", "1.0.0")
	p.await("2.0.0", v1alpha1.ReleaseActive)
	p.want(cli.ExitUsage, `there is no release group of shop with the name "3.x"; did you mean`, "end-group", "shop", "3.x")
	p.want(cli.ExitYes, "Nothing was written", "end-group", "shop", "1-x", "--dry-run")
	p.want(cli.ExitYes, "shop 1.x: the group loses its traffic, is drained, and is removed (its active version is 1.0.0)", "end-group", "shop", "1-x")
	p.want(cli.ExitNo, "group 1.x of shop is already in spec.endedGroups", "end-group", "shop", "1.x")
	if got := p.spec().EndedGroups; !slices.Equal(got, []string{"1.x"}) {
		t.Errorf("ended groups %q", got)
	}
	p.want(cli.ExitYes, "shop 1.x: the group can start again", "end-group", "shop", "1.x", "--undo")
	if got := p.spec().EndedGroups; len(got) != 0 {
		t.Errorf("ended groups %q", got)
	}
}

// TestGitOps checks that a command prints a patch, and writes nothing, if a GitOps tool set the field. A dry run shows the effects, and
// has the same exit code.
func TestGitOps(t *testing.T) {
	t.Parallel()
	p := shop(t)
	p.Edit(t, p.namespace, "shop", "kustomize-controller", func(s *v1alpha1.MicroserviceSpec) { s.UpdateStrategy.ProgressDeadlineSeconds = 700 })
	code, stdout, stderr := p.call("pause", "shop")
	if code != cli.ExitYes || !strings.Contains(stderr, "note: Flux (field manager kustomize-controller) applies this object") {
		t.Errorf("a field that Flux does not set: exit code %d, output %q, error %q", code, stdout, stderr)
	}
	p.Edit(t, p.namespace, "shop", "kustomize-controller", func(s *v1alpha1.MicroserviceSpec) { s.Paused = false })
	p.Edit(t, p.namespace, "shop", "argocd-controller", func(s *v1alpha1.MicroserviceSpec) { s.Paused = true })
	code, stdout, stderr = p.call("resume", "shop")
	if code != cli.ExitNo || !strings.Contains(stdout, "paused: null") || !strings.Contains(stderr, "spec.paused of "+p.namespace+"/shop is set by Argo CD (field manager argocd-controller)") || !p.spec().Paused {
		t.Errorf("a field that Argo CD set: exit code %d, output %q, error %q, paused %t", code, stdout, stderr, p.spec().Paused)
	}
	code, stdout, stderr = p.call("resume", "shop", "--dry-run")
	if code != cli.ExitNo || !strings.Contains(stdout, "shop: resumed\n") || !strings.Contains(stdout, "Nothing was written: dry run.") || !strings.Contains(stderr, "spec.paused of "+p.namespace+"/shop is set by Argo CD") || !strings.Contains(stderr, "--print-patch") || !p.spec().Paused {
		t.Errorf("a dry run for a field that Argo CD set: exit code %d, output %q, error %q, paused %t", code, stdout, stderr, p.spec().Paused)
	}
	p.want(cli.ExitYes, "Nothing was written: dry run.", "resume", "shop", "--dry-run", "--force")
	p.want(cli.ExitYes, "shop: resumed", "resume", "shop", "--force")
}

func TestScan(t *testing.T) {
	t.Parallel()
	p := shop(t)
	p.want(cli.ExitUsage, `there is no ImagePolicy with the name "shp" in namespace `+p.namespace+`; did you mean "shop"?`, "scan", "imagepolicy/shp")
	p.want(cli.ExitTimeout, "the manager did not scan within 50ms", "scan", "shop", "--timeout", "50ms")
	// This function simulates a manager that scans.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			var policy v1alpha1.ImagePolicy
			if err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: "shop"}, &policy); err != nil {
				continue
			}
			if request := policy.Annotations[v1alpha1.AnnotationRequestedAt]; policy.Status.LastHandledRequest != request {
				policy.Status.LastHandledRequest = request
				_ = p.Client.Status().Update(ctx, &policy) // The next iteration tries again after an error.
			}
			time.Sleep(time.Millisecond)
		}
	}()
	defer func() { cancel(); <-ended }()
	p.want(cli.ExitYes, "shop: scanned; offered versions: 1, latest 1.0.0", "scan", "shop", "--timeout", await.Limit.String())
}

// TestScanOfASuspendedRepository checks that the command does not wait for a poll of a suspended GitHubRepository.
func TestScanOfASuspendedRepository(t *testing.T) {
	t.Parallel()
	p := begin(t)
	r := &v1alpha1.GitHubRepository{}
	r.Namespace, r.Name = p.namespace, "shop"
	r.Spec.Owner, r.Spec.Repo, r.Spec.Suspend = "acme", "shop", true
	if err := p.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	p.want(cli.ExitNo, "GitHubRepository shop is suspended: remove spec.suspend first", "scan", "githubrepository/shop", "--timeout", "200ms")
}

// TestScanOfALaterRequest checks that the scan for a later request ends the wait, and that the scan for an earlier request does not.
func TestScanOfALaterRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		annotation, handled string
		want                bool
	}{
		"not yet":            {"mine", "before", false},
		"never":              {"mine", "", false},
		"this one":           {"mine", "mine", true},
		"a later one":        {"later", "later", true},
		"before it":          {"later", "before", false},
		"annotation removed": {"", "", false},
	} {
		for _, obj := range []client.Object{
			&v1alpha1.ImagePolicy{Status: v1alpha1.ImagePolicyStatus{LastHandledRequest: c.handled}},
			&v1alpha1.GitHubRepository{Status: v1alpha1.GitHubRepositoryStatus{LastHandledRequest: c.handled}},
		} {
			obj.SetAnnotations(map[string]string{v1alpha1.AnnotationRequestedAt: c.annotation})
			if got, _ := scanned(obj, "mine"); got != c.want {
				t.Errorf("%s, %T: %t", name, obj, got)
			}
		}
	}
}

// TestInterruptedAfterTheDecision checks that the message after a signal reports a decision that was already written.
func TestInterruptedAfterTheDecision(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{})
	d := &decision{id: "hlnr-1", timeout: time.Minute}
	err := d.report(ctx, &scope{Factory: f, client: fake.NewClientBuilder().Build(), namespace: "shop"}, target{ms: &v1alpha1.Microservice{}, row: &v1alpha1.Release{}}, &Done{}, "")
	if got := f.Explain(ctx, err); cli.CodeOf(got) != cli.ExitInterrupted || !strings.Contains(got.Error(), "the decision is recorded (ID hlnr-1)") {
		t.Errorf("exit code %d: %v", cli.CodeOf(got), got)
	}
}

// TestInterrupted checks that a signal ends the wait for a decision, but does not interrupt the write.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	write, stop := whole(ctx)
	defer stop()
	cancel()
	if ctx.Err() == nil || write.Err() != nil {
		t.Errorf("the call: %v, the write: %v", ctx.Err(), write.Err())
	}
}

// TestWaitForTheCurrentConfiguration checks that pin --current-configuration and unpin wait for the release with the current configuration,
// while another release of the same version is active.
func TestWaitForTheCurrentConfiguration(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.Microservice(t, p.namespace, "shop")
	p.offer("1.0.0")
	old := p.await("1.0.0", v1alpha1.ReleaseActive).Name
	p.want(cli.ExitYes, "the version is active, and newer versions wait", "pin", "shop", old)
	p.Edit(t, p.namespace, "shop", "ana", func(spec *v1alpha1.MicroserviceSpec) {
		spec.Template.Spec.Containers[0].Env = append(spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "COLOR", Value: "green"})
	})
	active := func() string {
		t.Helper()
		var ms v1alpha1.Microservice
		p.get("shop", &ms)
		for _, r := range ms.Status.ReleaseGroups[0].Releases {
			if r.Status == v1alpha1.ReleaseActive {
				return r.VersionedMicroservice
			}
		}
		return ""
	}
	if out := p.want(cli.ExitYes, "the version starts as a new release", "pin", "shop", "1.0.0", "--current-configuration", "--wait", "--timeout", await.Limit.String()); active() == old {
		t.Errorf("pin: %s is still active after\n%s", old, out)
	}
	p.want(cli.ExitYes, "the release is retained", "pin", "shop", old, "--wait", "--timeout", await.Limit.String())
	if active() != old {
		t.Fatalf("%s is not active", old)
	}
	if out := p.want(cli.ExitYes, "the group follows the newest version", "unpin", "shop", "--wait", "--timeout", await.Limit.String()); active() == old {
		t.Errorf("unpin: %s is still active after\n%s", old, out)
	}
}

// TestPinOfADeniedVersion checks that a rollback does not select a denied version, and that a pin to a denied version is rejected.
func TestPinOfADeniedVersion(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.Microservice(t, p.namespace, "shop")
	for i, offered := range [][]string{{"1.0.0"}, {"1.1.0", "1.0.0"}, {"1.2.0", "1.1.0", "1.0.0"}} {
		p.offer(offered...)
		p.await(offered[0], v1alpha1.ReleaseActive)
		if i > 0 {
			p.await(offered[1], v1alpha1.ReleaseDeprecated)
		}
	}
	await.Nil(t, func(ctx context.Context) error {
		var policy v1alpha1.ImagePolicy
		p.get("shop", &policy)
		policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "1-x", Version: "1.1.0", Reason: v1alpha1.WithdrawnDenied, Time: metav1.Now()}}
		policy.Status.Releases = slices.Delete(policy.Status.Releases, 1, 2)
		return p.Client.Status().Update(ctx, &policy)
	})
	p.want(cli.ExitNo, "shop 1.1.0 is denied by ImagePolicy shop, and a pin does not override this", "pin", "shop", "1.1.0")
	p.want(cli.ExitNo, "shop 1.1.0 is denied by ImagePolicy shop", "rollback", "shop", "--to", "1.1.0")
	p.want(cli.ExitYes, "shop 1.x: pinned to 1.0.0", "rollback", "shop", "--dry-run")
}
