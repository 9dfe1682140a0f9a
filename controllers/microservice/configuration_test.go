package microservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
)

// names returns an edit that makes the container take its environment from a ConfigMap.
func names(configMap string, optional ...bool) func(*v1alpha1.Microservice) {
	return func(ms *v1alpha1.Microservice) {
		ref := &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}
		if len(optional) > 0 {
			ref.Optional = &optional[0]
		}
		c := &ms.Spec.Template.Spec.Containers[0]
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: ref})
	}
}

// namesSecret returns an edit that adds a volume with a Secret.
func namesSecret(name string) func(*v1alpha1.Microservice) {
	return func(ms *v1alpha1.Microservice) {
		ms.Spec.Template.Spec.Volumes = append(ms.Spec.Template.Spec.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}},
		})
	}
}

func track(t v1alpha1.ConfigurationTrack, ignore ...string) func(*v1alpha1.Microservice) {
	return func(ms *v1alpha1.Microservice) {
		ms.Spec.Configuration = &v1alpha1.Configuration{Track: t, Ignore: ignore}
	}
}

// write creates a ConfigMap with one file, or updates its content.
func (s *story) write(name, content string) {
	s.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string]string{"file": content}}
	err := env.Client.Create(s.Context(), c)
	if apierrors.IsAlreadyExists(err) {
		err = env.Client.Update(s.Context(), c)
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *story) delete(obj client.Object, name string) {
	s.Helper()
	obj.SetNamespace(s.namespace)
	obj.SetName(name)
	if err := env.Client.Delete(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
}

// runsWith returns the ConfigMap from which the pods of a release take their environment.
func (s *story) runsWith(release *v1alpha1.VersionedMicroservice) *corev1.ConfigMap {
	s.Helper()
	c := &corev1.ConfigMap{}
	s.get(release.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name, c)
	return c
}

// active returns the object of the active release.
func (s *story) active() *v1alpha1.VersionedMicroservice {
	s.Helper()
	for _, g := range s.ms().Status.ReleaseGroups {
		if row := g.ActiveRelease(); row != nil {
			return s.objects()[row.VersionedMicroservice]
		}
	}
	s.Fatalf("no release is active: %s", s.rolloutState())
	return nil
}

// copies returns the copies of all releases, by name.
func (s *story) copies() map[string]corev1.ConfigMap {
	s.Helper()
	var list corev1.ConfigMapList
	if err := env.Client.List(s.Context(), &list, client.InNamespace(s.namespace), client.HasLabels{v1alpha1.LabelRelease}); err != nil {
		s.Fatal(err)
	}
	found := map[string]corev1.ConfigMap{}
	for _, c := range list.Items {
		found[c.Name] = c
	}
	return found
}

// TestConfigurationIsARelease checks that a change to a ConfigMap creates a release of the same version,
// which goes through the steps, and that a pin to the version or the previous content starts the earlier release
// again.
func TestConfigurationIsARelease(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"), func(ms *v1alpha1.Microservice) { ms.Spec.UpdateStrategy.MinimumAvailable = 4 })
	s.route()
	s.write("settings", "blue")
	s.offer("1.0.0")
	s.play()
	blue := s.active()
	mine := s.runsWith(blue)
	same(t, "content", mine.Data, map[string]string{"file": "blue"})
	same(t, "immutable", mine.Immutable, ptr.To(true))
	if mine.Name == "settings" || !metav1.IsControlledBy(mine, blue) {
		t.Errorf("the release runs with %s, owned by %v", mine.Name, mine.OwnerReferences)
	}
	if c, r := slices.Index(s.writes, "create "+mine.Name), slices.Index(s.writes, "create "+blue.Name); c < 0 || c > r {
		t.Errorf("the copy is not created before the release: %q", s.writes)
	}

	s.write("settings", "red")
	s.play(s.until("1.0.0 canary 10%"))
	same(t, "rollout state during the canary", s.rolloutState(), lines(
		"release Live target Latest",
		"  1.0.0 active 90% First, 2 replicas",
		"  1.0.0 canary 10% Step, 2 replicas",
	))
	s.play()
	red := s.active()
	same(t, "content after the change", s.runsWith(red).Data["file"], "red")
	same(t, "content of the previous release", s.runsWith(blue).Data["file"], "blue")

	s.offer("1.1.0", "1.0.0")
	s.play()
	s.write("settings", "green")
	s.play()
	same(t, "version", s.active().Spec.SemVer.Version, "1.1.0")
	same(t, "content of 1.1.0", s.runsWith(s.active()).Data["file"], "green")
	pin := func(m *v1alpha1.ManualUpdateStrategy) {
		t.Helper()
		s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.UpdateStrategy.Manual = m })
		s.play()
	}
	pin(&v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: "1.0.0"}})
	same(t, "release after a pin", s.active().Name, red.Name)
	same(t, "content after a pin", s.runsWith(s.active()).Data["file"], "red")
	pin(&v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: "1.0.0"}, Configuration: v1alpha1.PinCurrent})
	same(t, "content of a pin to the current configuration", s.runsWith(s.active()).Data["file"], "green")
	pin(nil)

	t.Run("the previous content starts the previous release", func(t *testing.T) {
		was := s.active()
		s.write("settings", "yellow")
		s.play()
		events := len(s.events)
		s.write("settings", "green")
		s.play()
		same(t, "release", s.active().Name, was.Name)
		for _, e := range s.events[events:] {
			if strings.HasPrefix(e, "Step:") {
				t.Errorf("a previously active release goes through steps again: %s", e)
			}
		}
	})
	t.Run("labels and annotations are not content", func(t *testing.T) {
		c := &corev1.ConfigMap{}
		s.get("settings", c)
		c.Labels, c.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		if err := env.Client.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		writes := len(s.writes)
		s.play()
		same(t, "writes", s.writes[writes:], []string{})
	})
	t.Run("copies belong to their releases", func(t *testing.T) {
		objects := s.objects()
		for name, c := range s.copies() {
			_, release := resources.ReleaseOfCopy(&c)
			if objects[release] != nil && !metav1.IsControlledBy(&c, objects[release]) {
				t.Errorf("copy %s of release %s is owned by %v", name, release, c.OwnerReferences)
			}
		}
	})
}

