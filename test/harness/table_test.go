package harness

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWriteTable(t *testing.T) {
	canary := played(1,
		entry{at: 0, took: 2 * time.Millisecond, outcome: good("1.0.0")},
		entry{at: 1, took: 2 * time.Millisecond, outcome: good("1.0.0"), mark: "canary 50"},
		entry{at: 2, took: 4 * time.Millisecond, outcome: good("1.1.0")},
		entry{at: 3, took: time.Second, outcome: Outcome{Failure: "connection refused"}},
		entry{at: 4, took: time.Second, outcome: Outcome{Version: "1.1.0", Status: 503, Failure: "status 503"}},
	).Report()
	canary.Host = "1.x.shop.localhost"
	idle := NewTally("start", start, 1).Report()
	idle.Host = "2.x.shop.localhost"

	var out strings.Builder
	if err := WriteTable(&out, canary, idle); err != nil {
		t.Fatal(err)
	}
	want := `
HOST                PHASE      VERSION     SENT  ANSWERED  FAILED  SHARE  P50    P99    MAX
1.x.shop.localhost  start                  1     1         0              2.0ms  2.0ms  2.0ms
                               1.0.0             1         0       100%   2.0ms  2.0ms  2.0ms
                    canary 50              4     2         2              2.0ms  4.0ms  4.0ms
                               1.0.0             1         0       50%    2.0ms  2.0ms  2.0ms
                               1.1.0             1         1       50%    4.0ms  4.0ms  4.0ms
                               no version        0         1       0%     -      -      -
                    total                  5     3         2              2.0ms  4.0ms  4.0ms
                               1.0.0             2         0       67%    2.0ms  2.0ms  2.0ms
                               1.1.0             1         1       33%    4.0ms  4.0ms  4.0ms
                               no version        0         1       0%     -      -      -
2.x.shop.localhost  total                  0     0         0              -      -      -

Failed requests to 1.x.shop.localhost:
  15:04:05.000  canary 50  no version  after 1000.0ms: connection refused
  and 1 more
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
