package resources

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Kinds of a Source.
const (
	KindConfigMap = "ConfigMap"
	KindSecret    = "Secret"
)

// AnnotationSource is the annotation on a copy that contains the name of the source object. The source's
// labels and annotations are not copied, because tools use these labels and annotations to recognize the
// objects that they apply.
const AnnotationSource = "hlnr.io/source"

// AnnotationClaim is the annotation on a copy that contains the UID of the Microservice that created the
// copy. It identifies this Microservice if the release was deleted and created again and therefore no existing
// Heighliner object controls the copy. The annotation is removed from a copy that outlives its Microservice.
const AnnotationClaim = "hlnr.io/claim"

// Source is a ConfigMap or Secret whose content a pod template uses.
type Source struct {
	// Kind is ConfigMap or Secret.
	Kind string
	// Name is the name of the object in the namespace of the Microservice.
	Name string
}

// String describes the source in messages, for example ConfigMap "settings".
func (s Source) String() string { return fmt.Sprintf("%s %q", s.Kind, s.Name) }

// Contents maps each source to the hash of its content. The hash of an optional source that does not
// exist is empty.
type Contents map[Source]string

// Tracked returns the sources that are part of a release: the sources to which the template refers and that
// spec.configuration does not exclude. Each value reports whether pods can start without the source.
func Tracked(ms *v1alpha1.Microservice) map[Source]bool {
	track, ignore := v1alpha1.TrackConfigMaps, []string(nil)
	if c := ms.Spec.Configuration; c != nil {
		track, ignore = cmp.Or(c.Track, track), c.Ignore
	}
	tracked := map[Source]bool{}
	visit(&ms.Spec.Template.Spec, func(s Source, _ *string, optional bool) {
		wanted := track == v1alpha1.TrackAll || track == v1alpha1.TrackConfigMaps && s.Kind == KindConfigMap
		if !wanted || slices.Contains(ignore, s.Name) {
			return
		}
		without, named := tracked[s]
		tracked[s] = optional && (without || !named)
	})
	return tracked
}

// Copies returns the copies that the pods of a release require to start.
func Copies(release *v1alpha1.VersionedMicroservice) []Source {
	needed := map[Source]bool{}
	visit(&release.Spec.Template.Spec, func(s Source, _ *string, optional bool) {
		if !optional && strings.HasPrefix(s.Name, release.Name+"-") {
			needed[s] = true
		}
	})
	return slices.SortedFunc(maps.Keys(needed), compareSources)
}

func compareSources(a, b Source) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// CopyName returns the name of a release's copy of a source. The release's name ends
// in a hash that covers the source's name and content, so the name of a copy identifies its content.
func CopyName(release string, s Source) string {
	return release + "-" + digest(s.Kind, s.Name)[:8]
}

// rename replaces the sources in a template with the release's copies. An optional source that does
// not exist is renamed too, because pods must not use a source that is created later.
func rename(spec *corev1.PodSpec, release string, contents Contents) {
	visit(spec, func(s Source, name *string, _ bool) {
		if _, tracked := contents[s]; tracked {
			*name = CopyName(release, s)
		}
	})
}

// References calls the function found once for each of a pod's references to a ConfigMap or Secret: in env, envFrom, volumes,
// and projected volumes. A write to *name changes the reference in the pod.
func References(spec *corev1.PodSpec, found func(s Source, name *string)) {
	visit(spec, func(s Source, name *string, _ bool) { found(s, name) })
}

