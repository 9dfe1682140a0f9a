package notify

import (
	"runtime"
	"strings"
	"testing"
)

// TestNestedJSONIsBounded covers nested calls to json, each of which doubles the escapes in a text. A short template must not create
// values of unlimited length before the first byte of the body is written.
func TestNestedJSONIsBounded(t *testing.T) {
	const limit = 16 << 20
	for _, levels := range []int{8, 12, 16, 20, 1000} {
		text := "{{json ." + strings.Repeat("|json", levels) + "}}"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := CheckTemplate(text)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > limit {
			t.Errorf("a template of %d bytes allocates %d MiB, want at most %d: %v", len(text), got>>20, limit>>20, err)
		}
	}
}
