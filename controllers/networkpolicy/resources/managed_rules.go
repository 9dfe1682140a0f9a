package resources

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Taken is the record of the rules that a policy manages in a user-managed route. It is stored in
// an annotation of the route. Each policy has its own annotation.
type Taken struct {
	// Group, Revision and RolloutState are the stamp of the rollout state from which the rules were
	// written.
	Group        string `json:"group"`
	Revision     int64  `json:"revision"`
	RolloutState string `json:"ledger"`
	// Release is the release to which the rules are pinned; empty if they follow a group.
	Release string `json:"release,omitempty"`
	// Before contains the previous backendRefs of each rule, by rule name. The empty name refers to
	// the rule without a name. "null" means that the rule had no backendRefs.
	Before map[string]json.RawMessage `json:"before"`
}

// TakenKey returns the key of a policy's annotation.
func TakenKey(policy string) string { return v1alpha1.AnnotationRules + policy }

// ReadTaken returns the record of a policy in the annotations of a route, or nil if there is no
// record or if the record cannot be read.
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

// String returns the value of the annotation. Equal content results in equal values.
func (t *Taken) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // Taken contains only text and parsed JSON.
	}
	return string(text)
}

// Stamp returns the stamp of the rollout state from which the rules were written.
func (t *Taken) Stamp() Stamp {
	s := Stamp{Group: t.Group, Revision: t.Revision}
	if uid, sequence, found := strings.Cut(t.RolloutState, "/"); found {
		s.RolloutState = types.UID(uid)
		s.Sequence, _ = strconv.ParseInt(sequence, 10, 64) // An invalid sequence counts as the oldest one.
	}
	return s
}

// Carry sets the stamp.
func (t *Taken) Carry(s Stamp) {
	t.Group, t.Revision, t.RolloutState = s.Group, s.Revision, fmt.Sprintf("%s/%d", s.RolloutState, s.Sequence)
}
