package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
)

// jobRelease returns a release with sidecars, probes, and labels that users' selectors match.
func jobRelease() *v1alpha1.VersionedMicroservice {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/"}}}
	release := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1-0-0-abc"}}
	release.Spec.MicroserviceName, release.Spec.Group = "shop", "1-x"
	release.Spec.Images = []v1alpha1.ReleaseImage{{ContainerName: "metrics", Image: "metrics"}, {Image: "registry.example.com/shop@sha256:1"}}
	release.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop", v1alpha1.LabelRelease: release.Name}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "shop",
			InitContainers: []corev1.Container{{
				Name: "proxy", Image: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
				ResizePolicy: []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}},
			}},
			Containers: []corev1.Container{
				{Name: "metrics", Image: "metrics"}, // an additional image
				{
					Name: "shop", Image: "registry.example.com/shop@sha256:1", Command: []string{"/app"}, Args: []string{"serve"},
					Ports: []corev1.ContainerPort{{ContainerPort: 8080}}, ReadinessProbe: probe, LivenessProbe: probe, StartupProbe: probe,
					ResizePolicy:    []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}, // rejected in a pod that never restarts
					Env:             []corev1.EnvVar{{Name: "DB", Value: "db"}, {Name: "HLNR_GROUP", Value: "from the template"}},
					EnvFrom:         []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "shop-1-0-0-abc-12345678"}}}},
					SecurityContext: &corev1.SecurityContext{RunAsNonRoot: ptr.To(true)},
				},
			},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}},
			Affinity:                  &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}, NodeAffinity: &corev1.NodeAffinity{}},
		},
	}
	return release
}

func jobCall(job v1alpha1.HookJob) hook.Call {
	return hook.Call{
		Hook: v1alpha1.Hook{Name: "migrate", Type: v1alpha1.HookConfirmRollout, Job: &job},
		Body: hook.Body{ID: "0123456789abcdef", Type: v1alpha1.HookConfirmRollout, Name: "migrate", Release: "shop-1-0-0-abc", Group: "1-x", Version: "1.0.0"},
	}
}

// TestJobRunsThePodOfTheRelease checks that a Job's pod has the release's identity, configuration, and
// security context, but no fields that prevent it from completing, and no labels that selectors match.
func TestJobRunsThePodOfTheRelease(t *testing.T) {
	t.Parallel()
	release := jobRelease()
	before := release.DeepCopy()
	job := Job(release, jobCall(v1alpha1.HookJob{Command: []string{"/app", "migrate"}}))
	if !cmp.Equal(before, release) {
		t.Errorf("the release is changed: %s", cmp.Diff(before, release))
	}
	pod := job.Spec.Template
	if diff := cmp.Diff(map[string]string{v1alpha1.LabelHook: "migrate"}, pod.Labels); diff != "" {
		t.Errorf("labels of the pod (-want +got):\n%s", diff)
	}
	if job.Name != "shop-1-0-0-abc-0123456789" || job.Labels[v1alpha1.LabelRelease] != release.Name || job.Annotations[v1alpha1.AnnotationHookCall] != "0123456789abcdef" {
		t.Errorf("the Job is %+v", job.ObjectMeta)
	}
	spec := pod.Spec
	if spec.ServiceAccountName != "shop" || len(spec.Containers) != 1 || len(spec.InitContainers) != 1 || len(spec.InitContainers[0].ResizePolicy) > 0 || spec.TopologySpreadConstraints != nil || spec.Affinity.PodAntiAffinity != nil || spec.Affinity.NodeAffinity == nil ||
		spec.RestartPolicy != corev1.RestartPolicyNever || *spec.ActiveDeadlineSeconds != 600 || *job.Spec.BackoffLimit != 0 || job.Spec.TTLSecondsAfterFinished != nil {
		t.Errorf("the pod is %+v", spec)
	}
	c := spec.Containers[0]
	if c.Name != "shop" || len(c.Ports) > 0 || len(c.ResizePolicy) > 0 || c.ReadinessProbe != nil || c.LivenessProbe != nil || c.StartupProbe != nil || len(c.Args) > 0 || len(c.EnvFrom) != 1 || !*c.SecurityContext.RunAsNonRoot ||
		c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		t.Errorf("the container is %+v", c)
	}
	env := map[string][]string{}
	for _, e := range c.Env {
		env[e.Name] = append(env[e.Name], e.Value)
	}
	if env["DB"][0] != "db" || len(env["HLNR_GROUP"]) != 1 || env["HLNR_GROUP"][0] != "1-x" || env["HLNR_VERSION"][0] != "1.0.0" {
		t.Errorf("the variables are %v", env)
	}
}

