package registry

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// robot may read and write at every registry of this file.
var robot = Credential{Username: "robot", Password: "hunter2"}

// hashOfRobot is robot as htpasswd with bcrypt writes it.
const hashOfRobot = "robot:$2b$04$V6TnGHZsNjTZyY2T34BFjeHi95UvSGU/mg0F.c3fjDkE/SQh5F/k6\n"

// distribution is a CNCF Distribution as Debian has it, in a process of its own.
type distribution struct {
	*testing.T
	data, config string
	address      string
	stop         func()
}

// startDistribution runs one on loopback; auth is the part of its configuration that
// says who may read, "" for everybody.
func startDistribution(t *testing.T, auth string) *distribution {
	t.Helper()
	d := &distribution{T: t, data: t.TempDir(), address: "127.0.0.1:0"}
	d.config = filepath.Join(d.data, "config.yml")
	d.start(auth)
	return d
}

func (d *distribution) start(auth string) {
	d.Helper()
	server, err := exec.LookPath("docker-registry")
	if err != nil {
		d.Fatalf("find CNCF Distribution: %v: discovery is tested on a real one: make test installs it; by hand: apt-get install docker-registry", err)
	}
	config := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}\nhttp: {addr: %q}\n%s", d.data, d.address, auth)
	if err := os.WriteFile(d.config, []byte(config), 0o600); err != nil {
		d.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, server, "serve", d.config)
	log, err := process.StderrPipe()
	if err != nil {
		d.Fatal(err)
	}
	if err := process.Start(); err != nil {
		d.Fatalf("start CNCF Distribution: %v", err)
	}
	d.stop = func() {
		cancel() // kills this process
		_ = process.Wait()
	}
	d.Cleanup(func() { d.stop() })
	listening := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
	address, said := make(chan string, 1), &bytes.Buffer{}
	go func() {
		defer close(address)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
				io.Copy(io.Discard, log)
				return
			}
			said.WriteString(lines.Text() + "\n")
		}
	}()
	select {
	case got, ok := <-address:
		if !ok {
			d.Fatalf("CNCF Distribution ended:\n%s", said)
		}
		d.address = got
	case <-time.After(time.Minute):
		d.Fatal("CNCF Distribution does not listen after a minute")
	}
}

func (d *distribution) repository(path string) string { return d.address + "/" + path }

func (d *distribution) options() []remote.Option {
	return []remote.Option{remote.WithAuth(&authn.Basic{Username: robot.Username, Password: robot.Password})}
}

func (d *distribution) tag(path, tag string) name.Tag {
	d.Helper()
	ref, err := name.NewTag(d.repository(path) + ":" + tag)
	if err != nil {
		d.Fatal(err)
	}
	return ref
}

func (d *distribution) push(path, tag string, image v1.Image) (digest string) {
	d.Helper()
	if err := remote.Write(d.tag(path, tag), image, d.options()...); err != nil {
		d.Fatalf("push %s:%s: %v", path, tag, err)
	}
	hash, err := image.Digest()
	if err != nil {
		d.Fatal(err)
	}
	return hash.String()
}

// tags makes tags that name a digest, in the registry's files: by requests a thousand of
// them take seconds.
func (d *distribution) tags(path, digest string, tags []string) {
	d.Helper()
	for _, tag := range tags {
		folder := filepath.Join(d.folder(path, tag), "current")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			d.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "link"), []byte(digest), 0o600); err != nil {
			d.Fatal(err)
		}
	}
}

func (d *distribution) folder(path, tag string) string {
	return filepath.Join(d.data, "docker", "registry", "v2", "repositories", filepath.FromSlash(path), "_manifests", "tags", tag)
}

// untag deletes a tag and leaves its image, as registries do that delete tags only; this
// one does not by a request.
func (d *distribution) untag(path, tag string) {
	d.Helper()
	if err := os.RemoveAll(d.folder(path, tag)); err != nil {
		d.Fatal(err)
	}
}

// delete deletes an image, with all its tags.
func (d *distribution) delete(path, digest string) {
	d.Helper()
	ref, err := name.NewDigest(d.repository(path) + "@" + digest)
	if err != nil {
		d.Fatal(err)
	}
	if err := remote.Delete(ref, d.options()...); err != nil {
		d.Fatalf("delete %s: %v", digest, err)
	}
}

// withAttestations is an index as docker buildx writes it: an image for each platform,
// and for each an attestation of the platform unknown/unknown.
func withAttestations(t *testing.T, platforms ...string) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		p, err := v1.ParsePlatform(platform)
		if err != nil {
			t.Fatal(err)
		}
		image := registrytest.Image(t, platform, platform, time.Time{})
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: p}},
			mutate.IndexAddendum{Add: registrytest.Image(t, "attestation of "+platform, "unknown/unknown", time.Time{}), Descriptor: v1.Descriptor{
				Platform:    &v1.Platform{OS: "unknown", Architecture: "unknown"},
				Annotations: map[string]string{"vnd.docker.reference.digest": digest.String(), "vnd.docker.reference.type": "attestation-manifest"},
			}})
	}
	return index
}

