package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// running is an application that listens on loopback, with the address of each of its ports.
type running struct {
	addresses map[int]string // The addresses, by configured port.
	terminate func()
	ended     chan error
}

// start starts an application on free ports. The application stops at the end of the test.
func start(t *testing.T, shutdown, drain time.Duration) *running {
	t.Helper()
	ctx, terminate := context.WithCancel(context.Background())
	r := &running{addresses: map[int]string{}, terminate: terminate, ended: make(chan error, 1)}
	opened := make(chan struct{}, 5)
	listen := Listen{
		TCP: func(port int) (net.Listener, error) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err == nil {
				r.addresses[port] = listener.Addr().String()
			}
			opened <- struct{}{}
			return listener, err
		},
		UDP: func(port int) (net.PacketConn, error) {
			conn, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err == nil {
				r.addresses[port] = conn.LocalAddr().String()
			}
			opened <- struct{}{}
			return conn, err
		},
	}
	config := Config{Identity: identity, Port: 1, GRPCPort: 2, TCPPort: 3, TLSPort: 4, UDPPort: 5, ShutdownDelay: shutdown, DrainTimeout: drain}
	go func() { r.ended <- Run(ctx, config, listen); close(r.ended) }()
	for range 5 {
		<-opened
	}
	t.Cleanup(func() { terminate(); <-r.ended })
	return r
}

func TestEveryProtocolShowsTheVersion(t *testing.T) {
	r := start(t, 0, 5*time.Second)
	for name, ask := range map[string]func() (string, error){
		"gRPC": func() (string, error) {
			conn, err := grpc.NewClient("passthrough:///"+r.addresses[2], grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return "", err
			}
			defer conn.Close()
			var header metadata.MD
			answer := new(wrapperspb.StringValue)
			if err := conn.Invoke(t.Context(), "/sampleapp.v1.Version/Get", new(emptypb.Empty), answer, grpc.Header(&header)); err != nil {
				return "", err
			}
			if got := header.Get("x-version"); len(got) != 1 || got[0] != "1.1.0" {
				return "", fmt.Errorf("x-version is %q", got)
			}
			return "shop " + answer.Value, nil
		},
		"TCP, the second line": func() (string, error) {
			conn, err := net.Dial("tcp", r.addresses[3])
			if err != nil {
				return "", err
			}
			defer conn.Close()
			if _, err := fmt.Fprint(conn, "one\ntwo\n"); err != nil {
				return "", err
			}
			answers := bufio.NewReader(conn)
			if _, err := answers.ReadString('\n'); err != nil {
				return "", err
			}
			return answers.ReadString('\n')
		},
		"UDP": func() (string, error) {
			conn, err := net.Dial("udp", r.addresses[5])
			if err != nil {
				return "", err
			}
			defer conn.Close()
			if _, err := fmt.Fprint(conn, "hello"); err != nil {
				return "", err
			}
			answer := make([]byte, 100)
			n, err := conn.Read(answer)
			return string(answer[:n]), err
		},
		"TLS": func() (string, error) {
			web := &http.Transport{
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, r.addresses[4])
				},
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
					if name := s.PeerCertificates[0].Subject.CommonName; name != "shop 1.1.0" {
						return fmt.Errorf("the certificate is for %q", name)
					}
					return s.PeerCertificates[0].VerifyHostname("tls.shop.localhost")
				}},
			}
			defer web.CloseIdleConnections()
			response, err := (&http.Client{Transport: web}).Get("https://tls.shop.localhost/")
			if err != nil {
				return "", err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			return string(body), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask()
			if strings.TrimSpace(got) != "shop 1.1.0" || err != nil {
				t.Errorf("the response is %q, %v", got, err)
			}
		})
	}
}

// open opens a WebSocket and sends one message.
func open(t *testing.T, address string) *websocket.Conn {
	t.Helper()
	target := url.URL{Scheme: "ws", Host: address, Path: "/ws"}
	conn, response, err := websocket.DefaultDialer.DialContext(t.Context(), target.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if got := response.Header.Get("X-Version"); got != "1.1.0" {
		t.Errorf("X-Version of the handshake is %q", got)
	}
	echoes(t, conn)
	return conn
}

func echoes(t *testing.T, conn *websocket.Conn) {
	t.Helper()
	if err := conn.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := conn.ReadMessage(); err != nil || string(got) != "hello" {
		t.Fatalf("echo is %q, %v", got, err)
	}
}

func TestShutdownLetsStreamsEnd(t *testing.T) {
	r := start(t, 0, 30*time.Second)
	conn := open(t, r.addresses[1])
	lines, err := net.Dial("tcp", r.addresses[3])
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	slow, err := http.Get("http://" + r.addresses[1] + "/slow?seconds=1")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Body.Close()
	r.terminate()
	if body, err := io.ReadAll(slow.Body); err != nil || string(body) != "..........done\n" {
		t.Errorf("the slow response is %q, %v", body, err)
	}
	echoes(t, conn)
	if _, err := fmt.Fprintln(lines, "last"); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(lines); err != nil || string(got) != "shop 1.1.0\n" {
		t.Errorf("the response to the last line is %q, %v", got, err)
	}
	conn.Close()
	if err := <-r.ended; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestShutdownClosesRemainingConnections(t *testing.T) {
	r := start(t, 0, 50*time.Millisecond)
	conn := open(t, r.addresses[1])
	r.terminate()
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("the WebSocket was closed with %v, want the code for a server that is going away", err)
	}
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "1 WebSockets were open") {
		t.Errorf("run: %v, want an error about the WebSocket", err)
	}
}
