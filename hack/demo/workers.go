package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// jobsOfDemo is the number of jobs in the queue. Ten workers process them in 100 s.
const jobsOfDemo = 10_000

// work starts the queue and the first release of the worker.
func (s *story) work(ctx context.Context) (err error) {
	if s.queue, err = s.cluster.StartQueue(ctx); err != nil {
		return err
	}
	s.say("   Redis runs on this machine; workers take their jobs from %s", s.queue.URL)
	if err := s.run(ctx, "apply", "-k", s.samples); err != nil {
		return err
	}
	queue := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/env/0/value","value":%q}]`, s.queue.URL)
	if err := s.run(ctx, "patch", "msvc", service, "-n", namespace, "--type=json", "-p", queue); err != nil {
		return err
	}
	if err := s.push(ctx, "1.0.0", nil); err != nil {
		return err
	}
	if err := s.pods(ctx, "1.0.0", 10); err != nil {
		return err
	}
	if err := s.queue.Add(ctx, jobsOfDemo); err != nil {
		return err
	}
	s.note(fmt.Sprintf("10 pods of 1.0.0 work on a queue of %d jobs", jobsOfDemo), true, "")
	return s.show(ctx)
}

// pods waits until each release has the desired number of available pods. The arguments are alternating
// versions and numbers.
func (s *story) pods(ctx context.Context, want ...any) error {
	return harness.Waiter{Every: 100 * time.Millisecond}.For(ctx, fmt.Sprintf("the available pods to be %v", want), func(ctx context.Context) (bool, string, error) {
		var ms v1alpha1.Microservice
		var all appsv1.DeploymentList
		if err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &ms); err != nil {
			return false, "", err
		}
		if err := s.cluster.Client.List(ctx, &all, client.InNamespace(namespace)); err != nil {
			return false, "", err
		}
		var got []any
		for i := 0; i < len(want); i += 2 {
			n := 0
			r := release(&ms, "1-x", want[i].(string))
			for _, d := range all.Items {
				if r != nil && d.Name == r.VersionedMicroservice {
					n = int(d.Status.AvailableReplicas)
				}
			}
			got = append(got, want[i], n)
		}
		return slices.Equal(got, want), fmt.Sprint(got), nil
	})
}

// badWorker pushes a version that fails its jobs.
func (s *story) badWorker(ctx context.Context) error {
	began := time.Now()
	if err := s.push(ctx, "1.1.0", map[string]string{"ERROR_RATE": "1"}); err != nil {
		return err
	}
	if err := s.pods(ctx, "1.0.0", 9, "1.1.0", 1); err != nil {
		return err
	}
	s.note("1.1.0 has one of ten pods, which replaces a pod of 1.0.0", true, "after "+since(began))
	reason := ""
	err := s.until(ctx, "1.1.0 to be rolled back", func(ms *v1alpha1.Microservice) (bool, string) {
		r := release(ms, "1-x", "1.1.0")
		if r == nil {
			return false, "not observed yet"
		}
		reason = r.Reason
		return r.Status == v1alpha1.ReleaseError, fmt.Sprintf("%s at %d%%", r.Status, r.Weight)
	})
	if err != nil {
		return err
	}
	s.note("1.1.0 was rolled back, because its jobs failed", reason == analysisFailed, fmt.Sprintf("%s, after %s", reason, since(began)))
	if err := s.pods(ctx, "1.0.0", 10, "1.1.0", 0); err != nil {
		return err
	}
	s.note("1.0.0 has all ten pods again", true, "")
	if _, _, err := s.ask(ctx, "why", service, "1.1.0"); err != nil {
		return err
	}
	return nil
}

// goodWorker pushes a version whose pods replace the pods of the previous version step by step.
func (s *story) goodWorker(ctx context.Context) error {
	if err := s.push(ctx, "1.2.0", nil); err != nil {
		return err
	}
	for _, shares := range [][2]int{{9, 1}, {5, 5}, {0, 10}} {
		if err := s.pods(ctx, "1.0.0", shares[0], "1.2.0", shares[1]); err != nil {
			return err
		}
		s.note(fmt.Sprintf("pods: 1.0.0 %d, 1.2.0 %d", shares[0], shares[1]), true, "")
		if shares[1] == 1 {
			if err := s.shareOfJobs(ctx); err != nil {
				return err
			}
		}
	}
	return s.show(ctx)
}

// shareOfJobs measures, over ten seconds, the share of the jobs that the canary does.
func (s *story) shareOfJobs(ctx context.Context) error {
	counts := func() (old, canary int, err error) {
		if old, err = s.queue.DoneBy(ctx, "1.0.0"); err != nil {
			return 0, 0, err
		}
		canary, err = s.queue.DoneBy(ctx, "1.2.0")
		return old, canary, err
	}
	old, canary, err := counts()
	if err != nil {
		return err
	}
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	o, c, err := counts()
	if err != nil {
		return err
	}
	percent := 100 * float64(c-canary) / max(1, float64(o-old+c-canary))
	s.note("the canary did about 10% of the jobs", percent > 5 && percent < 15, fmt.Sprintf("%.1f%% in ten seconds", percent))
	return nil
}

// emptyQueue waits until every job is done.
func (s *story) emptyQueue(ctx context.Context) error {
	return harness.Waiter{Every: 200 * time.Millisecond}.For(ctx, "the queue to be empty", func(ctx context.Context) (bool, string, error) {
		n, err := s.queue.Done(ctx)
		return n == jobsOfDemo, fmt.Sprintf("%d are done", n), err
	})
}

// noJobLost checks that each job is done, and stops the queue.
func (s *story) noJobLost([]harness.Report) check {
	if s.queue == nil {
		return check{"no job was lost", false, "the queue did not start"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done, err := s.queue.Done(ctx)
	if err != nil {
		return check{"no job was lost", false, err.Error()}
	}
	if err := s.queue.Stop(); err != nil {
		return check{"no job was lost", false, err.Error()}
	}
	return check{"no job was lost", done == jobsOfDemo, fmt.Sprintf("%d of %d are done", done, jobsOfDemo)}
}
