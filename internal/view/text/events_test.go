package text

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/internal/view"
)

// TestEventsInColumns checks that events are written in columns.
func TestEventsInColumns(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	v := view.Events{Events: []view.Event{
		{Time: metav1.NewTime(now.Add(-time.Hour)), Reason: "Started", Object: "VersionedMicroservice/shop-1-0-0-0a1b2c3d", Note: "first"},
		{Time: metav1.NewTime(now.Add(-9 * time.Second)), Type: "Warning", Reason: "ReleaseFailed", Object: "Microservice/shop", Note: "second", Count: 3},
	}}
	var b strings.Builder
	if err := Events(&b, v, Options{Now: now, Color: true}); err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("\x1b[31m", "", "\x1b[m", "").Replace(b.String())
	want := "60m  Started        VersionedMicroservice/shop-1-0-0-0a1b2c3d  first\n9s   ReleaseFailed  Microservice/shop                          second (3 times)\n"
	if plain != want {
		t.Errorf("got\n%q, want\n%q", plain, want)
	}
}
