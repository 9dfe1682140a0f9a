package main

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// record is the output of -record. It contains one sample for each second in which clients send requests to
// the first domain. hack/picture draws the picture for the README from this output.
type record struct {
	Domain  string   `json:"domain"`
	Samples []sample `json:"samples"`
	Marks   []mark   `json:"marks"`
}

// sample contains the data for one second, by version: the weights that the NetworkPolicy reports, and the
// number of responses that clients received.
type sample struct {
	Seconds    float64          `json:"seconds"`
	Programmed map[string]int32 `json:"programmed"`
	Answered   map[string]int   `json:"answered"`
	Failed     int              `json:"failed"`
}

// mark is the start of a phase.
type mark struct {
	Seconds float64 `json:"seconds"`
	Text    string  `json:"text"`
}

// recorder creates a record. It is safe for concurrent use, and does nothing if its file name is
// empty.
type recorder struct {
	file string

	mu    sync.Mutex
	began time.Time
	out   record
	stop  context.CancelFunc
	done  chan struct{}
}

// start starts recording the load of a domain. Only the first call has an effect.
func (r *recorder) start(ctx context.Context, c client.Client, domain string, load *harness.Load) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == "" || r.done != nil {
		return
	}
	r.began, r.done, r.out.Domain = time.Now(), make(chan struct{}), domain
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(r.done)
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				r.sample(programmed(ctx, c, domain), load.Recent(time.Second))
			}
		}
	}()
}

func (r *recorder) sample(weights map[string]int32, counts harness.Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := sample{Seconds: time.Since(r.began).Seconds(), Programmed: weights, Answered: map[string]int{}, Failed: counts.Failed}
	for version, c := range counts.Versions {
		if c.Answered > 0 {
			s.Answered[version] = c.Answered
		}
	}
	r.out.Samples = append(r.out.Samples, s)
}

func (r *recorder) mark(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil {
		r.out.Marks = append(r.out.Marks, mark{time.Since(r.began).Seconds(), text})
	}
}

// write ends the recording and writes the file.
func (r *recorder) write() error {
	r.mu.Lock()
	done := r.done
	r.mu.Unlock()
	if done == nil {
		return nil
	}
	r.stop()
	<-done
	text, err := json.MarshalIndent(r.out, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.file, append(text, '\n'), 0o644)
}

// programmed returns a domain's weights by version, or nil if they cannot be read.
func programmed(ctx context.Context, c client.Client, domain string) map[string]int32 {
	var policy v1alpha1.NetworkPolicy
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &policy); err != nil {
		return nil
	}
	weights := map[string]int32{}
	for _, d := range policy.Status.Domains {
		if d.Domain != domain || !d.Programmed {
			continue
		}
		for _, b := range d.Backends {
			weights[b.Version] += b.Weight
		}
	}
	return weights
}
