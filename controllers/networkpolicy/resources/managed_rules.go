package resources

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Taken is what a policy has in a route that another user wrote. It is kept in an
// annotation of the route, of which each policy has its own.
type Taken struct {
	// Group, Revision and RolloutState are the stamp: the rollout state from which the rules
	// were written.
	Group        string `json:"group"`
	Revision     int64  `json:"revision"`
	RolloutState string `json:"ledger"`
	// Release that the rules are pinned to; "": they follow a group.
	Release string `json:"release,omitempty"`
	// Before are the backendRefs of each rule as they were, by its name: "" for the one
	// that has none. "null" stands for a rule without.
	Before map[string]json.RawMessage `json:"before"`
}

// TakenKey returns the annotation of a policy.
func TakenKey(policy string) string { return v1alpha1.AnnotationRules + policy }

// ReadTaken reads from the annotations of a route what a policy owns in it, or nil, or the
// annotation cannot be read.
func ReadTaken(annotations map[string]string, policy string) *Taken {
	text, ok := annotations[TakenKey(policy)]
	if !ok {
		return nil
	}
	t := &Taken{}
	if err := json.Unmarshal([]byte(text), t); err != nil || len(t.Before) == 0 {
		return nil
	}
	return t
}

// String returns the value of the annotation, the same for equal content.
func (t *Taken) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // It holds what was read as JSON, and text.
	}
	return string(text)
}

// Stamp of the rollout state from which the rules were written.
func (t *Taken) Stamp() Stamp {
	s := Stamp{Group: t.Group, Revision: t.Revision}
	if uid, sequence, found := strings.Cut(t.RolloutState, "/"); found {
		s.RolloutState = types.UID(uid)
		s.Sequence, _ = strconv.ParseInt(sequence, 10, 64) // Unreadable: as old as can be.
	}
	return s
}

// Carry sets the stamp.
func (t *Taken) Carry(s Stamp) {
	t.Group, t.Revision, t.RolloutState = s.Group, s.Revision, fmt.Sprintf("%s/%d", s.RolloutState, s.Sequence)
}
