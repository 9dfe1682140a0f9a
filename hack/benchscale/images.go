package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// shared is the only repository that exists. Requests for other repositories are served from this
// repository.
const shared = "shared"

// images is an in-process registry. Every repository contains the same tags, so that one push offers a version to all services.
type images struct {
	server *httptest.Server

	mu       sync.Mutex
	requests map[string]int // by kind
}

func newImages() (*images, error) {
	r := &images{requests: map[string]int{}}
	next := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.count(req)
		if rest, ok := strings.CutPrefix(req.URL.Path, "/v2/"); ok && rest != "" {
			_, rest, _ = strings.Cut(rest, "/")
			req.URL.Path = "/v2/" + shared + "/" + rest
		}
		next.ServeHTTP(w, req)
	}))
	return r, nil
}

// repository returns the name of a service's repository.
func (r *images) repository(service string) string {
	return strings.TrimPrefix(r.server.URL, "http://") + "/" + service
}

// push pushes an image with a tag. The tag appears in every repository.
func (r *images) push(tag string) error {
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{Labels: map[string]string{"tag": tag}},
	})
	if err != nil {
		return fmt.Errorf("make image %s: %w", tag, err)
	}
	ref, err := name.NewTag(r.repository(shared) + ":" + tag)
	if err != nil {
		return fmt.Errorf("name image %s: %w", tag, err)
	}
	if err := remote.Write(ref, image); err != nil {
		return fmt.Errorf("push image %s: %w", tag, err)
	}
	r.reset() // Do not count the requests of the push.
	return nil
}

func (r *images) count(req *http.Request) {
	kind := "other"
	switch path := req.URL.Path; {
	case path == "/v2/":
		kind = "ping"
	case strings.HasSuffix(path, "/tags/list"):
		kind = "list"
	case strings.Contains(path, "/manifests/"):
		kind = strings.ToLower(req.Method) + " manifest"
	case strings.Contains(path, "/blobs/"):
		kind = strings.ToLower(req.Method) + " blob"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[kind]++
}

// reset returns the number of requests of each kind since the last reset.
func (r *images) reset() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counted := r.requests
	r.requests = map[string]int{}
	return counted
}

func (r *images) close() { r.server.Close() }