// TestConfigurationMissing checks that a missing object prevents new releases, and does not affect existing releases.
func TestConfigurationMissing(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"))
	s.route()
	s.offer("1.0.0")
	s.play()
	const missing = `spec.template refers to objects that do not exist in this namespace: ConfigMap "settings"; existing releases keep running, and no new release starts; create these objects, or mark the references as optional`
	same(t, "Ready without the ConfigMap", condition(s.ms(), "Ready"), "False ConfigurationMissing: "+missing)
	same(t, "releases without the ConfigMap", len(s.objects()), 0)

	s.write("settings", "blue")
	s.play()
	same(t, "Ready with the ConfigMap", condition(s.ms(), "Ready"), "True Succeeded: active: 1.0.0 in group release")

	s.offer("1.1.0", "1.0.0")
	s.play(s.until("1.1.0 canary 10%"))
	s.delete(&corev1.ConfigMap{}, "settings")
	s.play()
	same(t, "Stalled", condition(s.ms(), "Stalled"), "True ConfigurationMissing: "+missing)
	same(t, "rollout state", s.rolloutState(), lines(
		"release Live target Held",
		"  1.1.0 active 100% Promoted, 2 replicas",
		"  1.0.0 deprecated 0% Replaced, 1 replicas",
	))
	same(t, "content", s.runsWith(s.active()).Data["file"], "blue")
	s.offer("1.2.0", "1.1.0", "1.0.0")
	writes := len(s.writes)
	s.play()
	same(t, "writes for a version that cannot start", s.writes[writes:], []string{})

	s.edit(func(spec *v1alpha1.MicroserviceSpec) {
		spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: "1.0.0"}}
	})
	s.play()
	same(t, "version after a rollback", s.active().Spec.SemVer.Version, "1.0.0")
	s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.UpdateStrategy.Manual = nil })
	s.write("settings", "blue")
	s.play()
	same(t, "version when the ConfigMap exists again", s.active().Spec.SemVer.Version, "1.2.0")
	same(t, "Stalled when the ConfigMap exists again", condition(s.ms(), "Stalled"), "")
}

