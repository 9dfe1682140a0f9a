package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// metricsVersion is the API version from which autoscalers read pod usage.
const metricsVersion = "metrics.k8s.io/v1beta1"

// InstallPodMetrics replaces a metrics server: the API server stores the usage of pods under the path from which
// autoscalers read it. PlayLoad writes the usage. Autoscalers read nothing else, so a CRD is sufficient.
func (e *Env) InstallPodMetrics(_ context.Context) error {
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pods.metrics.k8s.io",
			// The server requires this annotation on CRDs in the API groups of Kubernetes.
			Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, for tests"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "metrics.k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "pods", Singular: "podmetrics", Kind: "PodMetrics", ListKind: "PodMetricsList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1beta1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
			}},
		},
	}
	if _, err := envtest.InstallCRDs(e.Config, envtest.CRDInstallOptions{MaxTime: partTimeout, CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}}); err != nil {
		return fmt.Errorf("install PodMetrics: %w", err)
	}
	return nil
}

// PlayLoad runs the Pods that match the labels, and distributes load (in millicores) among these Pods until the test
// ends. PlayLoad requires InstallPodMetrics and a controller-manager. The load may be changed at any time.
func (e *Env) PlayLoad(t testing.TB, namespace string, labels client.MatchingLabels, load *atomic.Int64) {
	e.play(t, "load", namespace, &corev1.PodList{}, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := e.Client.List(ctx, &pods, client.InNamespace(namespace), labels); err != nil {
			return err
		}
		running := map[string]*corev1.Pod{}
		var errs []error
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.DeletionTimestamp != nil {
				continue
			}
			running[pod.Name] = pod
			errs = append(errs, e.markPod(ctx, pod, true))
		}
		usage, err := e.usage(ctx, namespace)
		if err != nil || len(running) == 0 {
			return errors.Join(append(errs, err)...)
		}
		for _, name := range spread(slices.Collect(maps.Keys(running)), usage) {
			errs = append(errs, e.writeUsage(ctx, running[name], load.Load()/int64(len(running))))
		}
		return errors.Join(errs...)
	})
}

// spread orders pods by descending usage, before a load is distributed among them. Pods without usage come
// last. With this order, an autoscaler that reads between two writes never sees more than the larger of the
// current and the previous load. With another order, the autoscaler could request too many pods.
func spread(pods []string, usage map[string]int64) []string {
	of := func(pod string) int64 {
		if u, ok := usage[pod]; ok {
			return u
		}
		return -1
	}
	slices.SortFunc(pods, func(a, b string) int { return cmp.Or(cmp.Compare(of(b), of(a)), cmp.Compare(a, b)) })
	return pods
}

// usage returns the usage that autoscalers read for the pods in a namespace, in millicores.
func (e *Env) usage(ctx context.Context, namespace string) (map[string]int64, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(metricsVersion)
	list.SetKind("PodMetricsList")
	if err := e.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list usage of Pods: %w", err)
	}
	usage := map[string]int64{}
	for i := range list.Items {
		containers, _, _ := unstructured.NestedSlice(list.Items[i].Object, "containers")
		for _, c := range containers {
			fields, _ := c.(map[string]any)
			text, _, _ := unstructured.NestedString(fields, "usage", "cpu")
			if cpu, err := resource.ParseQuantity(text); err == nil {
				usage[list.Items[i].GetName()] += cpu.MilliValue()
			}
		}
	}
	return usage, nil
}

func (e *Env) writeUsage(ctx context.Context, pod *corev1.Pod, millicores int64) error {
	usage := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": metricsVersion, "kind": "PodMetrics",
		"metadata":  map[string]any{"name": pod.Name, "namespace": pod.Namespace},
		"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "10s",
		"containers": []any{map[string]any{
			"name":  pod.Spec.Containers[0].Name,
			"usage": map[string]any{"cpu": fmt.Sprintf("%dm", millicores), "memory": "1Mi"},
		}},
	}}
	usage.SetLabels(pod.Labels)
	live := usage.DeepCopy()
	err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), live)
	switch {
	case apierrors.IsNotFound(err):
		err = e.Client.Create(ctx, usage)
	case err == nil:
		usage.SetResourceVersion(live.GetResourceVersion())
		err = e.Client.Update(ctx, usage)
	}
	if err != nil {
		return fmt.Errorf("write usage of Pod %q: %w", pod.Name, err)
	}
	return nil
}
