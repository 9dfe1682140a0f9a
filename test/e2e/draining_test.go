//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

const (
	// drain is the drain delay of a service with long requests, and long is the duration of these requests.
	drain = 12 * time.Second
	long  = 8 * time.Second
)

// TestDraining opens a long request and a WebSocket to a release that loses its traffic because of a
// promotion, a rollback, or the end of a preview. Pods have one second to terminate, so deleting a pod before
// the end of its drain would interrupt both.
func TestDraining(t *testing.T) {
	s := newService(t, "draining").steps(asking("half", 50)).drains()
	s.start("1.0.0")
	answers(t, s.host())

	s.push("1.1.0")
	s.weight("1.1.0", 50)
	t.Run("promotion", func(t *testing.T) {
		open := openStreams(t, s.host(), "1.0.0")
		s.decide("1.1.0", v1alpha1.DecisionContinue, "half")
		s.active("1.1.0")
		open.end(t)
	})
	s.push("1.2.0")
	s.weight("1.2.0", 50)
	t.Run("rollback", func(t *testing.T) {
		open := openStreams(t, s.host(), "1.2.0")
		s.decide("1.2.0", v1alpha1.DecisionDeprecate, "")
		s.status("1.2.0", v1alpha1.ReleaseError)
		open.end(t)
		wait(t, "the pods of 1.2.0 to be deleted", func(ctx context.Context) (bool, string, error) {
			pods, err := s.pods(ctx, "1.2.0")
			return len(pods) == 0, fmt.Sprintf("%d pods", len(pods)), err
		})
	})
	t.Run("end of a preview", drainPreview)
}

// drains sets a drain delay within which long requests end, and gives pods one second to terminate after the
// drain delay.
func (s *service) drains() *service {
	second := int64(1)
	s.ms.Spec.Template.Spec.TerminationGracePeriodSeconds = &second
	s.ms.Spec.UpdateStrategy.DrainDelay = v1alpha1.DurationOf(drain)
	return s
}

func drainPreview(t *testing.T) {
	s := newService(t, "drainpreview").drains()
	h := newHub(t, "")
	repo, n, host := s.openPreview(h)
	head := repo.PullRequest(n).HeadSHA
	repo.Close(n, true)
	// GitHub is polled every five seconds. The connections that are opened now, and a second pair of
	// connections, are open when the routes are removed.
	open := []*streams{openStreams(t, host, head[:7])}
	for routed(t, host) {
		time.Sleep(time.Second)
		if s, err := tryStreams(t.Context(), host, head[:7]); err == nil {
			open = append(open, s)
		}
	}
	for _, o := range open {
		o.end(t)
	}
	s.until("the preview to be removed", func(ms *v1alpha1.Microservice) (bool, string) {
		return len(ms.Status.ReleaseGroups) == 0, fmt.Sprintf("%d groups", len(ms.Status.ReleaseGroups))
	})
}

// routed reports whether the gateway has a route for a host.
func routed(t *testing.T, host string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := web().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode != http.StatusNotFound
}

// streams are a long request and a WebSocket to a release.
type streams struct {
	slow   *http.Response
	socket io.ReadWriteCloser
	began  time.Time
}

// openStreams starts a long-running request and opens a WebSocket to a version that gets part of the traffic.
func openStreams(t *testing.T, host, version string) *streams {
	t.Helper()
	var out *streams
	wait(t, "streams on "+version, func(ctx context.Context) (bool, string, error) {
		s, err := tryStreams(t.Context(), host, version)
		out = s
		return err == nil, fmt.Sprint(err), nil
	})
	return out
}

var errOtherVersion = errors.New("another version answered")

func tryStreams(ctx context.Context, host, version string) (*streams, error) {
	s := &streams{}
	var err error
	for range 50 { // Versions alternate by weight.
		if s.slow, err = openSlow(ctx, host, version); err == nil || !errors.Is(err, errOtherVersion) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	s.began = time.Now()
	for range 50 {
		if s.socket, err = openSocket(ctx, host, version); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(err, s.slow.Body.Close())
}

func openSlow(ctx context.Context, host, version string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/slow?seconds=%g", host, long.Seconds()), nil)
	if err != nil {
		return nil, err
	}
	c := web()
	c.Timeout = 0
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if got := res.Header.Get("X-Version"); res.StatusCode != http.StatusOK || got != version {
		return nil, errors.Join(fmt.Errorf("%s by %q: %w", res.Status, got, errOtherVersion), res.Body.Close())
	}
	return res, nil
}

// openSocket opens a WebSocket and sends one message.
func openSocket(ctx context.Context, host, version string) (io.ReadWriteCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/ws", nil)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
	} {
		req.Header.Set(name, value)
	}
	c := web()
	c.Timeout = 0
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	socket, ok := res.Body.(io.ReadWriteCloser)
	if got := res.Header.Get("X-Version"); res.StatusCode != http.StatusSwitchingProtocols || !ok || got != version {
		return nil, errors.Join(fmt.Errorf("WebSocket: %s by %q: %w", res.Status, got, errOtherVersion), res.Body.Close())
	}
	return socket, echo(socket)
}

// echo sends text in a frame, and reads it back. The key consists of zeros, so it does not change the text.
func echo(socket io.ReadWriteCloser) error {
	const text = "hello"
	late := time.AfterFunc(5*time.Second, func() { _ = socket.Close() })
	defer late.Stop()
	if _, err := socket.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	frame := make([]byte, 2+len(text))
	if _, err := io.ReadFull(socket, frame); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if frame[0] != 0x81 || string(frame[2:]) != text {
		return fmt.Errorf("the frame %q is not an echo of %q", frame, text)
	}
	return nil
}

// end reads the long response to its end, and checks that the WebSocket is open until then.
func (s *streams) end(t *testing.T) {
	t.Helper()
	body, err := io.ReadAll(s.slow.Body)
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(body)), "done") {
		t.Errorf("the long response was interrupted after %s: %d bytes, %v", time.Since(s.began).Round(10*time.Millisecond), len(body), err)
	}
	if err := echo(s.socket); err != nil {
		t.Errorf("the WebSocket was interrupted within %s: %v", time.Since(s.began).Round(10*time.Millisecond), err)
	}
	_, _ = s.slow.Body.Close(), s.socket.Close() // An error from a closed connection is not a failure here.
	t.Logf("the long request and the WebSocket were open for %s", time.Since(s.began).Round(10*time.Millisecond))
}
