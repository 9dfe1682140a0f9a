package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// systemNamespace and managerName identify the ServiceAccount in the shipped manifests.
const systemNamespace, managerName = "heighliner-system", "heighliner"

// administrator is the user who makes all changes that users would make.
const administrator = "admin"

// singleUpgrades is the number of services that are upgraded one after another.
const singleUpgrades = 50

// steps are the weights of each canary's steps.
var steps = []int32{20, 50}

// heighliner is the manager of this project, with the shipped CustomResourceDefinitions, roles, and
// policies.
type heighliner struct {
	*options
	plane                  *plane
	metricsAddr, pprofAddr string
	releases               map[string]string // names of VersionedMicroservices to abort, by Microservice
}

func (h *heighliner) name() string     { return "heighliner" }
func (h *heighliner) agent() string    { return "heighliner" }
func (h *heighliner) metrics() string  { return h.metricsAddr }
func (h *heighliner) profiles() string { return h.pprofAddr }

func (h *heighliner) list() client.ObjectList { return &v1alpha1.MicroserviceList{} }

func (h *heighliner) definitions() []string {
	return withGatewayAPI(filepath.Join("config", "crd"))
}

// start installs the shipped roles and policies, and starts the manager as the shipped ServiceAccount.
func (h *heighliner) start(ctx context.Context, p *plane) (*process, error) {
	h.plane = p
	err := p.apply(ctx, filepath.Join("config", "default", "namespace.yaml"), filepath.Join("config", "rbac"), filepath.Join("config", "policies"))
	if err != nil {
		return nil, err
	}
	config, err := p.serviceAccount(systemNamespace, managerName)
	if err != nil {
		return nil, err
	}
	probes, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if h.metricsAddr, err = freeAddress(); err != nil {
		return nil, err
	}
	// Leader election is disabled, because on an overloaded machine the manager would fail to renew its Lease, and would then
	// exit.
	arguments := []string{
		"--kubeconfig=" + config, "--leader-election-namespace=" + systemNamespace, "--health-probe-bind-address=" + probes,
		"--metrics-bind-address=" + h.metricsAddr, "--metrics-insecure", "--outbound-allow=127.0.0.1",
	}
	if h.options.profiles != "" {
		if h.pprofAddr, err = freeAddress(); err != nil {
			return nil, err
		}
		arguments = append(arguments, "--pprof-bind-address="+h.pprofAddr)
	}
	soft, err := h.softLimit()
	if err != nil {
		return nil, err
	}
	var environment []string
	if soft > 0 {
		environment = append(environment, fmt.Sprintf("GOMEMLIMIT=%d", soft))
	}
	manager, err := startProcess(p.dir, h.manager, environment, append(arguments, fields(h.arguments)...)...)
	if err != nil {
		return nil, err
	}
	if err := manager.awaitReady(ctx, "http://"+probes+"/readyz"); err != nil {
		manager.stop()
		return nil, err
	}
	return manager, nil
}

func (h *heighliner) phases() []phase {
	versions := []string{"1.0.0"}
	list := []phase{{
		name: "create", before: h.pushed("1.0.0"), goal: activeAt("1.0.0"),
		change: func(ctx context.Context, i int) error { return h.create(ctx, i) },
	}}
	next := func() string {
		v := fmt.Sprintf("1.%d.0", len(versions))
		versions = append(versions, v)
		return v
	}
	upgrade := func(name string, goal func(string) func(client.Object) bool) phase {
		v := next()
		return phase{name: name, before: h.pushed(v), change: h.offer(slices.Clone(versions)), goal: goal(v)}
	}
	for i := range h.upgrades {
		name := "upgrade"
		if i > 0 {
			name = fmt.Sprintf("upgrade %d", i+1)
		}
		before := versions[len(versions)-1]
		upgraded := upgrade(name, activeAt)
		if h.decide {
			upgraded.decision = &decision{apply: h.pin(before), undo: h.unpin, observed: observedAtGeneration, goal: activeAt(before), status: "microservices.hlnr.io/status"}
		}
		list = append(list, upgraded)
	}
	list = append(list,
		phase{name: "set two pauses", hidden: true, change: h.pauses("10s"), goal: observedAtGeneration},
		upgrade("upgrade, two pauses of 10 s", activeAt),
	)
	previous := versions[len(versions)-1]
	next()
	list = append(list, h.singly(slices.Clone(versions)), h.others(slices.Clone(versions)),
		phase{name: "set long pauses", hidden: true, change: h.pauses("2h"), goal: observedAtGeneration},
	)
	paused := upgrade("canary, paused in its first step", canaryAt)
	aborted := versions[len(versions)-1]
	return append(list, paused,
		phase{name: "abort", before: h.find(aborted), change: h.abort, goal: failedAt(aborted)},
		phase{name: "back to the previous version", change: h.pin(previous), goal: activeAt(previous)},
		phase{name: "rest"},
	)
}

