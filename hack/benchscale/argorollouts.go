package main

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// argoRollouts is the controller of Argo Rollouts. Without routing, the canary's share of the traffic is its
// share of the pods. With "nginx", the controller writes Ingresses with the annotations of ingress-nginx,
// and no controller confirms these Ingresses.
type argoRollouts struct {
	*options
	plane       *plane
	metricsAddr string
}

var rolloutKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}

func (a *argoRollouts) name() string          { return "argo-rollouts (routing: " + a.peerRouting + ")" }
func (a *argoRollouts) agent() string         { return filepath.Base(a.peerBinary) }
func (a *argoRollouts) metrics() string       { return a.metricsAddr }
func (a *argoRollouts) profiles() string      { return "" }
func (a *argoRollouts) definitions() []string { return withGatewayAPI(a.peerCRDs) }

func (a *argoRollouts) list() client.ObjectList { return unstructuredList(rolloutKind) }

// unstructuredList returns an empty list of objects without Go types.
func unstructuredList(kind schema.GroupVersionKind) client.ObjectList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

func (a *argoRollouts) start(ctx context.Context, p *plane) (*process, error) {
	a.plane = p
	const own = "argo-rollouts"
	config, err := p.administrator(ctx, own)
	if err != nil {
		return nil, err
	}
	probes, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if a.metricsAddr, err = freeAddress(); err != nil {
		return nil, err
	}
	controller, err := startProcess(p.dir, a.peerBinary, nil, append([]string{
		"--kubeconfig=" + config, "--namespace=" + own, "--healthzPort=" + port(probes), "--metricsPort=" + port(a.metricsAddr), "--loglevel=warn",
	}, fields(a.peerArguments)...)...)
	if err != nil {
		return nil, err
	}
	if err := controller.awaitReady(ctx, "http://127.0.0.1:"+port(probes)+"/healthz"); err != nil {
		controller.stop()
		return nil, err
	}
	a.metricsAddr = "127.0.0.1:" + port(a.metricsAddr)
	return controller, nil
}

func (a *argoRollouts) phases() []phase {
	minor := 0
	next := func() string { minor++; return fmt.Sprintf("1.%d.0", minor) }
	list := []phase{{name: "create", change: a.create, goal: rolloutIs("Healthy")}}
	for i := range a.upgrades {
		name := "upgrade"
		if i > 0 {
			name = fmt.Sprintf("upgrade %d", i+1)
		}
		list = append(list, phase{name: name, change: a.set(next(), nil), goal: rolloutIs("Healthy")})
	}
	previous := fmt.Sprintf("1.%d.0", minor)
	return append(list,
		phase{name: "upgrade, two pauses of 10 s", change: a.set(next(), tree{"duration": "10s"}), goal: rolloutIs("Healthy")},
		phase{name: "canary, paused in its first step", change: a.set(next(), tree{"duration": "2h"}), goal: rolloutIs("Paused")},
		phase{name: "abort", change: a.abort, goal: rolloutIs("Degraded")},
		phase{name: "back to the previous version", change: a.set(previous, tree{"duration": "10s"}), goal: rolloutIs("Healthy")},
		phase{name: "rest"},
	)
}

// rolloutSteps returns the steps of a canary, each followed by a pause unless pause is nil.
func rolloutSteps(pause tree) []any {
	var list []any
	for _, weight := range steps {
		list = append(list, tree{"setWeight": int64(weight)})
		if pause != nil {
			list = append(list, tree{"pause": pause})
		}
	}
	return list
}

func (a *argoRollouts) create(ctx context.Context, service int) error {
	namespace, name := a.namespaceOf(service), serviceName(service)
	objects := []client.Object{a.rollout(service)}
	if a.peerRouting != "none" {
		objects = append([]client.Object{serviceOf(namespace, name, name+"-stable"), serviceOf(namespace, name, name+"-canary"), ingress(namespace, name, name+"-stable")}, objects...)
	}
	for _, object := range objects {
		if err := a.plane.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %q: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func (a *argoRollouts) rollout(service int) client.Object {
	name := serviceName(service)
	pod := podSpec(service)
	pod.Containers[0].Image = "app:1.0.0"
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if err != nil {
		panic(err) // A PodSpec can always be converted.
	}
	canary := tree{"steps": rolloutSteps(nil)}
	if a.peerRouting != "none" {
		canary["stableService"], canary["canaryService"] = name+"-stable", name+"-canary"
		canary["trafficRouting"] = tree{"nginx": tree{"stableIngress": name}}
	}
	u := &unstructured.Unstructured{Object: tree{
		"metadata": tree{"namespace": a.namespaceOf(service), "name": name},
		"spec": tree{
			"replicas": int64(2), "revisionHistoryLimit": int64(3), "progressDeadlineSeconds": int64(3600),
			"rollbackWindow": tree{"revisions": int64(3)},
			"selector":       tree{"matchLabels": tree{"app": name}},
			"template":       tree{"metadata": tree{"labels": tree{"app": name}}, "spec": content},
			"strategy":       tree{"canary": canary},
		},
	}}
	u.SetGroupVersionKind(rolloutKind)
	return u
}

// serviceOf returns a Service for an application's pods.
func serviceOf(namespace, app, name string) client.Object {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
}

// ingress returns an Ingress that routes a service's host to a Service.
func ingress(namespace, name, service string) client.Object {
	class, prefix := "nginx", networkingv1.PathTypePrefix
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: networkingv1.IngressSpec{IngressClassName: &class, Rules: []networkingv1.IngressRule{{
			Host: name + ".bench.localhost",
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: &prefix,
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}}},
			}}}},
		}}},
	}
}

func (a *argoRollouts) rolloutNamed(service int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(rolloutKind)
	u.SetNamespace(a.namespaceOf(service))
	u.SetName(serviceName(service))
	return u
}

// set changes the image and the steps in one write.
func (a *argoRollouts) set(version string, pause tree) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		pod := podSpec(i)
		pod.Containers[0].Image = "app:" + version
		return patch(ctx, a.plane.client, a.rolloutNamed(i), tree{"spec": tree{
			"strategy": tree{"canary": tree{"steps": rolloutSteps(pause)}},
			"template": tree{"spec": tree{"containers": pod.Containers}},
		}})
	}
}

// abort has the effect of "kubectl argo rollouts abort".
func (a *argoRollouts) abort(ctx context.Context, i int) error {
	rollout := a.rolloutNamed(i)
	data := []byte(`{"status":{"abort":true}}`)
	if err := a.plane.client.Status().Patch(ctx, rollout, client.RawPatch("application/merge-patch+json", data)); err != nil {
		return fmt.Errorf("abort Rollout %q: %w", rollout.GetName(), err)
	}
	return nil
}

// rolloutIs returns a function that reports whether a Rollout is in the given phase at its current
// generation.
func rolloutIs(phase string) func(client.Object) bool {
	return func(o client.Object) bool {
		status, _ := o.(*unstructured.Unstructured).Object["status"].(tree)
		return status["phase"] == phase && status["observedGeneration"] == fmt.Sprint(o.GetGeneration())
	}
}
