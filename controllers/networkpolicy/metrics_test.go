package networkpolicy

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
)

// expiring replaces the cache of Certificates.
type expiring struct {
	client.Reader
	expiries []*metav1.Time
	err      error
}

func (l expiring) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for _, at := range l.expiries {
		list.(*certmanager.CertificateList).Items = append(list.(*certmanager.CertificateList).Items, certmanager.Certificate{Status: certmanager.CertificateStatus{NotAfter: at}})
	}
	return l.err
}

// TestCertificateExpiry checks that the metric contains the earliest expiry time, and that there is no series if no
// expiry time is known or Certificates are not watched.
func TestCertificateExpiry(t *testing.T) {
	t.Parallel()
	at := func(seconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(seconds, 0)} }
	for name, tc := range map[string]struct {
		expiring
		watched bool
		want    float64 // 0 means that there is no series.
	}{
		"issued":      {expiring{expiries: []*metav1.Time{nil, at(2_000_000_000), at(1_900_000_000)}}, true, 1_900_000_000},
		"not issued":  {expiring{expiries: []*metav1.Time{nil}}, true, 0},
		"not watched": {expiring{expiries: []*metav1.Time{at(1_900_000_000)}}, false, 0},
		"not read":    {expiring{err: errors.New("no informer")}, true, 0},
	} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(certificates{tc.expiring, func() bool { return tc.watched }})
		families, err := registry.Gather()
		got := 0.0
		if len(families) == 1 {
			got = families[0].GetMetric()[0].GetGauge().GetValue()
		}
		if err != nil || got != tc.want || len(families) > 1 {
			t.Errorf("%s: got %v in %d series, want %v: %v", name, got, len(families), tc.want, err)
		}
	}
}
