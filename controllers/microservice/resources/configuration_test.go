package resources

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func configured(t *testing.T) *v1alpha1.Microservice {
	t.Helper()
	raw, err := os.ReadFile("testdata/configured.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ms := &v1alpha1.Microservice{}
	if err := yaml.UnmarshalStrict(raw, ms); err != nil {
		t.Fatal(err)
	}
	return ms
}

// contents are the contents of all sources of the configured template, except ignored sources and the
// certificate, which is excluded because of its type.
var contents = Contents{
	{KindConfigMap, "migrations"}: "m", {KindConfigMap, "settings"}: "s", {KindConfigMap, "absent"}: "",
	{KindConfigMap, "files"}: "f", {KindConfigMap, "features"}: "e",
	{KindSecret, "admin"}: "a", {KindSecret, "database"}: "d", {KindSecret, "licence"}: "l",
}

// TestGoldenConfiguredRelease checks the identity of a release with configuration, and the names of its
// copies. If this test fails, every service that refers to a ConfigMap gets a new release on the
// next upgrade of Heighliner.
func TestGoldenConfiguredRelease(t *testing.T) {
	t.Parallel()
	ms := configured(t)
	release := goldenRelease(t, "configured-release.yaml", ms, contents)
	if ms.Spec.Template.Spec.Volumes[0].ConfigMap.Name != "files" {
		t.Error("the template of the Microservice was changed")
	}
	var needed []string
	for _, s := range Copies(release) {
		needed = append(needed, s.Kind)
		if errs := validation.IsDNS1123Subdomain(s.Name); len(errs) > 0 {
			t.Errorf("copy %q: %v", s.Name, errs)
		}
	}
	want := []string{KindConfigMap, KindConfigMap, KindConfigMap, KindConfigMap, KindSecret, KindSecret, KindSecret}
	if diff := cmp.Diff(want, needed); diff != "" {
		t.Errorf("kinds of the copies that pods need (-want +got):\n%s", diff)
	}
}

// TestConfigWithoutContents checks that the identity of a release without configuration has not changed since
// configuration was introduced.
func TestConfigWithoutContents(t *testing.T) {
	t.Parallel()
	ms := microservice(t)
	none, err := Config(&ms.Spec.Template, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := Config(&ms.Spec.Template, 1, Contents{})
	if err != nil {
		t.Fatal(err)
	}
	if none != empty {
		t.Errorf("without contents the result is %s, and with empty contents %s", none, empty)
	}
}

func TestConfigDistinguishesContents(t *testing.T) {
	t.Parallel()
	ms := configured(t)
	seen := map[string]string{}
	for name, c := range map[string]Contents{
		"none":         nil,
		"one":          {{KindConfigMap, "a"}: "x"},
		"another hash": {{KindConfigMap, "a"}: "y"},
		"absent":       {{KindConfigMap, "a"}: ""},
		"another name": {{KindConfigMap, "b"}: "x"},
		"a Secret":     {{KindSecret, "a"}: "x"},
		"two":          {{KindConfigMap, "a"}: "x", {KindConfigMap, "b"}: "x"},
		"two sources":  {{KindConfigMap, "a"}: "x9:ConfigMap1:b1:x"},
	} {
		got, err := Config(&ms.Spec.Template, 0, c)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[got] = name
	}
}

func TestTracked(t *testing.T) {
	t.Parallel()
	configMaps := []string{`ConfigMap "absent" optional`, `ConfigMap "features"`, `ConfigMap "files"`, `ConfigMap "migrations"`, `ConfigMap "settings"`}
	secrets := []string{`Secret "admin"`, `Secret "certificate"`, `Secret "database"`, `Secret "licence"`}
	election := `ConfigMap "election"`
	for name, test := range map[string]struct {
		configuration *v1alpha1.Configuration
		want          []string
	}{
		"default":        {nil, append([]string{election}, configMaps...)},
		"empty":          {&v1alpha1.Configuration{}, append([]string{election}, configMaps...)},
		"ConfigMaps":     {&v1alpha1.Configuration{Track: v1alpha1.TrackConfigMaps}, append([]string{election}, configMaps...)},
		"All":            {&v1alpha1.Configuration{Track: v1alpha1.TrackAll, Ignore: []string{"election"}}, append(slices.Clone(configMaps), secrets...)},
		"All except one": {&v1alpha1.Configuration{Track: v1alpha1.TrackAll, Ignore: []string{"election", "database"}}, append(slices.Clone(configMaps), secrets[0], secrets[1], secrets[3])},
		"None":           {&v1alpha1.Configuration{Track: v1alpha1.TrackNone}, nil},
		"one is ignored": {&v1alpha1.Configuration{Ignore: []string{"election"}}, configMaps},
	} {
		ms := configured(t)
		ms.Spec.Configuration = test.configuration
		var got []string
		for s, optional := range Tracked(ms) {
			line := s.String()
			if optional {
				line += " optional"
			}
			got = append(got, line)
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTrackedIsNeeded checks that a source with at least one required reference is required, even if its
// other references are optional.
func TestTrackedIsNeeded(t *testing.T) {
	t.Parallel()
	for _, order := range [][]bool{{true, false}, {false, true}} {
		ms := &v1alpha1.Microservice{}
		for i, optional := range order {
			ms.Spec.Template.Spec.Volumes = append(ms.Spec.Template.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(i), VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Optional: &optional},
			}})
		}
		if diff := cmp.Diff(map[Source]bool{{KindConfigMap, "a"}: false}, Tracked(ms)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", order, diff)
		}
	}
}

func TestHashOfConfigMap(t *testing.T) {
	t.Parallel()
	hash := func(c corev1.ConfigMap) string { return HashOfConfigMap(&c) }
	text := hash(corev1.ConfigMap{Data: map[string]string{"a": "b"}})
	if got := hash(corev1.ConfigMap{BinaryData: map[string][]byte{"a": []byte("b")}}); got != text {
		t.Error("the same file in binaryData counts as different content")
	}
	if got := hash(corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}, Data: map[string]string{"a": "b"}}); got != text {
		t.Error("labels count as content")
	}
	seen := map[string]string{}
	for name, c := range map[string]corev1.ConfigMap{
		"empty":                                {},
		"one":                                  {Data: map[string]string{"a": "b"}},
		"another value":                        {Data: map[string]string{"a": "c"}},
		"no value":                             {Data: map[string]string{"a": ""}},
		"another key":                          {Data: map[string]string{"b": "b"}},
		"moved boundary between key and value": {Data: map[string]string{"a": "b1:c1:d"}},
		"two":                                  {Data: map[string]string{"a": "b", "c": "d"}},
		"bytes":                                {BinaryData: map[string][]byte{"a": {0xff, 0}}},
		"other bytes":                          {BinaryData: map[string][]byte{"a": {0xfe, 0}}},
	} {
		got := hash(c)
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[got] = name
	}
}

