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

// jobTimeout is the timeout of a report.
const jobTimeout = 10 * time.Second

// RunJob runs as the Job of a hook. It reports the start to Config.JobURL, works for JobDuration, and reports
// the end. A report is a POST request. Its body is JSON with the HLNR_* variables and with PHASE, which is begin
// or end. If the response has a status of 300 or more, the Job fails with the text of the response.
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
		return fmt.Errorf("read response: %w", err)
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s", strings.TrimSpace(string(text)))
	}
	return nil
}

// terminationLog is the file from which Kubernetes reads the termination message of a container.
const terminationLog = "/dev/termination-log"

// endJob returns the writer for the termination message: the file if it exists, and otherwise the standard output.
func endJob() (io.Writer, func()) {
	f, err := os.OpenFile(terminationLog, os.O_WRONLY, 0)
	if err != nil {
		return os.Stdout, func() {}
	}
	return f, func() { _ = f.Close() }
}
