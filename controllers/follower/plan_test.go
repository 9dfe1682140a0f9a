package follower

import (
	"encoding/json"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// group returns a group. active is the name of its active release, or empty if no release is active.
func group(name, active string, pullRequest int64) v1alpha1.ReleaseGroup {
	g := v1alpha1.ReleaseGroup{Name: name, Slug: strings.ReplaceAll(name, ".", "-"), PullRequest: pullRequest}
	g.Releases = []v1alpha1.Release{{VersionedMicroservice: "old", Status: v1alpha1.ReleaseDeprecated}}
	if active != "" {
		g.Releases = append(g.Releases, v1alpha1.Release{VersionedMicroservice: active, Status: v1alpha1.ReleaseActive})
	}
	return g
}

func TestDecide(t *testing.T) {
	release := &v1alpha1.VersionedMicroservice{}
	release.Name, release.Spec.SemVer.Version = "shop-1", "1.2.0"
	release.Spec.Images = []v1alpha1.ReleaseImage{{Image: "shop@sha256:1"}, {Image: "migrate@sha256:2", ContainerName: "migrate"}}
	release.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "shop@sha256:1"}}
	one := []v1alpha1.ReleaseGroup{group("1.x", "shop-1", 0)}
	for name, c := range map[string]struct {
		missing     bool
		groups      []v1alpha1.ReleaseGroup
		annotations map[string]string
		containers  []string
		want        reason
		container   string
		suspend     bool
	}{
		"the newest group with an active release": {groups: []v1alpha1.ReleaseGroup{group("2.x", "", 0), one[0]}, containers: []string{"x"}, want: following, container: "x"},
		"a group by name":                         {groups: append([]v1alpha1.ReleaseGroup{group("2.x", "shop-2", 0)}, one...), annotations: map[string]string{v1alpha1.AnnotationFollowGroup: "1.x"}, containers: []string{"x"}, want: following, container: "x"},
		"a group by slug":                         {groups: append([]v1alpha1.ReleaseGroup{group("2.x", "shop-2", 0)}, one...), annotations: map[string]string{v1alpha1.AnnotationFollowGroup: "1-x"}, containers: []string{"x"}, want: following, container: "x"},
		"the container of the release":            {groups: one, containers: []string{"proxy", "app", "shop"}, want: following, container: "app"},
		"the container of the Microservice":       {groups: one, containers: []string{"proxy", "shop"}, want: following, container: "shop"},
		"a named container":                       {groups: one, annotations: map[string]string{v1alpha1.AnnotationFollowContainer: "proxy"}, containers: []string{"proxy", "app"}, want: following, container: "proxy"},
		"a container that does not exist":         {groups: one, annotations: map[string]string{v1alpha1.AnnotationFollowContainer: "other"}, containers: []string{"app"}, want: containerNotFound, suspend: true},
		"several containers with other names":     {groups: one, containers: []string{"a", "b"}, want: containerNotFound, suspend: true},
		"no group yet":                            {containers: []string{"x"}, want: noActiveRelease, suspend: true},
		"a group without an active release":       {groups: []v1alpha1.ReleaseGroup{group("1.x", "", 0)}, annotations: map[string]string{v1alpha1.AnnotationFollowGroup: "1.x", v1alpha1.AnnotationFollows: "old"}, containers: []string{"x"}, want: noActiveRelease, suspend: true},
		"only a preview":                          {groups: []v1alpha1.ReleaseGroup{group("pr-7", "shop-1", 7)}, containers: []string{"x"}, want: noActiveRelease, suspend: true},
		"a preview by name":                       {groups: []v1alpha1.ReleaseGroup{group("pr-7", "shop-1", 7)}, annotations: map[string]string{v1alpha1.AnnotationFollowGroup: "pr-7"}, containers: []string{"x"}, want: previewsNotFollowed, suspend: true},
		"a preview without an active release":     {groups: []v1alpha1.ReleaseGroup{group("pr-7", "", 7)}, annotations: map[string]string{v1alpha1.AnnotationFollowGroup: "pr-7"}, containers: []string{"x"}, want: previewsNotFollowed, suspend: true},
		"an unknown group":                        {groups: one, annotations: map[string]string{v1alpha1.AnnotationFollowGroup: "3.x"}, containers: []string{"x"}, want: groupNotFound, suspend: true},
		"an unknown group after a known one":      {groups: one, annotations: map[string]string{v1alpha1.AnnotationFollowGroup: "3.x", v1alpha1.AnnotationFollows: "old"}, containers: []string{"x"}, want: groupNotFound},
		"no Microservice":                         {missing: true, containers: []string{"x"}, want: microserviceNotFound, suspend: true},
		"a Microservice that was deleted":         {missing: true, annotations: map[string]string{v1alpha1.AnnotationFollows: "old"}, containers: []string{"x"}, want: microserviceNotFound},
		"a release that no longer exists":         {groups: []v1alpha1.ReleaseGroup{group("1.x", "shop-0", 0)}, annotations: map[string]string{v1alpha1.AnnotationFollows: "old"}, containers: []string{"x"}, want: releaseNotFound},
	} {
		job := &batchv1.CronJob{}
		job.Annotations = c.annotations
		for _, name := range c.containers {
			podSpec(job).Containers = append(podSpec(job).Containers, corev1.Container{Name: name, Image: "placeholder"})
		}
		p := decide(&observed{
			followedExists: true,
			cronJob:        job, microservice: "shop", exists: !c.missing, groups: c.groups,
			releases: map[string]*v1alpha1.VersionedMicroservice{"shop-1": release},
		})
		if p.reason != c.want || p.container != c.container || p.suspend != c.suspend || (p.release != nil) != (c.want == following) || p.message == "" {
			t.Errorf("%s: %+v, want %s, container %q, suspend %t", name, p, c.want, c.container, c.suspend)
		}
	}
}

