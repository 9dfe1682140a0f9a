package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/heighliner/heighliner/test/await"
)

// played sends the given responses in turn, and records which hosts received the password.
type played struct {
	answers []func(*http.Request) *http.Response
	n       int
	hosts   map[string]bool
	secrets map[string]bool // hosts that received the password
}

func (p *played) RoundTrip(r *http.Request) (*http.Response, error) {
	p.hosts[r.URL.Host] = true
	if _, password, ok := r.BasicAuth(); ok && password == "sesame" {
		p.secrets[r.URL.Scheme+"://"+r.URL.Host] = true
	}
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		if strings.Contains(string(b), "sesame") {
			p.secrets[r.URL.Scheme+"://"+r.URL.Host] = true
		}
	}
	p.n++
	if p.n > 60 || len(p.answers) == 0 {
		return nil, errors.New("enough")
	}
	resp := p.answers[(p.n-1)%len(p.answers)](r)
	resp.Request = r
	return resp, nil
}

// answerWith returns a response with the given headers, one on each line.
func answerWith(code int, header, body string) func(*http.Request) *http.Response {
	return func(*http.Request) *http.Response {
		h := http.Header{}
		for _, line := range strings.Split(header, "\n") {
			if k, v, ok := strings.Cut(line, ": "); ok && k != "" && len(v) < 2000 {
				h.Add(k, v)
			}
		}
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), ProtoMajor: 1, ProtoMinor: 1}
	}
}

func scannerOver(p *played) *Scanner {
	return New(Options{Transport: p, PerSecond: 1e9, Burst: 1e9, Backoff: remote.Backoff{Duration: 1, Factor: 1, Steps: 2}, MaxPages: 20})
}

// typed checks that an error has a kind.
func typed(t *testing.T, err error) {
	var typed *Error
	if err != nil && (!errors.As(err, &typed) || typed.Kind == "" || typed.Error() == "") {
		t.Fatalf("an error without a kind: %v", err)
	}
}

// FuzzAnswers checks that responses from a registry, whatever they contain, cause no panic and no hang, that
// errors are typed, and that the number of requests is limited.
func FuzzAnswers(f *testing.F) {
	d := "sha256:" + strings.Repeat("a", 64)
	f.Add(200, "Docker-Distribution-Api-Version: registry/2.0", "{}", 200, "Link: </v2/a/b/tags/list?n=2&last=x>; rel=\"next\"\nContent-Type: application/json", `{"name":"a/b","tags":["1.0.0","x"]}`, uint8(0))
	f.Add(401, "WWW-Authenticate: Bearer realm=\"https://auth.example/token\",service=\"r\",scope=\"repository:a/b:pull\"", "{}", 200, "Content-Type: application/json", `{"token":"t","expires_in":300}`, uint8(1))
	f.Add(401, "WWW-Authenticate: Basic realm=\"x\"", `{"errors":[{"code":"UNAUTHORIZED"}]}`, 200, "Docker-Content-Digest: "+d+"\nContent-Type: application/vnd.oci.image.index.v1+json\nContent-Length: 2", `{"manifests":[{"digest":"`+d+`","platform":{"os":"linux","architecture":"amd64"}}]}`, uint8(2))
	f.Add(200, "", "{}", 200, "Content-Type: application/vnd.oci.image.manifest.v1+json", `{"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"`+d+`"}}`, uint8(3))
	f.Add(200, "", "", 429, "Retry-After: 99999999999", "", uint8(4))
	f.Fuzz(func(t *testing.T, code1 int, header1, body1 string, code2 int, header2, body2 string, op uint8) {
		if code1 < 200 || code1 > 599 || code2 < 200 || code2 > 599 || len(body1)+len(body2) > 20000 {
			return
		}
		p := &played{hosts: map[string]bool{}, secrets: map[string]bool{}, answers: []func(*http.Request) *http.Response{answerWith(code1, header1, body1), answerWith(code2, header2, body2), answerWith(code2, header2, body2)}}
		s := scannerOver(p)
		r := Request{Repository: "r.example/a/b", Auth: Credential{Username: "ali", Password: "sesame"}, Timeout: 5 * time.Second}
		defer await.Quick(t)()
		var err error
		switch op % 6 {
		case 0:
			var scan Scan
			scan, err = s.List(t.Context(), r)
			if len(scan.Tags) > DefaultMaxTags {
				t.Fatal("tags")
			}
		case 1:
			_, err = s.Resolve(t.Context(), r, "1.0.0")
		case 2:
			var image Image
			image, err = s.Inspect(t.Context(), r, d, "linux/amd64")
			if len(image.Labels) > maxLabels {
				t.Fatal("labels")
			}
		case 3:
			_, err = s.Manifest(t.Context(), r, "1.0.0")
		case 4:
			_, err = s.Referrers(t.Context(), r, d, 8)
		case 5:
			_, err = s.Gone(t.Context(), r, "1.0.0", d, "1.1.0")
		}
		typed(t, err)
		if op%6 == 0 {
			for host := range p.hosts {
				if !strings.Contains(strings.ToLower(header1+header2), "realm") && host != "r.example" {
					t.Fatalf("request to %q", host)
				}
			}
		}
		for host := range p.secrets {
			if strings.HasPrefix(host, "http://") {
				t.Fatalf("the password was sent to %s", host)
			}
		}
	})
}