func TestJobOverrides(t *testing.T) {
	t.Parallel()
	release := jobRelease()
	for name, test := range map[string]struct {
		job       v1alpha1.HookJob
		image     string
		command   []string
		args      []string
		deadline  int64
		attempts  int32
		memoryMax string
	}{
		"nothing": {v1alpha1.HookJob{}, "registry.example.com/shop@sha256:1", []string{"/app"}, []string{"serve"}, 600, 0, "0"},
		"args":    {v1alpha1.HookJob{Args: []string{"migrate"}}, "registry.example.com/shop@sha256:1", []string{"/app"}, []string{"migrate"}, 600, 0, "0"},
		"all": {v1alpha1.HookJob{
			Image: "load", Command: []string{"k6"}, Args: []string{"run"}, Timeout: "1h", BackoffLimit: 3,
			Resources: &v1alpha1.HookJobResources{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
		}, "load", []string{"k6"}, []string{"run"}, 3600, 3, "64Mi"},
	} {
		job := Job(release, jobCall(test.job))
		c := job.Spec.Template.Spec.Containers[0]
		if c.Image != test.image || !cmp.Equal(c.Command, test.command) || !cmp.Equal(c.Args, test.args) || *job.Spec.Template.Spec.ActiveDeadlineSeconds != test.deadline ||
			*job.Spec.BackoffLimit != test.attempts || c.Resources.Limits.Memory().String() != test.memoryMax {
			t.Errorf("%s: the Job runs %+v", name, job.Spec)
		}
	}
}

// TestJobOfAForkIsConfined checks that a fork's Job has no identity, like the release's pods, and that its
// log is not reported.
func TestJobOfAForkIsConfined(t *testing.T) {
	t.Parallel()
	release := jobRelease()
	release.Spec.Template.Spec.ServiceAccountName, release.Spec.Template.Spec.AutomountServiceAccountToken = "default", ptr.To(false)
	pod := Job(release, jobCall(v1alpha1.HookJob{})).Spec.Template.Spec
	if pod.ServiceAccountName != "default" || *pod.AutomountServiceAccountToken || pod.Containers[0].TerminationMessagePolicy != "" {
		t.Errorf("the pod of the Job is %+v", pod)
	}
}

// TestLabelsInVariablesOfAJob checks that, in a Job, variables that refer to labels of the release's pods have
// the same values as in these pods, although the Job's pod does not have these labels. An example is the schema of a
// preview. Other references do not change.
func TestLabelsInVariablesOfAJob(t *testing.T) {
	t.Parallel()
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	release := jobRelease()
	release.Spec.Group = "feature-cart-17"
	env := []corev1.EnvVar{field("SCHEMA", "metadata.labels['hlnr.io/group']"), field("APP", "metadata.labels['app']"), field("OTHER", "metadata.labels['other']"), field("POD", "metadata.name")}
	release.Spec.Template.Spec.Containers[1].Env, release.Spec.Template.Spec.InitContainers[0].Env = env, env
	pod := Job(release, jobCall(v1alpha1.HookJob{})).Spec.Template.Spec
	want := []corev1.EnvVar{{Name: "SCHEMA", Value: "feature-cart-17"}, {Name: "APP", Value: "shop"}, env[2], env[3]}
	for _, c := range []corev1.Container{pod.Containers[0], pod.InitContainers[0]} {
		if diff := cmp.Diff(want, c.Env[:len(env)]); diff != "" {
			t.Errorf("container %s (-want +got):\n%s", c.Name, diff)
		}
	}
	if env[0].ValueFrom == nil {
		t.Error("the release is changed")
	}
}
