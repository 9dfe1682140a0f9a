package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// queue contains the counts and times of a work queue, either in total or for one phase.
type queue struct {
	// Passes is the number of reconciles.
	Passes float64 `json:"passes"`
	// Waited and Worked are the total times in the queue and in reconciles, in seconds.
	Waited float64 `json:"waitedSeconds"`
	Worked float64 `json:"workedSeconds"`
	// WaitedP99 is an upper bound on the 99th percentile of the time in the queue, in seconds. It is 0 if there is no bound.
	WaitedP99 float64 `json:"waitedP99Seconds"`

	buckets map[float64]float64 // The cumulative number of objects, by the upper bound of their time in the queue.
}

// queueWaited and queueWorked are metrics of the work queues of controller-runtime and client-go.
const (
	queueWaited = "workqueue_queue_duration_seconds"
	queueWorked = "workqueue_work_duration_seconds"
)

// scrape returns the work queues by name. It returns nothing if the address is empty.
func scrape(ctx context.Context, address string) (map[string]queue, error) {
	queues := map[string]queue{}
	if address == "" {
		return queues, nil
	}
	body, err := fetch(ctx, "http://"+address+"/metrics")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(body)
	if err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", address, err)
	}
	for _, m := range families[queueWaited].GetMetric() {
		name := label(m.GetLabel())
		q := queues[name]
		q.Waited, q.buckets = m.GetHistogram().GetSampleSum(), map[float64]float64{}
		for _, b := range m.GetHistogram().GetBucket() {
			q.buckets[b.GetUpperBound()] = float64(b.GetCumulativeCount())
		}
		queues[name] = q
	}
	for _, m := range families[queueWorked].GetMetric() {
		name := label(m.GetLabel())
		q := queues[name]
		q.Worked, q.Passes = m.GetHistogram().GetSampleSum(), float64(m.GetHistogram().GetSampleCount())
		queues[name] = q
	}
	return queues, nil
}

// label returns the value of the label "name".
func label[L interface {
	GetName() string
	GetValue() string
}](labels []L) string {
	for _, l := range labels {
		if l.GetName() == "name" {
			return l.GetValue()
		}
	}
	return ""
}

// since returns the difference from an earlier scrape.
func (q queue) since(before queue) queue {
	d := queue{Passes: q.Passes - before.Passes, Waited: q.Waited - before.Waited, Worked: q.Worked - before.Worked}
	total := 0.0
	for bound, n := range q.buckets {
		total = max(total, n-before.buckets[bound])
	}
	best := math.Inf(1)
	for bound, n := range q.buckets {
		if n-before.buckets[bound] >= 0.99*total && bound < best {
			best = bound
		}
	}
	if total > 0 && !math.IsInf(best, 1) {
		d.WaitedP99 = best
	}
	return d
}

// fetch returns the body of a response.
func fetch(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close() // The status is the error to report.
		return nil, fmt.Errorf("get %s: %s", url, response.Status)
	}
	return response.Body, nil
}

// profileTime is the duration of one CPU profile. go tool pprof merges a phase's profiles.
const profileTime = 10 * time.Second

// profile writes CPU profiles of a phase until the returned function is called.
func profile(ctx context.Context, address, dir, phase string, say func(string, ...any)) (stop func()) {
	if address == "" || dir == "" {
		return func() {}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			default:
			}
			file := filepath.Join(dir, fmt.Sprintf("%s-%02d.cpu.pb.gz", phase, i))
			if err := download(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, int(profileTime.Seconds())), file); err != nil {
				say("no CPU profile: %v", err)
				return
			}
		}
	}()
	return func() { close(ended); <-done }
}

// download writes a response to a file.
func download(ctx context.Context, url, file string) error {
	body, err := fetch(ctx, url)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("create folder for profiles: %w", err)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}
