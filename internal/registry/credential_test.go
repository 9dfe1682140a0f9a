package registry

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func dockerConfig(name, json string) Secret {
	return Secret{Name: name, Type: TypeDockerConfigJSON, Data: map[string][]byte{".dockerconfigjson": []byte(json)}}
}

func basic(name, username, registry string) Secret {
	return Secret{Name: name, Type: TypeBasicAuth, Registry: registry, Data: map[string][]byte{"username": []byte(username), "password": []byte("hunter2")}}
}

// user returns a configuration in which each key has one user.
func user(name string, users map[string]string) Secret {
	var entries []string
	for key, u := range users {
		entries = append(entries, `"`+key+`":{"username":"`+u+`","password":"hunter2"}`)
	}
	return dockerConfig(name, `{"auths":{`+strings.Join(entries, ",")+`}}`)
}

func TestFindCredential(t *testing.T) {
	login := func(u string) Credential { return Credential{Username: u, Password: "hunter2"} }
	encoded := base64.StdEncoding.EncodeToString([]byte("robot:hunter2"))
	for name, tc := range map[string]struct {
		repository string
		secrets    []Secret
		want       Match
		err        string
	}{
		"nothing given": {repository: "ghcr.io/org/web"},
		"host": {repository: "ghcr.io/org/web", secrets: []Secret{user("s", map[string]string{"ghcr.io": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"host as a URL": {repository: "ghcr.io/org/web", secrets: []Secret{user("s", map[string]string{"https://GHCR.io/v2/": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"another host":       {repository: "ghcr.io/org/web", secrets: []Secret{user("s", map[string]string{"quay.io": "robot"})}},
		"host with a prefix": {repository: "evil-ghcr.io/org/web", secrets: []Secret{user("s", map[string]string{"ghcr.io": "robot"})}},
		"another port":       {repository: "ghcr.io:5000/org/web", secrets: []Secret{user("s", map[string]string{"ghcr.io": "robot"})}},
		"same port": {repository: "ghcr.io:5000/org/web", secrets: []Secret{user("s", map[string]string{"ghcr.io:5000": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"path": {repository: "ghcr.io/org/web", secrets: []Secret{user("s", map[string]string{"ghcr.io/org": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"path with slash": {repository: "ghcr.io/org/web", secrets: []Secret{user("s", map[string]string{"ghcr.io/org/": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"half a segment": {repository: "ghcr.io/org-evil/web", secrets: []Secret{user("s", map[string]string{"ghcr.io/org": "robot"})}},
		"longest wins": {repository: "ghcr.io/org/web", secrets: []Secret{
			user("a", map[string]string{"ghcr.io": "host", "ghcr.io/org/web": "web"}), user("b", map[string]string{"ghcr.io/org": "org"})},
			want: Match{true, login("web"), "a"}},
		"longest in a later secret wins": {repository: "ghcr.io/org/web", secrets: []Secret{
			user("a", map[string]string{"ghcr.io": "host"}), user("b", map[string]string{"ghcr.io/org": "org"})},
			want: Match{true, login("org"), "b"}},
		"first of equal entries": {repository: "ghcr.io/org/web", secrets: []Secret{
			user("a", map[string]string{"ghcr.io": "one"}), user("b", map[string]string{"ghcr.io": "two"})},
			want: Match{true, login("one"), "a"}},
		"docker hub by its old URL": {repository: "acme/web", secrets: []Secret{user("s", map[string]string{"https://index.docker.io/v1/": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"docker hub by its short name": {repository: "docker.io/acme/web", secrets: []Secret{user("s", map[string]string{"docker.io": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"docker hub by its API": {repository: "web", secrets: []Secret{user("s", map[string]string{"registry-1.docker.io/library": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"docker hub by its index": {repository: "docker.io/acme/web", secrets: []Secret{user("s", map[string]string{"index.docker.io": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"docker hub by its website": {repository: "index.docker.io/acme/web", secrets: []Secret{user("s", map[string]string{"registry.hub.docker.com/acme": "robot"})},
			want: Match{true, login("robot"), "s"}},
		"docker hub in dockercfg": {repository: "web", secrets: []Secret{{Name: "s", Type: TypeDockerConfig,
			Data: map[string][]byte{".dockercfg": []byte(`{"https://index.docker.io/v1/":{"username":"robot","password":"hunter2"}}`)}}},
			want: Match{true, login("robot"), "s"}},
		"docker hub lookalike":         {repository: "docker.io.evil.example/acme/web", secrets: []Secret{user("s", map[string]string{"docker.io": "robot"})}},
		"half a segment of docker hub": {repository: "acme-evil/web", secrets: []Secret{user("s", map[string]string{"docker.io/acme": "robot"})}},
		"half a segment in dockercfg":  {repository: "ghcr.io/org-evil/web", secrets: []Secret{{Name: "s", Type: TypeDockerConfig, Data: map[string][]byte{".dockercfg": []byte(`{"ghcr.io/org":{"username":"robot","password":"hunter2"}}`)}}}},
		"missing key of dockercfg":     {repository: "ghcr.io/org/web", secrets: []Secret{{Name: "s", Type: TypeDockerConfig}}, err: `does not have the key ".dockercfg"`},
		"basic-auth for the registry":  {repository: "ghcr.io/org/web", secrets: []Secret{basic("s", "robot", "ghcr.io")}, want: Match{true, login("robot"), "s"}},
		"basic-auth for the port":      {repository: "10.0.0.1:5000/web", secrets: []Secret{basic("s", "robot", "10.0.0.1:5000")}, want: Match{true, login("robot"), "s"}},
		"basic-auth for an IPv6 host":  {repository: "[::1]:5000/web", secrets: []Secret{basic("s", "robot", "[::1]:5000")}, want: Match{true, login("robot"), "s"}},
		"basic-auth for docker hub":    {repository: "acme/web", secrets: []Secret{basic("s", "robot", "docker.io/acme")}, want: Match{true, login("robot"), "s"}},
		"basic-auth for the longest path": {repository: "ghcr.io/org/web", secrets: []Secret{user("a", map[string]string{"ghcr.io": "host"}), basic("b", "org", "ghcr.io/org")},
			want: Match{true, login("org"), "b"}},
		"basic-auth for another registry":     {repository: "evil.example/web", secrets: []Secret{basic("s", "robot", "ghcr.io")}},
		"basic-auth for a prefix of the host": {repository: "ghcr.io.evil.example/web", secrets: []Secret{basic("s", "robot", "ghcr.io")}},
		"basic-auth for another port":         {repository: "ghcr.io:5000/web", secrets: []Secret{basic("s", "robot", "ghcr.io")}},
		"basic-auth for another path":         {repository: "ghcr.io/org-evil/web", secrets: []Secret{basic("s", "robot", "ghcr.io/org")}},
		"basic-auth without a registry": {repository: "ghcr.io/org/web", secrets: []Secret{basic("s", "robot", "")},
			err: `Secret "s" has type kubernetes.io/basic-auth, which does not name a registry: annotate it with hlnr.io/registry=host[:port][/path]`},
		"basic-auth for any registry": {repository: "ghcr.io/org/web", secrets: []Secret{basic("s", "robot", "*")},
			err: `annotation hlnr.io/registry is "*", which is not a registry: annotate it`},
		"basic-auth with a scheme only": {repository: "ghcr.io/org/web", secrets: []Secret{basic("s", "robot", "https://")}, err: "which is not a registry"},
		"basic-auth with a path only":   {repository: "ghcr.io/org/web", secrets: []Secret{basic("s", "robot", "/org")}, err: "which is not a registry"},
		"an entry without a host":       {repository: "ghcr.io/org/web", secrets: []Secret{user("s", map[string]string{"": "robot", "https://": "robot"})}},
		"empty entry":                   {repository: "ghcr.io/org/web", secrets: []Secret{dockerConfig("s", `{"auths":{"ghcr.io":{}}}`)}},
		"auth": {repository: "ghcr.io/org/web", secrets: []Secret{dockerConfig("s", `{"auths":{"ghcr.io":{"auth":"`+encoded+`"}}}`)},
			want: Match{true, login("robot"), "s"}},
		"identity token": {repository: "ghcr.io/org/web", secrets: []Secret{dockerConfig("s", `{"auths":{"ghcr.io":{"identitytoken":"t"}}}`)},
			want: Match{true, Credential{IdentityToken: "t"}, "s"}},
		"dockercfg": {repository: "ghcr.io/org/web", secrets: []Secret{{Name: "s", Type: TypeDockerConfig,
			Data: map[string][]byte{".dockercfg": []byte(`{"ghcr.io":{"username":"robot","password":"hunter2"}}`)}}},
			want: Match{true, login("robot"), "s"}},
		"broken auth": {repository: "ghcr.io/org/web", secrets: []Secret{dockerConfig("s", `{"auths":{"ghcr.io":{"auth":"hunter2!"}}}`)},
			err: `Secret "s": entry "ghcr.io"`},
		"auth without colon": {repository: "ghcr.io/org/web", secrets: []Secret{dockerConfig("s", `{"auths":{"ghcr.io":{"auth":"`+base64.StdEncoding.EncodeToString([]byte("hunter2"))+`"}}}`)},
			err: `username:password`},
		"broken JSON":  {repository: "ghcr.io/org/web", secrets: []Secret{dockerConfig("s", `{"auths":{"ghcr.io":{"password":"hunter2`)}, err: `Secret "s": key ".dockerconfigjson"`},
		"missing key":  {repository: "ghcr.io/org/web", secrets: []Secret{{Name: "s", Type: TypeDockerConfigJSON}}, err: `does not have the key ".dockerconfigjson"`},
		"unknown type": {repository: "ghcr.io/org/web", secrets: []Secret{{Name: "s", Type: "Opaque"}}, err: `type "Opaque"`},
		"empty basic":  {repository: "ghcr.io/org/web", secrets: []Secret{{Name: "s", Type: TypeBasicAuth}}, err: "set both keys"},
		"a match next to a broken secret": {repository: "ghcr.io/org/web", secrets: []Secret{dockerConfig("a", `{`), user("b", map[string]string{"ghcr.io": "robot"})},
			want: Match{true, login("robot"), "b"}, err: `Secret "a"`},
		"no repository": {repository: "https://ghcr.io/org/web", err: "without a tag"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FindCredential(tc.repository, tc.secrets...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("match (-want +got):\n%s", diff)
			}
			message := ""
			if err != nil {
				message = err.Error()
			}
			if (tc.err == "") != (err == nil) || !strings.Contains(message, tc.err) {
				t.Errorf("error %q, want %q", message, tc.err)
			}
			if strings.Contains(message, "hunter2") {
				t.Errorf("error %q contains the secret", message)
			}
		})
	}
}

func FuzzFindCredential(f *testing.F) {
	f.Add(`{"auths":{"ghcr.io":{"auth":"cm9ib3Q6aHVudGVyMg=="}}}`, "ghcr.io/org/web")
	f.Add(`{"auths":{"https://index.docker.io/v1/":{"username":"a"}}}`, "web")
	f.Add(`{"auths":null}`, "a/b:c")
	f.Fuzz(func(t *testing.T, config, repository string) {
		m, err := FindCredential(repository, dockerConfig("s", config))
		if m.Found && m.Credential.Anonymous() {
			t.Errorf("found nothing in %q (%v)", config, err)
		}
	})
}

// TestCredentialIsTheSameEachTime checks that the same key is always used if two keys match the same
// registry.
func TestCredentialIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data, want string // password
	}{
		"one user name":  {`{"auths":{"https://index.docker.io/v1/":{"auth":"YTpi"},"docker.io":{"auth":"YTpj"}}}`, "c"},
		"two user names": {`{"auths":{"https://index.docker.io/v1/":{"auth":"YTpi"},"docker.io":{"auth":"YjpX"}}}`, "b"},
		"a broken entry": {`{"auths":{"a.example":{"auth":"!"},"b.example":{"auth":"!"},"c.example":{"auth":"!"}}}`, ""},
	} {
		said := ""
		for i := range 50 {
			match, err := FindCredential("docker.io/acme/web", Secret{Name: "s", Type: TypeDockerConfigJSON, Data: map[string][]byte{".dockerconfigjson": []byte(tc.data)}})
			if match.Credential.Password != tc.want {
				t.Fatalf("%s: password %q, want %q", name, match.Credential.Password, tc.want)
			}
			if message := fmt.Sprint(err); i == 0 {
				said = message
			} else if message != said {
				t.Fatalf("%s: error %q, and then %q", name, said, message)
			}
		}
	}
}
