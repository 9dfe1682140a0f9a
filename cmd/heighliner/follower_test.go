package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

// placeholder is the image in the manifest, because the API requires an image.
const placeholder = "example.com/set-by-heighliner"

// report is the manifest of a user's CronJob, as it is stored in Git.
const report = `
apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
  labels: {hlnr.io/follow: shop}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: shop
            image: ` + placeholder + `
            command: [report]
            envFrom:
            - configMapRef: {name: settings}
            env:
            - name: LEVEL
              valueFrom: {configMapKeyRef: {name: settings, key: level}}
            - {name: SHAPE, value: long}
          - {name: proxy, image: example.com/proxy:1}
          volumes:
          - {name: settings, configMap: {name: settings}}
          - {name: other, configMap: {name: other}}
`

// TestFollower tests that a CronJob uses the image and the configuration of the active release after a promotion, a
// rollback, a change to the CronJob's manifest in Git, and the deletion of the Microservice.
func TestFollower(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.PlayKubelet(t, namespace, nil)
	withShippedRights(t, namespace)
	git := func(manifest string) {
		t.Helper()
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetNamespace(namespace)
		if err := env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("git"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "report"}}
	follows := func(image string, suspended bool, message string) {
		t.Helper()
		await.Nil(t, func(ctx context.Context) error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
				return err
			}
			got := job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image
			if why := job.Annotations[v1alpha1.AnnotationFollowMessage]; !strings.Contains(got, image) || ptr.Deref(job.Spec.Suspend, false) != suspended || !strings.Contains(why, message) {
				return fmt.Errorf("image %q, suspended %t: %s", got, ptr.Deref(job.Spec.Suspend, false), why)
			}
			return nil
		})
	}
	git(report)
	paused := strings.NewReplacer("name: report", "name: paused", "schedule:", "suspend: true\n  schedule:").Replace(report)
	git(paused)
	follows(placeholder, true, `Microservice "shop" does not exist`)

	images := registrytest.New(t)
	digests := map[string]string{"1.0.0": images.Push(t, "team/shop", "1.0.0"), "1.1.0": ""}
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"level": "1"}})
	policy := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
	policy.Spec.Image, policy.Spec.Interval = images.Repository("team/shop"), "5s"
	policy.Spec.Platforms = []string{"linux/amd64"}
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "shop", EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	create(t, ms)
	follows(placeholder, true, `suspended until Microservice "shop" has an active release`)
	create(t, policy) // Without the ImagePolicy, there is no version.
	follows("@"+digests["1.0.0"], false, "version 1.0.0")
	job.Name = "paused" // The user suspended this CronJob. It follows the release, but remains suspended.
	follows("@"+digests["1.0.0"], true, "version 1.0.0")
	job.Name = "report"
	follows("@"+digests["1.0.0"], false, "version 1.0.0")
	first := job.Annotations[v1alpha1.AnnotationFollows]
	configured(t, job, "level", "1")

	// Promote a release with another configuration.
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"level": "2"}}
	if err := env.Client.Update(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	digests["1.1.0"] = images.Push(t, "team/shop", "1.1.0")
	follows("@"+digests["1.1.0"], false, "version 1.1.0")
	configured(t, job, "level", "2")

	// Apply the manifest from Git again, with another schedule and with the original names of the
	// ConfigMaps.
	git(strings.Replace(report, "0 3 ", "30 3 ", 1))
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if pod := job.Spec.JobTemplate.Spec.Template.Spec; job.Spec.Schedule != "30 3 * * *" || pod.Volumes[0].ConfigMap.Name == "settings" {
			return fmt.Errorf("schedule %q, volume %q", job.Spec.Schedule, pod.Volumes[0].ConfigMap.Name)
		}
		return nil
	})
	follows("@"+digests["1.1.0"], false, "version 1.1.0")
	configured(t, job, "level", "2")

	// Roll back to the first release, which has the previous configuration.
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(ms), ms); err != nil {
		t.Fatal(err)
	}
	ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Release: first}
	if err := env.Client.Update(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	follows("@"+digests["1.0.0"], false, "version 1.0.0")
	configured(t, job, "level", "1")
	ownsOnly(t, job)

	// The manager writes nothing if nothing changes.
	version := job.ResourceVersion
	time.Sleep(2 * time.Second)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
		t.Fatal(err)
	}
	if job.ResourceVersion != version {
		t.Error("the CronJob was written without a change")
	}

	// A change in Git renames the container and removes a variable: the previous fields disappear.
	git(strings.NewReplacer("labels:", "annotations: {hlnr.io/follow-container: main}\n  labels:", "- name: shop", "- name: main", `
            - name: LEVEL
              valueFrom: {configMapKeyRef: {name: settings, key: level}}`, "").Replace(report))
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		all := job.Spec.JobTemplate.Spec.Template.Spec.Containers
		if len(all) != 2 || all[0].Name != "main" || len(all[0].Env) != 1 || !strings.Contains(all[0].Image, digests["1.0.0"]) {
			return fmt.Errorf("containers %+v", all)
		}
		return nil
	})
	git(report)
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if all := job.Spec.JobTemplate.Spec.Template.Spec.Containers; len(all) != 2 || all[0].Name != "shop" || len(all[0].Env) != 2 {
			return fmt.Errorf("containers %+v", all)
		}
		return nil
	})
	follows("@"+digests["1.0.0"], false, "version 1.0.0")

	// The envFrom list has a single owner. An empty list in the manifest removes the list from the CronJob. If the
	// manifest omits the list, it remains in the CronJob.
	git(strings.Replace(report, "envFrom:\n            - configMapRef: {name: settings}", "envFrom: []", 1))
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if list := job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].EnvFrom; len(list) > 0 {
			return fmt.Errorf("envFrom %v", list)
		}
		return nil
	})

	// Without the label, the CronJob is no longer suspended.
	unfollowed := strings.NewReplacer("name: report", "name: unfollowed", "{hlnr.io/follow: shop}", "{hlnr.io/follow: none}").Replace(report)
	git(unfollowed)
	job.Name = "unfollowed"
	follows(placeholder, true, `Microservice "none" does not exist`)
	git(strings.Replace(unfollowed, "{hlnr.io/follow: none}", "{}", 1))
	follows(placeholder, false, "no label")
	job.Name = "report"
	follows("@"+digests["1.0.0"], false, "version 1.0.0")

	// Without the Microservice, the CronJob keeps its image and configuration: uninstalling does not harm workloads.
	if err := env.Client.Delete(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	follows("@"+digests["1.0.0"], false, `Microservice "shop" does not exist`)
	await.Nil(t, func(ctx context.Context) error { // The manager sends events in the background.
		var events eventsv1.EventList
		if err := env.Client.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		var reasons []string
		for _, e := range events.Items {
			if e.Regarding.Kind == "CronJob" {
				reasons = append(reasons, e.Reason)
			}
		}
		for _, want := range []string{"Following", "MicroserviceNotFound", "NoActiveRelease"} {
			if !slices.Contains(reasons, want) {
				return fmt.Errorf("events %q, want an event with reason %s", reasons, want)
			}
		}
		return nil
	})
}