// TestTrimConfigMap checks that a trimmed ConfigMap does not reveal its content, but differs when the content
// changes.
func TestTrimConfigMap(t *testing.T) {
	t.Parallel()
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "settings", Labels: map[string]string{"a": "b"},
			Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"level":"hidden"}}`},
			ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1("hidden")}},
		},
		Data: map[string]string{"level": "hidden"}, BinaryData: map[string][]byte{"more": []byte("hidden")},
	}
	hash := HashOfConfigMap(c)
	for range 2 {
		TrimConfigMap(c)
		if got := HashOfConfigMap(c); got != hash {
			t.Errorf("the hash of the trimmed ConfigMap is %s, want %s", got, hash)
		}
	}
	raw, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "hidden") || strings.Contains(string(raw), "level") {
		t.Errorf("content remains:\n%s", raw)
	}
	for key := range c.Data {
		if len(validation.IsConfigMapKey(key)) == 0 {
			t.Errorf("a user can write key %q, so another ConfigMap can be mistaken for a trimmed ConfigMap", key)
		}
	}
}

// TestCopies checks that a copy belongs to one release, is immutable, and has no labels or annotations that
// would make a tool mistake it for the original.
func TestCopies(t *testing.T) {
	t.Parallel()
	ms := configured(t)
	ms.UID = "7"
	meta := metav1.ObjectMeta{
		Name: "settings", Namespace: "demo", UID: "1", ResourceVersion: "2",
		Labels:          map[string]string{"app.kubernetes.io/instance": "argo"},
		Annotations:     map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"},
		OwnerReferences: []metav1.OwnerReference{{Name: "else"}}, Finalizers: []string{"else"},
	}
	c := CopyConfigMap(ms, "shop-1-0-0-abc", &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"c": {1}}})
	s := CopySecret(ms, "shop-1-0-0-abc", &corev1.Secret{ObjectMeta: meta, Type: "example.com/own", Data: map[string][]byte{"a": {1}}})
	if c.Name == s.Name {
		t.Errorf("the copies of a ConfigMap and a Secret with the same name have the same name %q", c.Name)
	}
	raw, err := yaml.Marshal([]any{c, s})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "copies.yaml", string(raw))
}

// TestIsCopy checks that copies count as copies, and that other users' objects do not.
func TestIsCopy(t *testing.T) {
	t.Parallel()
	ms := configured(t)
	ms.UID = "7"
	release := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: ms.Namespace, Name: "shop-1-0-0-abc", UID: "8"}}
	by := func(apiVersion, uid string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: apiVersion, Name: "a", UID: types.UID(uid), Controller: ptr.To(true)}}
	}
	const ours = "hlnr.io/v1alpha1"
	unclaimed := func(c *corev1.ConfigMap) { delete(c.Annotations, AnnotationClaim) }
	for name, test := range map[string]struct {
		edit    func(c *corev1.ConfigMap)
		without bool // the release does not exist
		want    bool
	}{
		"of the Microservice":                    {func(c *corev1.ConfigMap) { unclaimed(c); c.OwnerReferences = by(ours, "7") }, true, true},
		"of the release":                         {func(c *corev1.ConfigMap) { unclaimed(c); c.OwnerReferences = by(ours, "8") }, false, true},
		"of a release that does not exist":       {func(c *corev1.ConfigMap) { unclaimed(c); c.OwnerReferences = by(ours, "8") }, true, false},
		"of a previous release, claimed":         {func(c *corev1.ConfigMap) { c.OwnerReferences = by(ours, "6") }, false, true},
		"without an owner, claimed":              {func(*corev1.ConfigMap) {}, true, true},
		"without an owner":                       {unclaimed, false, false},
		"trimmed":                                {TrimConfigMap, true, true},
		"of another kind, claimed":               {func(c *corev1.ConfigMap) { c.OwnerReferences = by("v1", "6") }, false, false},
		"of another Microservice":                {func(c *corev1.ConfigMap) { c.Annotations[AnnotationClaim] = "5"; c.OwnerReferences = by(ours, "5") }, false, false},
		"mutable":                                {func(c *corev1.ConfigMap) { c.Immutable = nil }, false, false},
		"with another name":                      {func(c *corev1.ConfigMap) { c.Name += "0" }, false, false},
		"of another source":                      {func(c *corev1.ConfigMap) { c.Annotations[AnnotationSource] = "files" }, false, false},
		"without a source":                       {func(c *corev1.ConfigMap) { delete(c.Annotations, AnnotationSource) }, false, false},
		"without labels":                         {func(c *corev1.ConfigMap) { c.Labels = nil }, false, false},
		"with the label of another Microservice": {func(c *corev1.ConfigMap) { c.Labels[v1alpha1.LabelMicroservice] = "web" }, false, false},
		"with the label of another release":      {func(c *corev1.ConfigMap) { c.Labels[v1alpha1.LabelRelease] = "shop-1-1-0-abc" }, false, false},
		"unclaimed":                              {func(c *corev1.ConfigMap) { Unclaim(c) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := CopyConfigMap(ms, release.Name, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a": "b"}})
			test.edit(c)
			there := release
			if test.without {
				there = nil
			}
			if got := IsCopy(c, ms, there); got != test.want {
				t.Errorf("it counts as a copy: %t, want %t", got, test.want)
			}
		})
	}
	secret := CopySecret(ms, release.Name, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "licence"}})
	if !IsCopy(secret, ms, nil) {
		t.Error("the copy of a Secret does not count as a copy")
	}
	secret.Immutable = nil
	if IsCopy(secret, ms, nil) {
		t.Error("a mutable Secret counts as a copy")
	}
}

func TestTracks(t *testing.T) {
	t.Parallel()
	for kind, want := range map[corev1.SecretType]bool{
		"": true, "Opaque": true, "kubernetes.io/basic-auth": true, "kubernetes.io/ssh-auth": true, "example.com/own": true,
		"kubernetes.io/tls": false, "kubernetes.io/service-account-token": false, "bootstrap.kubernetes.io/token": false,
		"kubernetes.io/dockercfg": false, "kubernetes.io/dockerconfigjson": false,
	} {
		if Tracks(kind) != want {
			t.Errorf("type %q is tracked: %t, want %t", kind, !want, want)
		}
	}
}
