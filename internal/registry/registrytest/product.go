package registrytest

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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/heighliner/heighliner/test/await"
)

// Login is how a Product knows who may read.
type Login string

// The logins. Only with Everybody may a client without a login read.
const (
	Everybody Login = "everybody"
	// ByPassword: a name and a password with each request.
	ByPassword Login = "password"
	// ByToken of a token server, which gives one for the name and password alone.
	ByToken Login = "token"
	// Hidden: a token server issues anonymous tokens, which do not allow any access.
	Hidden Login = "hidden"
)

// Robot and its password may read and write at every Process.
const (
	Robot         = "robot"
	RobotPassword = "hunter2"
)

// Product is a registry of another vendor, which a test runs in its own process.
type Product struct {
	Name   string
	Logins []Login
	// Pages: it gives lists in pages of the size that is asked for.
	Pages bool
	// DeletesTags: a request deletes a tag alone.
	DeletesTags bool

	// program finds what is run; a test is skipped, or fails where program decides so, without.
	program func(testing.TB) string
	// prepare writes the configuration for p.address, and gives the arguments.
	prepare func(p *Process) (arguments []string, err error)
	// tag returns a digest of the repository further tags.
	tag func(p *Process, path, digest string, tags []string) error
	// untag deletes a tag alone.
	untag func(p *Process, path, tag string) error
}

// Products returns the registries that discovery is tested with.
func Products() []Product { return []Product{distribution2(), distribution3(), gitea()} }

// named returns the program that an environment variable names.
func named(variable string) func(testing.TB) string {
	return func(t testing.TB) string {
		t.Helper()
		program := os.Getenv(variable)
		if program == "" {
			t.Skipf("%s names no program: make test-registries builds it", variable)
		}
		return program
	}
}

// Process is a registry that listens on loopback, with its data in a folder of the test.
// It ends with the test.
type Process struct {
	t       testing.TB
	product Product
	login   Login
	program string
	data    string
	address string
	stop    func()
}

// Start runs the registry.
func (p Product) Start(t testing.TB, login Login) *Process {
	t.Helper()
	x := &Process{t: t, product: p, login: login, program: p.program(t), data: t.TempDir(), stop: func() {}}
	t.Cleanup(func() { x.stop() })
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	return x
}

// errPortTaken: another process uses the port that was free before.
var errPortTaken = errors.New("the port is taken")

// Start runs the registry again after Stop, at the same address and with the same data.
func (p *Process) Start() error {
	first := p.address == ""
	for deadline := time.Now().Add(await.Limit); ; {
		if first {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			p.address = listener.Addr().String()
			listener.Close()
		}
		err := p.run(deadline)
		if !errors.Is(err, errPortTaken) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// run starts the process, and gives nil once it answers.
func (p *Process) run(deadline time.Time) error {
	arguments, err := p.product.prepare(p)
	if err != nil {
		return fmt.Errorf("configure %s: %w", p.product.Name, err)
	}
	said := &output{}
	ctx, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, p.program, arguments...) // ended by killing it
	process.Dir, process.Env = p.data, p.environment()
	process.Stdout, process.Stderr = said, said
	if err := process.Start(); err != nil {
		cancel()
		return fmt.Errorf("start %s: %w", p.product.Name, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	p.stop = func() {
		cancel()
		<-ended
	}
	for {
		if answers(p.address) {
			return nil
		}
		select {
		case <-ended:
			cancel()
			if strings.Contains(said.String(), "address already in use") {
				return fmt.Errorf("start %s: %w", p.product.Name, errPortTaken)
			}
			return fmt.Errorf("start %s: it ended:\n%s", p.product.Name, said)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.stop()
			return fmt.Errorf("start %s: it does not answer:\n%s", p.product.Name, said)
		}
	}
}

// environment of the processes: nothing of the machine's configures a registry.
func (p *Process) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.data}
}

// answers reports whether a registry serves at the address.
func answers(address string) bool {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + "/v2/")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusUnauthorized
}

// output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// For makes t, a part of the test that started the registry, the one that its failures end.
func (p *Process) For(t testing.TB) { p.t = t }

// Stop kills the registry; what it stored remains.
func (p *Process) Stop() { p.stop() }

