package simulate

import (
	"slices"
	"testing"
	"time"
)

func TestShorten(t *testing.T) {
	got := Shorten([]int{1, 2, 3, 4, 5, 6, 7, 8, 9}, func(h []int) bool { return slices.Contains(h, 3) && slices.Contains(h, 8) })
	if !slices.Equal(got, []int{3, 8}) {
		t.Errorf("got %v, want only the parts that are necessary for the failure", got)
	}
}

func TestProgress(t *testing.T) {
	if got, want := progress(500, 2000, 10*time.Second), "500 of 2000 histories, 50 a second, 30s remain"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChosen(t *testing.T) {
	p := Play{Quick: 10, Usual: 100}
	for _, tc := range []struct {
		count int
		seed  uint64
		short bool
		n     int
		from  uint64
	}{
		{0, 0, false, 100, 1},
		{0, 0, true, 10, 1},
		{0, 7, false, 1, 7},
		{5, 7, true, 5, 7},
		{5, 0, false, 5, 42},
	} {
		h := Histories{count: &tc.count, seed: &tc.seed}
		if n, from := h.chosen(p, tc.short, 42); n != tc.n || from != tc.from {
			t.Errorf("%+v: got %d from %d", tc, n, from)
		}
	}
}

func TestRun(t *testing.T) {
	none, seed := 0, uint64(0)
	played := make(chan uint64, 100)
	Histories{count: &none, seed: &seed}.Run(t, Play{Quick: 20, Usual: 20, GC: 100, Seed: func(seed uint64) ([]Count, error) {
		played <- seed
		return []Count{{"steps", 2}}, nil
	}})
	close(played)
	var seeds []uint64
	for s := range played {
		seeds = append(seeds, s)
	}
	if slices.Sort(seeds); len(seeds) != 20 || seeds[0] != 1 || seeds[19] != 20 {
		t.Errorf("played %v, want each seed from 1 to 20 once", seeds)
	}
}
