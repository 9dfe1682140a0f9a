package hook

import (
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/test/await"
)

// Row 60 of the known failures: a PostRollout hook is called with the final status of the release, regardless
// of how the rollout ended: after its steps, without an analysis, by a user's decision, by a rollback to the
// release, by a failure, or as the first rollout of the group.
func TestEachEndIsReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status   v1alpha1.ReleaseStatus
		reason   string
		active   string // of the group, afterwards
		before   v1alpha1.ReleaseStatus
		reported bool
	}{
		"promoted by steps":    {v1alpha1.ReleaseActive, "Promoted", "1.4.3", v1alpha1.ReleaseCanary, true},
		"steps were skipped":   {v1alpha1.ReleaseActive, "Adopted", "1.4.3", v1alpha1.ReleaseCanary, true},
		"adopted directly":     {v1alpha1.ReleaseActive, "Adopted", "1.4.3", v1alpha1.ReleasePending, true},
		"the first release":    {v1alpha1.ReleaseActive, "First", "1.4.3", v1alpha1.ReleasePending, true},
		"target of a rollback": {v1alpha1.ReleaseActive, "RolledBack", "1.4.3", v1alpha1.ReleaseDeprecated, true},
		"failed":               {v1alpha1.ReleaseError, "AnalysisFailed", "1.4.2", v1alpha1.ReleaseCanary, true},
		"aborted":              {v1alpha1.ReleaseError, "Aborted", "1.4.2", v1alpha1.ReleasePending, true},
		"never became ready":   {v1alpha1.ReleaseError, "CrashLoopBackOff", "1.4.2", v1alpha1.ReleasePending, true},
		"reported already":     {v1alpha1.ReleaseActive, "Promoted", "1.4.3", v1alpha1.ReleaseActive, false},
		"superseded":           {v1alpha1.ReleaseDeprecated, "Superseded", "1.4.2", v1alpha1.ReleaseCanary, false}, // The row is removed too.
		"in progress":          {v1alpha1.ReleaseCanary, "Step", "1.4.2", v1alpha1.ReleasePending, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms, release := canary(), vsvc("new")
			group := &ms.Status.ReleaseGroups[0]
			group.Rollout, group.Active = nil, test.active
			group.Releases[0].Status, group.Releases[0].Reason = test.status, test.reason
			release.Status.Release = test.before
			questions := RolloutOf(ms, release).Calls(nil)
			i := slices.IndexFunc(questions, func(q Call) bool { return q.Hook.Type == v1alpha1.HookPostRollout })
			if (i >= 0) != test.reported {
				t.Fatalf("reported: %t, want %t", i >= 0, test.reported)
			}
			if i < 0 {
				return
			}
			if body := questions[i].Body; body.Phase != test.status || body.Reason != test.reason || body.Version != "1.4.3" {
				t.Errorf("the report is %s %s of %s", body.Phase, body.Reason, body.Version)
			}
		})
	}
}

// Row 61: the hooks of each gate are called only at that gate. The hooks of the rollout gate are not called at each
// step, and the hooks of the traffic gate are not called while the promotion is waiting.
func TestEachGateIsCalledAtItsPoint(t *testing.T) {
	t.Parallel()
	all := []v1alpha1.HookType{v1alpha1.HookConfirmRollout, v1alpha1.HookPreRollout, v1alpha1.HookConfirmTrafficIncrease, v1alpha1.HookConfirmPromotion}
	for _, at := range append(all, "") {
		for step := range int32(3) {
			ms, release := canary(), vsvc("new")
			run := ms.Status.ReleaseGroups[0].Rollout
			run.Gate, run.GateTime, run.Step = v1alpha1.Gate(at), &gated, step
			var asked []v1alpha1.HookType
			for _, q := range RolloutOf(ms, release).Calls(nil) {
				if slices.Contains(all, q.Hook.Type) {
					asked = append(asked, q.Hook.Type)
				}
			}
			if want := slices.DeleteFunc([]v1alpha1.HookType{at}, func(t v1alpha1.HookType) bool { return t == "" }); !slices.Equal(asked, want) {
				t.Errorf("at %q in step %d: called %q", at, step, asked)
			}
		}
	}
}

// Row 62: a missing answer is not an approval. Only a response with a status from 200 to 204 approves,
// and a hook without an address does not approve.
func TestNoHookMeansNotApproved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		url     string
		receive http.HandlerFunc
	}{
		"no address":  {"-", nil},
		"no host":     {"http://", nil},
		"no content":  {"", status(205, "")},
		"not changed": {"", status(304, "")},
		"made":        {"", status(207, "")},
		"teapot":      {"", status(418, "")},
		"no answer": {"", func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.Close()
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := play(t, test.receive)
			q := w.question(v1alpha1.HookPreRollout, "id")
			switch test.url {
			case "":
			case "-":
				q.Hook.URL = ""
			default:
				q.Hook.URL = test.url
			}
			w.ask(q)
			if o := w.outcome(t, "id"); o.Yes || o.Message == "" {
				t.Errorf("%+v", o)
			}
		})
	}
}

// Row 56: hook connections are reused or closed, even with user certificates.
func TestConnectionsOfHooksDoNotPileUp(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"system's certificates": false, "own certificates": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var open atomic.Int32
			server := httptest.NewUnstartedServer(status(500, "no"))
			server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				switch s {
				case http.StateNew:
					open.Add(1)
				case http.StateClosed, http.StateHijacked:
					open.Add(-1)
				}
			}
			var credentials Credentials
			if own {
				server.StartTLS()
				credentials.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			} else {
				server.Start()
			}
			t.Cleanup(server.Close)
			policy, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}})
			if err != nil {
				t.Fatal(err)
			}
			pool, err := NewPool(Options{Policy: policy})
			if err != nil {
				t.Fatal(err)
			}
			q := Call{Hook: v1alpha1.Hook{Name: "a", Type: v1alpha1.HookEvent, URL: server.URL}}
			for range 60 {
				if got, want := pool.call(context.Background(), &q, credentials), (reply{message: "HTTP 500: no"}); got != want {
					t.Fatalf("%+v", got)
				}
			}
			const most = 8
			await.Nil(t, func(context.Context) error { // The server observes this a little later.
				if n := open.Load(); n > most {
					return fmt.Errorf("%d connections are open after 60 calls", n)
				}
				return nil
			})
		})
	}
}
