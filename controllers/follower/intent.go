package follower

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	versioned "github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
)

// state records, in an annotation of a CronJob, the fields that were replaced.
type state struct {
	// Containers are the names of the containers whose images are applied.
	Containers []string `json:"containers,omitempty"`
	// Images contains the images of the manifest before other images were applied. The keys are the names of containers.
	Images map[string]string `json:"images,omitempty"`
	// Sources contains the original names of replaced references to ConfigMaps and Secrets. The keys are the
	// kinds and the current names, for example "ConfigMap/shop-1f0c-2d71a0ff".
	Sources map[string]string `json:"sources,omitempty"`
}

// stateOf reads the annotation of a CronJob. Users can edit it: an annotation that does not parse counts as empty.
func stateOf(job *batchv1.CronJob) state {
	var s state
	if err := json.Unmarshal([]byte(job.Annotations[v1alpha1.AnnotationFollowState]), &s); err != nil {
		return state{}
	}
	return s
}

// image returns the image to apply to a container, and the image in the manifest if it is known. wanted is
// the image of the release, or "" if there is none. users reports whether another field manager owns the image. The API server
// requires an image, so an applied image cannot be removed. Instead, the image of the manifest replaces it
// until another manager sets an image.
func (s state) image(c *corev1.Container, wanted string, users bool) (image, manifest string) {
	applied := slices.Contains(s.Containers, c.Name)
	manifest = s.Images[c.Name]
	if users || !applied {
		manifest = c.Image
	}
	if wanted == "" && applied && !users {
		return cmp.Or(manifest, c.Image), manifest
	}
	return wanted, manifest
}

// intentOf returns the fields of a CronJob to apply: images, references to the release's copies of
// ConfigMaps and Secrets, suspend, and annotations. Server-side apply removes a field that was in an
// earlier intent and is not in this intent, unless the user set it too. Therefore the intent includes all
// fields that were replaced before. intentOf is pure.
func intentOf(job *batchv1.CronJob, p plan) (*unstructured.Unstructured, error) {
	before, pod := stateOf(job), podSpec(job).DeepCopy()
	refs := referrer{release: p.release, restore: p.restore, before: before.Sources, now: map[string]string{}}
	follows, images := job.Annotations[v1alpha1.AnnotationFollows], imagesOf(pod, before.Containers)
	if p.release != nil {
		follows, images = p.release.Name, releaseImages(p)
	}
	template, after, users := map[string]any{}, state{Images: map[string]string{}}, othersOf(job)
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"containers", pod.Containers}, {"initContainers", pod.InitContainers}} {
		var items []any
		for i := range list.containers {
			c := &list.containers[i]
			if !users.have(list.field, c.Name) {
				continue // The API server removes a field that is not in the intent.
			}
			c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return !users.have(list.field, c.Name, "env", v.Name) })
			image, manifest := before.image(c, images[c.Name], len(users) > 0 && users.have(list.field, c.Name, "image"))
			item, err := containerIntent(c, image, refs)
			if err != nil {
				return nil, fmt.Errorf("container %q: %w", c.Name, err)
			}
			if image != "" {
				after.Containers = append(after.Containers, c.Name)
				if manifest != "" {
					after.Images[c.Name] = manifest
				}
			}
			if len(item) > 1 {
				items = append(items, item)
			}
		}
		if len(items) > 0 {
			template[list.field] = items
		}
	}
	pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return !users.have("volumes", v.Name) })
	volumes, err := volumesIntent(pod.Volumes, refs)
	if err != nil {
		return nil, err
	}
	if len(volumes) > 0 {
		template["volumes"] = volumes
	}
	after.Sources = refs.now
	annotations := map[string]any{v1alpha1.AnnotationFollowMessage: p.message}
	if follows != "" {
		annotations[v1alpha1.AnnotationFollows] = follows
	}
	if len(after.Containers)+len(after.Sources) > 0 {
		raw, err := json.Marshal(after)
		if err != nil {
			return nil, fmt.Errorf("encode the replaced fields: %w", err)
		}
		annotations[v1alpha1.AnnotationFollowState] = string(raw)
	}
	spec := map[string]any{}
	if len(template) > 0 {
		spec["jobTemplate"] = map[string]any{"spec": map[string]any{"template": map[string]any{"spec": template}}}
	}
	if p.suspend || appliesSuspend(job) {
		spec["suspend"] = true
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": batchv1.SchemeGroupVersion.String(), "kind": "CronJob",
		"metadata": map[string]any{"namespace": job.Namespace, "name": job.Name, "annotations": annotations},
		"spec":     spec,
	}}, nil
}

// appliesSuspend reports whether the manifest that kubectl last applied suspends the CronJob. kubectl does
// not become an owner of the field while this controller sets the same value.
func appliesSuspend(job *batchv1.CronJob) bool {
	// The manifest is not decoded as a CronJob: the API server does not validate annotations, and a quantity of a few bytes can take seconds to parse.
	var applied struct {
		Spec struct {
			Suspend *bool `json:"suspend"`
		} `json:"spec"`
	}
	err := json.Unmarshal([]byte(job.Annotations[corev1.LastAppliedConfigAnnotation]), &applied)
	return err == nil && applied.Spec.Suspend != nil && *applied.Spec.Suspend
}

// others are the fields of the pod's specification that other field managers own, with one item for each
// manager. A container or volume that a user renamed or removed has only fields that this controller applied.
// It remains as long as the controller applies these fields.
type others []map[string]any

