package feedback

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heighliner/heighliner/internal/github"
)

// metrics are the metrics of the controller:
//
//	heighliner_feedback_writes_total{object,result}
//
// counts writes of Deployments (object deployment) and comments (object comment). The
// result is Succeeded, the kind of GitHub error, or Failed for other errors.
type metrics struct{ writes *prometheus.CounterVec }

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heighliner_feedback_writes_total", Help: "Number of writes of Deployments and comments to GitHub, by object and result.",
	}, []string{"object", "result"})}
	return m, registerer.Register(m.writes)
}

func (m *metrics) written(r result) {
	object, kind := "deployment", "Succeeded"
	if r.write.comment != nil {
		object = "comment"
	}
	if r.err != nil {
		kind = cmp.Or(string(github.KindOf(r.err)), "Failed")
	}
	m.writes.WithLabelValues(object, kind).Inc()
}
