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

// Object is any object of the Kubernetes API. It has the methods of Object, which
// pure packages do without.
type Object interface {
	metav1.Object
	runtime.Object
}

// AnnotationRolloutState on routes and group Services reports from which state of which
// Microservice they were written: "<uid>/<sequence>". A Microservice that was
// deleted and made again counts its revisions from the start; the uid shows.
const AnnotationRolloutState = "hlnr.io/ledger"

// Stamp is the state of the rollout state that an object carries.
type Stamp struct {
	// Group is the slug of the group.
	Group string
	// Revision is the group's traffic revision.
	Revision int64
	// RolloutState is the UID of the Microservice.
	RolloutState types.UID
	// Sequence of the Microservice's status.
	Sequence int64
}

// StampOf reads the stamp of an object; ok is false where there is none.
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
		s.Sequence, _ = strconv.ParseInt(sequence, 10, 64) // Unreadable: as old as can be.
	}
	return s, true
}

// Annotations that carry the stamp; none where there is none.
func (s Stamp) Annotations() map[string]string {
	if s.Group == "" {
		return nil
	}
	return map[string]string{
		v1alpha1.AnnotationRevision: fmt.Sprintf("%s=%d", s.Group, s.Revision),
		AnnotationRolloutState:      fmt.Sprintf("%s/%d", s.RolloutState, s.Sequence),
	}
}
