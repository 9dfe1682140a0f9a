package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is an in-memory listener, which lets the whole server run on the test's clock.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// client returns a client for the server of p. It uses HTTP/1.1 or, if h2c is true, HTTP/2.
func (p pipes) client(h2c bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2c)
	protocols.SetUnencryptedHTTP2(h2c)
	return &http.Client{Transport: &http.Transport{
		Protocols: protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			p <- theirs
			return ours, nil
		},
	}}
}

func get(t *testing.T, client *http.Client, path string) *http.Response {
	t.Helper()
	response, err := client.Get("http://shop.localhost" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response
}

func TestShutdownKeepsServingThenDrains(t *testing.T) {
	for name, h2c := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, terminate := context.WithCancel(t.Context())
				listener, ended := make(pipes), make(chan error, 1)
				config := Config{Identity: identity, Port: 8080, ShutdownDelay: 3 * time.Second, DrainTimeout: 10 * time.Second}
				go func() {
					ended <- Run(ctx, config, Listen{TCP: func(int) (net.Listener, error) { return listener, nil }})
				}()
				client := listener.client(h2c)
				defer client.CloseIdleConnections()

				if before := get(t, client, "/readyz"); before.StatusCode != 200 || before.Proto != name || before.Close {
					t.Fatalf("before the signal: %d over %s, close=%t", before.StatusCode, before.Proto, before.Close)
				}
				terminate()
				signalled := time.Now()
				synctest.Wait()

				if ready := get(t, client, "/readyz"); ready.StatusCode != 503 {
					t.Errorf("readiness after the signal is %d, want 503", ready.StatusCode)
				}
				if still := get(t, client, "/"); still.StatusCode != 200 || (!h2c && !still.Close) {
					t.Errorf("request during the shutdown delay: %d, close=%t; want 200 and close=true", still.StatusCode, still.Close)
				}
				time.Sleep(2 * time.Second) // This request begins during the delay and ends after it.
				if slow := get(t, client, "/?latency=5s"); slow.StatusCode != 200 {
					t.Errorf("request in progress at the end of the delay: %d, want 200", slow.StatusCode)
				}
				if err := <-ended; err != nil {
					t.Errorf("run: %v", err)
				}
				if took := time.Since(signalled); took < 7*time.Second || took > 8*time.Second {
					t.Errorf("stopped %s after the signal, want 7s, when the last response was sent", took)
				}
			})
		})
	}
}

func TestRunCrashesOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, listener := time.Now(), make(pipes)
		config := Config{Port: 8080, StartDelay: 5 * time.Second, ExitAfter: After{On: true, Delay: 10 * time.Second}}
		err := Run(t.Context(), config, Listen{TCP: func(int) (net.Listener, error) { return listener, nil }})
		if err == nil || time.Since(began) != 15*time.Second {
			t.Errorf("stopped after %s with %v, want an error after 15s", time.Since(began), err)
		}
	})
}

func TestRunListensAfterStartDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, terminate := context.WithTimeout(t.Context(), 4*time.Second)
		defer terminate()
		err := Run(ctx, Config{Port: 8080, StartDelay: 5 * time.Second}, Listen{TCP: func(int) (net.Listener, error) {
			t.Error("listened before the start delay passed")
			return nil, net.ErrClosed
		}})
		if err != nil {
			t.Errorf("a signal during startup resulted in %v, want a clean shutdown", err)
		}
	})
}
