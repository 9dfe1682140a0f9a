package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// PartState is the state of one part, as recorded by the supervisor.
type PartState struct {
	Name    string    `json:"name"`
	PID     int       `json:"pid,omitempty"`
	Address string    `json:"address"`
	Started time.Time `json:"started"`
	Starts  int       `json:"starts"`
	// Running is true while the process is alive.
	Running bool `json:"running"`
	// Exit describes how the process exited. It is empty while the process is running.
	Exit string `json:"exit,omitempty"`
}

// State is the state that the supervisor records in parts.json and returns on its socket.
type State struct {
	Supervisor int         `json:"supervisor"`
	Parts      []PartState `json:"parts"`
}

// dead returns the names of the parts that are not running.
func (s State) dead() []string {
	var names []string
	for _, p := range s.Parts {
		if !p.Running {
			names = append(names, p.Name)
		}
	}
	return names
}

// part returns the state of a part.
func (s State) part(name string) (PartState, bool) {
	for _, p := range s.Parts {
		if p.Name == name {
			return p, true
		}
	}
	return PartState{}, false
}

// control sends requests to the supervisor through its socket.
type control struct{ client *http.Client }

func newControl(c *Config) *control {
	socket := c.path("control.sock")
	return &control{client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// state returns the state of all parts.
func (c *control) state(ctx context.Context) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var s State
	err := c.do(ctx, http.MethodGet, "/parts", &s)
	return s, err
}

// start starts a part unless the part is running, and waits until the part is ready.
func (c *control) start(ctx context.Context, part string) error {
	return c.do(ctx, http.MethodPost, "/parts/"+part+"/start", nil)
}

// stop stops a part with SIGTERM, or with SIGKILL if the part is still running after five seconds.
func (c *control) stop(ctx context.Context, part string) error {
	return c.do(ctx, http.MethodPost, "/parts/"+part+"/stop", nil)
}

func (c *control) do(ctx context.Context, method, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, nil)
	if err != nil {
		return fmt.Errorf("call supervisor: %w", err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return fmt.Errorf("call supervisor: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("call supervisor: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", bytes.TrimSpace(body))
	}
	if out == nil {
		return nil
	}
	return unmarshal(body, out)
}

func unmarshal(data []byte, out any) error {
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decode response: %w", err)
	}
	return nil
}
