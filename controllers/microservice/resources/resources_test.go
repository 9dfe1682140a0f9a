package resources

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func microservice(t *testing.T) *v1alpha1.Microservice {
	t.Helper()
	raw, err := os.ReadFile("testdata/microservice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ms := &v1alpha1.Microservice{}
	if err := yaml.UnmarshalStrict(raw, ms); err != nil {
		t.Fatal(err)
	}
	return ms
}

var (
	policy  = &v1alpha1.ImagePolicy{Spec: v1alpha1.ImagePolicySpec{ImagePullSecrets: []v1alpha1.Reference{{Name: "own"}, {Name: "pull"}}}}
	offered = &v1alpha1.OfferedRelease{
		SemVer: v1alpha1.SemVer{Name: "1.x", Version: "1.2.0-rc.1+build.7"}, Group: "1-x", Level: v1alpha1.LevelCandidate,
		Images: []v1alpha1.ReleaseImage{{Image: "r.example:5000/shop:1.2.0-rc.1_build.7@sha256:abc", Digest: "sha256:abc"}},
	}
)

// goldenRelease builds the release of ms with the contents of its references, and compares
// it with a golden file.
func goldenRelease(t *testing.T, file string, ms *v1alpha1.Microservice, contents Contents) *v1alpha1.VersionedMicroservice {
	t.Helper()
	container, err := Container(ms)
	if err != nil {
		t.Fatal(err)
	}
	config, err := Config(&ms.Spec.Template, container, contents)
	if err != nil {
		t.Fatal(err)
	}
	release, err := Release(ms, policy, offered, config, contents, 3, 7)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(release)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, file, string(raw))
	return release
}

// TestGoldenRelease checks the object of a release. Its name, labels, and annotations are an API, because
// pods of running releases have them. If this test fails, every service gets a new release on the next
// upgrade of Heighliner.
func TestGoldenRelease(t *testing.T) {
	t.Parallel()
	object := goldenRelease(t, "release.yaml", microservice(t), nil)
	if errs := validation.IsDNS1123Label(object.Name); len(errs) > 0 {
		t.Errorf("name %q: %v", object.Name, errs)
	}
}

// TestConfig checks that only fields that a user sets change the identity.
func TestConfig(t *testing.T) {
	t.Parallel()
	config := func(edit func(*corev1.PodTemplateSpec)) string {
		t.Helper()
		ms := microservice(t)
		edit(&ms.Spec.Template)
		container, err := Container(ms)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Config(&ms.Spec.Template, container, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain := config(func(*corev1.PodTemplateSpec) {})
	for name, edit := range map[string]func(*corev1.PodTemplateSpec){
		"image of the container that gets the release's image": func(p *corev1.PodTemplateSpec) { p.Spec.Containers[1].Image = "whatever" },
		"protocol that the schema adds":                        func(p *corev1.PodTemplateSpec) { p.Spec.Containers[1].Ports[0].Protocol = corev1.ProtocolTCP },
		"empty lists and maps": func(p *corev1.PodTemplateSpec) {
			p.Spec.NodeSelector, p.Spec.Volumes, p.Spec.Containers[0].Args = map[string]string{}, []corev1.Volume{}, []string{}
			p.Spec.Containers[1].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{}}
		},
	} {
		if got := config(edit); got != plain {
			t.Errorf("%s: the identity changes", name)
		}
	}
	seen := map[string]string{plain: "nothing"}
	for name, edit := range map[string]func(*corev1.PodTemplateSpec){
		"image of a sidecar":  func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "proxy:2" },
		"order of containers": func(p *corev1.PodTemplateSpec) { c := p.Spec.Containers; c[0], c[1] = c[1], c[0] },
		"protocol UDP":        func(p *corev1.PodTemplateSpec) { p.Spec.Containers[1].Ports[0].Protocol = corev1.ProtocolUDP },
		"empty volume": func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		},
		"host path": func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}
		},
		"a large number":         func(p *corev1.PodTemplateSpec) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](1<<53 + 1) },
		"the next larger number": func(p *corev1.PodTemplateSpec) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](1 << 53) },
	} {
		got := config(edit)
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[got] = name
	}
}

