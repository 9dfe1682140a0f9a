package explain

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/status"
	versions "github.com/heighliner/heighliner/internal/version"
)

// stored reads an ImagePolicy in the cluster. The argument is the name of the ImagePolicy or, if no ImagePolicy has this
// name, of a Microservice that uses the ImagePolicy. The name can have a resource prefix such as "imgp/".
func stored(ctx context.Context, c client.Client, namespace, arg string) (*v1alpha1.ImagePolicy, error) {
	kind, name, typed := strings.Cut(arg, "/")
	if !typed {
		kind, name = "", arg
	}
	kind = strings.ToLower(kind)
	ofService := strings.HasPrefix(kind, "microservice") || kind == "msvc"
	if typed && !ofService && kind != "imgp" && !strings.HasPrefix(kind, "imagepolic") {
		return nil, cli.Usage(fmt.Errorf("%q is neither an ImagePolicy nor a Microservice: write imagepolicy/NAME or microservice/NAME", arg))
	}
	var policy v1alpha1.ImagePolicy
	if !ofService {
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &policy); !isMissing(err, name) {
			return &policy, err
		}
	}
	var ms v1alpha1.Microservice
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &ms)
	if isMissing(err, name) {
		return nil, unknown(ctx, c, namespace, name)
	}
	if err != nil {
		return nil, err
	}
	ref := ms.Spec.ImagePolicyRef.Name
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref}, &policy)
	if isMissing(err, ref) {
		return nil, cli.Usage(fmt.Errorf("there is no ImagePolicy %s, to which spec.imagePolicyRef of Microservice %s refers", ref, name))
	}
	return &policy, err
}

// isMissing reports whether an error means that an object with the name does not exist, although its kind exists.
func isMissing(err error, name string) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), fmt.Sprintf("%q not found", name))
}

// unknown returns the error for a name that does not belong to an ImagePolicy or a Microservice.
func unknown(ctx context.Context, c client.Client, namespace, name string) error {
	var names []string
	for _, list := range []client.ObjectList{&v1alpha1.ImagePolicyList{}, &v1alpha1.MicroserviceList{}} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		for _, o := range objects {
			names = append(names, o.(client.Object).GetName())
		}
	}
	return cli.UnknownMicroservice(ctx, c, "ImagePolicy or Microservice", namespace, name, names)
}

// storedReport returns the report about the status of an ImagePolicy. The status is the result of the
// policy's latest scan.
func storedReport(policy *v1alpha1.ImagePolicy, o options) report {
	s := &policy.Status
	r := report{Policy: policy.Name, Image: policy.Spec.Image, Offered: len(s.Releases), Tags: len(s.Releases), Notes: storedNotes(policy)}
	total := 0
	for _, c := range s.Rejected {
		r.Refused = append(r.Refused, refusedCount{c.Verdict, int(c.Count)})
		total += int(c.Count)
	}
	offered := make([]judged, 0, len(s.Releases))
	for i, x := range s.Releases {
		j := judged{Tag: x.SemVer.Version, Version: x.SemVer.Version, Group: x.SemVer.Name, Level: string(x.Level), Verdict: verdictOffered}
		if len(x.Images) > 0 {
			j.Image = x.Images[0].Image
			j.Tag = tagOf(j.Image, j.Tag)
		}
		if i == 0 || s.Releases[i-1].Group != x.Group {
			r.Groups++
			j.Reason = "newest of its group"
		}
		offered = append(offered, j)
	}
	if len(offered) > 0 {
		r.Latest = offered[0].Version
	}
	shown := s.Candidates
	if !o.all {
		shown = shown[:min(len(shown), o.refused)]
	}
	total = max(total, len(s.Candidates))
	r.Tags += total
	r.Hidden = total - len(shown)
	switch {
	case len(shown) < len(s.Candidates):
		r.Hint = fmt.Sprintf("use --all to show %d more", len(s.Candidates)-len(shown))
	case explicable(policy) != nil:
		r.Hint = "the status lists at most 20 rejected tags"
	default:
		r.Hint = "use --scan to read the registry from this machine and list all tags"
	}
	rejected := make([]judged, 0, len(shown))
	for _, x := range shown {
		j := judged{Tag: x.Version, Verdict: x.Verdict, Reason: status.Line(x.Reason)}
		if _, err := versions.Parse(versions.Meant(x.Version), ""); err == nil {
			j.Version = x.Version
		}
		rejected = append(rejected, j)
	}
	r.Candidates = merge(offered, rejected)
	return r
}

// tagOf returns the tag of an image, or other if the image has no tag.
func tagOf(image, other string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		return name[i+1:]
	}
	return other
}

// storedNotes returns the notes about the status of an ImagePolicy.
func storedNotes(policy *v1alpha1.ImagePolicy) []string {
	s := &policy.Status
	notes := []string{"this is the status of ImagePolicy " + policy.Namespace + "/" + policy.Name + ", as the manager wrote it; --scan reads the registry from this machine"}
	if explicable(policy) != nil {
		notes[0] = "this is the status of ImagePolicy " + policy.Namespace + "/" + policy.Name + ", as the manager wrote it"
	}
	if s.ObservedGeneration < policy.Generation {
		notes = append(notes, "the manager has not yet applied the latest change to the specification")
	}
	for _, kind := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionSourceReachable, v1alpha1.ConditionReady} {
		c := meta.FindStatusCondition(s.Conditions, kind)
		if c != nil && (c.Status == metav1.ConditionFalse) == (kind != v1alpha1.ConditionStalled) {
			notes = append(notes, fmt.Sprintf("%s: %s", c.Reason, status.Line(c.Message)))
			break
		}
	}
	for _, w := range s.Withdrawn {
		notes = append(notes, fmt.Sprintf("%s is withdrawn (%s), but a Microservice still uses it", w.Version, w.Reason))
	}
	if policy.Spec.Suspend {
		notes = append(notes, "spec.suspend is true: the manager does not scan")
	}
	return notes
}
