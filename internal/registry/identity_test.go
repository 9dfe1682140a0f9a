package registry

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// passwords is an identity whose password can be changed.
type passwords struct {
	mu       sync.Mutex
	password string
	err      error
	asked    []string
}

func (p *passwords) set(password string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.password, p.err = password, err
}

// Serves returns true for each registry.
func (p *passwords) Serves(string) bool { return true }

// Credential returns the current password.
func (p *passwords) Credential(_ context.Context, host string) (Credential, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, host)
	return Credential{Username: "cloud", Password: p.password}, p.err
}

// TestWorkloadIdentity checks that the credential is requested when it is needed, so that an expired credential is replaced. If there is no credential, the
// result is a temporary error, and never a request without a credential.
func TestWorkloadIdentity(t *testing.T) {
	t.Parallel()
	for name, require := range map[string]func(*registrytest.Server, string, string){"basic": (*registrytest.Server).RequireBasic, "bearer": (*registrytest.Server).RequireBearer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, clock, identity := registrytest.New(t), newClock(), &passwords{password: "first"}
			server.SetTags("acme/web", []string{"1.0.0"})
			require(server, "cloud", "first")
			scanner := New(Options{Outbound: registrytest.Outbound(), Clock: clock, Backoff: fast, Identity: identity})
			r := Request{Repository: server.Repository("acme/web"), Auth: Credential{WorkloadIdentity: true}}
			list := func() error {
				clock.Step(time.Hour)
				_, err := scanner.List(t.Context(), r)
				return err
			}
			if err := list(); err != nil {
				t.Fatal(err)
			}
			if identity.asked[0] != server.Host() {
				t.Errorf("asked for %q", identity.asked[0])
			}
			require(server, "cloud", "second")
			if err := list(); KindOf(err) != Unauthorized || !strings.Contains(err.Error(), "the workload identity of the manager is not allowed to read the repository") {
				t.Errorf("with an expired password: %v", err)
			}
			identity.set("second", nil)
			if err := list(); err != nil {
				t.Errorf("with the new password: %v", err)
			}
			identity.set("", errors.New("Cloud responds with 503"))
			requests := server.Requests(registrytest.List)
			scanner = New(Options{Outbound: registrytest.Outbound(), Clock: clock, Backoff: fast, Identity: identity})
			err := list()
			if KindOf(err) != WorkloadIdentityFailed || !KindOf(err).Transient() || !strings.Contains(err.Error(), "Cloud responds with 503") {
				t.Errorf("without a credential: %v", err)
			}
			if server.Requests(registrytest.List) != requests {
				t.Error("a request was sent without a credential")
			}
			identity.set("second", nil)
			if err := list(); err != nil {
				t.Errorf("with a credential again: %v", err)
			}
			// A request with another credential does not receive the cached response.
			if _, err := scanner.List(t.Context(), Request{Repository: r.Repository, MaxAge: 24 * time.Hour}); KindOf(err) != Unauthorized {
				t.Errorf("anonymous: %v", err)
			}
		})
	}
}

// plaintext is a network in which HTTPS fails and plain HTTP works.
type plaintext struct{ sent []string }

func (p *plaintext) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return nil, errors.New("connection reset")
	}
	if a := r.Header.Get("Authorization"); a != "" {
		p.sent = append(p.sent, r.URL.String()+" "+a)
	}
	return &http.Response{
		StatusCode: http.StatusUnauthorized, Body: http.NoBody, Request: r,
		Header: http.Header{"Www-Authenticate": {`Basic realm="x"`}, "Docker-Distribution-Api-Version": {"registry/2.0"}},
	}, nil
}

// TestIdentityOverHTTPSOnly checks that the credential of the manager's workload identity is sent only over HTTPS, even if a user sets spec.insecure for
// their own registry.
func TestIdentityOverHTTPSOnly(t *testing.T) {
	t.Parallel()
	network := &plaintext{}
	scanner := New(Options{Outbound: registrytest.Outbound(), Clock: newClock(), Backoff: fast, Transport: network, Identity: &passwords{password: "token"}})
	_, err := scanner.List(t.Context(), Request{Repository: "europe-west1-docker.pkg.dev/acme/web/shop", Insecure: true, Auth: Credential{WorkloadIdentity: true}})
	if err == nil || len(network.sent) > 0 {
		t.Errorf("the credential of the manager was sent over plain HTTP: %v (%v)", network.sent, err)
	}
}
