package apply

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestDeletions checks that a deletion is remembered for a minute, and that its record is removed when
// another deletion is recorded after this minute.
func TestDeletions(t *testing.T) {
	t.Parallel()
	deleted := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := deleted
	d := &Deletions{Now: func() time.Time { return now }}
	d.note("first")
	for after, remembers := range map[time.Duration]bool{0: true, remembered - 1: true, remembered: false, -time.Hour: true} {
		now = deleted.Add(after)
		if d.have("first") != remembers || d.have("second") {
			t.Errorf("after %s: first %t, second %t", after, d.have("first"), d.have("second"))
		}
	}
	now = deleted.Add(remembered)
	d.note("second")
	if _, kept := d.uids["first"]; kept || !d.have("second") {
		t.Errorf("the remembered UIDs are %v", d.uids)
	}
	var none *Deletions
	none.note("first")
	if none.have("first") {
		t.Error("nil remembers a deletion")
	}
	var zero Deletions
	zero.note("first")
	if !zero.have("first") || zero.have(types.UID("second")) {
		t.Errorf("the zero value remembers %v", zero.uids)
	}
}