func TestIdentityDistinguishesReleases(t *testing.T) {
	t.Parallel()
	plain := Identity(offered, "c")
	for name, edit := range map[string]func(*v1alpha1.OfferedRelease){
		"group":      func(o *v1alpha1.OfferedRelease) { o.Group = "2-x" },
		"version":    func(o *v1alpha1.OfferedRelease) { o.SemVer.Version = "1.2.1" },
		"digest":     func(o *v1alpha1.OfferedRelease) { o.Images[0].Digest = "sha256:abd" },
		"repository": func(o *v1alpha1.OfferedRelease) { o.Images[0].Image = "r.example/shop:1@sha256:abc" },
		"additional image": func(o *v1alpha1.OfferedRelease) {
			o.Images = append(o.Images, v1alpha1.ReleaseImage{Image: "r.example/worker:1", Digest: "sha256:def", ContainerName: "worker"})
		},
		"container": func(o *v1alpha1.OfferedRelease) { o.Images[0].ContainerName = "worker" },
		"origin":    func(o *v1alpha1.OfferedRelease) { o.Fork = true },
	} {
		o := offered.DeepCopy()
		edit(o)
		if Identity(o, "c") == plain {
			t.Errorf("another %s results in the same release", name)
		}
	}
	worker := v1alpha1.ReleaseImage{Image: "r.example/worker:1", Digest: "sha256:def", ContainerName: "worker"}
	two, other := offered.DeepCopy(), offered.DeepCopy()
	two.Images = append(two.Images, worker)
	worker.Digest = "sha256:fed"
	other.Images = append(other.Images, worker)
	if Identity(two, "c") == Identity(other, "c") {
		t.Error("another digest of an additional image results in the same release")
	}
	o := offered.DeepCopy()
	o.Images[0].Image, o.SemVer.Name = "r.example:5000/shop:another-tag@sha256:abc", "renamed"
	o.Revision, o.URL, o.ReleaseTime = "abc", "https://github.com/acme/shop/pull/7", &metav1.Time{}
	if Identity(o, "c") != plain {
		t.Error("another tag of the same image, or another displayed version, results in another release")
	}
	if Identity(offered, "d") == plain {
		t.Error("another configuration results in the same release")
	}
}

