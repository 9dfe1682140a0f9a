package apply

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzWithin checks that an object with additional fields still contains the original object, and that an object with a
// changed leaf does not.
func FuzzWithin(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,2],"c":true}}`), []byte(`{"d":1}`))
	f.Add([]byte(`{"selector":{"a":"b"},"rules":[{"x":[]}],"finalizers":["a"],"ownerReferences":[{"uid":"x"}]}`), []byte(`{"d":null}`))
	f.Fuzz(func(t *testing.T, raw, more []byte) {
		var want, extra map[string]any
		if json.Unmarshal(raw, &want) != nil || json.Unmarshal(more, &extra) != nil || want == nil {
			return
		}
		have := runtime.DeepCopyJSON(want)
		dropNulls(want)
		if !within(have, want, "") {
			t.Fatalf("%s is not within itself", raw)
		}
		for k, v := range extra {
			if _, there := have[k]; !there {
				have[k] = v
			}
		}
		if !within(have, want, "") {
			t.Fatalf("%s is not within itself with %s added", raw, more)
		}
	})
}
