package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// jobsAddress is the address to which the Jobs of the samples report.
const jobsAddress = "10.250.0.1:8020"

// jobReports counts the reports of Jobs, and rejects the migration of one version.
type jobReports struct {
	mu      sync.Mutex
	counts  map[string]int // The counts, by hook, version, and phase.
	refused string
}

func (r *jobReports) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body map[string]string
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, 1<<16)).Decode(&body); err != nil {
		return // The pod was stopped.
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[body["HLNR_HOOK"]+" "+body["HLNR_VERSION"]+" "+body["PHASE"]]++
	if body["HLNR_HOOK"] == "migrate" && body["HLNR_VERSION"] == r.refused {
		http.Error(w, "table orders is locked", http.StatusConflict)
	}
}

// ran returns how many times a Job began and ended.
func (r *jobReports) ran(hook, version string) (began, ended int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[hook+" "+version+" begin"], r.counts[hook+" "+version+" end"]
}

// listen starts the server to which the Jobs report. The server stops at the end of the demo.
func (s *story) listen() error {
	s.jobs = &jobReports{counts: map[string]int{}, refused: "1.2.0"}
	listener, err := s.cluster.ListenInside(jobsAddress)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.jobs, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.say("   the server for the Jobs stopped: %v", err)
		}
	}()
	return nil
}

func (s *story) firstWithJobs(ctx context.Context) error {
	if err := s.listen(); err != nil {
		return err
	}
	if err := s.first(ctx); err != nil {
		return err
	}
	return s.once(ctx, "1.0.0")
}

// once waits until a version's last Job has ended, and checks that each Job ran once.
func (s *story) once(ctx context.Context, version string) error {
	err := harness.Waiter{Every: 100 * time.Millisecond}.For(ctx, "the cleanup of "+version, func(context.Context) (bool, string, error) {
		began, ended := s.jobs.ran("cleanup", version)
		return ended > 0, fmt.Sprintf("it began %d times", began), nil
	})
	if err != nil {
		return err
	}
	for _, hook := range []string{"migrate", "smoke", "cleanup"} {
		began, ended := s.jobs.ran(hook, version)
		s.note(fmt.Sprintf("the Job %s of %s ran once", hook, version), began == 1 && ended == 1, fmt.Sprintf("it began %d times and ended %d times", began, ended))
	}
	return nil
}

// migrated pushes a version whose migration runs before its first pod.
func (s *story) migrated(ctx context.Context) error {
	if err := s.push(ctx, "1.1.0", nil); err != nil {
		return err
	}
	if err := s.migrating(ctx, "1.1.0"); err != nil {
		return err
	}
	pods, err := s.podsOf(ctx, "1.1.0")
	if err != nil {
		return err
	}
	_, ended := s.jobs.ran("migrate", "1.1.0")
	s.note("while the migration is running, 1.1.0 has no pod", pods == 0 && ended == 0, "")
	seen, err := s.follow(ctx, "1-x", "1.1.0")
	if err != nil {
		return err
	}
	s.note("then 1.1.0 went through 10% and 50% and is active", slices.Equal(seen, []int32{10, 50, 100}), fmt.Sprintf("weights %v", seen))
	return s.once(ctx, "1.1.0")
}

// migrating waits until the migration of a version begins.
func (s *story) migrating(ctx context.Context, version string) error {
	return harness.Waiter{Every: 50 * time.Millisecond}.For(ctx, "the migration of "+version+" to begin", func(context.Context) (bool, string, error) {
		began, _ := s.jobs.ran("migrate", version)
		return began > 0, "", nil
	})
}

// podsOf counts a release's pods, excluding the pods of Jobs.
func (s *story) podsOf(ctx context.Context, version string) (int, error) {
	var ms v1alpha1.Microservice
	if err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &ms); err != nil {
		return 0, err
	}
	r := release(&ms, "1-x", version)
	if r == nil {
		return 0, fmt.Errorf("the status has no release of %s", version)
	}
	var pods corev1.PodList
	err := s.cluster.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelRelease: r.VersionedMicroservice})
	return len(pods.Items), err
}

// locked pushes a version whose migration fails.
func (s *story) locked(ctx context.Context) error {
	s.mark("1.2.0 cannot migrate")
	if err := s.push(ctx, "1.2.0", nil); err != nil {
		return err
	}
	reason := ""
	err := s.until(ctx, "1.2.0 to end in error", func(ms *v1alpha1.Microservice) (bool, string) {
		r := release(ms, "1-x", "1.2.0")
		if r == nil {
			return false, "not observed yet"
		}
		reason = r.Reason
		return r.Status == v1alpha1.ReleaseError, string(r.Status)
	})
	if err != nil {
		return err
	}
	pods, err := s.podsOf(ctx, "1.2.0")
	if err != nil {
		return err
	}
	s.note("1.2.0 ended in error, and never had a pod", reason == "HookFailed" && pods == 0, reason)
	why, code, err := s.ask(ctx, "why", service, "1.2.0")
	if err != nil {
		return err
	}
	s.note("hlnr why shows the end of the migration's log", code == 3 && strings.Contains(why, "table orders is locked"), "")
	share := s.loads[0].Split("1.2.0 cannot migrate")
	s.note("1.1.0 kept serving", share.Fraction("1.1.0") == 1, "")
	return nil
}

// killed pushes a version, and kills the manager while the version's migration is running.
func (s *story) killed(ctx context.Context) error {
	if err := s.push(ctx, "1.3.0", nil); err != nil {
		return err
	}
	if err := s.migrating(ctx, "1.3.0"); err != nil {
		return err
	}
	if err := s.run(ctx, "delete", "pods", "-n", "heighliner-system", "-l", "app.kubernetes.io/name=heighliner", "--grace-period=0", "--force"); err != nil {
		return err
	}
	if err := s.active(ctx, "1-x", "1.3.0"); err != nil {
		return err
	}
	return s.once(ctx, "1.3.0")
}
