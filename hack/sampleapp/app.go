package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxControlBytes limits the body of POST /control.
const maxControlBytes = 4 << 10

// App is the application without its listeners: handlers, metrics, and the current faults.
type App struct {
	config   Config
	started  time.Time
	chance   func() float64 // A number of at least 0 and less than 1.
	metrics  *prometheus.Registry
	requests *prometheus.CounterVec
	duration prometheus.Observer
	sockets  sockets

	mu       sync.Mutex
	faults   Faults
	stopping bool
	// visits records visits in a database. It is nil if no database is configured.
	visits *visits
}

// NewApp returns the application. The delays in the configuration are counted from this call.
func NewApp(config Config) *App {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "http_requests_total",
		Help: "Requests handled, except for health, metrics, control, /slow, and /ws.",
	}, []string{"code", "version"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "http_request_duration_seconds",
		Help:    "Time from a request's arrival to its response, except for health, metrics, control, /slow, and /ws.",
		Buckets: prometheus.DefBuckets,
	}, []string{"version"})
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(requests, duration)
	for _, code := range []string{"200", "500"} { // An idle version exposes 0, so that the first error is an increase.
		requests.WithLabelValues(code, config.Version)
	}

	return &App{
		config:   config,
		started:  time.Now(),
		chance:   rand.Float64,
		metrics:  metrics,
		requests: requests,
		duration: duration.WithLabelValues(config.Version),
		faults:   Faults{ErrorRate: config.ErrorRate, Latency: Duration(config.Latency)},
	}
}

// Stop makes readiness fail and asks clients to open new connections, which go to other pods once the Service
// has removed the endpoint.
func (a *App) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopping = true
}

func (a *App) state() (faults Faults, stopping bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.faults, a.stopping
}

// Handler serves the paths that --help lists.
func (a *App) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", a.measured(a.text))
	mux.Handle("/version", a.measured(a.version))
	mux.HandleFunc("/slow", a.slow)
	mux.HandleFunc("/ws", a.echo)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", a.ready)
	mux.HandleFunc("/control", a.control)
	if a.visits != nil {
		mux.Handle("/visits", a.visits)
	}
	if a.config.NoMetrics {
		mux.HandleFunc("/metrics", http.NotFound)
	} else {
		mux.Handle("/metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{}))
	}
	return a.identified(mux)
}

// identified adds the X-Version and X-Release headers to every response, including errors. While the
// application is stopping, identified also adds the "Connection: close" header, because closing an idle
// connection could race with a new request. For HTTP/2, the server then sends a GOAWAY frame.
func (a *App) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Version", a.config.Version)
		w.Header().Set("X-Release", a.config.Release)
		if _, stopping := a.state(); stopping {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// measured applies the faults before the response to a request is sent, and counts the response.
func (a *App) measured(answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		status := a.answer(w, r, answer)
		a.duration.Observe(time.Since(began).Seconds())
		a.requests.WithLabelValues(strconv.Itoa(status), a.config.Version).Inc()
	})
}

func (a *App) answer(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) int {
	outcome, err := a.outcomeOf(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return http.StatusBadRequest
	}
	if !wait(r, outcome.latency) {
		return 499 // The client has disconnected and would not read a response.
	}
	if outcome.status != http.StatusOK {
		http.Error(w, fmt.Sprintf("%s %s responds with %d as requested", a.config.App, a.config.Version, outcome.status), outcome.status)
		return outcome.status
	}
	answer(w, r)
	return http.StatusOK
}

// outcome is the latency and the status of a response.
type outcome struct {
	latency time.Duration
	status  int
}

// outcomeOf determines the outcome from the current faults and the parameters of the request.
func (a *App) outcomeOf(query url.Values) (outcome, error) {
	faults, _ := a.state()
	decided := outcome{latency: time.Duration(faults.Latency), status: http.StatusOK}
	if a.chance() < faults.ErrorRate {
		decided.status = http.StatusInternalServerError
	}
	if text := query.Get("latency"); text != "" {
		latency, err := time.ParseDuration(text)
		if err != nil {
			return outcome{}, fmt.Errorf("parse latency: %w", err)
		}
		if err := checkLatency(latency); err != nil {
			return outcome{}, err
		}
		decided.latency = latency
	}
	if text := query.Get("status"); text != "" {
		status, err := strconv.Atoi(text)
		if err != nil || status < 200 || status > 599 {
			return outcome{}, fmt.Errorf("check status: must be 200 to 599, not %q", text)
		}
		decided.status = status
	}
	return decided, nil
}

// wait waits for d, and reports whether the client is still connected.
func wait(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (a *App) text(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "%s %s\n", a.config.App, a.config.Version)
}

func (a *App) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, a.config.Identity)
}

func (a *App) ready(w http.ResponseWriter, r *http.Request) {
	faults, stopping := a.state()
	var lacks error
	if a.visits != nil {
		lacks = a.visits.ready(r.Context())
	}
	switch {
	case lacks != nil:
		http.Error(w, lacks.Error(), http.StatusServiceUnavailable)
	case stopping:
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
	case faults.FailReadiness, a.config.FailReadiness.Begun(time.Since(a.started)):
		http.Error(w, "readiness fails as requested", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

func (a *App) control(w http.ResponseWriter, r *http.Request) {
	if !a.config.Control {
		http.Error(w, "runtime control is off: start with --control or CONTROL=true", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "send a POST", http.StatusMethodNotAllowed)
		return
	}
	faults, err := a.change(http.MaxBytesReader(w, r.Body, maxControlBytes))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, faults)
}

// change applies the faults in a JSON document. Omitted faults do not change.
func (a *App) change(body io.Reader) (Faults, error) {
	document, err := io.ReadAll(body) // Read the body before the lock is taken, because a slow client must not block others.
	if err != nil {
		return Faults{}, fmt.Errorf("read control: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	faults := a.faults
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&faults); err != nil {
		return Faults{}, fmt.Errorf("parse control: %w", err)
	}
	if err := faults.validate(); err != nil {
		return Faults{}, err
	}
	a.faults = faults
	return faults, nil
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // This fails only if the client has disconnected.
}
