// Package manager runs the Microservice and VersionedMicroservice controllers against the API server of
// test/apiserver, for tests of user actions. Deployments are available as soon as they exist, unless the
// version of their image ends in "-broken". [Cluster.Offer] writes the versions that an ImagePolicy offers.
// There are no routes: without a NetworkPolicy, nothing needs to be confirmed.
package manager

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/freeze"
	"github.com/heighliner/heighliner/controllers/microservice"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// interval is the interval of the stand-in for pods.
const interval = 100 * time.Millisecond

// Cluster is an API server with a running manager.
type Cluster struct{ *apiserver.Env }

// Run starts an API server with admission policies, and the manager. It sets *cluster, runs the tests, stops the
// manager and the API server, and returns the exit code for os.Exit. The functions in change modify the API
// server's options.
func Run(m *testing.M, cluster **Cluster, change ...func(*apiserver.Options)) int {
	flag.Parse()
	options := apiserver.Options{Policies: true}
	for _, edit := range change {
		edit(&options)
	}
	env, err := apiserver.Start(options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start API server:", err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c, err := start(ctx, env, ended)
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "start manager:", err)
		close(ended)
	} else {
		*cluster = c
		code = m.Run()
	}
	cancel()
	<-ended
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop API server:", err)
		return max(code, 1)
	}
	return code
}

// start runs the controllers until ctx ends, and then closes ended. The controllers use the identity of the manager's
// ServiceAccount, which the admission policies allow.
func start(ctx context.Context, env *apiserver.Env, ended chan<- struct{}) (*Cluster, error) {
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: apiserver.ManagerUser, Groups: []string{"system:masters", "system:authenticated"}}
	options := cache.Options{ByObject: versionedmicroservice.CacheByObject()}
	for o, by := range microservice.CacheByObject() {
		options.ByObject[o] = by
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: env.Client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Cache: options,
	})
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	mgr = index.Once(mgr)
	registry := prometheus.NewRegistry()
	if err := microservice.SetupWithManager(mgr, microservice.Options{Metrics: registry}); err != nil {
		return nil, err
	}
	if err := versionedmicroservice.SetupWithManager(mgr, versionedmicroservice.Options{Metrics: registry}); err != nil {
		return nil, err
	}
	if err := freeze.SetupWithManager(mgr, freeze.Options{}); err != nil {
		return nil, err
	}
	c := &Cluster{env}
	go c.playPods(ctx)
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			panic(fmt.Sprintf("run the tests' manager: %v", err))
		}
	}()
	return c, nil
}

