package harness

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
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Protocol is the protocol of a load. The sample application returns its version over each protocol.
type Protocol string

// These are the protocols of a load.
const (
	// HTTP1 is HTTP/1.1 without TLS. It is the default.
	HTTP1 Protocol = "HTTP/1.1"
	// H2C is HTTP/2 without TLS, over one connection.
	H2C Protocol = "h2c"
	// TLS is HTTP over TLS, to any server that terminates TLS: certificates are not verified.
	TLS Protocol = "TLS"
	// GRPC calls the sample application's service, over one connection without TLS.
	GRPC Protocol = "gRPC"
	// TCP opens a connection for each exchange, sends a line, and reads a line.
	TCP Protocol = "TCP"
	// UDP opens a socket for each exchange, sends a datagram, and reads a datagram. Nothing is retransmitted,
	// so a lost datagram is a failure.
	UDP Protocol = "UDP"
)

// exchange contains the functions of a protocol: ask sends a request and returns its outcome, and close closes the connections.
type exchange struct {
	ask   func(ctx context.Context) Outcome
	close func()
}

// newExchange returns the exchange for a validated configuration.
func newExchange(config LoadConfig) (exchange, error) {
	dial := dialer(config)
	switch config.Protocol {
	case HTTP1, H2C, TLS:
		return newHTTPExchange(config, dial)
	case GRPC:
		return newGRPCExchange(config, dial)
	case TCP:
		return exchange{ask: func(ctx context.Context) Outcome { return askOnce(ctx, config, dial, "tcp") }, close: func() {}}, nil
	case UDP:
		return exchange{ask: func(ctx context.Context) Outcome { return askOnce(ctx, config, dial, "udp") }, close: func() {}}, nil
	}
	return exchange{}, fmt.Errorf("check protocol: %q must be one of HTTP1, H2C, TLS, GRPC, TCP and UDP", config.Protocol)
}

type dialFunc func(ctx context.Context, network string) (net.Conn, error)

// dialer returns a function that connects to the gateway, regardless of the host.
func dialer(config LoadConfig) dialFunc {
	d := &net.Dialer{Timeout: config.Timeout}
	return func(ctx context.Context, network string) (conn net.Conn, err error) {
		if config.Network == "" {
			return d.DialContext(ctx, network, config.Gateway)
		}
		inside := within(config.Network, func() error {
			conn, err = d.DialContext(ctx, network, config.Gateway)
			return nil
		})
		if inside != nil {
			return nil, inside
		}
		return conn, err
	}
}

func newHTTPExchange(config LoadConfig, dial dialFunc) (exchange, error) {
	scheme := "http"
	protocols := new(http.Protocols)
	protocols.SetHTTP1(config.Protocol != H2C)
	protocols.SetUnencryptedHTTP2(config.Protocol == H2C)
	if config.Protocol == TLS {
		scheme = "https"
	}
	target, err := url.Parse(scheme + "://" + config.Host + config.Path)
	if err != nil {
		return exchange{}, fmt.Errorf("parse host and path: %w", err)
	}
	transport := &http.Transport{ // There is no Proxy, because environment variables must not redirect the load.
		DialContext:         func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network) },
		Protocols:           protocols,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // Nothing is secret, and pods have self-signed certificates.
		DisableKeepAlives:   config.NoKeepAlive,
		MaxIdleConnsPerHost: maxInFlight,
		IdleConnTimeout:     30 * time.Second,
	}
	client := &http.Client{
		Timeout:       config.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     transport,
	}
	ask := func(ctx context.Context) Outcome {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
		if err != nil {
			return Outcome{Failure: err.Error()}
		}
		if config.Header != nil {
			request.Header = config.Header.Clone()
		}
		response, err := client.Do(request)
		if err != nil {
			return Outcome{Failure: err.Error()}
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer))
		return judge(response.StatusCode, response.Header.Get("X-Version"), err)
	}
	return exchange{ask: ask, close: client.CloseIdleConnections}, nil
}

// newGRPCExchange returns an exchange that reconnects immediately after a lost connection, because a load acts as a
// single client.
func newGRPCExchange(config LoadConfig, dial dialFunc) (exchange, error) {
	conn, err := grpc.NewClient("passthrough:///"+config.Host,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, "tcp") }),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: config.Timeout,
		}))
	if err != nil {
		return exchange{}, fmt.Errorf("create gRPC client: %w", err)
	}
	ask := func(ctx context.Context) Outcome {
		ctx, cancel := context.WithTimeout(ctx, config.Timeout)
		defer cancel()
		for name, values := range config.Header {
			for _, value := range values {
				ctx = metadata.AppendToOutgoingContext(ctx, name, value)
			}
		}
		answer := new(wrapperspb.StringValue)
		if err := conn.Invoke(ctx, "/sampleapp.v1.Version/Get", new(emptypb.Empty), answer); err != nil {
			return Outcome{Failure: err.Error()}
		}
		return outcomeOf("", answer.Value)
	}
	return exchange{ask: ask, close: func() { _ = conn.Close() }}, nil
}

// askOnce sends a request over a new connection or socket, and reads a line such as "shop 1.1.0".
func askOnce(ctx context.Context, config LoadConfig, dial dialFunc, network string) Outcome {
	conn, err := dial(ctx, network)
	if err != nil {
		return Outcome{Failure: err.Error()}
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(config.Timeout)); err != nil {
		return Outcome{Failure: err.Error()}
	}
	if _, err := fmt.Fprintln(conn, "version"); err != nil {
		return Outcome{Failure: err.Error()}
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return Outcome{Failure: fmt.Sprintf("response %q was incomplete: %v", line, err)}
	}
	_, version, _ := strings.Cut(strings.TrimSpace(line), " ")
	return outcomeOf(line, version)
}

// outcomeOf returns the outcome for a protocol without a status.
func outcomeOf(answer, version string) Outcome {
	if version == "" {
		return Outcome{Failure: fmt.Sprintf("response %q without a version", answer)}
	}
	return Outcome{Version: version}
}

// judge returns the outcome of a response. A response is successful if it is complete, has a status of 200 to 399, and
// comes from an application that reports its version.
func judge(status int, version string, readErr error) Outcome {
	outcome := Outcome{Version: version, Status: status}
	switch {
	case readErr != nil:
		outcome.Failure = fmt.Sprintf("the response with status %d was incomplete: %v", status, readErr)
	case status < 200 || status > 399:
		outcome.Failure = fmt.Sprintf("status %d", status)
	case version == "":
		outcome.Failure = fmt.Sprintf("status %d without X-Version", status)
	}
	return outcome
}