// visit calls found for each of a pod's references to a ConfigMap or Secret: in env, envFrom, volumes, and
// projected volumes.
func visit(spec *corev1.PodSpec, found func(s Source, name *string, optional bool)) {
	at := func(kind string, name *string, optional *bool) {
		if *name != "" {
			found(Source{Kind: kind, Name: *name}, name, ptr.Deref(optional, false))
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			visitContainer(&containers[i], at)
		}
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.ConfigMap != nil {
			at(KindConfigMap, &v.ConfigMap.Name, v.ConfigMap.Optional)
		}
		if v.Secret != nil {
			at(KindSecret, &v.Secret.SecretName, v.Secret.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			p := &v.Projected.Sources[j]
			if p.ConfigMap != nil {
				at(KindConfigMap, &p.ConfigMap.Name, p.ConfigMap.Optional)
			}
			if p.Secret != nil {
				at(KindSecret, &p.Secret.Name, p.Secret.Optional)
			}
		}
	}
}

func visitContainer(c *corev1.Container, at func(kind string, name *string, optional *bool)) {
	for i := range c.EnvFrom {
		e := &c.EnvFrom[i]
		if e.ConfigMapRef != nil {
			at(KindConfigMap, &e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
		}
		if e.SecretRef != nil {
			at(KindSecret, &e.SecretRef.Name, e.SecretRef.Optional)
		}
	}
	for i := range c.Env {
		e := c.Env[i].ValueFrom
		if e == nil {
			continue
		}
		if e.ConfigMapKeyRef != nil {
			at(KindConfigMap, &e.ConfigMapKeyRef.Name, e.ConfigMapKeyRef.Optional)
		}
		if e.SecretKeyRef != nil {
			at(KindSecret, &e.SecretKeyRef.Name, e.SecretKeyRef.Optional)
		}
	}
}

// hashed is the only key of a trimmed ConfigMap: its value is the hash of the content. The key contains a
// slash, which the API server does not accept in keys.
const hashed = "hlnr.io/hash"

// TrimConfigMap replaces the content of a ConfigMap with its hash. It also removes all annotations except
// AnnotationSource and AnnotationClaim, because tools duplicate the content in annotations. It is
// idempotent.
func TrimConfigMap(c *corev1.ConfigMap) {
	c.Data, c.BinaryData = map[string]string{hashed: HashOfConfigMap(c)}, nil
	c.ManagedFields = nil
	maps.DeleteFunc(c.Annotations, func(key, _ string) bool { return key != AnnotationSource && key != AnnotationClaim })
}

// HashOfConfigMap returns the hash of the entries of a ConfigMap, which may be trimmed. It does not
// distinguish between entries in data and entries in binaryData.
func HashOfConfigMap(c *corev1.ConfigMap) string {
	if hash, ok := c.Data[hashed]; ok {
		return hash
	}
	files := maps.Clone(c.BinaryData)
	if files == nil {
		files = map[string][]byte{}
	}
	for name, text := range c.Data {
		files[name] = []byte(text)
	}
	return hashOf(files)
}

// HashOfSecret returns the hash of the entries of a Secret.
func HashOfSecret(s *corev1.Secret) string { return hashOf(s.Data) }

func hashOf(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(files[name]), files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// untracked contains the types of Secrets that are never part of a release, because they are renewed
// regularly and old Secrets of these types are no longer valid.
var untracked = []corev1.SecretType{
	corev1.SecretTypeTLS, corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken,
	corev1.SecretTypeDockercfg, corev1.SecretTypeDockerConfigJson,
}

// Tracks reports whether Secrets of a type may be part of a release.
func Tracks(t corev1.SecretType) bool { return !slices.Contains(untracked, t) }

// CopyConfigMap returns a release's immutable copy of a ConfigMap.
func CopyConfigMap(ms *v1alpha1.Microservice, release string, from *corev1.ConfigMap) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: copyMeta(ms, release, Source{KindConfigMap, from.Name}),
		Data:       from.Data, BinaryData: from.BinaryData, Immutable: ptr.To(true),
	}
}

// CopySecret returns a release's immutable copy of a Secret.
func CopySecret(ms *v1alpha1.Microservice, release string, from *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: copyMeta(ms, release, Source{KindSecret, from.Name}),
		Type:       from.Type, Data: from.Data, Immutable: ptr.To(true),
	}
}

func copyMeta(ms *v1alpha1.Microservice, release string, s Source) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: ms.Namespace, Name: CopyName(release, s),
		Labels:      map[string]string{v1alpha1.LabelMicroservice: ms.Name, v1alpha1.LabelRelease: release},
		Annotations: map[string]string{AnnotationSource: s.Name, AnnotationClaim: string(ms.UID)},
	}
}

// IsCopy reports whether a Microservice created a ConfigMap or Secret as a copy for one of its releases, and
// may therefore write and delete the object. release is nil if it does not exist. Labels are not sufficient,
// because any user can set them. A copy is immutable, has the name that is computed from its release and its
// source, and is controlled by the Microservice or by the release. If neither controls it, it must have the
// Microservice's claim, and must not be controlled by a kind outside hlnr.io.
func IsCopy(obj client.Object, ms *v1alpha1.Microservice, release *v1alpha1.VersionedMicroservice) bool {
	var s Source
	var immutable *bool
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		s.Kind, immutable = KindConfigMap, o.Immutable
	case *corev1.Secret:
		s.Kind, immutable = KindSecret, o.Immutable
	}
	s.Name = obj.GetAnnotations()[AnnotationSource]
	microservice, of := ReleaseOfCopy(obj)
	if !ptr.Deref(immutable, false) || s.Name == "" || microservice != ms.Name || obj.GetName() != CopyName(of, s) {
		return false
	}
	if metav1.IsControlledBy(obj, ms) || release != nil && release.Name == of && metav1.IsControlledBy(obj, release) {
		return true
	}
	by := metav1.GetControllerOf(obj)
	claimed := ms.UID != "" && obj.GetAnnotations()[AnnotationClaim] == string(ms.UID)
	return claimed && (by == nil || by.APIVersion == v1alpha1.GroupVersion.String())
}

// Unclaim turns a copy into an ordinary object that no Microservice manages anymore. The object keeps
// the annotation with the name of its source.
func Unclaim(obj client.Object) {
	for _, label := range []string{v1alpha1.LabelMicroservice, v1alpha1.LabelRelease} {
		delete(obj.GetLabels(), label)
	}
	delete(obj.GetAnnotations(), AnnotationClaim)
}

// ReleaseOfCopy returns the Microservice and the release in the labels of a ConfigMap or Secret. Each result
// is empty if the object lacks the corresponding label. Use IsCopy to check whether the object is a copy.
func ReleaseOfCopy(obj client.Object) (microservice, release string) {
	l := obj.GetLabels()
	return l[v1alpha1.LabelMicroservice], l[v1alpha1.LabelRelease]
}