// singly upgrades some services one after another.
func (h *heighliner) singly(versions []string) phase {
	version := versions[len(versions)-1]
	return phase{name: "upgrades one after another", single: singleUpgrades, before: h.pushed(version), change: h.offer(versions), goal: func(o client.Object) bool {
		return o.GetName() >= serviceName(min(singleUpgrades, h.services)) || activeAt(version)(o)
	}}
}

// others upgrades the other services, so that all services have the same version again.
func (h *heighliner) others(versions []string) phase {
	return phase{name: "upgrade the other services", hidden: true, goal: activeAt(versions[len(versions)-1]), change: func(ctx context.Context, i int) error {
		if i < singleUpgrades {
			return nil
		}
		return h.offer(versions)(ctx, i)
	}}
}

// pushed returns a function that pushes an image with a tag. The image must exist even if ImagePolicies contain a list of tags.
func (h *heighliner) pushed(version string) func(context.Context) error {
	return func(context.Context) error { return h.plane.images.push(version) }
}

func (h *heighliner) create(ctx context.Context, service int) error {
	for _, object := range h.objects(service) {
		if err := h.plane.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %q: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// objects returns the objects of a service, in the order of creation.
func (h *heighliner) objects(service int) []client.Object {
	name := serviceName(service)
	metadata := metav1.ObjectMeta{Namespace: h.namespaceOf(service), Name: name}
	images := &v1alpha1.ImagePolicy{ObjectMeta: metadata, Spec: v1alpha1.ImagePolicySpec{Image: h.plane.images.repository(name)}}
	if h.source == "pinned" {
		images.Spec.Source = &v1alpha1.ImageSource{Pinned: &v1alpha1.PinnedSource{Versions: []string{"1.0.0"}}}
	}
	ms := &v1alpha1.Microservice{ObjectMeta: metadata, Spec: v1alpha1.MicroserviceSpec{
		ImagePolicyRef: v1alpha1.Reference{Name: name},
		Availability:   v1alpha1.Availability{Replicas: 2},
		UpdateStrategy: v1alpha1.UpdateStrategy{ProgressDeadlineSeconds: 3600, DrainDelay: "5s", Canary: &v1alpha1.CanaryStrategy{}},
		Template:       corev1.PodTemplateSpec{Spec: podSpec(service)},
	}}
	for _, weight := range steps {
		ms.Spec.UpdateStrategy.Canary.Steps = append(ms.Spec.UpdateStrategy.Canary.Steps, v1alpha1.CanaryStep{Weight: weight})
	}
	target := intstr.FromInt32(8080)
	network := &v1alpha1.NetworkPolicy{ObjectMeta: metadata, Spec: v1alpha1.NetworkPolicySpec{
		Ports: []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: &target}},
		Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{
			ParentRefs: []v1alpha1.ParentReference{{Name: gatewayName, Namespace: gatewayNamespace}},
		}},
		Domains: []v1alpha1.Domain{{Domain: name + ".bench.localhost"}},
	}}
	return []client.Object{images, ms, network}
}

// podSpec returns the spec of a small application on a simulated node.
func podSpec(service int) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: nodeName(service),
		Containers: []corev1.Container{{
			Name:  "app",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("http")}},
				PeriodSeconds: 1,
			},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			}},
		}},
	}
}

// patch sends a merge patch.
func patch(ctx context.Context, c client.Client, object client.Object, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	if err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("patch %T %q: %w", object, object.GetName(), err)
	}
	return nil
}

// tree is a JSON object.
type tree = map[string]any

// offer announces the last of the given versions, either by writing the list of tags or by
// requesting a scan of the registry.
func (h *heighliner) offer(versions []string) func(context.Context, int) error {
	change := tree{"spec": tree{"source": tree{"pinned": tree{"versions": versions}}}}
	if h.source == "registry" {
		change = tree{"metadata": tree{"annotations": tree{v1alpha1.AnnotationRequestedAt: versions[len(versions)-1]}}}
	}
	return func(ctx context.Context, i int) error {
		return patch(ctx, h.plane.client, &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespaceOf(i), Name: serviceName(i)}}, change)
	}
}