// FuzzImage reads images with arbitrary configurations.
func FuzzImage(f *testing.F) {
	f.Add(`{"os":"linux","architecture":"amd64","created":"2026-01-01T00:00:00Z","config":{"Labels":{"a":"b"}}}`, `"org.opencontainers.image.created":"2026-02-30T00:00:00Z"`, "linux/amd64")
	f.Add(`{"created":"0001-01-01T00:00:00Z","variant":"v8","os":"linux","architecture":"arm64"}`, `"org.opencontainers.image.created":"9999-12-31T23:59:59.999999999+23:59"`, "linux/arm64/v8")
	f.Add(`null`, `"a":"b"`, "")
	f.Fuzz(func(t *testing.T, config, annotations, platform string) {
		sum := sha256.Sum256([]byte(config))
		manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":%d,"digest":"sha256:%s"},"layers":[],"annotations":{%s}}`, len(config), hex.EncodeToString(sum[:]), annotations)
		whole := sha256.Sum256([]byte(manifest))
		digest := "sha256:" + hex.EncodeToString(whole[:])
		answer := func(r *http.Request) *http.Response {
			switch {
			case strings.Contains(r.URL.Path, "/manifests/"):
				return answerWith(200, "Content-Type: application/vnd.oci.image.manifest.v1+json\nDocker-Content-Digest: "+digest, manifest)(r)
			case strings.Contains(r.URL.Path, "/blobs/"):
				return answerWith(200, "", config)(r)
			}
			return answerWith(200, "", "{}")(r)
		}
		p := &played{hosts: map[string]bool{}, secrets: map[string]bool{}, answers: []func(*http.Request) *http.Response{answer}}
		defer await.Quick(t)()
		image, err := scannerOver(p).Inspect(t.Context(), Request{Repository: "r.example/a"}, digest, platform)
		typed(t, err)
		if err == nil {
			size := 0
			for k, v := range image.Labels {
				size += len(k) + len(v)
			}
			if len(image.Labels) > maxLabels || size > maxLabelBytes {
				t.Fatal("labels out of bounds")
			}
			if !image.Created.IsZero() && (image.Created.Year() < 1981 || image.Created.Location() != time.UTC) {
				t.Fatalf("created %s", image.Created)
			}
			if _, err := image.Created.MarshalJSON(); err != nil {
				t.Fatalf("created %v cannot be written to a status: %v", image.Created, err)
			}
			image.Supports(platform)
		}
	})
}

// FuzzRepository checks that requests are sent to the registry that the image name contains.
func FuzzRepository(f *testing.F) {
	for _, s := range []string{"ghcr.io/acme/web", "localhost:5000/x", "[::1]:5000/a", "::/0", "a", "docker.io/library/a", "r.example:99999/a", "R.example/a", "1.2.3.4/a", "xn--a/b", "https:/a/b", "a@b/c", "r.example:/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "/") || strings.HasSuffix(text, "/") {
			return // "/" is parsed as index.docker.io//
		}
		repo, err := parseRepository("x", text, false)
		if err != nil {
			typed(t, err)
			return
		}
		again, err := parseRepository("x", repo.Name(), false)
		if err != nil || again.Name() != repo.Name() {
			t.Fatalf("%q is parsed as %q, and that as %v, %v", text, repo.Name(), again, err)
		}
		u, err := url.Parse(repo.Scheme() + "://" + repo.RegistryStr() + "/v2/")
		if err != nil || u.Host != repo.RegistryStr() || u.User != nil {
			t.Fatalf("%q: the registry %q has the URL %v (%v)", text, repo.RegistryStr(), u, err)
		}
		if Host(text) != repo.RegistryStr() {
			t.Fatal("host")
		}
	})
}

