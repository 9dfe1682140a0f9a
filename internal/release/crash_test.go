package release

import (
	"testing"
)

// TestHistoriesSurviveCrashes runs the named histories repeatedly. The manager stops before each of
// its writes in turn. The rest of its plan is lost, or arrives after up to five writes by the next
// manager. The result must be the same (invariant 10). The quick run uses only every third write, and
// one late arrival for each of these writes.
func TestHistoriesSurviveCrashes(t *testing.T) {
	every := 3
	if simulation.Long() {
		every = 1
	}
	for i, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			writes := playTale(h.play, rules).stats.writes
			for at := 1 + i%every; at <= writes; at += every {
				for late := range 6 {
					if every > 1 && late > 0 && late != 1+at%5 {
						continue
					}
					if w := playTaleCrash(h.play, at, late); w.err != nil {
						t.Fatalf("crash before write %d of %d, late by %d: %v\n%s", at, writes, late, w.err, w.played())
					}
				}
			}
		})
	}
}

// playTaleCrash runs a history in which the manager stops before a write.
func playTaleCrash(play func(tale), at, late int) *world {
	w := newWorld()
	w.quick = true
	if w.crashAt = at; late > 0 {
		w.lateAt = at + late
	}
	play(tale{w})
	return w
}