func (h *heighliner) microservice(i int) *v1alpha1.Microservice {
	return &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespaceOf(i), Name: serviceName(i)}}
}

// pauses sets the pause of each step.
func (h *heighliner) pauses(duration string) func(context.Context, int) error {
	var paused []tree
	for _, weight := range steps {
		paused = append(paused, tree{"weight": weight, "pause": tree{"duration": duration}})
	}
	return func(ctx context.Context, i int) error {
		return patch(ctx, h.plane.client, h.microservice(i), tree{"spec": tree{"updateStrategy": tree{"canary": tree{"steps": paused}}}})
	}
}

// pin pins each Microservice to a previously active version.
func (h *heighliner) pin(version string) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		return patch(ctx, h.plane.client, h.microservice(i), tree{"spec": tree{"updateStrategy": tree{"manual": tree{"semVer": tree{"version": version}}}}})
	}
}

// unpin lets the newest version become active again.
func (h *heighliner) unpin(ctx context.Context, i int) error {
	return patch(ctx, h.plane.client, h.microservice(i), tree{"spec": tree{"updateStrategy": tree{"manual": nil}}})
}

// find stores the names of a version's releases, for use by abort.
func (h *heighliner) find(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		var list v1alpha1.VersionedMicroserviceList
		if err := h.plane.client.List(ctx, &list); err != nil {
			return fmt.Errorf("list releases: %w", err)
		}
		h.releases = map[string]string{}
		for _, v := range list.Items {
			if v.Spec.SemVer.Version == version {
				h.releases[v.Spec.MicroserviceName] = v.Name
			}
		}
		return nil
	}
}

func (h *heighliner) abort(ctx context.Context, i int) error {
	name, ok := h.releases[serviceName(i)]
	if !ok {
		return fmt.Errorf("abort the canary of %s: it has no release", serviceName(i))
	}
	release := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespaceOf(i), Name: name}}
	return patch(ctx, h.plane.client, release, tree{
		"metadata": tree{"annotations": tree{v1alpha1.AnnotationDecidedBy: administrator}},
		"spec":     tree{"decision": tree{"action": v1alpha1.DecisionDeprecate, "id": "bench"}},
	})
}

// observedAtGeneration reports whether the manager has observed the current generation of a
// Microservice.
func observedAtGeneration(o client.Object) bool {
	return o.(*v1alpha1.Microservice).Status.ObservedGeneration == o.GetGeneration()
}

// release returns a version's release, or nil.
func release(o client.Object, version string) *v1alpha1.Release {
	ms := o.(*v1alpha1.Microservice)
	for i := range ms.Status.ReleaseGroups {
		for j := range ms.Status.ReleaseGroups[i].Releases {
			if r := &ms.Status.ReleaseGroups[i].Releases[j]; r.SemVer.Version == version {
				return r
			}
		}
	}
	return nil
}

// activeAt reports whether a version is active, available, and routed, and no change is in progress except
// the drain of the previous release.
func activeAt(version string) func(client.Object) bool {
	return func(o client.Object) bool {
		r := release(o, version)
		return r != nil && r.Status == v1alpha1.ReleaseActive && r.Available && observedAtGeneration(o) && idle(o) &&
			meta.IsStatusConditionTrue(o.(*v1alpha1.Microservice).Status.Conditions, v1alpha1.ConditionReady)
	}
}

// idle reports whether no rollout is in progress. A drain may still be in progress.
func idle(o client.Object) bool {
	c := meta.FindStatusCondition(o.(*v1alpha1.Microservice).Status.Conditions, v1alpha1.ConditionProgressing)
	return c != nil && (c.Status == metav1.ConditionFalse || c.Reason == "Draining")
}

func canaryAt(version string) func(client.Object) bool {
	return func(o client.Object) bool {
		r := release(o, version)
		return r != nil && r.Status == v1alpha1.ReleaseCanary && r.Weight == steps[0]
	}
}

func failedAt(version string) func(client.Object) bool {
	return func(o client.Object) bool {
		r := release(o, version)
		return r != nil && r.Status == v1alpha1.ReleaseError && r.Weight == 0 && idle(o)
	}
}

// validateCheckout returns an error unless the program is running in the root of a checkout. The program installs the manifests of the
// checkout.
func validateCheckout() error {
	if _, err := os.Stat(filepath.Join("config", "crd")); err != nil {
		return errors.New("find config/crd: it is not in the working directory: run benchscale in the root of a checkout")
	}
	return nil
}
