package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// queueStream is the stream of the jobs. It is the default stream of hack/sampleapp.
const queueStream = "jobs"

// Queue is a stream of jobs for workers in the cluster. This process starts the server from Debian's Redis package.
type Queue struct {
	// URL is the URL of the server for pods.
	URL string

	port     string
	release  func() // Ends the reservation of the port.
	server   *exec.Cmd
	dir      string
	listener net.Listener
}

// StartQueue starts a Redis server that stores everything in memory, on an unused loopback port, and makes
// the server reachable for pods. Stop shuts down the server. "redis-server" and "redis-cli" are required.
func (c *Cluster) StartQueue(ctx context.Context) (*Queue, error) {
	port, release, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	dir, err := os.MkdirTemp("", "queue-")
	if err != nil {
		release()
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	q := &Queue{port: port, release: release, dir: dir, server: exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", dir)}
	if err := q.server.Start(); err != nil {
		release()
		return nil, fmt.Errorf("start Redis: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	if q.listener, err = c.listenForPods(); err != nil {
		return nil, errors.Join(err, q.Stop())
	}
	q.URL = "redis://" + q.listener.Addr().String()
	go forward(q.listener, "127.0.0.1:"+q.port)
	err = (Waiter{Every: 100 * time.Millisecond}).For(ctx, "Redis to answer", func(ctx context.Context) (bool, string, error) {
		answer, err := q.command(ctx, "PING")
		return err == nil && answer == "PONG", fmt.Sprint(answer, err), nil
	})
	if err != nil {
		return nil, errors.Join(err, q.Stop())
	}
	return q, nil
}

// Stop shuts down the server and closes its connections.
func (q *Queue) Stop() error {
	var errs []error
	if q.listener != nil {
		errs = append(errs, q.listener.Close())
	}
	errs = append(errs, q.server.Process.Kill())
	_ = q.server.Wait() // An error is expected, because the server was killed.
	q.release()
	return errors.Join(append(errs, os.RemoveAll(q.dir))...)
}

// Add adds jobs.
func (q *Queue) Add(ctx context.Context, n int) error {
	_, err := q.command(ctx, "EVAL", "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'job', i) end", "1", queueStream, strconv.Itoa(n))
	return err
}

// Done returns the number of completed jobs. Each job counts once.
func (q *Queue) Done(ctx context.Context) (int, error) {
	return q.number(ctx, "SCARD", queueStream+":done")
}

// DoneBy returns the number of jobs that a version completed. A job that was completed twice counts twice.
func (q *Queue) DoneBy(ctx context.Context, version string) (int, error) {
	return q.number(ctx, "HGET", queueStream+":versions", version)
}

// Taken returns the number of jobs that have been taken but not completed.
func (q *Queue) Taken(ctx context.Context) (int, error) {
	answer, err := q.command(ctx, "XPENDING", queueStream, "workers")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(answer, "\n")
	return strconv.Atoi(first)
}

func (q *Queue) number(ctx context.Context, args ...string) (int, error) {
	answer, err := q.command(ctx, args...)
	if err != nil || answer == "" {
		return 0, err
	}
	return strconv.Atoi(answer)
}

// command runs a Redis command, and returns its response.
func (q *Queue) command(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", q.port}, args...)...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("redis-cli %s: %w: %s", args[0], err, text)
	}
	return text, nil
}
