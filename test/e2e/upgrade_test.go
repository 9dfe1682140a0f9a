//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
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

// anotherBuild installs a build of the manager with another version, waits until it is the leader, and puts the first one back
// when the test ends.
func anotherBuild(t *testing.T) {
	t.Helper()
	var manager appsv1.Deployment
	key := client.ObjectKey{Namespace: managerNamespace, Name: managerName}
	if err := env.Client.Get(t.Context(), key, &manager); err != nil {
		t.Fatal(err)
	}
	previous := manager.Spec.Template.Spec.Containers[0].Image
	version := fmt.Sprintf("v0.0.0-e2e.%d", time.Now().Unix())
	binary := filepath.Join(t.TempDir(), "heighliner")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", binary, "./cmd/heighliner")
	cmd.Dir = env.root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the manager: %v\n%s", err, out)
	}
	image := env.RegistryInternal + "/heighliner:" + version
	localcluster(t, "image", "push", "--binary", binary, "--image", image, "--user", "65532", "--ca-certs")
	install := func(image string) {
		kubectl(t, "", "set", "image", "-n", managerNamespace, "deployment/"+managerName, managerContainer+"="+image)
		kubectl(t, "", "rollout", "status", "-n", managerNamespace, "deployment/"+managerName, "--timeout=120s")
	}
	began := time.Now()
	install(image)
	t.Cleanup(func() {
		cmd := exec.Command(env.kubectl, "--kubeconfig", env.Kubeconfig, "set", "image", "-n", managerNamespace, "deployment/"+managerName, managerContainer+"="+previous)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("install the previous build again: %v\n%s", err, out)
		}
	})
	wait(t, "the new build to be the leader", func(context.Context) (bool, string, error) {
		writes, err := harness.AuditWrites(env.AuditLog, harness.AuditFilter{Since: began, UserAgentPrefix: heighlinerAgent + version})
		return len(writes) > 0, "no write of its Lease yet", err
	})
}

// upgrade restarts the manager as another build under the stable fleet: no release, no pod and no object may change.
func (f *fleet) upgrade() {
	t := f.base.t
	t.Helper()
	before := f.state()
	began := time.Now()
	anotherBuild(t)
	quiet(t, 30*time.Second)
	if diff := cmp.Diff(before, f.state()); diff != "" {
		t.Errorf("another build of the manager changed what runs (-before +after):\n%.4000s", diff)
	}
	writes, err := harness.AuditWrites(env.AuditLog, harness.AuditFilter{
		Since: began, UserAgentPrefix: heighlinerAgent, IgnoreResources: []string{harness.Leases, "events"}, // that it is the leader is an event
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range writes {
		t.Errorf("written around the start of another build: %s", w)
	}
	t.Logf("another build of the manager over %d releases, Deployments and pods: none is new or changed, no pod was restarted", len(before))
}

// state returns what an upgrade must not change: each release, each Deployment's template, and each pod with its
// restarts.
func (f *fleet) state() map[string]string {
	t := f.base.t
	t.Helper()
	mine := client.InNamespace(f.base.namespace)
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