// deny makes the ImagePolicy withdraw versions.
func (s *story) deny(versions ...string) {
	s.Helper()
	p := &v1alpha1.ImagePolicy{}
	s.get("shop", p)
	for _, v := range versions {
		p.Status.Withdrawn = append(p.Status.Withdrawn, v1alpha1.Withdrawal{
			Group: "release", Version: v, Reason: v1alpha1.WithdrawnDenied, Time: metav1.NewTime(s.clock.Now().Truncate(time.Second)),
		})
	}
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

// TestWithdrawnWithoutATemplate checks that a withdrawn version stops serving although no new release can start.
func TestWithdrawnWithoutATemplate(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]func(*story){
		"ConfigurationMissing": func(s *story) { s.delete(&corev1.ConfigMap{}, "settings") },
		"ContainerNotFound": func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.ContainerName = "web" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, names("settings"), func(ms *v1alpha1.Microservice) { ms.Spec.UpdateStrategy.MinimumAvailable = 4 })
			s.route()
			s.write("settings", "blue")
			for _, offer := range [][]string{{"1.0.0"}, {"1.1.0", "1.0.0"}} {
				s.offer(offer...)
				s.play()
			}
			s.offer("1.2.0", "1.1.0", "1.0.0")
			s.play(s.until("1.2.0 canary 10%"))
			without(s)
			s.offer("1.1.0", "1.0.0")
			s.deny("1.2.0")
			s.play()
			same(t, "rollout state without the canary", s.rolloutState(), lines(
				"release Live target Held", "  1.1.0 active 100% Promoted, 2 replicas", "  1.0.0 deprecated 0% Replaced, 1 replicas"))
			s.offer("1.0.0")
			s.deny("1.2.0", "1.1.0")
			s.play()
			same(t, "version after the active version is denied too", s.active().Spec.SemVer.Version, "1.0.0")
			if got := condition(s.ms(), "Stalled"); !strings.HasPrefix(got, "True "+name+": ") {
				t.Errorf("Stalled is %q", got)
			}
		})
		t.Run(name+" and a pull request is closed", func(t *testing.T) {
			t.Parallel()
			s := begin(t, names("settings"))
			s.write("settings", "blue")
			s.pulls([]v1alpha1.OfferedRelease{s.pull(7, "aaaaaaa")})
			s.play()
			same(t, "version", s.active().Spec.SemVer.Version, "aaaaaaa")
			without(s)
			s.pulls(nil, 7)
			s.play()
			same(t, "rollout state", s.rolloutState(), "")
		})
	}
	t.Run("SecretsForbidden", func(t *testing.T) {
		t.Parallel()
		s := begin(t, namesSecret("licence"), track(v1alpha1.TrackAll))
		s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "licence"}})
		s.route()
		s.offer("1.0.0")
		s.play(s.until("1.0.0 active"))
		s.offer("1.1.0", "1.0.0")
		s.play(s.until("1.1.0 canary 10%"))
		limited := interceptor.NewClient(s.client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, ok := obj.(*corev1.Secret); ok {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "licence", errors.New("no"))
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		s.reconciler = s.make(limited, limited)
		s.offer("1.0.0")
		s.deny("1.1.0")
		s.play(s.until("1.0.0 active 100%"))
		if got := s.rolloutState(); strings.Contains(got, "1.1.0 canary") {
			t.Errorf("the denied canary has traffic: %s", got)
		}
		if got := condition(s.ms(), "Stalled"); !strings.HasPrefix(got, "True SecretsForbidden: ") {
			t.Errorf("Stalled is %q", got)
		}
	})
}

// TestOptionalConfiguration checks that the creation of an optional ConfigMap starts a release, and that the pods
// of the previous release do not use it.
func TestOptionalConfiguration(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings", true))
	s.offer("1.0.0")
	s.play()
	without := s.active()
	name := without.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
	if name == "settings" {
		t.Error("pods would use an optional ConfigMap that is created later")
	}
	same(t, "copies without a source", len(s.copies()), 0)
	s.write("settings", "blue")
	s.play()
	if s.active().Name == without.Name {
		t.Fatalf("the change does not create a release: %s", s.rolloutState())
	}
	same(t, "content", s.runsWith(s.active()).Data["file"], "blue")
	if _, ok := s.copies()[name]; ok {
		t.Error("the release without the ConfigMap now has a copy")
	}
	s.delete(&corev1.ConfigMap{}, "settings")
	s.play()
	same(t, "release without the ConfigMap", s.active().Name, without.Name)
}

func TestConfigurationLeftOut(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*v1alpha1.Microservice){
		"none":    track(v1alpha1.TrackNone),
		"ignored": track(v1alpha1.TrackConfigMaps, "settings"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, names("settings"), edit)
			s.offer("1.0.0")
			s.play() // the release requires no ConfigMap
			release := s.active()
			same(t, "name", release.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name, "settings")
			s.write("settings", "blue")
			s.play()
			same(t, "releases", slices.Collect(maps.Keys(s.objects())), []string{release.Name})
			same(t, "copies", len(s.copies()), 0)
		})
	}
}

