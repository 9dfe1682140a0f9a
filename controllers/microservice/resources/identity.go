// Package resources builds the release objects of a Microservice. Its functions do not access the cluster.
//
//	identity.go       the identity of a release, and the hash of its template
//	release.go        VersionedMicroservices
//	budget.go         the disruption budget of a release
//	configuration.go  copies of ConfigMaps and Secrets
//	confine.go        the removal of permissions from pods that run code from forks
package resources

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// IdentityScheme is the version of the algorithm that computes identities. A change to the algorithm would
// start a new release of every Microservice, and would therefore require a migration.
const IdentityScheme = "v1"

// ContainerError means that the template has no container for the image. If Name is empty, spec.containerName
// is not set, and none of several containers has the name of the Microservice.
type ContainerError struct{ Name string }

// Error returns a message with the field and the fix.
func (e *ContainerError) Error() string {
	if e.Name == "" {
		return "spec.containerName: spec.template has several containers, and none has the name of the Microservice; set the field to the name of the container that runs the image"
	}
	return fmt.Sprintf("spec.containerName: spec.template has no container %q; set the field to the name of one of its containers", e.Name)
}

// ImageContainerError means that one of the images that are released together has no container. If Main is
// set, its container exists, but already runs the main image.
type ImageContainerError struct {
	Policy, Name string
	Main         bool
}

// Error returns a message with the field and the fix.
func (e *ImageContainerError) Error() string {
	if e.Main {
		return fmt.Sprintf("spec.additionalImages[].containerName of ImagePolicy %q: container %q runs spec.image; set the field to the name of another container, or set spec.containerName of the Microservice to the name of the container that runs spec.image", e.Policy, e.Name)
	}
	return fmt.Sprintf("spec.additionalImages[].containerName of ImagePolicy %q: spec.template has no container or init container %q; add it, or set the field to the name of an existing one", e.Policy, e.Name)
}

// CheckContainers returns an error unless the template has a separate container for each of an offer's images. The
// error is a *ContainerError or an *ImageContainerError.
func CheckContainers(ms *v1alpha1.Microservice, policy *v1alpha1.ImagePolicy, o *v1alpha1.OfferedRelease) error {
	container, err := Container(ms)
	if err != nil {
		return err
	}
	pod := &ms.Spec.Template.Spec
	for _, image := range o.Images {
		switch name := image.ContainerName; {
		case name == "":
		case named(pod, name) == nil:
			return &ImageContainerError{Policy: policy.Name, Name: name}
		case name == pod.Containers[container].Name:
			return &ImageContainerError{Policy: policy.Name, Name: name, Main: true}
		}
	}
	return nil
}

// named returns the container or init container with the given name, or nil.
func named(pod *corev1.PodSpec, name string) *corev1.Container {
	for _, containers := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
	}
	return nil
}

// Container returns the index of the container that gets the image: the container that spec.containerName
// names, otherwise the container with the name of the Microservice, and otherwise the only container. Admission
// rejects a template without such a container, except in objects that were created before this check existed.
func Container(ms *v1alpha1.Microservice) (int, error) {
	containers := ms.Spec.Template.Spec.Containers
	name := ms.Spec.ContainerName
	if name == "" {
		name = ms.Name
	}
	for i := range containers {
		if containers[i].Name == name {
			return i, nil
		}
	}
	if ms.Spec.ContainerName == "" && len(containers) == 1 {
		return 0, nil
	}
	return 0, &ContainerError{Name: ms.Spec.ContainerName}
}

// Config returns the hash of the pod template as set by the user, and of the contents of the sources that the
// template refers to. The canonical form of the template is JSON with sorted keys. It does not contain nulls,
// the empty objects that Go's encoding adds, the protocol TCP that the schema adds to ports, or the image of
// the container that gets the release's image. The hash does not depend on the version of Heighliner or of a
// library. Golden files verify that the hash does not change.
func Config(template *corev1.PodTemplateSpec, container int, contents Contents) (string, error) {
	raw, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("encode spec.template: %w", err)
	}
	var tree map[string]any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber()
	if err := numbers.Decode(&tree); err != nil {
		return "", fmt.Errorf("decode spec.template: %w", err)
	}
	prune(tree)
	gets := map[string]any{"container": container, "template": tree}
	if spec, ok := tree["spec"].(map[string]any); ok {
		if cs, ok := spec["containers"].([]any); ok && container < len(cs) {
			if c, ok := cs[container].(map[string]any); ok {
				delete(c, "image")
				gets["container"] = c["name"]
			}
		}
	}
	raw, err = json.Marshal(gets) // The keys of maps are sorted.
	if err != nil {
		return "", fmt.Errorf("encode canonical template: %w", err)
	}
	if len(contents) == 0 {
		return digest(string(raw)), nil
	}
	parts := []string{string(raw)}
	for _, s := range slices.SortedFunc(maps.Keys(contents), compareSources) {
		parts = append(parts, s.Kind, s.Name, contents[s])
	}
	return digest(parts...), nil
}

// encoded contains the fields that Go's encoding writes as empty objects if they are not set.
var encoded = map[string]bool{"resources": true, "metadata": true, "status": true, "strategy": true}

// prune removes fields that are not set, and the default protocol of ports.
func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			prune(x)
			m, isMap := x.(map[string]any)
			if x == nil || isMap && len(m) == 0 && encoded[k] {
				delete(v, k)
			}
		}
		if _, port := v["containerPort"]; port && v["protocol"] == "TCP" {
			delete(v, "protocol")
		}
	case []any:
		for _, x := range v {
			prune(x)
		}
	}
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:10]
}

// Identity returns a release's identity. It is computed from the group, the version, the configuration, each
// image's repository, digest, and container name, and whether the release is from a fork, because such a release
// runs with fewer permissions. A pull request's number is part of its group, and therefore of the identity.
func Identity(o *v1alpha1.OfferedRelease, config string) string {
	parts := []string{IdentityScheme, o.Group, o.SemVer.Version, config}
	for _, image := range o.Images {
		if image.ContainerName != "" {
			parts = append(parts, "container", image.ContainerName)
		}
		parts = append(parts, repository(image.Image)+"@"+image.Digest)
	}
	if o.Fork {
		parts = append(parts, "fork")
	}
	return digest(parts...)
}

func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		image = image[:i]
	}
	return image
}

// Name returns the name of a release's object. It consists of the Microservice, the version (for
// readability), and the identity. It has at most 63 characters, so it is a valid label value.
func Name(microservice, version, identity string) string {
	readable := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, version), "-")
	if len(readable) > 11 {
		readable = strings.Trim(readable[:11], "-")
	}
	return fmt.Sprintf("%s-%s-%s", microservice, readable, identity)
}
