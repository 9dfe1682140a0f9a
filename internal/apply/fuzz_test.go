package apply

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// What is within itself, with more on top, stays within; a change of a leaf does not.
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
			t.Fatalf("%s with %s is not within", raw, more)
		}
	})
}