// TestConfigurationThatChangesAllTheTime checks that a ConfigMap that changes frequently does not prevent
// promotion (protocol rule 28).
func TestConfigurationThatChangesAllTheTime(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"))
	s.route()
	s.write("settings", "0")
	s.offer("1.0.0")
	s.play()
	first, changed := s.active().Name, 0
	s.passed = func() {
		if c := s.canaryOfStory(); c != "" && c != fmt.Sprint(changed) {
			return // one change for each canary
		}
		if changed < 12 {
			changed++
			s.write("settings", fmt.Sprint(changed))
		}
	}
	s.play(func() bool { return s.active().Name != first })
	if changed >= 12 {
		t.Errorf("no release was promoted in %d changes: %s", changed, s.rolloutState())
	}
	most := 0
	for range 3 {
		s.pass()
		most = max(most, len(s.objects()))
	}
	if most > 6 {
		t.Errorf("%d releases are retained: %s", most, s.rolloutState())
	}
	s.passed = nil
	s.play()
	same(t, "content at the end", s.runsWith(s.active()).Data["file"], fmt.Sprint(changed))
}

// canaryOfStory returns the content of the ConfigMap of the release that is being rolled out.
func (s *story) canaryOfStory() string {
	for _, g := range s.ms().Status.ReleaseGroups {
		if g.Rollout != nil && s.objects()[g.Rollout.Release] != nil {
			return s.runsWith(s.objects()[g.Rollout.Release]).Data["file"]
		}
	}
	return ""
}

// TestCopiesHaveThePlannedContent checks that a copy is created only with the content from which the name of
// the release was computed.
func TestCopiesHaveThePlannedContent(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"))
	s.write("settings", "blue")
	s.offer("1.0.0")
	old := &corev1.ConfigMap{}
	s.get("settings", old)
	resources.TrimConfigMap(old)
	lags := interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if into, ok := obj.(*corev1.ConfigMap); ok && key.Name == "settings" {
				old.DeepCopyInto(into)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	s.write("settings", "red")
	s.reconciler = s.make(lags, s.client)
	for range 3 {
		result, err := s.pass()
		if err != nil || result.RequeueAfter == 0 {
			t.Fatalf("reconcile of old content = %v, %v", result, err)
		}
	}
	same(t, "writes with old content", len(s.writes), 0)
	s.restart()
	s.play()
	same(t, "content", s.runsWith(s.active()).Data["file"], "red")
}

// TestTrimmedConfigurationIsTheSame checks that trimmed ConfigMaps, as in the cache, result in the same releases.
func TestTrimmedConfigurationIsTheSame(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"))
	s.write("settings", "blue")
	s.offer("1.0.0")
	trims := interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			if c, ok := obj.(*corev1.ConfigMap); ok && err == nil {
				resources.TrimConfigMap(c)
			}
			return err
		},
	})
	s.reconciler = s.make(trims, s.client)
	s.play()
	same(t, "content", s.runsWith(s.active()).Data["file"], "blue")
	writes := len(s.writes)
	s.restart() // reads complete ConfigMaps
	s.play()
	same(t, "writes when complete ConfigMaps are read", s.writes[writes:], []string{})
}

// TestDeletedCopies checks that a copy that a user deletes is recreated if its content is still known, and
// that otherwise a condition reports the loss.
func TestDeletedCopies(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"))
	s.route()
	s.write("settings", "blue")
	s.offer("1.0.0")
	s.play()
	blue := s.active()
	lost := s.runsWith(blue)
	s.delete(&corev1.ConfigMap{}, lost.Name)
	s.play()
	again := s.runsWith(blue)
	same(t, "content", again.Data["file"], "blue")
	if again.UID == lost.UID || !metav1.IsControlledBy(again, blue) {
		t.Errorf("the object was not deleted, or is owned by %v", again.OwnerReferences)
	}

	s.write("settings", "red")
	s.play()
	s.delete(&corev1.ConfigMap{}, lost.Name)
	s.play()
	same(t, "ConfigurationLost", condition(s.ms(), "ConfigurationLost"), fmt.Sprintf(
		"True ConfigurationLost: releases cannot start pods, because copies of their configuration were deleted: 1.0.0 (%s) lacks ConfigMap %q", blue.Name, lost.Name))
	same(t, "Ready", condition(s.ms(), "Ready"), "True Succeeded: active: 1.0.0 in group release")
	s.write("settings", "blue")
	s.play()
	same(t, "content when it is known again", s.runsWith(s.active()).Data["file"], "blue")
	same(t, "ConfigurationLost when the content is known again", condition(s.ms(), "ConfigurationLost"), "")
}

