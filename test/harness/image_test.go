package harness

import (
	"archive/tar"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func newRegistry(t *testing.T, wrap func(http.Handler) http.Handler) string {
	server := httptest.NewServer(wrap(registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestPushedImage(t *testing.T) {
	address := newRegistry(t, func(h http.Handler) http.Handler { return h })
	binary := filepath.Join(t.TempDir(), "app")
	write(t, binary, "static binary")
	shop := Image{Registry: address, Repository: "demo/shop", Binary: binary}
	for name, test := range map[string]struct {
		change       func(*Image)
		env          []string
		architecture string
	}{
		"1.0.0":   {func(*Image) {}, []string{"VERSION=1.0.0"}, runtime.GOARCH},
		"1.2.0":   {func(i *Image) { i.Env = map[string]string{"EXIT_AFTER": "0s", "APP": "shop"} }, []string{"APP=shop", "EXIT_AFTER=0s", "VERSION=1.2.0"}, runtime.GOARCH},
		"v1.3.0":  {func(i *Image) { i.Env = map[string]string{"VERSION": "1.3.0"} }, []string{"VERSION=1.3.0"}, runtime.GOARCH},
		"foreign": {func(i *Image) { i.Architecture = "s390x" }, []string{"VERSION=foreign"}, "s390x"},
	} {
		t.Run(name, func(t *testing.T) {
			image := shop
			image.Tag = name
			test.change(&image)
			digest, err := image.Push(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			pulled, again := pull(t, address+"/demo/shop:"+name), ""
			if again, err = image.Push(t.Context()); err != nil || again != digest {
				t.Errorf("second push returns %s, %v; want %s again", again, err, digest)
			}
			if got := digestOf(t, pulled); got != digest {
				t.Errorf("registry returns %s, want %s", got, digest)
			}
			file, err := pulled.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			want := v1.Config{Entrypoint: []string{"/app"}, User: "65532:65532", Env: test.env}
			if diff := cmp.Diff(want, file.Config); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			if file.OS != "linux" || file.Architecture != test.architecture {
				t.Errorf("platform is %s/%s", file.OS, file.Architecture)
			}
			if diff := cmp.Diff(map[string]string{"app": "-r-xr-xr-x static binary"}, filesOf(t, pulled)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPushWithCredentials(t *testing.T) {
	address := newRegistry(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "demo" || password != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	binary := filepath.Join(t.TempDir(), "app")
	write(t, binary, "static binary")
	image := Image{Registry: address, Repository: "demo/shop", Tag: "1.0.0", Binary: binary}
	if _, err := image.Push(t.Context()); err == nil {
		t.Error("push without credentials succeeded")
	}
	image.Username, image.Password = "demo", "secret"
	if _, err := image.Push(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPushRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		image Image
		want  string
	}{
		"another machine": {Image{Registry: "10.250.0.1:5000", Repository: "demo/shop", Tag: "1.0.0"}, "check registry: refuse address"},
		"bad tag":         {Image{Registry: "127.0.0.1:1", Repository: "demo/shop", Tag: "1.0.0+meta"}, "check repository and tag:"},
		"no binary":       {Image{Registry: "127.0.0.1:1", Repository: "demo/shop", Tag: "1.0.0", Binary: "absent"}, "read binary:"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := test.image.Push(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want an error with %q", err, test.want)
			}
		})
	}
}

func pull(t *testing.T, reference string) v1.Image {
	t.Helper()
	tag, err := name.NewTag(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digestOf(t *testing.T, image v1.Image) string {
	t.Helper()
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func filesOf(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	files, reader := map[string]string{}, mutate.Extract(image)
	defer reader.Close()
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = header.FileInfo().Mode().String() + " " + string(content)
	}
}
