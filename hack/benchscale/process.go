package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a process that this program started.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // This field is set before exited is closed.
}

// startProcess starts a process in its own process group, so that an interrupt from the terminal reaches only
// this program, and writes its output to a file. The process gets the variables in environment in addition to
// HOME=dir.
func startProcess(dir, binary string, environment []string, arguments ...string) (*process, error) {
	p := &process{name: filepath.Base(binary), exited: make(chan struct{})}
	p.log = filepath.Join(dir, p.name+".log")
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	binary, err = filepath.Abs(binary)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", p.name, err)
	}
	p.cmd = exec.Command(binary, arguments...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.Env = append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, environment...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.name, err), log.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		_ = log.Close() // The process has written everything to the log and has exited.
		close(p.exited)
	}()
	return p, nil
}

// awaitReady polls a URL until it responds with 200.
func (p *process) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if ready(ctx, url) {
			return nil
		}
		select {
		case <-p.exited:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s of %s: %w; its last lines:\n%s", url, p.name, ctx.Err(), p.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func ready(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// failure returns the error of a process that exited unexpectedly. It returns nil while the process is running.
func (p *process) failure() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s exited: %w; its last lines:\n%s", p.name, cmpError(p.err), p.tail())
	default:
		return nil
	}
}

func cmpError(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}

// tail returns the end of the log.
func (p *process) tail() []byte {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-10):], []byte("\n"))
}

// stop stops the process with SIGTERM or, after ten seconds, with SIGKILL.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // An error means that the process has already exited.
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// usage is a process's processor time and memory.
type usage struct {
	CPU      time.Duration // User and system time.
	Resident int64         // Memory in bytes.
	Peak     int64         // Maximum memory so far, in bytes.
}

// ticks is the number of clock ticks per second in /proc, which is constant on Linux.
const ticks = 100

// usage reads the usage of the process from /proc.
func (p *process) usage() (usage, error) {
	if err := p.failure(); err != nil {
		return usage{}, err
	}
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return usage{}, fmt.Errorf("read processor time of %s: %w", p.name, err)
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return usage{}, fmt.Errorf("read memory of %s: %w", p.name, err)
	}
	return parseUsage(string(stat), string(status))
}

// parseUsage parses the stat and status files of /proc/PID.
func parseUsage(stat, status string) (usage, error) {
	// The second field is the name in parentheses, which may contain spaces.
	after := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(after) < 13 {
		return usage{}, fmt.Errorf("read /proc/PID/stat: %d fields after the name: the kernel writes at least 13", len(after))
	}
	var u usage
	for _, field := range after[11:13] { // These fields are utime and stime.
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("read /proc/PID/stat: %w", err)
		}
		u.CPU += time.Duration(n) * time.Second / ticks
	}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		target := map[string]*int64{"VmRSS": &u.Resident, "VmHWM": &u.Peak}[name]
		if target == nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("read /proc/PID/status: %w", err)
		}
		*target = n << 10
	}
	return u, nil
}

// freeAddress returns an unused loopback address.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
