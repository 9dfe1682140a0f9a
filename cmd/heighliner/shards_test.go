package main

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/httpclient"
)

// writers records the managers that wrote objects in each namespace, in order. Consecutive writes by the same manager
// count once.
type writers struct {
	mu sync.Mutex
	of map[string][]int
}

// note returns a function that records the writes of a manager.
func (w *writers) note(manager int) func(*http.Request) {
	return func(r *http.Request) {
		_, path, found := strings.Cut(r.URL.Path, "/namespaces/")
		namespace, _, object := strings.Cut(path, "/")
		if !isWrite(r) || !found || !object || strings.Contains(path, "/leases") {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if row := w.of[namespace]; len(row) == 0 || row[len(row)-1] != manager {
			w.of[namespace] = append(row, manager)
		}
	}
}

// TestShards tests that three managers with the permissions of the shards component divide the namespaces among themselves. One
// manager is killed during a rollout, and the other managers take over its namespaces. Only one manager at a time writes objects
// in a namespace, and each version has only one release.
func TestShards(t *testing.T) {
	t.Parallel()
	shipped(t)
	images := registrytest.New(t)
	images.Push(t, "team/shop", "1.0.0")
	leases := env.Namespace(t)
	installShardRole(t, leases)

	var namespaces []string
	for shards := map[int]bool{}; len(shards) < 3 || len(namespaces) < 6; {
		namespace := env.Namespace(t)
		shards[shard.Of(namespace, 3)] = true
		namespaces = append(namespaces, namespace)
		env.PlayKubelet(t, namespace, nil)
		for _, o := range shopFor(namespace, images.Repository("team/shop"))[:2] {
			if ms, ok := o.(*v1alpha1.Microservice); ok {
				ms.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{DrainDelay: "100ms"}
			}
			create(t, o)
		}
	}

	wrote := writers{of: map[string][]int{}}
	var refused refusals
	var managers []*manager
	for i := range 3 {
		config := rest.CopyConfig(env.Config)
		config.Impersonate = rest.ImpersonationConfig{
			UserName: apiserver.ManagerUser,
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:heighliner-system", "system:authenticated"},
		}
		config.Wrap(refused.wrap)
		kubeconfig := proxiedAs(t, config, wrote.note(i))
		managers = append(managers, startManager(t, "v1.0.0", kubeconfig, strings.Join(namespaces, ","), "--shards=3", "--leader-election-namespace", leases))
	}
	serve := func(version string, releases int) {
		t.Helper()
		for _, namespace := range namespaces {
			waitFor(t, version, 2*await.Limit, func() string { return missing(t, namespace, version, releases) })
		}
	}
	serve("1.0.0", 1)
	held := make([]int, 3)
	waitFor(t, "each shard to be held", await.Limit, func() string {
		for i, m := range managers {
			held[i] = m.shards()
		}
		if held[0]+held[1]+held[2] != 3 {
			return fmt.Sprintf("the managers hold %v", held)
		}
		return ""
	})
	killed := slices.Index(held, slices.Max(held))
	images.Push(t, "team/shop", "1.1.0")
	managers[killed].cmd.Process.Kill()
	managers[killed].cmd.Wait()
	serve("1.1.0", 2)
	waitFor(t, "the shards of the killed manager to be held", await.Limit, func() string {
		sum := 0
		for i, m := range managers {
			if i != killed {
				sum += m.shards()
			}
		}
		if sum != 3 {
			return fmt.Sprintf("the others hold %d", sum)
		}
		return ""
	})
	for i, m := range managers {
		if i != killed {
			m.stop()
		}
	}

	wrote.mu.Lock()
	defer wrote.mu.Unlock()
	takenOver := 0
	for _, namespace := range namespaces {
		row := wrote.of[namespace]
		if len(row) == 2 && row[0] == killed && row[1] != killed {
			takenOver++
		} else if len(row) != 1 || row[0] == killed {
			t.Errorf("managers %v wrote objects in namespace %s in turn; manager %d was killed", row, namespace, killed)
		}
	}
	if takenOver == 0 {
		t.Error("no namespace was taken over")
	}
	t.Logf("the managers held %v shards; manager %d was killed, and %d of %d namespaces were taken over", held, killed, takenOver, len(namespaces))
	if len(refused.seen) > 0 {
		slices.Sort(refused.seen)
		t.Errorf("the API server rejected these requests:\n%s", strings.Join(slices.Compact(refused.seen), "\n"))
	}
}

// TestShardsByServerSideApply enables and disables shards with server-side apply, as Helm 4 and Flux do. The API server
// rejects the Recreate strategy in combination with the default values that it set earlier.
func TestShardsByServerSideApply(t *testing.T) {
	shipped(t)
	for _, step := range []struct {
		components []string
		strategy   appsv1.DeploymentStrategyType
		argument   string
	}{
		{nil, appsv1.RollingUpdateDeploymentStrategyType, "--leader-elect"},
		{[]string{"shards"}, appsv1.RecreateDeploymentStrategyType, "--shards=3"},
		{nil, appsv1.RollingUpdateDeploymentStrategyType, "--leader-elect"},
	} {
		out, err := env.Kubectl(t, "", "apply", "--server-side", "-k", overlay(t, "", []string{"rbac", "manager"}, step.components...))
		if err != nil {
			t.Fatalf("apply with components %v: %v: %s", step.components, err, out)
		}
		var manager appsv1.Deployment
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: "heighliner-system", Name: "heighliner"}, &manager); err != nil {
			t.Fatal(err)
		}
		if got := manager.Spec.Strategy.Type; got != step.strategy {
			t.Errorf("with components %v, the strategy is %s, want %s", step.components, got, step.strategy)
		}
		if args := manager.Spec.Template.Spec.Containers[0].Args; args[0] != step.argument {
			t.Errorf("with components %v, the manager runs with %v, want %s", step.components, args, step.argument)
		}
	}
}

// installShardRole grants access to the Leases of three shards in a namespace, as the shards component does in the namespace of
// the manager.
func installShardRole(t *testing.T, namespace string) {
	t.Helper()
	text, err := env.Kubectl(t, "", "kustomize", overlay(t, "", []string{"rbac", "manager"}, "shards"))
	if err != nil {
		t.Fatalf("build the component: %v: %s", err, text)
	}
	objects, err := apiserver.Objects(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	created := 0
	for _, o := range objects {
		if o.GetName() == "heighliner-leader-election" {
			o.SetNamespace(namespace)
			create(t, o)
			created++
		}
	}
	if created != 2 {
		t.Fatalf("the component has %d objects for the Leases, want a Role and a RoleBinding", created)
	}
}

// shards returns the number of shards that a manager holds, according to its metrics.
func (m *manager) shards() (held int) {
	resp, err := httpclient.New().Get("http://" + m.metrics + "/metrics")
	if err != nil {
		return 0 // The manager has not started yet.
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "heighliner_shard_held{") && strings.HasSuffix(lines.Text(), " 1") {
			held++
		}
	}
	return held
}