// playPods marks Deployments as available, and creates their pods.
func (c *Cluster) playPods(ctx context.Context) {
	for ctx.Err() == nil {
		var list appsv1.DeploymentList
		if err := c.Client.List(ctx, &list); err == nil {
			for i := range list.Items {
				c.playPod(ctx, &list.Items[i])
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

func (c *Cluster) playPod(ctx context.Context, d *appsv1.Deployment) {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	broken := strings.Contains(d.Spec.Template.Spec.Containers[0].Image, "-broken")
	available := want
	if broken {
		available = 0
	}
	if d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == available && len(d.Status.Conditions) > 0 {
		return
	}
	mark := c.MarkDeploymentAvailable
	if broken {
		mark = c.MarkDeploymentUnavailable
	}
	// After a conflict, playPods tries again in the next round.
	if c.readyPods(ctx, d, int(available)) == nil {
		_ = mark(ctx, client.ObjectKeyFromObject(d))
	}
}

// readyPods creates and deletes a Deployment's pods so that n pods are ready.
func (c *Cluster) readyPods(ctx context.Context, d *appsv1.Deployment, n int) error {
	var pods corev1.PodList
	if err := c.Client.List(ctx, &pods, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case i >= n:
			if err := c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return err
			}
		case len(pod.Status.Conditions) == 0: // Its status could not be written before.
			if err := c.setReady(ctx, pod); err != nil {
				return err
			}
		}
	}
	for i := len(pods.Items); i < n; i++ {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, GenerateName: d.Name + "-", Labels: d.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: d.Spec.Template.Spec.Containers[0].Image}}
		if err := c.Client.Create(ctx, pod); err != nil {
			return err
		}
		if err := c.setReady(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) setReady(ctx context.Context, pod *corev1.Pod) error {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	return c.Client.Status().Update(ctx, pod)
}

// Microservice creates a Microservice with the given name and canary steps, two replicas, and an ImagePolicy
// with the same name.
func (c *Cluster) Microservice(t testing.TB, namespace, name string, steps ...v1alpha1.CanaryStep) {
	t.Helper()
	policy := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	policy.Spec.Image = "r.example/" + name
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	ms.Spec.ImagePolicyRef.Name = name
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: name, Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	ms.Spec.Availability.Replicas = 2
	if len(steps) > 0 {
		ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: steps}
	}
	for _, o := range []client.Object{policy, ms} {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// Offer makes the ImagePolicy offer versions, newest first. It groups them by major version.
func (c *Cluster) Offer(t testing.TB, namespace, name string, versions ...string) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		var p v1alpha1.ImagePolicy
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &p); err != nil {
			return err
		}
		p.Status.ObservedGeneration = p.Generation
		p.Status.Latest, p.Status.Offered, p.Status.Releases = versions[0], fmt.Sprint(len(versions)), nil
		for _, v := range versions {
			major, _, _ := strings.Cut(v, ".")
			p.Status.Releases = append(p.Status.Releases, v1alpha1.OfferedRelease{
				SemVer: v1alpha1.SemVer{Name: major + ".x", Version: v}, Group: major + "-x", Level: v1alpha1.LevelRelease,
				Images: []v1alpha1.ReleaseImage{{Image: "r.example/" + name + ":" + v + "@sha256:" + v, Digest: "sha256:" + v}},
			})
		}
		return c.Client.Status().Update(ctx, &p)
	})
}

// Await waits until a version has the given status, and returns its release.
func (c *Cluster) Await(t testing.TB, namespace, name, version string, want v1alpha1.ReleaseStatus) *v1alpha1.VersionedMicroservice {
	t.Helper()
	found := &v1alpha1.VersionedMicroservice{}
	await.Nil(t, func(ctx context.Context) error {
		var ms v1alpha1.Microservice
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &ms); err != nil {
			return err
		}
		for _, g := range ms.Status.ReleaseGroups {
			for _, r := range g.Releases {
				if r.SemVer.Version != version {
					continue
				}
				if r.Status != want || want == v1alpha1.ReleaseCanary && (g.Rollout == nil || g.Rollout.Step == 0) {
					return fmt.Errorf("%s is %s, want %s", version, r.Status, want)
				}
				return c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.VersionedMicroservice}, found)
			}
		}
		return fmt.Errorf("release %s is missing, want status %s: %+v", version, want, ms.Status.Conditions)
	})
	return found
}

// Frozen waits until the manager reports that a Freeze is active. The Freeze then applies to all later changes.
func (c *Cluster) Frozen(t testing.TB, namespace, name string) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		var f v1alpha1.Freeze
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &f); err != nil {
			return err
		}
		if !f.Status.Active || f.Status.ObservedGeneration != f.Generation {
			return fmt.Errorf("status of Freeze %s: %+v", name, f.Status)
		}
		return nil
	})
}

// Edit changes a Microservice as the given field manager.
func (c *Cluster) Edit(t testing.TB, namespace, name, manager string, change func(*v1alpha1.MicroserviceSpec)) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		var ms v1alpha1.Microservice
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &ms); err != nil {
			return err
		}
		change(&ms.Spec)
		err := c.Client.Update(ctx, &ms, client.FieldOwner(manager))
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		return err
	})
}
