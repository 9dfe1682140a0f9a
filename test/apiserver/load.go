package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// metricsVersion is what autoscalers read the usage of pods from.
const metricsVersion = "metrics.k8s.io/v1beta1"

// InstallPodMetrics stands in for a metrics server: the API server keeps the usage of
// pods that PlayLoad writes, under the path at which autoscalers read it. They read
// nothing else of it, so that a definition is as good as a server.
func (e *Env) InstallPodMetrics(ctx context.Context) error {
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pods.metrics.k8s.io",
			// The server wants a word about groups of Kubernetes.
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
	if _, err := envtest.InstallCRDs(e.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}}); err != nil {
		return fmt.Errorf("install PodMetrics: %w", err)
	}
	return nil
}

// PlayLoad runs the Pods that match the labels, and spreads that many millicores of
// load over them, until the test ends. It needs InstallPodMetrics and a
// controller-manager. The load may be changed at any time.
func (e *Env) PlayLoad(t testing.TB, namespace string, labels client.MatchingLabels, load *atomic.Int64) {
	play(t, "load", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := e.Client.List(ctx, &pods, client.InNamespace(namespace), labels); err != nil {
			return err
		}
		var running []*corev1.Pod
		var errs []error
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.DeletionTimestamp != nil {
				continue
			}
			running = append(running, pod)
			errs = append(errs, e.markPod(ctx, pod, true))
		}
		for _, pod := range running {
			errs = append(errs, e.writeUsage(ctx, pod, load.Load()/int64(len(running))))
		}
		return errors.Join(errs...)
	})
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
