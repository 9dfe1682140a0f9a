package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// newRegistry returns an OCI registry that stores blobs and manifests in folder, so that they survive a
// restart. If credential is not empty, it has the form USER:PASSWORD, and clients must send it with basic
// authentication. Requests to /healthz need no credential.
func newRegistry(folder, credential string) (http.Handler, error) {
	blobs := filepath.Join(folder, "blobs")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return nil, fmt.Errorf("create registry folder: %w", err)
	}
	quiet := log.New(io.Discard, "", 0)
	handler := &manifestKeeper{
		next:   registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)), registry.Logger(quiet)),
		folder: filepath.Join(folder, "manifests"),
	}
	if err := handler.replay(); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/", basicAuth(credential, handler))
	return mux, nil
}

// serveRegistry serves until the process exits.
func serveRegistry(listen, folder, credential string) error {
	handler, err := newRegistry(folder, credential)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: listen, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); err != nil {
		return fmt.Errorf("serve registry: %w", err)
	}
	return nil
}

func basicAuth(credential string, next http.Handler) http.Handler {
	if credential == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(user+":"+password), []byte(credential)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="localcluster"`)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// manifestKeeper stores the pushed manifests on disk, and replays them at startup, because the registry
// behind it keeps manifests only in memory.
type manifestKeeper struct {
	next   http.Handler
	folder string

	mu sync.Mutex
}

// kept is a manifest with a tag or digest.
type kept struct {
	Path      string    `json:"path"`
	MediaType string    `json:"mediaType"`
	Written   time.Time `json:"written"`
	Body      []byte    `json:"body"`
}

func (k *manifestKeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	writes := r.Method == http.MethodPut || r.Method == http.MethodDelete
	if !writes || !strings.Contains(r.URL.Path, "/manifests/") {
		k.next.ServeHTTP(w, r)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
	if err != nil {
		http.Error(w, "read manifest: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	recorder := httptest.NewRecorder()
	k.next.ServeHTTP(recorder, r)
	if recorder.Code < 300 {
		err = k.keep(r, body)
	}
	if err != nil {
		http.Error(w, "keep manifest: "+err.Error(), http.StatusInternalServerError)
		return
	}
	for key, values := range recorder.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}

// keep stores the manifest of a successful write, or removes a deleted manifest.
func (k *manifestKeeper) keep(r *http.Request, body []byte) error {
	sum := sha256.Sum256([]byte(r.URL.Path))
	path := filepath.Join(k.folder, hex.EncodeToString(sum[:])+".json")
	if r.Method == http.MethodDelete {
		return os.Remove(path)
	}
	data, err := json.Marshal(kept{Path: r.URL.Path, MediaType: r.Header.Get("Content-Type"), Written: time.Now(), Body: body})
	if err != nil {
		return err
	}
	return writeFile(path, data, 0o644)
}

// replay pushes every stored manifest to the registry. It retries the rejected manifests as long as the
// registry accepts at least one of them in each pass, because the registry accepts an index only after
// the images to which it refers.
func (k *manifestKeeper) replay() error {
	files, err := filepath.Glob(filepath.Join(k.folder, "*.json"))
	if err != nil {
		return fmt.Errorf("list manifests: %w", err)
	}
	for len(files) > 0 {
		var refused []string
		for _, file := range files {
			accepted, err := k.replayOne(file)
			if err != nil {
				return err
			}
			if !accepted {
				refused = append(refused, file)
			}
		}
		if len(refused) == len(files) {
			return fmt.Errorf("replay manifests: %d manifests were rejected; the first was %s: remove this file or the registry's folder", len(refused), refused[0])
		}
		files = refused
	}
	return nil
}

func (k *manifestKeeper) replayOne(file string) (accepted bool, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("read manifest: %w", err)
	}
	var m kept
	if err := json.Unmarshal(data, &m); err != nil {
		return false, fmt.Errorf("decode manifest %s: %w", file, err)
	}
	request := httptest.NewRequest(http.MethodPut, m.Path, bytes.NewReader(m.Body))
	request.Header.Set("Content-Type", m.MediaType)
	recorder := httptest.NewRecorder()
	k.next.ServeHTTP(recorder, request)
	return recorder.Code < 300, nil
}
