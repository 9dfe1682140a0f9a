package harness

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// imageUser is the user that containers of the images run as. It is not root, as required by the restricted
// Pod Security Standard.
const imageUser = "65532:65532"

// Image describes an image to push: a tag, and a static binary with a version's environment. Identical images have
// identical digests.
type Image struct {
	// Registry is the address of the registry for this process, such as 127.0.0.1:5000. It must be loopback. Required.
	Registry string
	// Repository is the repository, such as demo/shop. Required.
	Repository string
	// Tag is the tag, such as 1.1.0. Required.
	Tag string
	// Binary is the path of the static binary that becomes /app. Required.
	Binary string
	// Env is the environment of the image. VERSION defaults to the tag; EXIT_AFTER and FAIL_READINESS break a version.
	Env map[string]string
	// Architecture is the architecture of the image. Defaults to the architecture of this machine. The node cannot run images for another architecture.
	Architecture string
	// Username and Password are the credentials for a registry that requires them.
	Username, Password string
}

// Push builds and pushes the image. It returns the digest of its manifest, such as sha256:0123....
func (i Image) Push(ctx context.Context) (digest string, err error) {
	if err := CheckLoopback(i.Registry); err != nil {
		return "", fmt.Errorf("check registry: %w", err)
	}
	tag, err := name.NewTag(i.Registry+"/"+i.Repository+":"+i.Tag, name.StrictValidation, name.Insecure)
	if err != nil {
		return "", fmt.Errorf("check repository and tag: %w", err)
	}
	image, err := i.build()
	if err != nil {
		return "", fmt.Errorf("build image %s: %w", tag, err)
	}
	if err := remote.Write(tag, image, remote.WithContext(ctx), remote.WithAuth(i.auth())); err != nil {
		return "", fmt.Errorf("push image %s: %w", tag, err)
	}
	hash, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("compute digest of %s: %w", tag, err)
	}
	return hash.String(), nil
}

func (i Image) auth() authn.Authenticator {
	if i.Username == "" {
		return authn.Anonymous
	}
	return &authn.Basic{Username: i.Username, Password: i.Password}
}

func (i Image) build() (v1.Image, error) {
	layer, err := binaryLayer(i.Binary)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read image configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	if i.Architecture != "" {
		file.Architecture = i.Architecture
	}
	file.Config = v1.Config{Entrypoint: []string{"/app"}, User: imageUser, Env: i.environment()}
	return mutate.ConfigFile(image, file)
}

func (i Image) environment() []string {
	variables := map[string]string{"VERSION": i.Tag}
	maps.Copy(variables, i.Env)
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		lines = append(lines, key+"="+variables[key])
	}
	return lines
}

// binaryLayer returns a layer that contains only /app. It contains no timestamps, so identical binaries
// have identical digests.
func binaryLayer(path string) (v1.Layer, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read binary: %w", err)
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	header := &tar.Header{Name: "app", Mode: 0o555, Size: int64(len(binary)), Typeflag: tar.TypeReg}
	if err := writer.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	if _, err := writer.Write(binary); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
}
