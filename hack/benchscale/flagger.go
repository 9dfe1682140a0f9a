package main

import (
	"context"
	"fmt"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/test/apiserver"
)

// flagger is Flagger with its provider for ingress-nginx. It has no steps without a pause, no command to
// abort, and no rollback except another rollout, so it runs only some of the phases.
type flagger struct {
	*options
	plane *plane
}

var canaryKind = schema.GroupVersionKind{Group: "flagger.app", Version: "v1beta1", Kind: "Canary"}

func (f *flagger) name() string          { return "flagger" }
func (f *flagger) agent() string         { return filepath.Base(f.peerBinary) }
func (f *flagger) metrics() string       { return "" }
func (f *flagger) profiles() string      { return "" }
func (f *flagger) definitions() []string { return withGatewayAPI(f.peerCRDs) }

func (f *flagger) list() client.ObjectList { return unstructuredList(canaryKind) }

// withGatewayAPI adds the CRDs of the Gateway API, because the gateway stand-in always runs.
func withGatewayAPI(path string) []string {
	gateway, err := apiserver.GatewayAPI(apiserver.GatewayAPIVersion, "standard")
	if err != nil {
		gateway = err.Error() // start fails with this text.
	}
	return []string{path, gateway}
}

func (f *flagger) start(ctx context.Context, p *plane) (*process, error) {
	f.plane = p
	config, err := p.administrator(ctx, "flagger")
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	controller, err := startProcess(p.dir, f.peerBinary, nil, append([]string{
		"-kubeconfig=" + config, "-mesh-provider=nginx", "-port=" + port(address), "-log-level=warn",
		"-metrics-server=http://127.0.0.1:" + port(address),
	}, fields(f.peerArguments)...)...)
	if err != nil {
		return nil, err
	}
	if err := controller.awaitReady(ctx, "http://127.0.0.1:"+port(address)+"/healthz"); err != nil {
		controller.stop()
		return nil, err
	}
	return controller, nil
}

func (f *flagger) phases() []phase {
	return []phase{
		{name: "create", change: f.create, goal: canaryIs("Initialized")},
		{name: "upgrade, two pauses of 10 s", change: f.set("1.1.0"), goal: canaryIs("Succeeded")},
		{name: "rest"},
	}
}

func (f *flagger) create(ctx context.Context, service int) error {
	name, replicas := serviceName(service), int32(2)
	pod := podSpec(service)
	pod.Containers[0].Image = "app:1.0.0"
	labels := map[string]string{"app": name}
	canary := &unstructured.Unstructured{Object: tree{
		"metadata": tree{"namespace": f.namespaceOf(service), "name": name},
		"spec": tree{
			"targetRef":               tree{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
			"ingressRef":              tree{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": name},
			"progressDeadlineSeconds": int64(3600),
			"service":                 tree{"port": int64(80), "targetPort": int64(8080)},
			"analysis":                tree{"interval": "10s", "threshold": int64(5), "stepWeights": []any{int64(steps[0]), int64(steps[1])}},
		},
	}}
	canary.SetGroupVersionKind(canaryKind)
	for _, object := range []client.Object{
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespaceOf(service), Name: name, Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
			},
		},
		ingress(f.namespaceOf(service), name, name), canary,
	} {
		if err := f.plane.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %q: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func (f *flagger) set(version string) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		pod := podSpec(i)
		pod.Containers[0].Image = "app:" + version
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespaceOf(i), Name: serviceName(i)}}
		return patch(ctx, f.plane.client, deployment, tree{"spec": tree{"template": tree{"spec": tree{"containers": pod.Containers}}}})
	}
}

// canaryIs returns a function that reports whether a Canary is in the given phase.
func canaryIs(phase string) func(client.Object) bool {
	return func(o client.Object) bool {
		status, _ := o.(*unstructured.Unstructured).Object["status"].(tree)
		return status["phase"] == phase
	}
}
