package resources_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
)

var update = flag.Bool("update", false, "write the golden files again")

func release() *v1alpha1.VersionedMicroservice {
	half := intstr.FromString("50%")
	return &v1alpha1.VersionedMicroservice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop-1-2-0-abc", Namespace: "prod",
			Labels:      map[string]string{"of": "the parent"},
			Annotations: map[string]string{v1alpha1.AnnotationAttempt: "7", "of": "the parent"},
		},
		Spec: v1alpha1.VersionedMicroserviceSpec{
			MicroserviceName: "shop", Group: "1-x", Replicas: 2,
			Availability: v1alpha1.ReleaseAvailability{
				MinReadySeconds: 10, DisruptionBudget: &v1alpha1.DisruptionBudget{MinAvailable: &half},
				Autoscaling: &v1alpha1.Autoscaling{MinReplicas: new(int32(1)), MaxReplicas: 5, Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{
						Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(60))},
					},
				}}},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRelease: "shop-1-2-0-abc", "app": "shop"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "registry.example.com/shop:1.2.0"}}},
			},
		},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, obj := range map[string]any{"deployment": resources.Deployment(release()), "budget": resources.Budget(release()), "autoscaler": resources.Autoscaler(release())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := yaml.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuildersChangeNothing(t *testing.T) {
	t.Parallel()
	r := release()
	live := resources.Deployment(r)
	live.Spec.Template.Spec.Containers[0].Image = "edited"
	before := live.DeepCopy()
	r.Spec.Availability.MinReadySeconds = 3

	amended := resources.Amend(live, r)
	if amended.Spec.Template.Spec.Containers[0].Image != "edited" || amended.Spec.MinReadySeconds != 3 {
		t.Errorf("Amend: %+v", amended.Spec)
	}
	restored := resources.Restore(live, r)
	if diff := cmp.Diff(r.Spec.Template, restored.Spec.Template); diff != "" {
		t.Errorf("Restore (-want +got):\n%s", diff)
	}
	resources.Deployment(r).Spec.Template.Labels["app"] = "other"
	want := release()
	want.Spec.Availability.MinReadySeconds = 3
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("the release was changed:\n%s", diff)
	}
	if diff := cmp.Diff(before, live); diff != "" {
		t.Errorf("the live Deployment was changed:\n%s", diff)
	}
	r.Spec.Availability.DisruptionBudget = nil
	if b := resources.Budget(r); b != nil {
		t.Errorf("a budget that was not requested: %v", b)
	}
}

// TestAutoscalerBounds checks that an autoscaler's minimum and maximum are at least the number of replicas
// that the release requires.
func TestAutoscalerBounds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replicas    int32
		autoscaling *v1alpha1.Autoscaling
		want        [2]int32 // zero means no autoscaler
	}{
		"at the user's minimum":                         {3, &v1alpha1.Autoscaling{MinReplicas: new(int32(3)), MaxReplicas: 5}, [2]int32{3, 5}},
		"replaces a release that has more replicas":     {4, &v1alpha1.Autoscaling{MinReplicas: new(int32(3)), MaxReplicas: 5}, [2]int32{4, 5}},
		"replaces a release with more than the maximum": {9, &v1alpha1.Autoscaling{MaxReplicas: 5}, [2]int32{9, 9}},
		"grows with its weight":                         {1, &v1alpha1.Autoscaling{MinReplicas: new(int32(3)), MaxReplicas: 5}, [2]int32{1, 5}},
		"no pods":                                       {0, &v1alpha1.Autoscaling{MaxReplicas: 5}, [2]int32{}},
		"a fixed number":                                {3, nil, [2]int32{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := release()
			r.Spec.Replicas, r.Spec.Availability.Autoscaling = test.replicas, test.autoscaling
			var got [2]int32
			if a := resources.Autoscaler(r); a != nil {
				got = [2]int32{*a.Spec.MinReplicas, a.Spec.MaxReplicas}
			}
			if got != test.want || resources.Autoscaled(r) != (test.want != [2]int32{}) {
				t.Errorf("minimum and maximum %v, want %v", got, test.want)
			}
		})
	}
}