// TestCopiesThatTheCacheLacks checks that a cache without the new copies causes neither second copies nor a report that
// copies were lost.
func TestCopiesThatTheCacheLacks(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"))
	s.write("settings", "blue")
	s.offer("1.0.0")
	lags := interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.ConfigMapList); ok {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	s.reconciler = s.make(lags, s.client)
	s.play()
	same(t, "creations", len(slices.DeleteFunc(slices.Clone(s.writes), func(w string) bool { return !strings.HasPrefix(w, "create") })), 2)
	s.delete(&corev1.ConfigMap{}, "settings")
	s.play()
	same(t, "ConfigurationLost", condition(s.ms(), "ConfigurationLost"), "")
	s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.ContainerName = "web" })
	s.play()
	same(t, "Ready with an invalid template", wording(condition(s.ms(), "Ready")), "False ContainerNotFound")
	same(t, "ConfigurationLost with an invalid template", condition(s.ms(), "ConfigurationLost"), "")
	if !metav1.IsControlledBy(s.runsWith(s.active()), s.active()) {
		t.Error("the copy has no owner")
	}
}

// TestCopiesWithoutARelease checks that a copy whose release was never created is deleted.
func TestCopiesWithoutARelease(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"))
	s.write("settings", "blue")
	s.offer("1.0.0")
	s.before = func(what string) error {
		if strings.Count(what, "-") == 4 { // shop-1-0-0-<identity>: the release
			return errCrash
		}
		return nil
	}
	s.pass()
	same(t, "copies", len(s.copies()), 1)
	s.before = nil
	s.restart()
	s.write("settings", "red")
	for range 5 {
		s.pass()
		s.kubelet()
	}
	same(t, "copies at first", len(s.copies()), 2)
	s.clock.Step(unclaimed + time.Minute)
	s.play()
	same(t, "releases", len(s.objects()), 1)
	copies := s.copies()
	same(t, "copies at the end", slices.Collect(maps.Keys(copies)), []string{s.runsWith(s.active()).Name})
}

// exists reports whether an object of this kind and name exists.
func (s *story) exists(obj client.Object, name string) bool {
	s.Helper()
	err := env.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, obj)
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return err == nil
}

// TestForeignCopy checks that another user's object that has the name of a copy is not changed, and is reported.
func TestForeignCopy(t *testing.T) {
	t.Parallel()
	// Each case edits a copy so that it becomes a user's object.
	for name, edit := range map[string]func(*corev1.ConfigMap){
		"plain": func(c *corev1.ConfigMap) {
			*c = corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}, Data: map[string]string{"file": "theirs"}}
		},
		"labelled, with the same content": func(c *corev1.ConfigMap) {
			c.Annotations, c.Immutable = nil, nil
		},
		"copied from another cluster": func(c *corev1.ConfigMap) {
			c.Annotations[resources.AnnotationClaim] = "another"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, names("settings"))
			s.write("settings", "blue")
			s.offer("1.0.0")
			theirs := &corev1.ConfigMap{}
			s.before = func(what string) error {
				if theirs.Name == "" {
					theirs.Name = strings.TrimPrefix(what, "create ")
					of := &corev1.ConfigMap{}
					s.get("settings", of)
					theirs = resources.CopyConfigMap(s.ms(), theirs.Name[:strings.LastIndex(theirs.Name, "-")], of)
					edit(theirs)
					s.create(theirs)
				}
				return nil
			}
			s.pass()
			s.pass()
			if got := condition(s.ms(), "Stalled"); !strings.HasPrefix(got, "True NameConflict: ") || !strings.Contains(got, theirs.Name) {
				t.Errorf("Stalled is %q", got)
			}
			same(t, "releases", len(s.objects()), 0)
			now := &corev1.ConfigMap{}
			s.get(theirs.Name, now)
			same(t, "the user's object", now, theirs)
		})
	}
}

