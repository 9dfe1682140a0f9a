package workloadidentity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"

	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/registry"
)

// fake is a cloud whose hosts end in .example, and whose credentials are numbered.
type fake struct {
	asked atomic.Int64
	life  time.Duration
	clock *testclock.FakePassiveClock
	fail  atomic.Bool
	wait  chan struct{}
}

func (f *fake) scope(host string) string {
	if strings.HasSuffix(host, ".example") {
		return "fake/" + host
	}
	return ""
}

func (f *fake) credential(ctx context.Context, host string) (registry.Credential, time.Time, error) {
	n := f.asked.Add(1)
	if f.wait != nil {
		select {
		case <-f.wait:
		case <-ctx.Done():
			return registry.Credential{}, time.Time{}, failed("Fake", ctx.Err())
		}
	}
	if f.fail.Load() {
		return registry.Credential{}, time.Time{}, failed("Fake", errors.New("secret of a server"))
	}
	return registry.Credential{Username: "u", Password: fmt.Sprint(n)}, f.clock.Now().Add(f.life), nil
}

func newFake(life time.Duration) (*fake, *Identity) {
	clock := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f := &fake{life: life, clock: clock}
	return f, &Identity{sources: []source{f}, clock: clock, known: lru.New(maxCredentials)}
}

// TestRenewal checks that a credential is requested once, and again before it expires. If it cannot be renewed, the old credential is used until its
// expiry, but no longer.
func TestRenewal(t *testing.T) {
	t.Parallel()
	f, i := newFake(time.Hour)
	start := f.clock.Now()
	get := func(after time.Duration) (string, error) {
		f.clock.SetTime(start.Add(after))
		c, err := i.Credential(t.Context(), "a.example")
		return c.Password, err
	}
	for _, step := range []struct {
		after time.Duration
		fails bool
		want  string
		asked int64
	}{
		{0, false, "1", 1},
		{54 * time.Minute, false, "1", 1},
		{55 * time.Minute, true, "1", 2}, // the old credential is still valid
		{55*time.Minute + 29*time.Second, true, "1", 2},
		{55*time.Minute + 31*time.Second, true, "1", 3},
		{60 * time.Minute, true, "", 4},
		{60*time.Minute + 10*time.Second, false, "", 4}, // not requested again yet
		{60*time.Minute + 31*time.Second, false, "5", 5},
	} {
		f.fail.Store(step.fails)
		got, err := get(step.after)
		if got != step.want || f.asked.Load() != step.asked || (err != nil) != (step.want == "") {
			t.Errorf("after %v: %q, %v, %d requests; want %q after %d requests", step.after, got, err, f.asked.Load(), step.want, step.asked)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("after %v: the error contains the response of a server: %v", step.after, err)
		}
	}
}

// TestShortLife checks that a credential with a lifetime of seconds is used for half of its lifetime.
func TestShortLife(t *testing.T) {
	t.Parallel()
	f, i := newFake(time.Minute)
	start := f.clock.Now()
	for after, want := range []string{"1", "1", "2"} {
		f.clock.SetTime(start.Add(time.Duration(after) * 20 * time.Second))
		if c, err := i.Credential(t.Context(), "a.example"); err != nil || c.Password != want {
			t.Errorf("after %d s: %q, %v; want %q", after*20, c.Password, err, want)
		}
	}
}

// TestSharedRequest checks that all callers that need a credential share one request, which does not end if a caller leaves.
func TestSharedRequest(t *testing.T) {
	t.Parallel()
	f, i := newFake(time.Hour)
	f.wait = make(chan struct{})
	leaves, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := i.Credential(leaves, "a.example")
		left <- err
	}()
	for f.asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left got %v", err)
	}
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if c, err := i.Credential(t.Context(), "a.example"); err != nil || c.Password != "1" {
				t.Errorf("got %q, %v", c.Password, err)
			}
		})
	}
	close(f.wait)
	callers.Wait()
	if n := f.asked.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestBounded checks that users who specify more and more registries cannot exhaust the memory.
func TestBounded(t *testing.T) {
	t.Parallel()
	f, i := newFake(time.Hour)
	for n := range 3 * maxCredentials {
		if _, err := i.Credential(t.Context(), fmt.Sprintf("r%d.example", n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := i.known.Len(); n > maxCredentials {
		t.Errorf("%d credentials are kept, want at most %d", n, maxCredentials)
	}
	if f.asked.Load() != 3*maxCredentials {
		t.Errorf("%d requests", f.asked.Load())
	}
}

// TestServes checks that registries of enabled clouds are recognized, and that similar names are
// not.
func TestServes(t *testing.T) {
	t.Parallel()
	all, err := New(Options{Clouds: Clouds, Registries: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	google, err := New(Options{Clouds: []string{Google}, Registries: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com":          "aws/eu-west-1",
		"123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com": "aws/us-gov-west-1-fips",
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn":      "aws/cn-north-1",
		"123456789012.dkr-ecr.ap-southeast-2.on.aws":            "aws/ap-southeast-2",
		"acmeshop.azurecr.io":                                   "azure/acmeshop.azurecr.io",
		"acmeshop.azurecr.cn":                                   "azure/acmeshop.azurecr.cn",
		"acmeshop-dnl.azurecr.us":                               "azure/acmeshop-dnl.azurecr.us",
		"europe-west1-docker.pkg.dev":                           "google",
		"europe-docker.pkg.dev":                                 "google",
		"gcr.io":                                                "google",
		"eu.gcr.io":                                             "google",

		"public.ecr.aws": "",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com.example.com": "",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com:8443":        "",
		"123456789012.dkr.ecr.evil.example/x.amazonaws.com":        "",
		"12345678901.dkr.ecr.eu-west-1.amazonaws.com":              "",
		"xdkr.ecr.eu-west-1.amazonaws.com":                         "",
		"azurecr.io":                                               "",
		"shop.azurecr.io.example.com":                              "",
		"a.b.c.d.azurecr.io":                                       "",
		"docker.pkg.dev":                                           "",
		"evil-docker.pkg.dev.example.com":                          "",
		"gcr.io.example.com":                                       "",
		"xgcr.io":                                                  "",
		"ghcr.io":                                                  "",
		"":                                                         "",
	} {
		if _, scope := all.source(host); scope != want {
			t.Errorf("%q has the scope %q, want %q", host, scope, want)
		}
		if got := google.Serves(host); got != (want == Google) {
			t.Errorf("only with google: %q is served: %v", host, got)
		}
	}
	if _, err := google.Credential(t.Context(), "acmeshop.azurecr.io"); err == nil || !strings.Contains(err.Error(), "does not belong to a cloud with workload identity enabled") {
		t.Errorf("a registry of another cloud: %v", err)
	}
}

// TestUnknownCloud checks that the error lists the supported clouds.
func TestUnknownCloud(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Clouds: []string{"aws", "gcp"}, Registries: http.DefaultTransport})
	if want := `"gcp" is not a supported cloud: use one of aws, azure, google`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestRefusedAddress checks that the policy for outbound requests applies to hosts that users choose.
func TestRefusedAddress(t *testing.T) {
	t.Parallel()
	err := failed("Amazon ECR", fmt.Errorf("send: %w", &outbound.RefusedError{Host: "x", Why: "it is a loopback address"}))
	if want := "Amazon ECR is not contacted: it is a loopback address"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
