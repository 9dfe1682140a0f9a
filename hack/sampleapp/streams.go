package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// maxSlow limits the duration of GET /slow.
	maxSlow = 10 * time.Minute
	// beat is the time between two bytes of GET /slow.
	beat = 100 * time.Millisecond
	// idleLine is the maximum time that a TCP connection may wait for its next line.
	idleLine = 5 * time.Minute
	// maxLine is the maximum length of a TCP line and of a datagram, in bytes.
	maxLine = 4 << 10
)

// drain stops a server from accepting connections, and waits until the open connections are closed or ctx is done.
type drain func(ctx context.Context) error

// slow writes one byte in each beat for the requested number of seconds, and ends with "done".
func (a *App) slow(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.ParseFloat(r.URL.Query().Get("seconds"), 64)
	if err != nil || !(seconds >= 0 && seconds <= maxSlow.Seconds()) { // This form of the condition rejects NaN.
		http.Error(w, fmt.Sprintf("check seconds: must be 0 to %g, not %q", maxSlow.Seconds(), r.URL.Query().Get("seconds")), http.StatusBadRequest)
		return
	}
	flush := http.NewResponseController(w)
	for range int(seconds * float64(time.Second) / float64(beat)) {
		_, _ = w.Write([]byte{'.'}) // A write fails only if the client has disconnected, which wait detects.
		_ = flush.Flush()
		if !wait(r, beat) {
			return
		}
	}
	_, _ = fmt.Fprintln(w, "done")
}

// sockets records the open WebSockets, because the HTTP server does not track hijacked connections.
type sockets struct {
	mu   sync.Mutex
	open map[*websocket.Conn]struct{}
	left sync.WaitGroup
}

func (s *sockets) add(conn *websocket.Conn) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*websocket.Conn]struct{}{}
	}
	s.open[conn] = struct{}{}
	s.left.Add(1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, conn)
		s.left.Done()
	}
}

// drain waits until clients have closed their WebSockets. It closes the remaining WebSockets when ctx is done.
func (s *sockets) drain(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); s.left.Wait() }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	goingAway := websocket.FormatCloseMessage(websocket.CloseGoingAway, "shutting down")
	for conn := range s.open {
		_ = conn.WriteControl(websocket.CloseMessage, goingAway, time.Now().Add(time.Second))
		_ = conn.Close()
	}
	return fmt.Errorf("%d WebSockets were open: %w", len(s.open), ctx.Err())
}

// echo sends back each message of a WebSocket. The response to the handshake contains the version in X-Version.
func (a *App) echo(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }} // The content is public.
	conn, err := upgrader.Upgrade(w, r, http.Header{"X-Version": {a.config.Version}, "X-Release": {a.config.Release}})
	if err != nil {
		return // The upgrader has written a response.
	}
	defer conn.Close()
	defer a.sockets.add(conn)()
	conn.SetReadLimit(maxLine)
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if err := conn.WriteMessage(kind, message); err != nil {
			return
		}
	}
}

// serveTCP responds to each line with a line that contains the application's name and version.
func (a *App) serveTCP(listener net.Listener, failed chan<- error) drain {
	stopping, under := make(chan struct{}), sync.WaitGroup{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				failed <- err
				return
			}
			under.Go(func() { a.lines(conn, stopping) })
		}
	}()
	return func(ctx context.Context) error {
		_ = listener.Close()
		close(stopping)
		return awaited(ctx, &under, "TCP connections")
	}
}

// lines serves a connection until the client closes it. When the application stops, lines closes the connection after the next response.
func (a *App) lines(conn net.Conn, stopping <-chan struct{}) {
	defer conn.Close()
	scanner := bufio.NewScanner(conn)
	scanner.Buffer(nil, maxLine)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(idleLine))
		if !scanner.Scan() {
			return
		}
		if _, err := fmt.Fprintf(conn, "%s %s\n", a.config.App, a.config.Version); err != nil {
			return
		}
		select {
		case <-stopping:
			return
		default:
		}
	}
}

func awaited(ctx context.Context, group *sync.WaitGroup, what string) error {
	done := make(chan struct{})
	go func() { defer close(done); group.Wait() }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s were open: %w", what, ctx.Err())
	}
}

// serveUDP responds to each datagram with a datagram that contains the application's name and version.
func (a *App) serveUDP(conn net.PacketConn, failed chan<- error) drain {
	go func() {
		answer, question := fmt.Appendf(nil, "%s %s\n", a.config.App, a.config.Version), make([]byte, maxLine)
		for {
			_, from, err := conn.ReadFrom(question)
			if err != nil {
				failed <- err
				return
			}
			_, _ = conn.WriteTo(answer, from) // Errors are ignored, because the client may have exited.
		}
	}()
	return func(context.Context) error { return conn.Close() }
}

// selfSigned returns a configuration with a certificate for any requested name. The common name contains the
// application's name and version, so that a client can see that the pod, and not the gateway, responded.
func (a *App) selfSigned() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return &tls.Config{
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if hello.ServerName == "" {
				return nil, errors.New("the client sent no SNI: set the server name in the client")
			}
			serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
			if err != nil {
				return nil, err
			}
			template := &x509.Certificate{
				SerialNumber: serial,
				Subject:      pkix.Name{CommonName: a.config.App + " " + a.config.Version},
				DNSNames:     []string{hello.ServerName},
				NotBefore:    time.Now().Add(-time.Hour),
				NotAfter:     time.Now().Add(24 * time.Hour),
				KeyUsage:     x509.KeyUsageDigitalSignature,
				ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			}
			raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, err
		},
	}, nil
}