// TestLabelsMakeNoCopy checks that a user's ConfigMap or Secret is neither deleted nor given an owner,
// whatever its labels are, because users copy labels along with templates.
func TestLabelsMakeNoCopy(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*story) string{
		"no release":         func(*story) string { return "" },
		"a previous release": func(*story) string { return "shop-0-9-0-0123456789" },
		"a live release":     func(s *story) string { return s.active().Name },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, names("settings"), namesSecret("licence"), track(v1alpha1.TrackAll))
			s.write("settings", "blue")
			s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "licence"}})
			s.offer("1.0.0")
			s.playFor(time.Minute)
			meta := func(name string) metav1.ObjectMeta {
				m := metav1.ObjectMeta{
					Namespace: s.namespace, Name: name, Labels: map[string]string{v1alpha1.LabelMicroservice: "shop"},
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "settings", UID: "1"}},
				}
				if r := release(s); r != "" {
					m.Labels[v1alpha1.LabelRelease] = r
				}
				return m
			}
			// The second object has all fields of a copy except its name.
			ours := s.runsWith(s.active())
			another := &corev1.ConfigMap{ObjectMeta: meta("another"), Data: ours.Data, Immutable: ours.Immutable}
			another.Annotations = ours.Annotations
			objects := []client.Object{
				&corev1.ConfigMap{ObjectMeta: meta("mine"), Data: map[string]string{"a": "b"}}, another,
				&corev1.Secret{ObjectMeta: meta("mine"), Data: map[string][]byte{"a": []byte("b")}},
			}
			for _, o := range objects {
				s.create(o)
			}
			s.clock.Step(unclaimed + time.Minute)
			s.playFor(2 * time.Minute)
			for _, before := range objects {
				now := before.DeepCopyObject().(client.Object)
				if !s.exists(now, before.GetName()) {
					t.Errorf("the user's %T %q was deleted", before, before.GetName())
					continue
				}
				same(t, fmt.Sprintf("the user's %T %q", before, before.GetName()), now, before)
			}
		})
	}
}

// TestCopyOfAReleaseThatIsMadeAgain checks that a release whose object is deleted and created again owns its
// copy again before the garbage collector deletes the copy.
func TestCopyOfAReleaseThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"))
	s.write("settings", "blue")
	s.offer("1.0.0")
	s.play()
	was := s.active()
	before := s.runsWith(was)
	if err := env.Client.Delete(t.Context(), was); err != nil {
		t.Fatal(err)
	}
	s.play()
	again := s.active()
	if again.UID == was.UID || again.Name != was.Name {
		t.Fatalf("the release was not created again: %s", s.rolloutState())
	}
	now := s.runsWith(again)
	same(t, "the copy is the same", now.UID, before.UID)
	if !metav1.IsControlledBy(now, again) || len(now.OwnerReferences) != 1 {
		t.Errorf("the object is owned by %v", now.OwnerReferences)
	}
}

// TestContentIsNotReported checks that only copies contain the content.
func TestContentIsNotReported(t *testing.T) {
	t.Parallel()
	const hidden = "a-value-that-no-one-may-read"
	s := begin(t, names("settings"), namesSecret("password"), track(v1alpha1.TrackAll))
	var logs strings.Builder
	s.logger = funcr.NewJSON(func(line string) { logs.WriteString(line + "\n") }, funcr.Options{Verbosity: 10})
	s.route()
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "password"}, StringData: map[string]string{"file": hidden}})
	s.write("settings", hidden+"1")
	s.offer("1.0.0")
	s.playFor(time.Minute)
	s.write("settings", hidden+"2")
	s.broken["1.0.0"] = true
	s.play(s.until("1.0.0 error"))
	s.broken["1.0.0"] = false
	s.delete(&corev1.ConfigMap{}, s.runsWith(s.active()).Name)
	s.pass()
	s.delete(&corev1.ConfigMap{}, "settings")
	s.pass()
	reported := strings.Join(s.events, "\n") + logs.String()
	raw, err := json.Marshal([]any{s.ms(), s.objects()})
	if err != nil {
		t.Fatal(err)
	}
	reported += string(raw)
	if strings.Contains(reported, hidden) {
		t.Error("the content of the Secret is reported")
	}
	for _, word := range []string{"ReleaseFailed", "ConfigurationMissing", "ConfigurationLost"} {
		if !strings.Contains(reported, word) {
			t.Errorf("the test never reaches %s", word)
		}
	}
	if len(logs.String()) == 0 {
		s.logger.Info("a line")
		if len(logs.String()) == 0 {
			t.Error("the logger collects nothing")
		}
	}
}