// Host returns the registry's host and port.
func (p *Process) Host() string { return p.address }

// Repository returns the full name of a path below Robot's.
func (p *Process) Repository(path string) string { return p.address + "/" + p.path(path) }

func (p *Process) path(path string) string { return Robot + "/" + path }

// Options let Robot write.
func (p *Process) Options() []remote.Option {
	return []remote.Option{remote.WithAuth(&authn.Basic{Username: Robot, Password: RobotPassword})}
}

func (p *Process) reference(path, tag string) name.Tag {
	p.t.Helper()
	ref, err := name.NewTag(p.Repository(path) + ":" + tag)
	if err != nil {
		p.t.Fatalf("name %s:%s: %v", path, tag, err)
	}
	return ref
}

// PushImage returns the digest of the image.
func (p *Process) PushImage(path, tag string, image v1.Image) string {
	p.t.Helper()
	if err := remote.Write(p.reference(path, tag), image, p.Options()...); err != nil {
		p.t.Fatalf("push %s:%s: %v", path, tag, err)
	}
	digest, err := image.Digest()
	if err != nil {
		p.t.Fatalf("digest of %s:%s: %v", path, tag, err)
	}
	return digest.String()
}

// PushIndex returns the digest of the index.
func (p *Process) PushIndex(path, tag string, index v1.ImageIndex) string {
	p.t.Helper()
	if err := remote.WriteIndex(p.reference(path, tag), index, p.Options()...); err != nil {
		p.t.Fatalf("push %s:%s: %v", path, tag, err)
	}
	digest, err := index.Digest()
	if err != nil {
		p.t.Fatalf("digest of %s:%s: %v", path, tag, err)
	}
	return digest.String()
}

// PushReferrer pushes a manifest whose subject is the digest, under no tag, and gives its
// own digest. Where there is no referrers API, the index under the subject's tag names it.
func (p *Process) PushReferrer(path, subject string, image v1.Image) string {
	p.t.Helper()
	ref, err := name.NewDigest(p.Repository(path) + "@" + subject)
	if err != nil {
		p.t.Fatalf("name %s@%s: %v", path, subject, err)
	}
	desc, err := remote.Head(ref, p.Options()...)
	if err != nil {
		p.t.Fatalf("find %s@%s: %v", path, subject, err)
	}
	referrer := mutate.Subject(image, *desc).(v1.Image)
	digest, err := referrer.Digest()
	if err != nil {
		p.t.Fatalf("digest of a referrer of %s@%s: %v", path, subject, err)
	}
	if err := remote.Write(ref.Digest(digest.String()), referrer, p.Options()...); err != nil {
		p.t.Fatalf("push a referrer of %s@%s: %v", path, subject, err)
	}
	return digest.String()
}

// Tag returns what a digest of the repository names further tags.
func (p *Process) Tag(path, digest string, tags ...string) {
	p.t.Helper()
	if err := p.product.tag(p, path, digest, tags); err != nil {
		p.t.Fatalf("tag %s@%s: %v", path, digest, err)
	}
}

// Untag deletes a tag, and leaves what other tags name.
func (p *Process) Untag(path, tag string) {
	p.t.Helper()
	if err := p.product.untag(p, path, tag); err != nil {
		p.t.Fatalf("delete the tag %s:%s: %v", path, tag, err)
	}
}

// Delete deletes what a digest names, with all its tags.
func (p *Process) Delete(path, digest string) {
	p.t.Helper()
	ref, err := name.NewDigest(p.Repository(path) + "@" + digest)
	if err == nil {
		err = remote.Delete(ref, p.Options()...)
	}
	if err != nil {
		p.t.Fatalf("delete %s@%s: %v", path, digest, err)
	}
}

// untagByRequest deletes a tag by DELETE of its manifest.
func untagByRequest(p *Process, path, tag string) error {
	ref, err := name.NewTag(p.Repository(path) + ":" + tag)
	if err != nil {
		return err
	}
	return remote.Delete(ref, p.Options()...)
}

// write makes a file of the process's data.
func (p *Process) write(file, content string) (path string, err error) {
	path = filepath.Join(p.data, file)
	return path, os.WriteFile(path, []byte(content), 0o600)
}
