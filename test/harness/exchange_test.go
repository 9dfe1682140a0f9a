package harness

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestProtocols tests each protocol with a server that returns its version and with a server that does not.
func TestProtocols(t *testing.T) {
	for protocol, serve := range map[Protocol]func(t *testing.T, version string) (address string){
		HTTP1: func(t *testing.T, version string) string { return web(t, version, 1, false) },
		H2C:   func(t *testing.T, version string) string { return web(t, version, 2, false) },
		TLS:   func(t *testing.T, version string) string { return web(t, version, 1, true) },
		GRPC:  calls,
		TCP:   lines,
		UDP:   datagrams,
	} {
		t.Run(string(protocol), func(t *testing.T) {
			for _, version := range []string{"1.1.0", ""} {
				load, err := StartLoad(t.Context(), LoadConfig{
					Protocol: protocol, Gateway: serve(t, version), Host: "shop.localhost", Rate: 100, Count: 5, Timeout: 30 * time.Second,
				})
				if err != nil {
					t.Fatal(err)
				}
				report := load.Wait()
				good := 0
				if version != "" {
					good = 5
				}
				if report.Total.Versions[version].Answered != good || report.Total.Failed != 5-good {
					t.Errorf("version %q: %+v, failures %v", version, report.Total.Counts, report.Failures)
				}
			}
		})
	}
}

func web(t *testing.T, version string, major int, encrypted bool) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.localhost" || r.ProtoMajor != major {
			http.Error(w, "wrong request", http.StatusTeapot)
			return
		}
		w.Header().Set("X-Version", version)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	if encrypted {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func calls(t *testing.T, version string) string {
	t.Helper()
	get := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		return wrapperspb.String(version), decode(new(emptypb.Empty))
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "sampleapp.v1.Version", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Get", Handler: get}},
	}, nil)
	listener := listen(t)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func lines(t *testing.T, version string) string {
	t.Helper()
	listener := listen(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
				fmt.Fprintf(conn, "shop %s\n", version)
			}
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

func datagrams(t *testing.T, version string) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		question := make([]byte, 100)
		for {
			_, from, err := conn.ReadFrom(question)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(fmt.Appendf(nil, "shop %s\n", version), from)
		}
	}()
	return conn.LocalAddr().String()
}

func TestUnknownProtocolIsRefused(t *testing.T) {
	_, err := StartLoad(t.Context(), LoadConfig{Protocol: "QUIC", Gateway: "127.0.0.1:1", Host: "shop.localhost", Rate: 1, Count: 1})
	if err == nil || !strings.Contains(err.Error(), `"QUIC" must be one of`) {
		t.Errorf("error is %v", err)
	}
}