// TestSecretsAreAPartOfARelease checks that Secrets other than certificates and tokens are part of a release
// if spec.configuration.track is All.
func TestSecretsAreAPartOfARelease(t *testing.T) {
	t.Parallel()
	s := begin(t, namesSecret("licence"), namesSecret("certificate"), track(v1alpha1.TrackAll))
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.namespace, Name: name} }
	certificate := &corev1.Secret{ObjectMeta: meta("certificate"), Type: corev1.SecretTypeTLS, StringData: map[string]string{"tls.crt": "", "tls.key": ""}}
	s.create(certificate)
	s.offer("1.0.0")
	s.pass()
	if got := condition(s.ms(), "Stalled"); !strings.HasPrefix(got, `True ConfigurationMissing: spec.template refers to objects that do not exist in this namespace: Secret "licence"`) {
		t.Errorf("Stalled is %q", got)
	}
	licence := &corev1.Secret{ObjectMeta: meta("licence"), StringData: map[string]string{"key": "one"}}
	s.create(licence)
	s.playFor(5 * time.Minute)
	release := s.active()
	volume := func(r *v1alpha1.VersionedMicroservice, i int) string {
		return r.Spec.Template.Spec.Volumes[i].Secret.SecretName
	}
	same(t, "certificate", volume(release, 1), "certificate")
	mine := &corev1.Secret{}
	s.get(volume(release, 0), mine)
	same(t, "copy", mine.Data, map[string][]byte{"key": []byte("one")})
	if mine.Name == "licence" || !metav1.IsControlledBy(mine, release) || mine.Immutable == nil || !*mine.Immutable {
		t.Errorf("copy = %v", mine.ObjectMeta)
	}
	result, _ := s.pass()
	same(t, "next requeue", result.RequeueAfter, requeueSecrets)

	certificate.StringData = map[string]string{"tls.crt": "renewed", "tls.key": ""}
	if err := env.Client.Update(t.Context(), certificate); err != nil {
		t.Fatal(err)
	}
	s.playFor(5 * time.Minute)
	same(t, "release after a certificate was renewed", s.active().Name, release.Name)
	licence.StringData = map[string]string{"key": "two"}
	if err := env.Client.Update(t.Context(), licence); err != nil {
		t.Fatal(err)
	}
	s.playFor(5 * time.Minute)
	s.get(volume(s.active(), 0), mine)
	same(t, "copy after a change", mine.Data, map[string][]byte{"key": []byte("two")})
}

// playFor continues for a fixed time, because polled objects never become stable.
func (s *story) playFor(d time.Duration) {
	s.Helper()
	end := s.clock.Now().Add(d)
	s.play(func() bool { return s.clock.Now().After(end) })
}

// TestSecretsForbidden checks that no new release starts without permission to read Secrets, and that the
// message contains the fix.
func TestSecretsForbidden(t *testing.T) {
	t.Parallel()
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "licence", fmt.Errorf("no"))
	secret := func(obj any) bool {
		switch obj.(type) {
		case *corev1.Secret, *corev1.SecretList:
			return true
		}
		return false
	}
	for name, funcs := range map[string]interceptor.Funcs{
		"get": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if secret(obj) {
				return no
			}
			return c.Get(ctx, key, obj, opts...)
		}},
		"list": {List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if secret(list) {
				return no
			}
			return c.List(ctx, list, opts...)
		}},
		"create": {Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if secret(obj) {
				return no
			}
			return c.Create(ctx, obj, opts...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, namesSecret("licence"), track(v1alpha1.TrackAll))
			s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "licence"}})
			s.offer("1.0.0")
			limited := interceptor.NewClient(s.client, funcs)
			s.reconciler = s.make(limited, limited)
			result, err := s.pass()
			if err != nil || result.RequeueAfter > requeueSecrets || result.RequeueAfter == 0 {
				t.Errorf("reconcile without permissions = %v, %v", result, err)
			}
			got := condition(s.ms(), "Stalled")
			if !strings.HasPrefix(got, "True SecretsForbidden: ") || !strings.Contains(got, fmt.Sprintf("spec.configuration.track: All requires the permissions that the kustomize component config/components/secrets grants in namespace %q", s.namespace)) {
				t.Errorf("Stalled is %q", got)
			}
			same(t, "releases", len(s.objects()), 0)
		})
	}
}

