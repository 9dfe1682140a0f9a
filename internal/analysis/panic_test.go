package analysis

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/test/await"
)

// isContained reports whether an error is a BadAnswer because of a panic.
func isContained(err *Error) bool {
	return err != nil && err.Reason == BadAnswer && strings.HasSuffix(err.Message, contain.ErrPanic.Error())
}

// TestPanicOfAQuery checks that a panic in a query becomes an error for all metrics that wait for the query, and that the
// query's slot is released.
func TestPanicOfAQuery(t *testing.T) {
	t.Parallel()
	p := newPool(t.Context(), 4, 1000, time.Now)
	entered, answers := make(chan struct{}), make(chan answer, 2)
	for range 2 {
		go func() {
			answers <- p.do(t.Context(), query{text: "up"}, await.Limit, func(context.Context) answer {
				<-entered
				panic("a secret of a tenant")
			})
		}()
	}
	close(entered)
	for range 2 {
		if got := await.Receive(t, "the answer", answers); !isContained(got.err) {
			t.Errorf("the answer is %+v", got)
		}
	}
	if n := p.slots.Taken(); n > 0 {
		t.Errorf("%d slots are taken", n)
	}
	if got := p.do(t.Context(), query{text: "down"}, await.Limit, func(context.Context) answer { return answer{value: 1} }); got.err != nil {
		t.Errorf("the next query: %v", got.err)
	}
}

// TestPanicOfAToken checks that a panic in a request for an access token becomes an error, and that the next caller requests the
// token again.
func TestPanicOfAToken(t *testing.T) {
	t.Parallel()
	kept := newTokens(time.Now)
	if _, err := kept.get(t.Context(), tokenKey{}, func(context.Context) (string, time.Duration, *Error) { panic("a secret of a tenant") }); !isContained(err) {
		t.Errorf("the error is %v", err)
	}
	if text, err := kept.get(t.Context(), tokenKey{}, func(context.Context) (string, time.Duration, *Error) { return "a", time.Hour, nil }); err != nil || text != "a" {
		t.Errorf("the next token is %q, %v", text, err)
	}
}

// TestPanicOfAMeasurement checks that a panic outside of a request makes only the round fail, even if the metric has a baseline.
func TestPanicOfAMeasurement(t *testing.T) {
	t.Parallel()
	broken := &Measurer{config: Config{PrometheusAddress: "http://prometheus.example"}} // without a pool
	baseline := queryMetric("compared", "up")
	baseline.Baseline = v1alpha1.BaselineRatio
	request := requestOf("cart", queryMetric("up", "up"), baseline)
	request.Active = &Target{Namespace: "shop", Release: "active"}
	round := broken.measure(t.Context(), request)
	for _, m := range round.Measurements {
		if m.Result != v1alpha1.MeasurementError || m.Message != "BadAnswer: "+contain.ErrPanic.Error() {
			t.Errorf("the measurement is %+v", m)
		}
	}
}
