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

// listed stands in for a cache of Certificates.
type listed struct {
	client.Reader
	expiries []*metav1.Time
	err      error
}

func (l listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for _, at := range l.expiries {
		list.(*certmanager.CertificateList).Items = append(list.(*certmanager.CertificateList).Items, certmanager.Certificate{Status: certmanager.CertificateStatus{NotAfter: at}})
	}
	return l.err
}

// TestCertificateExpiry: the earliest counts; there is no series where none is known, or Certificates are not watched.
func TestCertificateExpiry(t *testing.T) {
	t.Parallel()
	at := func(seconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(seconds, 0)} }
	for name, tc := range map[string]struct {
		listed
		want float64 // 0: no series
	}{
		"some":        {listed{expiries: []*metav1.Time{nil, at(2_000_000_000), at(1_900_000_000)}}, 1_900_000_000},
		"not issued":  {listed{expiries: []*metav1.Time{nil}}, 0},
		"not watched": {listed{err: errors.New("no informer")}, 0},
	} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(certificates{tc.listed})
		families, err := registry.Gather()
		got := 0.0
		if len(families) == 1 {
			got = families[0].GetMetric()[0].GetGauge().GetValue()
		}
		if err != nil || got != tc.want || len(families) > 1 {
			t.Errorf("%s: got %v of %d series, want %v: %v", name, got, len(families), tc.want, err)
		}
	}
}