// TestCrashesWithConfiguration checks that the result is the same if the manager stops at each write that a change
// to configuration causes.
func TestCrashesWithConfiguration(t *testing.T) {
	t.Parallel()
	const stories = 4
	for _, mode := range []string{"before", "after"} {
		for first := range stories {
			t.Run(fmt.Sprintf("%s writes %d+%dn", mode, first, stories), func(t *testing.T) {
				t.Parallel()
				s := begin(t, names("settings"))
				count := 0
				die := func(string) error {
					if count++; count%stories == first {
						return errCrash
					}
					return nil
				}
				if mode == "before" {
					s.before = die
				} else {
					s.after = die
				}
				s.route()
				s.write("settings", "blue")
				s.offer("1.0.0")
				s.play()
				s.write("settings", "red")
				s.play()
				same(t, "rollout state", strings.ReplaceAll(s.rolloutState(), "Rebuilt", "First"), lines(
					"release Live target Latest",
					"  1.0.0 active 100% Promoted, 2 replicas",
					"  1.0.0 deprecated 0% Replaced, 1 replicas",
				))
				same(t, "content", s.runsWith(s.active()).Data["file"], "red")
				objects := s.objects()
				for name, c := range s.copies() {
					_, release := resources.ReleaseOfCopy(&c)
					if objects[release] == nil || !metav1.IsControlledBy(&c, objects[release]) {
						t.Errorf("copy %s is owned by %v", name, c.OwnerReferences)
					}
				}
			})
		}
	}
}

// TestOrphanKeepsCopies checks that copies remain if they are referenced by pods whose Deployments outlive the
// Microservice.
func TestOrphanKeepsCopies(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"), namesSecret("licence"), track(v1alpha1.TrackAll), func(ms *v1alpha1.Microservice) {
		ms.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
	})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "licence"}})
	s.write("settings", "blue")
	s.offer("1.0.0")
	s.playFor(time.Minute)
	release := s.active()
	s.remove()
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	same(t, "gone", s.removed(), true)
	same(t, "owners of the ConfigMap", len(s.runsWith(release).OwnerReferences), 0)
	secret := &corev1.Secret{}
	s.get(release.Spec.Template.Spec.Volumes[0].Secret.SecretName, secret)
	same(t, "owners of the Secret", len(secret.OwnerReferences), 0)
	for _, o := range []client.Object{s.runsWith(release), secret} {
		same(t, "labels", len(o.GetLabels()), 0)
		same(t, "annotations", len(o.GetAnnotations()), 1)
		if o.GetAnnotations()[resources.AnnotationSource] == "" {
			t.Errorf("%T does not name its source", o)
		}
	}
}

// TestCopiesOfAPreviousMicroservice checks that a new Microservice does not manage the objects of a deleted
// Microservice with the same name.
func TestCopiesOfAPreviousMicroservice(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"), namesSecret("licence"), track(v1alpha1.TrackAll), func(ms *v1alpha1.Microservice) {
		ms.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
	})
	licence := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "licence"}, StringData: map[string]string{"key": "one"}}
	s.create(licence)
	s.write("settings", "blue")
	s.offer("1.0.0")
	s.playFor(time.Minute)
	release, spec := s.active(), s.ms().Spec
	left := []client.Object{s.runsWith(release), &corev1.Secret{}}
	s.get(release.Spec.Template.Spec.Volumes[0].Secret.SecretName, left[1])
	s.remove()
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	same(t, "gone", s.removed(), true)
	for _, c := range s.objects() { // as the garbage collector does
		if err := env.Client.Delete(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range left {
		s.get(o.GetName(), o)
	}

	s.write("settings", "green")
	licence.StringData = map[string]string{"key": "two"}
	if err := env.Client.Update(t.Context(), licence); err != nil {
		t.Fatal(err)
	}
	s.offer("1.1.0")
	s.create(&v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}, Spec: spec})
	s.restart()
	s.playFor(time.Minute)
	same(t, "version of the next Microservice", s.active().Spec.SemVer.Version, "1.1.0")
	s.clock.Step(unclaimed + time.Minute)
	s.playFor(2 * time.Minute)
	for _, before := range left {
		now := before.DeepCopyObject().(client.Object)
		if !s.exists(now, before.GetName()) {
			t.Errorf("%T %q was deleted, so pods of the remaining Deployment cannot start", before, before.GetName())
			continue
		}
		same(t, fmt.Sprintf("what remains of %T", before), now, before)
	}
}
