//go:build e2e

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// earlier is the commit from which TestUpgrade upgrades: the last commit before freezes, notifications and approvals by several users.
var earlier = flag.String("upgrade.from", "77076c6609f8", "commit from which TestUpgrade upgrades, and to which it downgrades")

// installation is a build of the manager with the manifests of its commit.
type installation struct {
	name, root string
	// image is the name that pods use to pull the image, including the tag.
	image string
}

// TestUpgrade installs an earlier commit as a user would, starts a canary under load, upgrades to this build,
// downgrades, and upgrades again. No release starts, no pod is replaced, no object of a service is written,
// no request fails, and each build continues the other build's canary.
func TestUpgrade(t *testing.T) {
	now := installation{"this build", env.root, managerImage(t)}
	before := checkout(t, *earlier)
	t.Cleanup(func() { now.install(t) })
	before.install(t)
	s := newService(t, "upgrade").steps(asking("tenth", 10), asking("half", 50))
	s.start("1.0.0")
	l := s.load(50, false)
	s.push("1.1.0")
	s.weight("1.1.0", 10)

	changes := func(to installation, weight int32) {
		t.Helper()
		quiet(t, 10*time.Second)
		was, began := s.state(), time.Now()
		l.Mark(to.name)
		to.install(t)
		quiet(t, 20*time.Second)
		if diff := cmp.Diff(was, s.state()); diff != "" {
			t.Errorf("%s changed workloads (-before +after):\n%.4000s", to.name, diff)
		}
		writes, err := harness.AuditWrites(env.AuditLog, harness.AuditFilter{Since: began, UserAgentPrefix: heighlinerAgent, IgnoreResources: []string{harness.Leases, "events", "events.events.k8s.io"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range writes {
			if !strings.HasSuffix(w.Resource, "/status") {
				t.Errorf("%s: %s", to.name, w)
			}
		}
		t.Logf("%s: no workload changed; statuses written: %v", to.name, writes)
		if r := s.release("1.1.0"); r.Weight != weight || r.Status != v1alpha1.ReleaseCanary {
			t.Errorf("%s: 1.1.0 is %s with %d%%", to.name, r.Status, r.Weight)
		}
	}
	changes(now, 10)
	s.decide("1.1.0", v1alpha1.DecisionContinue, "tenth")
	s.weight("1.1.0", 50)
	changes(before, 50)
	s.decide("1.1.0", v1alpha1.DecisionContinue, "half")
	s.active("1.1.0")
	s.push("1.2.0")
	s.weight("1.2.0", 10)
	quiet(t, 10*time.Second)
	was := s.state()
	l.Mark(now.name)
	now.install(t)
	quiet(t, 20*time.Second)
	if diff := cmp.Diff(was, s.state()); diff != "" {
		t.Errorf("%s changed workloads (-before +after):\n%.4000s", now.name, diff)
	}
	s.decide("1.2.0", v1alpha1.DecisionDeprecate, "")
	s.status("1.2.0", v1alpha1.ReleaseError)
	s.sees(l, "1.1.0")
	verdict(t, l)
}

// managerImage returns the installed manager's image.
func managerImage(t *testing.T) string {
	t.Helper()
	var manager appsv1.Deployment
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: managerNamespace, Name: managerName}, &manager); err != nil {
		t.Fatal(err)
	}
	return manager.Spec.Template.Spec.Containers[0].Image
}

// checkout returns the installation of a commit of this repository, with its image in the registry.
func checkout(t *testing.T, commit string) installation {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "earlier")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", env.root}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s; the test needs a clone with its history", args, err, out)
		}
	}
	git("worktree", "add", "--detach", "--force", dir, commit)
	t.Cleanup(func() {
		if out, err := exec.Command("git", "-C", env.root, "worktree", "remove", "--force", dir).CombinedOutput(); err != nil {
			t.Errorf("remove the worktree: %v: %s", err, out)
		}
	})
	return installation{"the build of " + commit, dir, pushManager(t, dir, "v0.0.0-e2e."+commit)}
}

// pushManager builds the manager of a checkout with a version, pushes its image, and returns the name that pods
// use to pull the image.
func pushManager(t *testing.T, root, version string) (image string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "heighliner")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", binary, "./cmd/heighliner")
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the manager: %v\n%s", err, out)
	}
	image = env.RegistryInternal + "/heighliner:" + version
	localcluster(t, "image", "push", "--binary", binary, "--image", image, "--user", "65532", "--ca-certs")
	return image
}

