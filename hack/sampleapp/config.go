package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxLatency is the maximum added latency that can be set in the configuration, at runtime, or for a
// single request.
const maxLatency = 30 * time.Second

// Identity describes the application in its responses.
type Identity struct {
	App     string `json:"app"`
	Version string `json:"version"`
	Release string `json:"release"`
	Group   string `json:"group"`
	Pod     string `json:"pod"`
}

// Config is the configuration of the application. Every field is set by a flag or by an environment variable, which
// has the name of the flag in upper case (start-delay is START_DELAY). The flag takes precedence.
type Config struct {
	Identity

	// Port is the port for HTTP on all addresses, from 1 to 65535. Defaults to 8080.
	Port int
	// GRPCPort, TCPPort, UDPPort and TLSPort are the ports of these protocols, from 0 to 65535; 0 disables a protocol. They
	// default to 8081, 9000, 9000 and 8443.
	GRPCPort, TCPPort, UDPPort, TLSPort int
	// StartDelay is the time before the application listens. Defaults to 0.
	StartDelay time.Duration
	// FailReadiness is the time from which /readyz responds with 503. Defaults to never.
	FailReadiness After
	// ExitAfter is the time at which the process exits with an error. Defaults to never.
	ExitAfter After
	// ErrorRate is the share of requests that get a 500 response, from 0 to 1. Defaults to 0.
	ErrorRate float64
	// Latency is a delay from 0 to 30s that is added to all responses except those for health checks and metrics. Defaults to 0.
	Latency time.Duration
	// ShutdownDelay is how long the application serves requests after SIGTERM while readiness fails. Defaults to 3s.
	ShutdownDelay time.Duration
	// DrainTimeout limits the wait for requests in progress after ShutdownDelay. Defaults to 10s.
	DrainTimeout time.Duration
	// NoMetrics makes /metrics respond with 404, as an application without metrics does. Defaults to false.
	NoMetrics bool
	// Control enables POST /control. Defaults to false.
	Control bool
	// JobURL makes the process run as the Job of a hook and report to this URL, instead of serving. Defaults to empty.
	JobURL string
	// JobDuration is how long the Job runs, or how long a worker works on each job. Defaults to 0.
	JobDuration time.Duration
	// Queue is the URL of a Redis server from which the application takes jobs, such as redis://127.0.0.1:6379. Defaults to empty, which means no jobs.
	Queue string
	// QueueName is the name of the stream that contains the jobs. Defaults to jobs.
	QueueName string
	// Database is the URL of a PostgreSQL database, such as postgres://user:password@127.0.0.1:5432/shop. Each GET /visits adds a row
	// to the visits table in Schema. The application is ready when it can read this table. Database defaults to empty, which means no
	// database.
	Database, Schema string
	// JobSQL makes the process run as the Job of a hook that creates or drops Schema. Its value is create or drop. Defaults to
	// empty.
	JobSQL string
}

// After is the time at which a fault begins, counted from when the application starts listening. The zero
// value means never.
type After struct {
	On    bool
	Delay time.Duration
}

// Set parses "true" (from the start), "false" (never) or a duration such as 30s.
func (a *After) Set(text string) error {
	if on, err := strconv.ParseBool(text); err == nil {
		*a = After{On: on}
		return nil
	}
	delay, err := time.ParseDuration(text)
	if err != nil || delay < 0 {
		return fmt.Errorf("must be true, false, or a duration that is not negative, such as 30s; not %q", text)
	}
	*a = After{On: true, Delay: delay}
	return nil
}

// String returns a string that Set accepts.
func (a After) String() string {
	if a.On && a.Delay > 0 {
		return a.Delay.String()
	}
	return strconv.FormatBool(a.On)
}

// Begun reports whether the fault has begun after the elapsed time.
func (a After) Begun(elapsed time.Duration) bool {
	return a.On && elapsed >= a.Delay
}

// downwardAPI are the environment variables whose names differ from the names of the flags, because a pod gets
// their values from its labels.
var downwardAPI = map[string]string{"release": "HLNR_RELEASE", "group": "HLNR_GROUP"}

