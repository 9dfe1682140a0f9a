//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// TestMatch routes only requests with a header or a cookie to a canary, until a user continues the canary.
func TestMatch(t *testing.T) {
	s := newService(t, "match").steps(v1alpha1.CanaryStep{Name: "testers", Match: true, Approval: &v1alpha1.CanaryApproval{}})
	s.network.Spec.Domains[0].CanaryMatches = []v1alpha1.CanaryMatch{
		{Headers: []v1alpha1.MatchValue{{Name: "X-Tester", Value: "yes"}}},
		{Cookie: &v1alpha1.MatchCookie{Name: "tester", Value: "yes"}},
	}
	s.start("1.0.0")
	everybody := s.load(30, false)
	with := func(name, value string) *harness.Load {
		l, err := harness.StartLoad(context.Background(), harness.LoadConfig{
			Gateway: env.Gateway, Host: s.host(), Rate: 20, Duration: time.Hour, Header: http.Header{name: {value}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Stop() })
		return l
	}
	byHeader, byCookie := with("X-Tester", "yes"), with("Cookie", "basket=7; tester=yes")

	s.push("1.1.0")
	s.until("1.1.0 to get the matching requests", func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, "1.1.0")
		if r == nil {
			return false, "not observed yet"
		}
		return r.Status == v1alpha1.ReleaseCanary && r.Match, string(r.Status)
	})
	s.confirmed()
	s.sees(byHeader, "1.1.0")
	s.sees(byCookie, "1.1.0")
	everybody.Mark("only testers")
	s.serves(everybody, 3*time.Second)
	if f := everybody.Split("only testers").Fraction("1.0.0"); f != 1 {
		t.Errorf("%.1f%% of the other requests went to 1.0.0", f*100)
	}
	s.decide("1.1.0", v1alpha1.DecisionContinue, "testers")
	s.active("1.1.0")
	s.sees(everybody, "1.1.0")
	verdict(t, everybody, byHeader, byCookie)
}