// install applies the manifests with the image, in the way that docs/how-to/install.md describes for an
// upgrade with kustomize, and waits until the pod is replaced.
func (i installation) install(t *testing.T) {
	t.Helper()
	kubectlEnd := func(args ...string) {
		t.Helper()
		if out, err := kubectlCommand(context.Background(), "", args...).CombinedOutput(); err != nil { // This also runs after the test.
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
	}
	name, tag, _ := strings.Cut(strings.TrimPrefix(i.image, env.RegistryInternal), ":")
	overlay := filepath.Join(i.root, ".cache", "e2e-upgrade")
	if err := os.MkdirAll(overlay, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- ../../config/default\nimages:\n- name: heighliner/heighliner\n  newName: %s\n  newTag: %q\n", env.RegistryInternal+name, tag)
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectlEnd("apply", "-k", overlay)
	kubectlEnd("rollout", "status", "-n", managerNamespace, "deployment/"+managerName, "--timeout=120s")
}

// anotherBuild installs a build of the manager with another version, and waits until this build is the
// leader. It installs the previous build again when the test ends.
func anotherBuild(t *testing.T) {
	t.Helper()
	previous := managerImage(t)
	version := fmt.Sprintf("v0.0.0-e2e.%d", time.Now().Unix())
	image := pushManager(t, env.root, version)
	began := time.Now()
	kubectl(t, "", "set", "image", "-n", managerNamespace, "deployment/"+managerName, managerContainer+"="+image)
	kubectl(t, "", "rollout", "status", "-n", managerNamespace, "deployment/"+managerName, "--timeout=120s")
	t.Cleanup(func() {
		if out, err := kubectlCommand(context.Background(), "", "set", "image", "-n", managerNamespace, "deployment/"+managerName, managerContainer+"="+previous).CombinedOutput(); err != nil {
			t.Errorf("install the previous build again: %v\n%s", err, out)
		}
	})
	wait(t, "the new build to be the leader", func(context.Context) (bool, string, error) {
		writes, err := harness.AuditWrites(env.AuditLog, harness.AuditFilter{Since: began, UserAgentPrefix: heighlinerAgent + version})
		return len(writes) > 0, "no write to its Lease yet", err
	})
}

// upgrade restarts the manager with a different build while the fleet is stable. Releases, pods and objects
// must not change.
func (f *fleet) upgrade() {
	t := f.base.t
	t.Helper()
	before := f.base.in(t).state()
	began := time.Now()
	anotherBuild(t)
	quiet(t, 30*time.Second)
	if diff := cmp.Diff(before, f.base.in(t).state()); diff != "" {
		t.Errorf("another build of the manager changed workloads (-before +after):\n%.4000s", diff)
	}
	writes, err := harness.AuditWrites(env.AuditLog, harness.AuditFilter{
		Since: began, UserAgentPrefix: heighlinerAgent, IgnoreResources: []string{harness.Leases, "events"}, // Leader election writes an event.
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range writes {
		t.Errorf("written around the start of another build: %s", w)
	}
	t.Logf("another build of the manager started with %d existing releases, Deployments and pods: no object is new or changed, and no pod was restarted", len(before))
}

// state returns the data that an upgrade must not change: each release, each Deployment's template, and each
// pod with its restarts.
func (s *service) state() map[string]string {
	t := s.t
	t.Helper()
	mine := client.InNamespace(s.namespace)
	var releases v1alpha1.VersionedMicroserviceList
	var deployments appsv1.DeploymentList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&releases, &deployments, &pods} {
		if err := env.Client.List(t.Context(), list, mine); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]string{}
	note := func(kind, name string, uid types.UID, rest any) {
		all[kind+" "+name] = fmt.Sprint(uid, " ", rest)
	}
	for _, r := range releases.Items {
		note("release", r.Name, r.UID, r.Generation)
	}
	for _, d := range deployments.Items {
		note("deployment", d.Name, d.UID, d.Generation)
	}
	for _, p := range pods.Items {
		restarts := int32(0)
		for _, c := range p.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		note("pod", p.Name, p.UID, restarts)
	}
	return all
}