// FuzzLink checks that a link to the next page never causes a request to another registry.
func FuzzLink(f *testing.F) {
	f.Add(`</v2/a/tags/list?last=x>; rel="next"`)
	f.Add(`<http://r.example:80/v2/>; rel="next"`)
	f.Add(`<//evil.example/v2/>`)
	f.Add(`<https://r.example@evil.example/>`)
	repo, _ := name.NewRepository("r.example:5000/a")
	f.Fuzz(func(t *testing.T, link string) {
		u, _ := url.Parse("https://r.example:5000/v2/a/tags/list")
		req := (&http.Request{URL: u}).WithContext(withListing(context.Background(), &listing{repo: repo}))
		resp := &http.Response{Header: http.Header{"Link": {link}}, Request: req}
		correctLink(resp)
		got := resp.Header.Get("Link")
		if got == link {
			return
		}
		end := strings.IndexByte(got, '>')
		next, err := url.Parse(got[1:end])
		if err != nil || next.Scheme != "https" || next.Host != "r.example:5000" || next.User != nil {
			t.Fatalf("%q becomes %q", link, got)
		}
	})
}

// FuzzSameCredential checks that the same Secret always results in the same credential, which is never used for another host.
func FuzzSameCredential(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://r.example/v1/":{"auth":"YTpi"},"r.example":{"auth":"YTpj"},"r.example/v2/":{"username":"a","password":"d"}}}`), "r.example/a/b", TypeDockerConfigJSON)
	f.Add([]byte(`{"r.example/a":{"auth":"YTpi"},"r.example/a/":{"auth":"Yjpj"}}`), "r.example/a/b", TypeDockerConfig)
	f.Add([]byte(`{"auths":{"http://":{"auth":"YTpi"},"/":{"auth":"YTpi"},"":{"auth":"YTpi"}}}`), "a", TypeDockerConfigJSON)
	f.Fuzz(func(t *testing.T, data []byte, repository, kind string) {
		s := Secret{Name: "s", Type: kind, Data: map[string][]byte{".dockerconfigjson": data, ".dockercfg": data, "username": data, "password": data}, Registry: string(data)}
		first, err := FindCredential(repository, s)
		for range 12 {
			again, err2 := FindCredential(repository, s)
			if again.Found != first.Found || again.Credential.Username != first.Credential.Username || fmt.Sprint(err) != fmt.Sprint(err2) && !strings.Contains(fmt.Sprint(err), "entry") {
				t.Fatalf("the same Secret gives %#v (%v), and then %#v (%v): %+v %+v", struct{ U, P string }{first.Credential.Username, first.Credential.Password}, err, struct{ U, P string }{again.Credential.Username, again.Credential.Password}, err2, first.Found, again.Found)
			}
		}
		if first.Found && !bytes.Contains(bytes.ToLower(data), []byte(".")) && !bytes.Contains(data, []byte(":")) && !bytes.Contains(bytes.ToLower(data), []byte("localhost")) {
			t.Fatalf("found by %q", data)
		}
		// Text that the error contains regardless of the data, such as the type of the Secret and the repository, is
		// not secret.
		_, other := FindCredential(repository, Secret{Name: "s", Type: kind, Data: map[string][]byte{".dockerconfigjson": []byte("x"), ".dockercfg": []byte("x")}})
		if err != nil && len(data) > 24 && strings.Contains(err.Error(), string(data)) && !strings.Contains(fmt.Sprint(other), string(data)) {
			t.Fatalf("the error reveals the content: %v", err)
		}
	})
}

// FuzzRetryAfter checks that the length of a pause that a registry requests is within the limits.
func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Thu, 31 Jan 2030 12:01:00 GMT")
	f.Add("4294967296")
	f.Fuzz(func(t *testing.T, header string) {
		if p := pauseFor(header, time.Unix(1.9e9, 0)); p < minPause || p > maxPause {
			t.Fatalf("%q: %s", header, p)
		}
	})
}

// FuzzTLS checks that a certificate and a key that were accepted can be used.
func FuzzTLS(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), []byte("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"), []byte(""))
	f.Fuzz(func(t *testing.T, certificate, key, ca []byte) {
		if len(certificate)+len(key)+len(ca) > 8192 { // the cost of huge RSA values is known
			return
		}
		defer await.Quick(t)()
		got, err := ParseTLS(Secret{Name: "s", Type: TypeTLS, Data: map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": ca}}, time.Unix(1.8e9, 0))
		if err == nil {
			if _, err := got.over(&http.Transport{}); err != nil {
				t.Fatalf("it is accepted, but cannot be used: %v", err)
			}
		}
	})
}
