package analysis

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/outbound"
)

// Secrets reads the credentials of providers.
type Secrets interface {
	// Secret returns the data of a Secret. The call may send a request to the API server.
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
}

// Config configures a Measurer.
type Config struct {
	// PrometheusAddress is the URL of the Prometheus server for analyses that specify no server. If it is empty, there is no default server. It may
	// contain a loopback address, because the operator chose it.
	PrometheusAddress string
	// Outbound defines the allowed addresses. If it is nil, addresses that are denied by default are rejected.
	Outbound *outbound.Policy
	// Secrets reads the Secrets to which analyses refer. If it is nil, metrics that need a Secret cannot be measured.
	Secrets Secrets
	// Requeue is called from another goroutine, once for each finished round that has not been replaced or dropped. It must not block. It may be nil.
	Requeue func(key types.NamespacedName)
	// UserAgent is sent with each request.
	UserAgent string
	// Workers is the maximum number of concurrent queries. At most a quarter of them may be for one namespace, a quarter for one host, and an eighth
	// for one combination of namespace and host. Defaults to 32.
	Workers int
	// QueriesPerSecond is the maximum rate of queries to one server with the same credentials. A burst may contain twice as many
	// queries. Defaults to 20.
	QueriesPerSecond float64
	// Registerer registers the metrics. If it is nil, the metrics are not registered.
	Registerer prometheus.Registerer
	// Now returns the current time. Defaults to the clock of the machine.
	Now func() time.Time
}

// Measurer sends the queries of rounds outside of reconciles. It is safe for concurrent use.
type Measurer struct {
	config  Config
	metrics *metrics
	pool    *pool
	sender  *sender
	ctx     context.Context
	stop    context.CancelFunc

	mu     sync.Mutex
	rounds map[types.NamespacedName]*pending
}

// pending is a round that is in progress, or that is finished and has not been replaced yet.
type pending struct {
	request  Request
	cancel   context.CancelFunc
	round    *Round // nil while it is in progress
	returned bool   // Ask has returned the round.
}

// covers reports whether a request equals the request of the round. Their times may differ.
func (p *pending) covers(request Request) bool {
	request.At = p.request.At
	return reflect.DeepEqual(p.request, request)
}

// New returns a Measurer. It fails if the Prometheus address is not a URL, or if metrics with the same name are already registered.
func New(config Config) (*Measurer, error) {
	if config.PrometheusAddress != "" {
		u, err := url.Parse(config.PrometheusAddress)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("read --prometheus-address: %q is not an HTTP or HTTPS URL: use a URL such as http://prometheus.monitoring:9090", config.PrometheusAddress)
		}
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	metrics, err := newMetrics(config.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register analysis metrics: %w", err)
	}
	sender, err := newSender(config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Measurer{
		config: config, metrics: metrics, sender: sender, ctx: ctx, stop: stop,
		pool:   newPool(ctx, cmp.Or(config.Workers, 32), cmp.Or(config.QueriesPerSecond, 20), config.Now),
		rounds: map[types.NamespacedName]*pending{},
	}, nil
}

// Start waits until ctx is done, and then stops all rounds. It implements controller-runtime's Runnable.
func (m *Measurer) Start(ctx context.Context) error {
	<-ctx.Done()
	m.stop()
	return nil
}

// Ask returns the round that the request describes. If the round is not finished, Ask starts it if necessary and returns false. Requeue is
// called when the round is finished. Equal requests get the same round until a different request replaces it or Forget drops it. A request that differs
// only in its time does not interrupt a round in progress. After the end of that round, Ask returns the round for such a request, unless Ask has already
// returned it. Without this rule, errors from queries that take as long as the interval would not count, because the next round is already due when
// these queries end. Ask does not block, and keeps no reference to the request's memory, because the caller may change that memory.
func (m *Measurer) Ask(key types.NamespacedName, request Request) (Round, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.rounds[key]; p != nil {
		switch {
		case p.round == nil && p.covers(request):
			return Round{}, false
		case p.round != nil && (reflect.DeepEqual(p.request, request) || !p.returned && p.covers(request)):
			p.returned = true
			return *p.round, true
		}
		p.cancel()
	}
	request = request.clone()
	interval := intervalOf(&request.Spec)
	ctx, cancel := context.WithTimeout(m.ctx, interval)
	p := &pending{request: request, cancel: cancel}
	m.rounds[key] = p
	go func() {
		defer cancel()
		round := m.measure(ctx, request)
		m.mu.Lock()
		p.round = &round
		wanted := m.rounds[key] == p
		m.mu.Unlock()
		if wanted && m.config.Requeue != nil && m.ctx.Err() == nil {
			m.config.Requeue(key)
		}
	}()
	return Round{}, false
}

// Forget drops the round of a release, and stops it if it is in progress.
func (m *Measurer) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.rounds[key]; p != nil {
		p.cancel()
		delete(m.rounds, key)
	}
}

// measure runs all queries of a round, and evaluates the responses.
func (m *Measurer) measure(ctx context.Context, request Request) Round {
	round := Round{At: request.At, Measurements: make([]Measurement, len(request.Spec.Metrics))}
	var group errgroup.Group
	for i := range request.Spec.Metrics {
		group.Go(func() error {
			metric := &request.Spec.Metrics[i]
			if err := contain.Panics(func() error { round.Measurements[i] = m.measureOne(ctx, request, metric); return nil }); err != nil {
				round.Measurements[i] = Measurement{Metric: metric.Name}.failing(errorf(BadAnswer, "%s", err))
			}
			return nil
		})
	}
	_ = group.Wait() // The functions return no errors.
	return round
}

func (m *Measurer) measureOne(ctx context.Context, request Request, metric *v1alpha1.AnalysisMetric) Measurement {
	if metric.Baseline == "" {
		return judge(metric, m.ask(ctx, request, metric, request.Canary), nil)
	}
	if request.Active == nil {
		return judge(metric, answer{}, nil)
	}
	var canary, active answer
	var group errgroup.Group
	group.Go(func() error {
		canary = contained(func() answer { return m.ask(ctx, request, metric, request.Canary) })
		return nil
	})
	group.Go(func() error {
		active = contained(func() answer { return m.ask(ctx, request, metric, *request.Active) })
		return nil
	})
	_ = group.Wait() // The functions return no errors.
	return judge(metric, canary, &active)
}

// ask returns the response for a metric of one release.
func (m *Measurer) ask(ctx context.Context, request Request, metric *v1alpha1.AnalysisMetric, target Target) answer {
	q, err := question(&request.Spec, metric, target, request.At, m.config.PrometheusAddress)
	if err != nil {
		m.metrics.asked(q.provider, answer{err: err})
		return answer{err: err}
	}
	if q.samples > 0 && !request.Since.IsZero() {
		q.samples = min(q.samples, int64(request.At.Sub(request.Since))/q.step)
	}
	timeout := request.Spec.Provider.Timeout.Std(outbound.DefaultTimeout)
	return inUnit(metric, m.pool.do(ctx, q, timeout, func(ctx context.Context) answer {
		began := m.config.Now()
		a := m.sender.send(ctx, q)
		m.metrics.took(q.provider, m.config.Now().Sub(began))
		m.metrics.asked(q.provider, a)
		return a
	}))
}
