package registrytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"github.com/heighliner/heighliner/test/port"
)

// Login is the method by which a Product authenticates readers.
type Login string

// These are the logins. Only Everybody allows clients to read without a login.
const (
	Everybody Login = "everybody"
	// ByPassword requires a user name and a password with each request.
	ByPassword Login = "password"
	// ByToken requires a token from a token server, which issues tokens only for the user name and password.
	ByToken Login = "token"
	// Hidden uses a token server that issues anonymous tokens, but these tokens do not allow any access.
	Hidden Login = "hidden"
)

// Robot is the name of a user who has read and write access to every Process. RobotPassword is the user's password.
const (
	Robot         = "robot"
	RobotPassword = "hunter2"
)

// Product is a registry from another project. A test runs it as a separate process.
type Product struct {
	Name   string
	Logins []Login
	// Pages reports whether the registry returns lists in pages of the requested size.
	Pages bool
	// DeletesTags reports whether a request can delete a single tag.
	DeletesTags bool

	// program returns the path of the program. If the program is missing, the test is skipped or fails.
	program func(testing.TB) string
	// prepare writes the configuration for p.address, and returns the arguments of the program.
	prepare func(p *Process) (arguments []string, err error)
	// tag adds tags to a digest in the repository at a path.
	tag func(p *Process, path, digest string, tags []string) error
	// untag deletes a single tag.
	untag func(p *Process, path, tag string) error
}

// Products returns the registries with which discovery is tested.
func Products() []Product { return []Product{distribution2(), distribution3(), gitea()} }

// named returns a function that reads the path of the program from an environment variable.
func named(variable string) func(testing.TB) string {
	return func(t testing.TB) string {
		t.Helper()
		program := os.Getenv(variable)
		if program == "" {
			t.Skipf("%s is not set: run make test-registries, which builds the program and sets the variable", variable)
		}
		return program
	}
}

// Process is a registry that listens on a loopback address and stores its data in a temporary folder. It stops when the test
// ends.
type Process struct {
	t       testing.TB
	product Product
	login   Login
	program string
	data    string
	address string
	stop    func()
}

// Start starts the registry.
func (p Product) Start(t testing.TB, login Login) *Process {
	t.Helper()
	x := &Process{t: t, product: p, login: login, program: p.program(t), data: t.TempDir(), address: port.Take(t), stop: func() {}}
	t.Cleanup(func() { x.stop() })
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	return x
}

// errPortTaken reports that another process is using a port that was free before.
var errPortTaken = errors.New("the port is taken")

// Start starts the registry. After Stop, it uses the same address and the same data.
func (p *Process) Start() error {
	for deadline := time.Now().Add(await.Limit); ; {
		err := p.run(deadline)
		if !errors.Is(err, errPortTaken) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// run starts the process, and returns nil when the process responds.
func (p *Process) run(deadline time.Time) error {
	arguments, err := p.product.prepare(p)
	if err != nil {
		return fmt.Errorf("configure %s: %w", p.product.Name, err)
	}
	logs := &output{}
	ctx, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, p.program, arguments...) // The process runs until cancel kills it.
	process.Dir, process.Env = p.data, p.environment()
	process.Stdout, process.Stderr = logs, logs
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
			if strings.Contains(logs.String(), "address already in use") {
				return fmt.Errorf("start %s: %w", p.product.Name, errPortTaken)
			}
			return fmt.Errorf("start %s: it exited:\n%s", p.product.Name, logs)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.stop()
			return fmt.Errorf("start %s: it does not respond:\n%s", p.product.Name, logs)
		}
	}
}

// environment returns the environment of the processes. Except for PATH, the processes inherit no variables from the test, because inherited variables
// could change the configuration of a registry.
func (p *Process) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.data}
}

// answers reports whether a registry responds at the address.
func answers(address string) bool {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + "/v2/")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusUnauthorized
}

// output is the output of a process.
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

// For makes the methods of p report failures to the subtest t instead of to the parent test that started the registry.
func (p *Process) For(t testing.TB) { p.t = t }

// Stop kills the registry. Its stored data remains.
func (p *Process) Stop() { p.stop() }

// Host returns the registry's host and port.
func (p *Process) Host() string { return p.address }

// Repository returns the full name of the repository at a path below Robot's path.
func (p *Process) Repository(path string) string { return p.address + "/" + p.path(path) }

func (p *Process) path(path string) string { return Robot + "/" + path }

// Options returns the options that authenticate requests as Robot, who has write access.
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

// PushImage pushes an image and returns its digest.
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

// PushIndex pushes an index and returns its digest.
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

// PushReferrer pushes a manifest without a tag, and returns the digest of the manifest. subject is the digest of the manifest's subject. If the
// registry has no referrers API, the index at the referrers tag of the subject lists the manifest.
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

// Tag adds tags to a digest in the repository at a path.
func (p *Process) Tag(path, digest string, tags ...string) {
	p.t.Helper()
	if err := p.product.tag(p, path, digest, tags); err != nil {
		p.t.Fatalf("tag %s@%s: %v", path, digest, err)
	}
}

// Untag deletes a tag. Other tags of the same image remain.
func (p *Process) Untag(path, tag string) {
	p.t.Helper()
	if err := p.product.untag(p, path, tag); err != nil {
		p.t.Fatalf("delete the tag %s:%s: %v", path, tag, err)
	}
}

// Delete deletes the image with the given digest, and all its tags.
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

// untagByRequest deletes a tag with a DELETE request for its manifest.
func untagByRequest(p *Process, path, tag string) error {
	ref, err := name.NewTag(p.Repository(path) + ":" + tag)
	if err != nil {
		return err
	}
	return remote.Delete(ref, p.Options()...)
}

// write creates a file in the data folder of the process.
func (p *Process) write(file, content string) (path string, err error) {
	path = filepath.Join(p.data, file)
	return path, os.WriteFile(path, []byte(content), 0o600)
}