// TestPreviewRelease checks that the release of a pull request has the number and commit of the pull request,
// that each image is in its container, and that code from a fork does not get the repository's permissions.
func TestPreviewRelease(t *testing.T) {
	t.Parallel()
	build := func(fork bool) *v1alpha1.VersionedMicroservice {
		t.Helper()
		ms := microservice(t)
		pod := &ms.Spec.Template.Spec
		pod.ServiceAccountName, pod.DeprecatedServiceAccount = "shop", "shop"
		pod.InitContainers = []corev1.Container{{Name: "migrate", Image: "none"}}
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			{DownwardAPI: &corev1.DownwardAPIProjection{}},
		}}}})
		o := &v1alpha1.OfferedRelease{
			SemVer: v1alpha1.SemVer{Name: "feature/a", Version: strings.Repeat("a", 40)}, Group: "feature-a-7", Level: v1alpha1.LevelPreview,
			PullRequest: 7, Revision: strings.Repeat("a", 40), Fork: fork,
			Images: []v1alpha1.ReleaseImage{
				{Image: "r.example/shop:pr-7@sha256:abc", Digest: "sha256:abc"},
				{Image: "r.example/migrate:pr-7@sha256:def", Digest: "sha256:def", ContainerName: "migrate"},
			},
		}
		object, err := Release(ms, policy, o, "c", nil, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
	own, fork := build(false), build(true)
	pod := own.Spec.Template.Spec
	for what, x := range map[string]struct{ got, want any }{
		"label":                 {own.Labels[v1alpha1.LabelPullRequest], "7"},
		"pod label":             {own.Spec.Template.Labels[v1alpha1.LabelPullRequest], "7"},
		"pod annotation":        {own.Spec.Template.Annotations[v1alpha1.AnnotationCommit], strings.Repeat("a", 40)},
		"image":                 {pod.Containers[1].Image, "r.example/shop:pr-7@sha256:abc"},
		"additional image":      {pod.InitContainers[0].Image, "r.example/migrate:pr-7@sha256:def"},
		"ServiceAccount":        {pod.ServiceAccountName, "shop"},
		"token":                 {pod.AutomountServiceAccountToken, (*bool)(nil)},
		"fork's ServiceAccount": {fork.Spec.Template.Spec.ServiceAccountName + fork.Spec.Template.Spec.DeprecatedServiceAccount, "default"},
		"fork's token":          {fork.Spec.Template.Spec.AutomountServiceAccountToken, ptr.To(false)},
	} {
		if diff := cmp.Diff(x.want, x.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	tokens := func(c *v1alpha1.VersionedMicroservice) (n int) {
		for _, v := range c.Spec.Template.Spec.Volumes {
			if v.Projected != nil {
				n += len(v.Projected.Sources)
			}
		}
		return n
	}
	if tokens(own) != 2 || tokens(fork) != 1 {
		t.Errorf("%d and %d projections, want 2 and 1", tokens(own), tokens(fork))
	}
	if own.Name == fork.Name {
		t.Error("the release from a fork is the same as the release from the repository")
	}
	ms := microservice(t)
	_, err := Release(ms, policy, &v1alpha1.OfferedRelease{Images: []v1alpha1.ReleaseImage{{ContainerName: "none"}}}, "c", nil, 1, 1)
	if missing := new(ImageContainerError); !errors.As(err, &missing) || missing.Name != "none" {
		t.Errorf("an image without a container: %v", err)
	}
	_, err = Release(ms, policy, &v1alpha1.OfferedRelease{Images: []v1alpha1.ReleaseImage{{}, {ContainerName: "shop"}}}, "c", nil, 1, 1)
	if taken := new(ImageContainerError); !errors.As(err, &taken) || *taken != (ImageContainerError{Name: "shop", Main: true}) {
		t.Errorf("an additional image for the main container: %v", err)
	}
}

func TestContainer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		containerName string
		containers    string
		want          int
		err           string
	}{
		"named like the Microservice": {"", "proxy shop", 1, ""},
		"the only container":          {"", "web", 0, ""},
		"one of several containers":   {"", "proxy web", 0, "spec.containerName: spec.template has several containers, and none has the name of the Microservice; set the field to the name of the container that runs the image"},
		"named":                       {"web", "shop web", 1, ""},
		"missing":                     {"api", "shop web", 0, `spec.containerName: spec.template has no container "api"; set the field to the name of one of its containers`},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Name, ms.Spec.ContainerName = "shop", test.containerName
		for _, c := range strings.Fields(test.containers) {
			ms.Spec.Template.Spec.Containers = append(ms.Spec.Template.Spec.Containers, corev1.Container{Name: c})
		}
		got, err := Container(ms)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != test.want || text != test.err {
			t.Errorf("%s: got %d, %q, want %d, %q", name, got, text, test.want, test.err)
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("m", 40)
	for version, want := range map[string]string{
		"1.2.0":          long + "-1-2-0-0123456789",
		"1.2.0-RC.1+b_7": long + "-1-2-0-rc-1-0123456789",
		"10.20.30-rc.12": long + "-10-20-30-rc-0123456789",
	} {
		got := Name(long, version, "0123456789")
		if got != want || len(validation.IsDNS1123Label(got)) > 0 {
			t.Errorf("%s results in %q, want %q", version, got, want)
		}
	}
}

func TestDisruptionBudget(t *testing.T) {
	t.Parallel()
	one, half := ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromString("50%"))
	for name, test := range map[string]struct {
		availability v1alpha1.Availability
		replicas     int32
		serving      bool
		want         *v1alpha1.DisruptionBudget
	}{
		"one replica":       {v1alpha1.Availability{MinAvailable: half}, 1, true, nil},
		"default":           {v1alpha1.Availability{}, 2, true, &v1alpha1.DisruptionBudget{MaxUnavailable: one}},
		"the user's":        {v1alpha1.Availability{MinAvailable: half}, 2, true, &v1alpha1.DisruptionBudget{MinAvailable: half}},
		"another":           {v1alpha1.Availability{MaxUnavailable: half}, 2, true, &v1alpha1.DisruptionBudget{MaxUnavailable: half}},
		"a standby release": {v1alpha1.Availability{MinAvailable: half}, 2, false, &v1alpha1.DisruptionBudget{MaxUnavailable: one}},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Spec.Availability = test.availability
		if diff := cmp.Diff(test.want, DisruptionBudget(ms, test.replicas, test.serving)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestBudgetThatIsNotNeededStays checks that a retained release keeps its budget, because deleting the
// budgets would cause one write for each retained release.
func TestBudgetThatIsNotNeededStays(t *testing.T) {
	t.Parallel()
	half, one := intstr.FromString("50%"), intstr.FromInt32(1)
	users, oneByOne := &v1alpha1.DisruptionBudget{MinAvailable: &half}, &v1alpha1.DisruptionBudget{MaxUnavailable: &one}
	for name, test := range map[string]struct{ has, needs, want *v1alpha1.DisruptionBudget }{
		"none":                          {nil, nil, nil},
		"the first budget":              {nil, users, users},
		"another":                       {oneByOne, users, users},
		"not needed":                    {oneByOne, nil, oneByOne},
		"the user's budget, not needed": {users, nil, oneByOne}, // half of one pod would block every node drain
	} {
		if diff := cmp.Diff(test.want, NextBudget(test.has, test.needs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestBudgetOfASmallCanary checks the budget of a canary that grows with its weight and has fewer pods than a
// full-size release. A budget that allows no eviction would block node drains while the canary pauses, and a
// budget that allows the eviction of all pods could make the canary unavailable.
func TestBudgetOfASmallCanary(t *testing.T) {
	t.Parallel()
	number, percent := func(n int32) *intstr.IntOrString { return ptr.To(intstr.FromInt32(n)) }, func(s string) *intstr.IntOrString { return ptr.To(intstr.FromString(s)) }
	users := func(v *intstr.IntOrString) *v1alpha1.DisruptionBudget {
		return &v1alpha1.DisruptionBudget{MinAvailable: v}
	}
	oneByOne := &v1alpha1.DisruptionBudget{MaxUnavailable: number(1)}
	for name, test := range map[string]struct {
		replicas     int32
		autoscaling  *v1alpha1.Autoscaling
		minAvailable *intstr.IntOrString
		has          int32
		want         *v1alpha1.DisruptionBudget
	}{
		"a number, full size":                                      {10, nil, number(5), 10, users(number(5))},
		"a number, enough pods":                                    {10, nil, number(5), 6, users(number(5))},
		"a number, exactly as many pods":                           {10, nil, number(5), 5, oneByOne},
		"a number, fewer pods":                                     {10, nil, number(5), 3, oneByOne},
		"a number, more pods than specified":                       {10, nil, number(5), 14, users(number(5))},
		"a percentage, enough pods":                                {10, nil, percent("50%"), 3, users(percent("50%"))},
		"a percentage that rounds up to all":                       {10, nil, percent("90%"), 3, oneByOne},
		"no eviction allowed, a canary":                            {10, nil, number(10), 3, users(number(10))},
		"no eviction allowed, full size":                           {10, nil, percent("100%"), 10, users(percent("100%"))},
		"no pod required":                                          {10, nil, number(0), 3, users(number(0))},
		"one pod, and an autoscaler":                               {1, &v1alpha1.Autoscaling{MaxReplicas: 20}, number(1), 1, oneByOne},
		"one pod, and an autoscaler for one pod":                   {1, &v1alpha1.Autoscaling{MaxReplicas: 1}, number(1), 1, nil},
		"fewer pods than the autoscaler's minimum":                 {1, &v1alpha1.Autoscaling{MinReplicas: ptr.To[int32](8), MaxReplicas: 20}, number(6), 4, oneByOne},
		"only the pods that exist before the autoscaler scales up": {2, &v1alpha1.Autoscaling{MaxReplicas: 20}, number(6), 2, users(number(6))},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Spec.Availability = v1alpha1.Availability{Replicas: test.replicas, Autoscaling: test.autoscaling, MinAvailable: test.minAvailable}
		if diff := cmp.Diff(test.want, DisruptionBudget(ms, test.has, true)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, test := range map[string]struct {
		maxUnavailable *intstr.IntOrString
		has            int32
		want           *v1alpha1.DisruptionBudget
	}{
		"a number, more pods":   {number(4), 6, &v1alpha1.DisruptionBudget{MaxUnavailable: number(4)}},
		"a number, fewer pods":  {number(4), 3, &v1alpha1.DisruptionBudget{MaxUnavailable: number(2)}},
		"a percentage":          {percent("40%"), 3, &v1alpha1.DisruptionBudget{MaxUnavailable: percent("40%")}},
		"all evictions allowed": {number(10), 3, &v1alpha1.DisruptionBudget{MaxUnavailable: number(10)}},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Spec.Availability = v1alpha1.Availability{Replicas: 10, MaxUnavailable: test.maxUnavailable}
		if diff := cmp.Diff(test.want, DisruptionBudget(ms, test.has, true)); diff != "" {
			t.Errorf("maxUnavailable, %s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMinReadySeconds checks the default of minReadySeconds. The default leaves a release enough time to become available within the progress deadline.
func TestMinReadySeconds(t *testing.T) {
	t.Parallel()
	probe := &corev1.Probe{}
	for name, test := range map[string]struct {
		set      *int32
		probe    *corev1.Probe
		deadline int32
		want     int32
	}{
		"set":                                 {new(int32(3)), nil, 600, 3},
		"with a readiness probe":              {nil, probe, 600, 0},
		"without a readiness probe":           {nil, nil, 600, 10},
		"with the default deadline":           {nil, nil, 0, 10},
		"with a deadline of ten seconds":      {nil, nil, 10, 5},
		"with a deadline of nineteen seconds": {nil, nil, 19, 9},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Spec.Availability.MinReadySeconds, ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = test.set, test.deadline
		ms.Spec.Template.Spec.Containers = []corev1.Container{{Name: "shop", ReadinessProbe: test.probe}}
		if got := minReady(ms, 0); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
