package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

const (
	// workers is a stream's consumer group. Its consumers are the pods.
	workers = "workers"
	// takeBlock is how long a worker waits for a new job, and takeRetry is how long it waits after an error.
	takeBlock, takeRetry = 500 * time.Millisecond, time.Second
	// retryAfter is the time after which another worker takes a job that was taken but is not done.
	retryAfter = 5 * time.Second
)

// Worker takes jobs from a stream on a Redis server, one at a time. A job that fails, or whose worker exits
// before the job is done, is taken again after retryAfter, so that each job is done at least once. A
// completed job is added to the set NAME:done, and counted by version in the hash NAME:versions.
type Worker struct {
	app    *App
	client *redis.Client
	jobs   *prometheus.CounterVec
	// claimed is the ID from which the next search for abandoned jobs starts.
	claimed string
	ended   chan struct{}
}

// startWorker starts taking jobs. The returned function waits until the current job is done.
func (a *App) startWorker(ctx context.Context) (drain, error) {
	options, err := redis.ParseURL(a.config.Queue)
	if err != nil {
		return nil, fmt.Errorf("check queue: %w", err)
	}
	w := &Worker{app: a, client: redis.NewClient(options), claimed: "0-0", ended: make(chan struct{}), jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "jobs_total", Help: "Jobs that were taken, by their result.",
	}, []string{"result", "version"})}
	a.metrics.MustRegister(w.jobs)
	for _, result := range []string{"done", "failed"} {
		w.jobs.WithLabelValues(result, a.config.Version)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // The worker stops after its current job, through drain.
	go func() {
		defer close(w.ended)
		defer w.client.Close()
		w.run(ctx)
	}()
	return func(limit context.Context) error {
		defer cancel()
		select {
		case <-w.ended:
			return nil
		case <-limit.Done():
			return fmt.Errorf("finish a job: %w", limit.Err())
		}
	}, nil
}

// run takes jobs until the application stops.
func (w *Worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		if _, stopping := w.app.state(); stopping {
			return
		}
		if err := w.next(ctx); err != nil {
			slog.Error("take a job", "error", err)
			select {
			case <-time.After(takeRetry):
			case <-ctx.Done():
			}
		}
	}
}

// next processes a job, if there is one.
func (w *Worker) next(ctx context.Context) error {
	stream := w.app.config.QueueName
	job, err := w.take(ctx, stream)
	if err != nil || job == nil {
		return err
	}
	faults, _ := w.app.state()
	time.Sleep(w.app.config.JobDuration)
	if w.app.chance() < faults.ErrorRate {
		w.jobs.WithLabelValues("failed", w.app.config.Version).Inc()
		return nil
	}
	_, err = w.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SAdd(ctx, stream+":done", job.ID)
		p.HIncrBy(ctx, stream+":versions", w.app.config.Version, 1)
		p.XAck(ctx, stream, workers, job.ID)
		return nil
	})
	if err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	w.jobs.WithLabelValues("done", w.app.config.Version).Inc()
	return nil
}

// take returns a job that another worker abandoned, or a new job, or nil.
func (w *Worker) take(ctx context.Context, stream string) (*redis.XMessage, error) {
	abandoned, next, err := w.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: stream, Group: workers, Consumer: w.app.config.Pod, MinIdle: retryAfter, Start: w.claimed, Count: 1,
	}).Result()
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
		err = w.client.XGroupCreateMkStream(ctx, stream, workers, "0").Err()
		if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") { // Another worker has created the group.
			err = nil
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("take an abandoned job: %w", err)
	}
	if w.claimed = next; len(abandoned) > 0 {
		return &abandoned[0], nil
	}
	streams, err := w.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: workers, Consumer: w.app.config.Pod, Streams: []string{stream, ">"}, Count: 1, Block: takeBlock,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("take a job: %w", err)
	}
	return &streams[0].Messages[0], nil
}