// tokenServer gives tokens of a minute to robot, and gives the part of a registry's
// configuration that wants them.
func tokenServer(t *testing.T) (config string, given func() int) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tokens"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	tokens := make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if username, password, _ := r.BasicAuth(); username != robot.Username || password != robot.Password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var access []map[string]any
		for _, scope := range strings.Fields(strings.Join(r.URL.Query()["scope"], " ")) {
			if part := strings.Split(scope, ":"); len(part) == 3 {
				access = append(access, map[string]any{"type": part[0], "name": part[1], "actions": strings.Split(part[2], ",")})
			}
		}
		now := time.Now()
		token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
			"iss": "tokens", "sub": robot.Username, "aud": "distribution", "exp": now.Add(time.Minute).Unix(), "nbf": now.Add(-time.Minute).Unix(),
			"iat": now.Unix(), "jti": fmt.Sprint(now.UnixNano()), "access": access,
		})
		token.Header["x5c"] = []string{base64.StdEncoding.EncodeToString(der)}
		signed, err := token.SignedString(key)
		if err != nil {
			t.Error(err)
		}
		tokens <- struct{}{}
		json.NewEncoder(w).Encode(map[string]any{"token": signed, "expires_in": 60})
	}))
	t.Cleanup(server.Close)
	bundle := filepath.Join(t.TempDir(), "tokens.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	realm := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // a private address in a challenge is refused
	return fmt.Sprintf("auth: {token: {realm: %q, service: distribution, issuer: tokens, rootcertbundle: %q}}\n", realm+"/token", bundle), func() int { return len(tokens) }
}

// TestDistribution reads a real registry, for everybody and with both forms of login.
func TestDistribution(t *testing.T) {
	for name, secure := range map[string]func(*testing.T) string{
		"anonymous": func(*testing.T) string { return "" },
		"htpasswd": func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "htpasswd")
			if err := os.WriteFile(file, []byte(hashOfRobot), 0o600); err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("auth: {htpasswd: {realm: x, path: %q}}\n", file)
		},
		"token": func(t *testing.T) string {
			config, _ := tokenServer(t)
			return config
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			auth := secure(t)
			d := startDistribution(t, auth)
			const path = "acme/team/web"
			first := d.push(path, "1.0.0", registrytest.Image(t, "1.0.0", "linux/amd64", time.Time{}))
			second := d.push(path, "1.1.0", registrytest.Image(t, "1.1.0", "linux/amd64", time.Time{}))
			if err := remote.WriteIndex(d.tag(path, "2.0.0"), withAttestations(t, "linux/amd64", "linux/arm64"), d.options()...); err != nil {
				t.Fatal(err)
			}
			chart := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.helm.config.v1+json")
			d.push(path, "chart-1.0.0", chart)
			d.tags(path, first, numbered(1501))

			scanner, r := scannerAt(newClock()), Request{Repository: d.repository(path)}
			if auth != "" {
				r.Auth = robot
				for what, credential := range map[string]Credential{"nobody": {}, "another": {Username: "robot", Password: "guess"}} {
					if _, err := scanner.List(t.Context(), Request{Repository: r.Repository, Auth: credential}); KindOf(err) != Unauthorized {
						t.Errorf("List as %s: %v, want %q", what, err, Unauthorized)
					}
				}
			}
			scan, err := scanner.List(t.Context(), r)
			if want := sorted(append(numbered(1501), "2.0.0", "chart-1.0.0")); err != nil || scan.Truncated || cmp.Diff(want, scan.Tags) != "" {
				t.Errorf("List = %d tags, truncated %t, %v; want all %d", len(scan.Tags), scan.Truncated, err, len(want))
			}
			if _, err := scanner.List(t.Context(), Request{Repository: d.repository("acme/none"), Auth: r.Auth}); KindOf(err) != NotFound {
				t.Errorf("List of what is not there: %v, want %q", err, NotFound)
			}
			for tag, want := range map[string][]string{"1.0.0": {"linux/amd64"}, "2.0.0": {"linux/amd64", "linux/arm64"}, "chart-1.0.0": nil} {
				image, err := scanner.Resolve(t.Context(), r, tag)
				if diff := cmp.Diff(want, image.Platforms); err != nil || diff != "" {
					t.Errorf("platforms of %s: %v (-want +got):\n%s", tag, err, diff)
				}
			}
			if image, err := scanner.Inspect(t.Context(), r, first, "linux/amd64"); err != nil || image.Labels["label"] != "1.0.0" {
				t.Errorf("Inspect = %v, %v", image.Labels, err)
			}
			if found, err := scanner.Referrers(t.Context(), r, first, 10); err != nil || len(found) != 0 {
				t.Errorf("Referrers = %v, %v; want none", found, err)
			}

			// A tag that is deleted, and an image that is.
			gone := func(what, tag, digest string, want bool) {
				t.Helper()
				if got, err := scanner.Gone(t.Context(), r, tag, digest, first); err != nil || got != want {
					t.Errorf("Gone %s = %t, %v; want %t", what, got, err, want)
				}
			}
			d.tags(path, second, []string{"3.0.0"})
			gone("before", "3.0.0", second, false)
			d.untag(path, "3.0.0")
			gone("with the image there", "3.0.0", second, false)
			gone("the tag alone", "3.0.0", "", true)
			d.delete(path, second)
			gone("with the image deleted", "3.0.0", second, true)

			// While it is away there is an error and never a list; then all is as before.
			d.stop()
			if _, err := scanner.List(t.Context(), r); KindOf(err) != Unreachable {
				t.Errorf("List while it is away: %v, want %q", err, Unreachable)
			}
			d.start(auth)
			if again, err := scanner.List(t.Context(), r); err != nil || len(again.Tags) < 1500 {
				t.Errorf("List after a restart = %d tags, %v", len(again.Tags), err)
			}
		})
	}
}
