package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// readyTimeout is the maximum time for a started part to become ready.
const readyTimeout = 90 * time.Second

// supervisor is the parent of all parts, and forwards the host's ports into the cluster. It does not restart
// parts automatically: it records that they have exited, and executes the commands that it receives on its
// socket.
type supervisor struct {
	config Config

	mu    sync.Mutex
	parts map[string]*process
}

// process is one run of a part.
type process struct {
	state   PartState
	command *exec.Cmd
	ended   chan struct{}
}

// supervise runs until a command stops it. The process must be in its own mount namespace.
func supervise(ctx context.Context, config Config) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := createCgroup(config.Name); err != nil {
		return err
	}
	if err := hideHost(config.RunDir); err != nil {
		return err
	}
	s := &supervisor{config: config, parts: map[string]*process{}}
	for _, p := range config.parts() {
		s.parts[p.Name] = &process{state: PartState{Name: p.Name, Address: p.Address, Exit: "not started"}}
	}
	for _, f := range config.forwards() {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", f.host))
		if err != nil {
			return fmt.Errorf("listen for the %s: %w: choose another port with --%s", f.what, err, f.flag)
		}
		defer listener.Close()
		go s.forward(ctx, listener, fmt.Sprintf("%s:%d", nodeAddress, f.cluster))
	}
	if err := s.record(); err != nil {
		return err
	}
	socket, err := net.Listen("unix", config.path("control.sock"))
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve commands: %w", err)
	}
	return nil
}

func (s *supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /parts", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.state())
	})
	order := func(do func(context.Context, string) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.Context(), r.PathValue("part")); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		}
	}
	mux.HandleFunc("POST /parts/{part}/start", order(s.start))
	mux.HandleFunc("POST /parts/{part}/stop", order(s.stop))
	return mux
}

// state returns the states of the parts in their order. The caller holds the lock.
func (s *supervisor) state() State {
	state := State{Supervisor: os.Getpid()}
	for _, p := range s.config.parts() {
		state.Parts = append(state.Parts, s.parts[p.Name].state)
	}
	return state
}