// TestIntentRepeatsReplacedChanges checks that a CronJob whose group loses its active release keeps the images and
// references. The intent must contain these fields, because an intent without these fields removes them.
func TestIntentRepeatsReplacedChanges(t *testing.T) {
	job := &batchv1.CronJob{}
	job.Annotations = map[string]string{
		v1alpha1.AnnotationFollows:     "shop-1",
		v1alpha1.AnnotationFollowState: `{"containers":["shop"],"sources":{"ConfigMap/shop-1-0a":"settings","Secret/shop-1-0b":"key"}}`,
	}
	pod := podSpec(job)
	pod.Containers = []corev1.Container{{Name: "shop", Image: "shop@sha256:1"}, {Name: "proxy", Image: "proxy"}}
	for name, source := range map[string]corev1.VolumeSource{
		"settings": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "shop-1-0a"}}},
		"key":      {Secret: &corev1.SecretVolumeSource{SecretName: "shop-1-0b"}},
		"all": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "shop-1-0a"}}},
		}}},
		"other": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "other"}}},
	} {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
	intent, err := intentOf(job, plan{reason: noActiveRelease, message: "suspended", suspend: true})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(intent.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"suspend":true`, `{"image":"shop@sha256:1","name":"shop"}`, `{"configMap":{"name":"shop-1-0a"},"name":"settings"}`, `{"name":"key","secret":{"secretName":"shop-1-0b"}}`, `"projected":{"sources":[{"configMap":{"name":"shop-1-0a"}}]}`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the intent lacks %s: %s", want, raw)
		}
	}
	for _, other := range []string{"proxy", "other"} {
		if strings.Contains(string(raw), other) {
			t.Errorf("the intent has %q: %s", other, raw)
		}
	}
	if got, want := intent.GetAnnotations()[v1alpha1.AnnotationFollowState], job.Annotations[v1alpha1.AnnotationFollowState]; got != want {
		t.Errorf("state %s, want %s", got, want)
	}
}