// othersOf returns the fields of a CronJob's specification that other managers own. The result is empty
// if metadata.managedFields has no entries for other managers, for example because they were removed. In that
// case, each item counts as owned by a user.
func othersOf(job *batchv1.CronJob) others {
	var all others
	for _, m := range job.ManagedFields {
		if m.Manager == FieldOwner || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		if _, spec := fields["f:spec"]; !spec {
			continue
		}
		pod, _, _ := unstructured.NestedFieldNoCopy(fields, "f:spec", "f:jobTemplate", "f:spec", "f:template", "f:spec")
		of, _ := pod.(map[string]any)
		all = append(all, of)
	}
	return all
}

// have reports whether another manager owns an item, such as a container or one of its environment
// variables. path alternates between the names of fields and the names of list items.
func (o others) have(path ...string) bool {
	keys := make([]string, len(path))
	for i, key := range path {
		keys[i] = "f:" + key
		if i%2 == 1 {
			keys[i] = fmt.Sprintf(`k:{"name":%q}`, key)
		}
	}
	return len(o) == 0 || slices.ContainsFunc(o, func(fields map[string]any) bool {
		_, found, _ := unstructured.NestedFieldNoCopy(fields, keys...)
		return found
	})
}

// imagesOf returns the images of the named containers. The keys are the names of the containers.
func imagesOf(pod *corev1.PodSpec, names []string) map[string]string {
	images := map[string]string{}
	for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
		if slices.Contains(names, c.Name) {
			images[c.Name] = c.Image
		}
	}
	return images
}

// releaseImages returns the release's images: the main image, and the additional images that specify the name of
// another container. The keys are the names of the containers.
func releaseImages(p plan) map[string]string {
	images := map[string]string{p.container: versioned.MainContainer(p.release).Image}
	for _, image := range p.release.Spec.Images {
		if image.ContainerName != "" && image.ContainerName != p.container {
			images[image.ContainerName] = image.Image
		}
	}
	return images
}

// containerIntent returns the fields to apply to a container.
func containerIntent(c *corev1.Container, image string, refs referrer) (map[string]any, error) {
	item := map[string]any{"name": c.Name}
	if image != "" {
		item["image"] = image
	}
	// A list that server-side apply does not merge is applied as a whole.
	if refs.replace(&corev1.PodSpec{Containers: []corev1.Container{{EnvFrom: c.EnvFrom}}}) {
		list, err := untyped(c.EnvFrom)
		if err != nil {
			return nil, err
		}
		item["envFrom"] = list
	}
	var env []any
	for i := range c.Env {
		if !refs.replace(&corev1.PodSpec{Containers: []corev1.Container{{Env: c.Env[i : i+1]}}}) {
			continue
		}
		variable, err := untyped(c.Env[i])
		if err != nil {
			return nil, err
		}
		env = append(env, variable)
	}
	if len(env) > 0 {
		item["env"] = env
	}
	return item, nil
}

// volumesIntent returns the volumes with replaced references. For a ConfigMap or Secret volume, the intent contains
// only the names of the volume and of the object.
func volumesIntent(volumes []corev1.Volume, refs referrer) ([]any, error) {
	var items []any
	for i := range volumes {
		v := &volumes[i]
		if !refs.replace(&corev1.PodSpec{Volumes: volumes[i : i+1]}) {
			continue
		}
		item := map[string]any{"name": v.Name}
		switch {
		case v.ConfigMap != nil:
			item["configMap"] = map[string]any{"name": v.ConfigMap.Name}
		case v.Secret != nil:
			item["secret"] = map[string]any{"secretName": v.Secret.SecretName}
		default:
			list, err := untyped(v.Projected.Sources)
			if err != nil {
				return nil, fmt.Errorf("volume %q: %w", v.Name, err)
			}
			item["projected"] = map[string]any{"sources": list}
		}
		items = append(items, item)
	}
	return items, nil
}

// referrer replaces references to ConfigMaps and Secrets with references to a release's copies.
type referrer struct {
	// release owns the copies. If release is nil, references do not change or, if restore is set, are
	// restored to those in the manifest.
	release *v1alpha1.VersionedMicroservice
	restore bool
	// before and now are the Sources of the previous state and of the new state.
	before, now map[string]string
}

// replace replaces the references in a part of a pod. It reports whether the part contains a reference that
// it replaces or that was replaced before.
func (r referrer) replace(part *corev1.PodSpec) bool {
	replaced := false
	resources.References(part, func(s resources.Source, name *string) {
		source, was := r.before[s.Kind+"/"+s.Name]
		if !was {
			source = s.Name
		}
		if r.release != nil || r.restore {
			*name = source
		}
		if r.release != nil {
			if copied := resources.CopyName(r.release.Name, resources.Source{Kind: s.Kind, Name: source}); refersTo(r.release, s.Kind, copied) {
				*name = copied
			}
		}
		if was || *name != source {
			r.now[s.Kind+"/"+*name] = source
			replaced = true
		}
	})
	return replaced
}

// refersTo reports whether the pods of a release refer to a ConfigMap or Secret.
func refersTo(release *v1alpha1.VersionedMicroservice, kind, name string) bool {
	found := false
	resources.References(release.Spec.Template.Spec.DeepCopy(), func(s resources.Source, _ *string) {
		found = found || s.Kind == kind && s.Name == name
	})
	return found
}

// untyped converts a value of the Kubernetes API to maps and lists.
func untyped[T any](value T) (any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		Value T `json:"value"`
	}{value})
	if err != nil {
		return nil, err
	}
	return content["value"], nil
}
