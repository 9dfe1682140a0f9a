package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// jobTimeout limits a report of a Job.
const jobTimeout = 10 * time.Second

// RunJob runs as the Job of a hook: it reports its begin to Config.JobURL, works for JobDuration, and reports its end. Each report
// is a POST of the variables HLNR_* and PHASE, begin or end, as JSON. An answer of 300 or more fails the Job, with its text.
func RunJob(ctx context.Context, config Config, environ []string, out io.Writer) error {
	if err := report(ctx, config.JobURL, "begin", environ); err != nil {
		return err
	}
	select {
	case <-time.After(config.JobDuration):
	case <-ctx.Done():
		return fmt.Errorf("stopped: %w", ctx.Err())
	}
	if err := report(ctx, config.JobURL, "end", environ); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "done")
	return err
}

func report(ctx context.Context, url, phase string, environ []string) error {
	body := map[string]string{"PHASE": phase}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, "HLNR_") {
			body[name] = value
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s", strings.TrimSpace(string(text)))
	}
	return nil
}

// terminationLog is where Kubernetes reads what a container reports at its end.
const terminationLog = "/dev/termination-log"

// endJob returns where a Job reports its end: the termination message, if there is one, and otherwise the standard output.
func endJob() (io.Writer, func()) {
	f, err := os.OpenFile(terminationLog, os.O_WRONLY, 0)
	if err != nil {
		return os.Stdout, func() {}
	}
	return f, func() { _ = f.Close() }
}
