package servicemetrics

import (
	"fmt"
	"testing"
	"time"
)

// TestSeriesOfManyPolicies checks that the number of series with names is limited by the specified number of services, regardless of a tenant's other
// objects. Any user of a namespace may create policies without a Microservice. These policies do not cause more series than the limit allows (25 for
// each service).
func TestSeriesOfManyPolicies(t *testing.T) {
	t.Parallel()
	const limit = 10
	played := story(t, "promoted")
	s := scrapedAt(played.Now, limit)
	s.cached.Input = played.Input
	for i := range 2000 {
		p := played.Input.ImagePolicies[0].DeepCopy()
		p.Name = fmt.Sprintf("unused-%d", i)
		s.cached.ImagePolicies = append(s.cached.ImagePolicies, *p)
		n := played.Input.NetworkPolicies[0].DeepCopy()
		n.Name = fmt.Sprintf("unused-%d", i)
		s.cached.NetworkPolicies = append(s.cached.NetworkPolicies, *n)
	}
	s.clock.SetTime(played.Now.Add(time.Minute))
	if got := len(s.scrape(t, "heighliner_")); got > 25*limit+100 {
		t.Errorf("%d series, with a limit for %d services", got, limit)
	}
}