// configured fails the test unless the CronJob refers to a single ConfigMap with the given content wherever the
// manifest refers to the ConfigMap "settings", and the other references are unchanged.
func configured(t *testing.T, job *batchv1.CronJob, key, value string) {
	t.Helper()
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	shop := pod.Containers[0]
	names := []string{shop.EnvFrom[0].ConfigMapRef.Name, shop.Env[0].ValueFrom.ConfigMapKeyRef.Name, pod.Volumes[0].ConfigMap.Name}
	if len(slices.Compact(names)) != 1 {
		t.Errorf("refers to ConfigMaps %q, want a single ConfigMap", names)
	}
	settings := &corev1.ConfigMap{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: job.Namespace, Name: names[0]}, settings); err != nil {
		t.Fatal(err)
	}
	if settings.Data[key] != value || !ptr.Deref(settings.Immutable, false) {
		t.Errorf("ConfigMap %s has %v, want %s=%s, immutable", names[0], settings.Data, key, value)
	}
	if shop.Env[1].Value != "long" || pod.Volumes[1].ConfigMap.Name != "other" || pod.Containers[1].Image != "example.com/proxy:1" || !slices.Equal(shop.Command, []string{"report"}) {
		t.Errorf("other fields changed: %+v", pod)
	}
}

// ownsOnly fails the test if the follower owns fields that it need not set.
func ownsOnly(t *testing.T, job *batchv1.CronJob) {
	t.Helper()
	allowed := []string{
		"f:metadata", "f:annotations", "f:hlnr.io/applied", "f:hlnr.io/follow-message", "f:hlnr.io/follow-state", "f:hlnr.io/follows",
		"f:spec", "f:jobTemplate", "f:template", "f:containers", `k:{"name":"shop"}`, ".", "f:name", "f:image", "f:envFrom",
		"f:env", `k:{"name":"LEVEL"}`, "f:valueFrom", "f:configMapKeyRef", "f:volumes", `k:{"name":"settings"}`, "f:configMap",
	}
	var check func(fields map[string]any)
	check = func(fields map[string]any) {
		for field, inner := range fields {
			if !slices.Contains(allowed, field) {
				t.Errorf("the follower owns field %s", field)
			}
			if inner, ok := inner.(map[string]any); ok {
				check(inner)
			}
		}
	}
	found := false
	for _, m := range job.ManagedFields {
		if m.Manager == "heighliner-follower" {
			found = true
			var fields map[string]any
			if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields); err != nil {
				t.Fatal(err)
			}
			check(fields)
		}
	}
	if !found {
		t.Error("the follower owns no field")
	}
}
