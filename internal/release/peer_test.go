package release

import "testing"

// TestPeer checks which facts about a version follow from the rollout state of another Microservice.
func TestPeer(t *testing.T) {
	t.Parallel()
	row := func(version string, status Status, reason Reason) Row {
		return Row{Release: "r-" + version, Version: version, Status: status, Reason: reason}
	}
	under := func(version string, step int, gate Point) *Rollout {
		return &Rollout{Release: "r-" + version, Step: step, Gate: gate}
	}
	for name, test := range map[string]struct {
		group   Group
		failure Reason
		passed  bool // for step 2
	}{
		"nothing is known": {Group{}, "", false},
		"active":           {Group{Releases: []Row{row("1.1.0", Active, "")}}, "", true},
		"retained":         {Group{Releases: []Row{row("1.1.0", Deprecated, "Superseded")}}, "", false},
		"failed":           {Group{Releases: []Row{row("1.1.0", Error, "CrashLoopBackOff")}}, "CrashLoopBackOff", false},
		"failed, and another version is in progress": {Group{Rollout: under("1.2.0", 2, Together), Releases: []Row{row("1.2.0", Canary, ""), row("1.1.0", Error, "CrashLoopBackOff")}}, "CrashLoopBackOff", false},
		"failed once, and is in progress again":      {Group{Rollout: under("1.1.0", 1, ""), Releases: []Row{row("1.1.0", Error, "CrashLoopBackOff")}}, "", false},
		"another version failed":                     {Group{Releases: []Row{row("1.2.0", Error, "CrashLoopBackOff")}}, "", false},
		"rolled back with others":                    {Group{Releases: []Row{row("1.1.0", Error, togetherFailed)}}, "", false},
		"in the step":                                {Group{Rollout: under("1.1.0", 2, ""), Releases: []Row{row("1.1.0", Canary, "")}}, "", false},
		"at the gate of the previous step":           {Group{Rollout: under("1.1.0", 1, Together), Releases: []Row{row("1.1.0", Canary, "")}}, "", false},
		"at the end of the step":                     {Group{Rollout: under("1.1.0", 2, Together), Releases: []Row{row("1.1.0", Canary, "")}}, "", true},
		"at the hooks after the step":                {Group{Rollout: under("1.1.0", 2, ConfirmTrafficIncrease), Releases: []Row{row("1.1.0", Canary, "")}}, "", true},
		"at the last hooks":                          {Group{Rollout: under("1.1.0", 2, ConfirmPromotion), Releases: []Row{row("1.1.0", Canary, "")}}, "", true},
		"in a later step":                            {Group{Rollout: under("1.1.0", 3, ""), Releases: []Row{row("1.1.0", Canary, "")}}, "", true},
		"another version is in a later step":         {Group{Rollout: under("1.2.0", 3, ""), Releases: []Row{row("1.2.0", Canary, ""), row("1.1.0", Pending, "")}}, "", false},
		"a newer version is active":                  {Group{Slug: "1-x", Releases: []Row{row("1.2.0", Active, "")}}, "", true},
		"another group is ahead":                     {Group{Slug: "2-x", Releases: []Row{row("2.2.0", Active, "")}}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Peer{Name: "cart", Groups: []Group{test.group}}
			if got := p.failure("1.1.0"); got != test.failure {
				t.Errorf("failure %q, want %q", got, test.failure)
			}
			if got := p.passed("1-x", "1.1.0", 2); got != test.passed {
				t.Errorf("passed %t, want %t", got, test.passed)
			}
		})
	}
}
