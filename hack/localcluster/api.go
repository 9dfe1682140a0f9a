package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// api is a client that reads the objects for health checks from the cluster's API server.
type api struct {
	client *http.Client
	server string
}

// newAPI returns a client with the permissions of admin, for use on the host.
func newAPI(c *Config) (*api, error) {
	return newAPIAs("admin", fmt.Sprintf("https://127.0.0.1:%d", c.Ports.API), c.path("pki"))
}

// newAPIAs returns a client for a server. The client uses the certificate of the given identity, which it
// reads from folder.
func newAPIAs(identity, server, folder string) (*api, error) {
	authority, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	certificate, err := tls.LoadX509KeyPair(filepath.Join(folder, identity+".crt"), filepath.Join(folder, identity+".key"))
	if err != nil {
		return nil, fmt.Errorf("read certificate of %s: %w", identity, err)
	}
	return &api{
		server: server,
		client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}},
		}},
	}, nil
}

func (a *api) get(ctx context.Context, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+path, nil)
	if err != nil {
		return fmt.Errorf("get %s: %w", path, err)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return fmt.Errorf("get %s: %w", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("get %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", path, response.Status)
	}
	return unmarshal(body, out)
}

// conditioned is an object with conditions.
type conditioned struct {
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type condition struct{ Type, Status, Reason, Message string }

// vital lists the conditions that must be True in a healthy cluster, and the paths of their objects.
var vital = []struct{ path, condition string }{
	{"/api/v1/nodes/" + nodeName, "Ready"},
	{"/apis/gateway.networking.k8s.io/v1/gatewayclasses/traefik", "Accepted"},
	{"/apis/gateway.networking.k8s.io/v1/namespaces/infra/gateways/public", "Programmed"},
	{"/apis/gateway.networking.k8s.io/v1/namespaces/infra/gateways/edge", "Programmed"},
}

// healthy returns nil if the cluster is healthy. Otherwise, it returns an error that describes the first failed
// check.
func (a *api) healthy(ctx context.Context) error {
	for _, v := range vital {
		var object conditioned
		if err := a.get(ctx, v.path, &object); err != nil {
			return err
		}
		i := slices.IndexFunc(object.Status.Conditions, func(c condition) bool { return c.Type == v.condition })
		if i < 0 {
			return fmt.Errorf("%s: no condition %s yet", v.path, v.condition)
		}
		if c := object.Status.Conditions[i]; c.Status != "True" {
			return fmt.Errorf("%s: %s is %s: %s: %s", v.path, v.condition, c.Status, c.Reason, c.Message)
		}
	}
	return nil
}

// awaitHealthy waits until the cluster is healthy.
func (a *api) awaitHealthy(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := errors.New("no check has been made yet")
	for {
		err := a.healthy(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for a healthy cluster: %w", last)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// awaitRoutes waits until a restarted gateway serves routes, if there are any. Until then, the gateway
// responds with 404 to all requests except pings.
func (c *Config) awaitRoutes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	api, err := newAPI(c)
	if err != nil {
		return err
	}
	gateway := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer(c.path("netns"))}}
	for {
		served, err := routesServed(ctx, api, gateway)
		if served {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the gateway's routes: %w", errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// routesServed reports whether the gateway serves routes. If no route is accepted, the result is also true.
func routesServed(ctx context.Context, api *api, gateway *http.Client) (bool, error) {
	var wanted struct {
		Items []struct {
			Status struct {
				Parents []struct{ Conditions []condition }
			}
		}
	}
	if err := api.get(ctx, "/apis/gateway.networking.k8s.io/v1/httproutes", &wanted); err != nil {
		return false, err
	}
	accepted := false
	for _, route := range wanted.Items {
		for _, parent := range route.Status.Parents {
			accepted = accepted || slices.ContainsFunc(parent.Conditions, func(c condition) bool {
				return c.Type == "Accepted" && c.Status == "True"
			})
		}
	}
	if !accepted {
		return true, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gatewayAPI+"/api/http/routers?per_page=1000", nil)
	if err != nil {
		return false, fmt.Errorf("call gateway: %w", err)
	}
	response, err := gateway.Do(request)
	if err != nil {
		return false, fmt.Errorf("call gateway: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return false, fmt.Errorf("call gateway: %w", err)
	}
	var routers []struct{ Provider string }
	if err := unmarshal(body, &routers); err != nil {
		return false, err
	}
	return slices.ContainsFunc(routers, func(r struct{ Provider string }) bool { return r.Provider == "kubernetesgateway" }), nil
}

// kubectl runs the cluster's own kubectl as admin.
func (c *Config) kubectl(ctx context.Context, input string, arguments ...string) error {
	command := exec.CommandContext(ctx, c.path("bin", "kubectl"), append([]string{"--kubeconfig", c.kubeconfig()}, arguments...)...)
	command.Env = append(os.Environ(), "KUBECACHEDIR="+c.path("kubectl-cache"))
	command.Stdin = strings.NewReader(input)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("run kubectl %s: %w: %s", arguments[0], err, lastLines(string(output), 5))
	}
	return nil
}
