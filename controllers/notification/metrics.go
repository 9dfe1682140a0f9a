package notification

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/notify"
)

// metrics are the metrics of messages. No label identifies an object or an address. The metrics
// are:
//
//	heighliner_notifications_total{type,result}
//	    attempts to send a message, by type of receiver; result is Accepted, Rejected or Failed
type metrics struct{ messages *prometheus.CounterVec }

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{messages: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heighliner_notifications_total",
		Help: "Number of attempts to send a notification, by type of receiver and result.",
	}, []string{"type", "result"})}
	return m, registerer.Register(m.messages)
}

func (m *metrics) count(t v1alpha1.ReceiverType, failure *notify.Error) {
	result := "Accepted"
	switch {
	case failure != nil && failure.Rejected:
		result = "Rejected"
	case failure != nil:
		result = "Failed"
	}
	m.messages.WithLabelValues(string(t), result).Inc()
}
