package registrytest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// hashOfRobot is the entry for Robot in an htpasswd file, with the bcrypt hash of the password.
const hashOfRobot = Robot + ":$2b$04$V6TnGHZsNjTZyY2T34BFjeHi95UvSGU/mg0F.c3fjDkE/SQh5F/k6\n"

// distribution2 returns CNCF Distribution as packaged by Debian. It always returns a list as one page, and cannot delete individual tags. Tags are
// therefore deleted directly in its files.
func distribution2() Product {
	return Product{
		Name: "distribution-2.8", Logins: []Login{Everybody, ByPassword, ByToken},
		program: func(t testing.TB) string {
			t.Helper()
			program, err := exec.LookPath("docker-registry")
			if err != nil {
				t.Fatalf("find CNCF Distribution: %v: discovery is tested with a real registry: run make test, which installs it, or apt-get install docker-registry", err)
			}
			return program
		},
		prepare: prepareDistribution, tag: tagInFiles,
		untag: func(p *Process, path, tag string) error { return os.RemoveAll(p.folder(path, tag)) },
	}
}

// distribution3 returns CNCF Distribution 3, which hack/localcluster builds.
func distribution3() Product {
	return Product{
		Name: "distribution-3.1", Logins: []Login{Everybody, ByPassword, ByToken}, Pages: true, DeletesTags: true,
		program: named("TEST_DISTRIBUTION"), prepare: prepareDistribution, tag: tagInFiles, untag: untagByRequest,
	}
}

func prepareDistribution(p *Process) ([]string, error) {
	auth, err := p.distributionAuth()
	if err != nil {
		return nil, err
	}
	config, err := p.write("config.yml", fmt.Sprintf("version: 0.1\nlog: {level: warn}\nstorage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}\nhttp: {addr: %q}\n%s", p.data, p.address, auth))
	return []string{"serve", config}, err
}

// distributionAuth returns the part of the configuration that restricts who may read. It reuses the configuration of an earlier start.
func (p *Process) distributionAuth() (string, error) {
	file := filepath.Join(p.data, "auth.yml")
	if text, err := os.ReadFile(file); err == nil {
		return string(text), nil
	}
	text := ""
	switch p.login {
	case ByPassword:
		users, err := p.write("htpasswd", hashOfRobot)
		if err != nil {
			return "", err
		}
		text = fmt.Sprintf("auth: {htpasswd: {realm: x, path: %q}}\n", users)
	case ByToken:
		realm, bundle, err := tokenServer(p.t)
		if err != nil {
			return "", err
		}
		certificates, err := p.write("tokens.pem", string(bundle))
		if err != nil {
			return "", err
		}
		text = fmt.Sprintf("auth: {token: {realm: %q, service: distribution, issuer: tokens, rootcertbundle: %q}}\n", realm, certificates)
	}
	_, err := p.write("auth.yml", text)
	return text, err
}

// folder returns the folder of a tag in the files of CNCF Distribution.
func (p *Process) folder(path, tag string) string {
	return filepath.Join(p.data, "docker", "registry", "v2", "repositories", filepath.FromSlash(p.path(path)), "_manifests", "tags", tag)
}

// tagInFiles creates tags directly in the files of the registry, because creating a thousand tags
// with requests would take seconds.
func tagInFiles(p *Process, path, digest string, tags []string) error {
	for _, tag := range tags {
		folder := filepath.Join(p.folder(path, tag), "current")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "link"), []byte(digest), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// tokenServer starts a token server that issues tokens to Robot. The tokens are valid for a minute. The realm
// contains a host name, because private addresses in a challenge are refused.
func tokenServer(t testing.TB) (realm string, bundle []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tokens"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", nil, err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if username, password, _ := r.BasicAuth(); username != Robot || password != RobotPassword {
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
			"iss": "tokens", "sub": Robot, "aud": "distribution", "exp": now.Add(time.Minute).Unix(), "nbf": now.Add(-time.Minute).Unix(),
			"iat": now.Unix(), "jti": fmt.Sprint(now.UnixNano()), "access": access,
		})
		token.Header["x5c"] = []string{base64.StdEncoding.EncodeToString(der)}
		signed, err := token.SignedString(key)
		if err != nil {
			t.Errorf("sign a token: %v", err)
		}
		json.NewEncoder(w).Encode(map[string]any{"token": signed, "expires_in": 60})
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/token", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
