package resources

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Object is any Kubernetes API object. It has the methods of client.Object, so that pure packages
// do not have to import the client package.
type Object interface {
	metav1.Object
	runtime.Object
}

// AnnotationRolloutState is an annotation of routes and group Services that contains the rollout
// state from which they were written: "<uid>/<sequence>" of the Microservice. If a Microservice
// is deleted and re-created, its revisions start from the beginning again, but its UID is different.
const AnnotationRolloutState = "hlnr.io/ledger"

// Stamp identifies the rollout state from which an object was written.
type Stamp struct {
	// Group is the slug of the group.
	Group string
	// Revision is the group's traffic revision.
	Revision int64
	// RolloutState is the UID of the Microservice.
	RolloutState types.UID
	// Sequence is the sequence number of the rollout state in the Microservice's status.
	Sequence int64
}

// StampOf returns the stamp of an object; ok is false if there is none or if its revision is invalid.
func StampOf(o metav1.Object) (s Stamp, ok bool) {
	group, revision, found := strings.Cut(o.GetAnnotations()[v1alpha1.AnnotationRevision], "=")
	if !found {
		return Stamp{}, false
	}
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return Stamp{}, false
	}
	s = Stamp{Group: group, Revision: n}
	if uid, sequence, found := strings.Cut(o.GetAnnotations()[AnnotationRolloutState], "/"); found {
		s.RolloutState = types.UID(uid)
		s.Sequence, _ = strconv.ParseInt(sequence, 10, 64) // An invalid sequence counts as the oldest one.
	}
	return s, true
}

// Annotations returns the annotations that contain the stamp, or nil if the stamp is empty.
func (s Stamp) Annotations() map[string]string {
	if s.Group == "" {
		return nil
	}
	return map[string]string{
		v1alpha1.AnnotationRevision: fmt.Sprintf("%s=%d", s.Group, s.Revision),
		AnnotationRolloutState:      fmt.Sprintf("%s/%d", s.RolloutState, s.Sequence),
	}
}