// record writes the state to a file, which is read after the supervisor has exited. The caller holds
// the lock or is the only user.
func (s *supervisor) record() error {
	data, err := json.MarshalIndent(s.state(), "", "  ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	return writeFile(s.config.path("parts.json"), data, 0o644)
}

// start starts a part, and waits until the part is ready or has exited, or until the time limit is exceeded. If
// the part is already running, start only waits, and starts the part again if it exits in the meantime.
func (s *supervisor) start(ctx context.Context, name string) error {
	config, err := loadConfig(s.config.RunDir) // The gateway's throttle may have changed.
	if err != nil {
		return err
	}
	if config == nil {
		return errors.New("start part: the cluster's record is gone: run localcluster up")
	}
	part, err := config.part(name)
	if err != nil {
		return err
	}
	if p := s.process(name); p.command != nil {
		if err := s.await(ctx, part, p); err == nil || !p.over() {
			return err
		}
	}
	p, err := s.launch(part)
	if err != nil {
		return err
	}
	return s.await(ctx, part, p)
}

func (s *supervisor) process(name string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[name]
}

// over reports whether the process has exited and its exit status has been read.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// launch starts a part unless the part is already running.
func (s *supervisor) launch(part Part) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	previous := s.parts[part.Name]
	if previous.state.Running {
		return previous, nil
	}
	for path, content := range part.Files {
		if err := writeFile(path, []byte(content), 0o644); err != nil {
			return nil, fmt.Errorf("start %s: %w", part.Name, err)
		}
	}
	output, err := os.OpenFile(s.logFile(part.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", part.Name, err)
	}
	defer output.Close()
	command := exec.Command(part.Command[0], part.Command[1:]...)
	command.Env = append(os.Environ(), part.Env...)
	command.Dir = s.config.RunDir
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := inNamespace(s.config.path("netns"), command.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", part.Name, err)
	}
	p := &process{command: command, ended: make(chan struct{}), state: PartState{
		Name: part.Name, PID: command.Process.Pid, Address: part.Address,
		Started: time.Now(), Starts: previous.state.Starts + 1, Running: true,
	}}
	s.parts[part.Name] = p
	log.Printf("started %s, pid %d", part.Name, p.state.PID)
	go s.reap(p)
	return p, s.record()
}

// reap waits until a process exits, and records how it exited.
func (s *supervisor) reap(p *process) {
	err := p.command.Wait()
	exit := "exit status 0"
	if err != nil {
		exit = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.state.Running, p.state.Exit = false, exit
	log.Printf("%s, pid %d: %s", p.state.Name, p.state.PID, exit)
	if err := s.record(); err != nil {
		log.Print(err)
	}
	close(p.ended)
}

// await polls a part's readiness inside the network namespace.
func (s *supervisor) await(ctx context.Context, part Part, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := s.probe(ctx, part.Ready)
		if err == nil && !p.over() {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("start %s: it exited: %s: %s", part.Name, p.state.Exit, s.logTail(part.Name))
		case <-ctx.Done():
			return fmt.Errorf("start %s: not ready in time: %w: %s", part.Name, err, s.logTail(part.Name))
		case <-ticker.C:
		}
	}
}

func (s *supervisor) probe(ctx context.Context, ready string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if path, ok := strings.CutPrefix(ready, "unix:"); ok {
		connection, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		return connection.Close()
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       dialer(s.config.path("netns")),
		// The request goes to a loopback address. It checks only that the part is running, not its identity.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ready, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s", ready, response.Status)
	}
	return nil
}

// stop stops a part with SIGTERM, or with SIGKILL if the part is still running after five seconds.
func (s *supervisor) stop(ctx context.Context, name string) error {
	if _, err := s.config.part(name); err != nil {
		return err
	}
	p := s.process(name)
	if p.command == nil {
		return nil
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := p.command.Process.Signal(sig); errors.Is(err, os.ErrProcessDone) {
			break
		}
		select {
		case <-p.ended:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("stop %s: %w", name, ctx.Err())
		case <-time.After(5 * time.Second):
		}
	}
	<-p.ended
	return nil
}

// dialer returns a function that connects from inside a network namespace.
func dialer(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (connection net.Conn, err error) {
		err = inNamespace(namespace, func() error {
			var d net.Dialer
			connection, err = d.DialContext(ctx, network, address)
			return err
		})
		return connection, err
	}
}

// forward accepts connections on the host, and forwards them to an address in the cluster.
func (s *supervisor) forward(ctx context.Context, listener net.Listener, address string) {
	dial := dialer(s.config.path("netns"))
	for {
		outer, err := listener.Accept()
		if err != nil {
			if ctx.Err() == nil {
				log.Printf("forward to %s: %v", address, err)
			}
			return
		}
		go func() {
			defer outer.Close()
			dialing, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			inner, err := dial(dialing, "tcp", address)
			if err != nil {
				return
			}
			defer inner.Close()
			carry(outer, inner)
		}()
	}
}

// carry copies data between two connections in both directions, until both directions are done. When one
// direction ends, carry closes the write side of the connection that this direction copied to.
func carry(a, b net.Conn) {
	var both sync.WaitGroup
	pipe := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if half, ok := to.(*net.TCPConn); ok && err == nil {
			_ = half.CloseWrite()
			return
		}
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { pipe(a, b) })
	both.Go(func() { pipe(b, a) })
	both.Wait()
}

func (s *supervisor) logFile(part string) string {
	return filepath.Join(s.config.RunDir, "logs", part+".log")
}

func (s *supervisor) logTail(part string) string { return tail(s.logFile(part), 6) }

// tail returns the last lines of a file, as one line.
func tail(path string, n int) string {
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		return "no log"
	}
	return lastLines(string(content), n)
}