func variableOf(flagName string) string {
	if name, ok := downwardAPI[flagName]; ok {
		return name
	}
	return strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// ParseConfig reads the environment and then the arguments, which take precedence. For --help, it writes the
// help to out and returns flag.ErrHelp.
func ParseConfig(args []string, getenv func(string) string, out io.Writer) (Config, error) {
	var c Config
	flags := flag.NewFlagSet("sampleapp", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // The caller reports errors.
	flags.StringVar(&c.App, "app", "shop", "`name` in responses")
	flags.StringVar(&c.Version, "version", "0.0.0", "`version` in responses")
	flags.StringVar(&c.Release, "release", "", "`name` of the release that the pod belongs to")
	flags.StringVar(&c.Group, "group", "", "`name` of the group that the pod belongs to")
	flags.StringVar(&c.Pod, "pod-name", "", "`name` of the pod")
	flags.IntVar(&c.Port, "port", 8080, "`port` to listen on for HTTP, from 1 to 65535")
	flags.IntVar(&c.GRPCPort, "grpc-port", 8081, "`port` to listen on for gRPC; 0 disables gRPC")
	flags.IntVar(&c.TCPPort, "tcp-port", 9000, "`port` to listen on for lines over TCP; 0 disables TCP")
	flags.IntVar(&c.UDPPort, "udp-port", 9000, "`port` to listen on for datagrams; 0 disables UDP")
	flags.IntVar(&c.TLSPort, "tls-port", 8443, "`port` to listen on for HTTP over TLS; 0 disables TLS")
	flags.DurationVar(&c.StartDelay, "start-delay", 0, "time before the application listens")
	flags.Var(&c.FailReadiness, "fail-readiness", "respond to /readyz with 503 from `when` on: true, false, or a duration such as 30s after the start")
	flags.Var(&c.ExitAfter, "exit-after", "exit with code 1 at `when`: true, false, or a duration such as 30s after the start")
	flags.Float64Var(&c.ErrorRate, "error-rate", 0, "`share` of requests that get a 500 response, and of jobs that fail, from 0 to 1")
	flags.DurationVar(&c.Latency, "latency", 0, "latency to add to every response, at most 30s")
	flags.DurationVar(&c.ShutdownDelay, "shutdown-delay", 3*time.Second, "time to serve after SIGTERM, while readiness fails")
	flags.DurationVar(&c.DrainTimeout, "drain-timeout", 10*time.Second, "maximum time to wait for requests in progress after --shutdown-delay")
	flags.BoolVar(&c.NoMetrics, "no-metrics", false, "respond to /metrics with 404")
	flags.BoolVar(&c.Control, "control", false, "let POST /control change failReadiness, errorRate, and latency")
	flags.StringVar(&c.JobURL, "job-url", "", "run as the Job of a hook, report to this `url`, and do not serve")
	flags.DurationVar(&c.JobDuration, "job-duration", 0, "how long a Job runs, or how long a worker works on each job in a queue")
	flags.StringVar(&c.Queue, "queue", "", "take jobs from the Redis server at this `url`, such as redis://127.0.0.1:6379")
	flags.StringVar(&c.QueueName, "queue-name", "jobs", "`stream` of the jobs; completed jobs are in the set STREAM:done")
	flags.StringVar(&c.Database, "database", "", "record visits in the PostgreSQL database at this `url`")
	flags.StringVar(&c.Schema, "schema", "", "`schema` of the visits table")
	flags.StringVar(&c.JobSQL, "job-sql", "", "run as the Job of a hook, `create` or drop the schema, and do not serve")
	flags.Usage = func() {}

	if err := setFromEnvironment(flags, getenv); err != nil {
		return Config{}, err
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(out)
		usage(flags)
		return Config{}, err
	} else if err != nil {
		return Config{}, fmt.Errorf("parse arguments: %w; see --help", err)
	}
	if flags.NArg() > 0 {
		return Config{}, fmt.Errorf("parse arguments: %q is not a flag; see --help", flags.Arg(0))
	}
	return c, c.validate()
}

func setFromEnvironment(flags *flag.FlagSet, getenv func(string) string) (err error) {
	flags.VisitAll(func(f *flag.Flag) {
		text := getenv(variableOf(f.Name))
		if text == "" || err != nil {
			return
		}
		if failure := f.Value.Set(text); failure != nil {
			err = fmt.Errorf("parse environment: %s=%q: %w", variableOf(f.Name), text, failure)
		}
	})
	return err
}

func (c Config) validate() error {
	if c.Port < 1 || c.Port > 65535 {
		return fmt.Errorf("check port: must be 1 to 65535, not %d", c.Port)
	}
	for name, port := range map[string]int{"grpc-port": c.GRPCPort, "tcp-port": c.TCPPort, "udp-port": c.UDPPort, "tls-port": c.TLSPort} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("check %s: must be 0 to 65535, not %d", name, port)
		}
	}
	if err := (Faults{ErrorRate: c.ErrorRate, Latency: Duration(c.Latency)}).validate(); err != nil {
		return err
	}
	for name, d := range map[string]time.Duration{
		"start-delay": c.StartDelay, "shutdown-delay": c.ShutdownDelay, "drain-timeout": c.DrainTimeout,
		"job-duration": c.JobDuration,
	} {
		if d < 0 {
			return fmt.Errorf("check %s: must be at least 0, not %s", name, d)
		}
	}
	return c.validateDatabase()
}

func usage(flags *flag.FlagSet) {
	fmt.Fprint(flags.Output(), `sampleapp responds with its version over HTTP/1.1 and HTTP/2 without TLS (h2c), and over:

  gRPC  sampleapp.v1.Version/Get, google.protobuf.Empty in and StringValue out, with the header x-version
  TCP   "shop 1.1.0" for each line
  UDP   "shop 1.1.0" for each datagram
  TLS   the paths below, with a self-signed certificate for the requested name

  GET  /          "shop 1.1.0", with the headers X-Version and X-Release; so does every other path
  GET  /version   {"app","version","release","group","pod"}
  GET  /slow?seconds=N  one byte each 100 ms for N seconds, then "done"
  GET  /ws       a WebSocket that echoes
  GET  /visits   with --database, records a visit and responds with the total number of visits
  GET  /healthz   200 while the process is running
  GET  /readyz    200 when ready; 503 when requested or when shutting down
  GET  /metrics   Prometheus: http_requests_total{code,version}, http_request_duration_seconds{version},
                  with --queue jobs_total{result,version}
  POST /control   {"failReadiness":true,"errorRate":0.1,"latency":"200ms"}, with --control; responds with the faults in effect

A single request can ask for ?latency=200ms (at most 30s) and ?status=503 (200 to 599).

Flags, each also read from the environment variable in brackets (the flag takes precedence):
`)
	flags.VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		fmt.Fprintf(flags.Output(), "  --%s %s\n        %s [%s]", f.Name, kind, text, variableOf(f.Name))
		if f.DefValue != "" {
			fmt.Fprintf(flags.Output(), " (default %s)", f.DefValue)
		}
		fmt.Fprintln(flags.Output())
	})
}
