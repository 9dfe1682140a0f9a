package registrytest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// gitea returns the registry of Gitea, which hack/localcluster builds.
func gitea() Product {
	return Product{
		Name: "gitea-1.26", Logins: []Login{Everybody, ByToken, Hidden}, Pages: true, DeletesTags: true,
		program: named("TEST_GITEA"), prepare: prepareGitea, tag: tagByRequest, untag: untagByRequest,
	}
}

func prepareGitea(p *Process) ([]string, error) {
	host, port, err := net.SplitHostPort(p.address)
	if err != nil {
		return nil, err
	}
	// The token realm is at ROOT_URL, which contains a host name, because a private address would be refused. With the
	// Hidden login, the realm is at the host to which the request was sent.
	signIn, visibility, detection := p.login == ByToken, "public", "never"
	if p.login == Hidden {
		visibility, detection = "private", "auto"
	}
	config, err := p.write("app.ini", fmt.Sprintf(`APP_NAME = test
RUN_MODE = prod
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = %[1]s
[server]
PROTOCOL = http
HTTP_ADDR = %[2]s
HTTP_PORT = %[3]s
ROOT_URL = http://localhost:%[3]s/
PUBLIC_URL_DETECTION = %[7]s
STATIC_ROOT_PATH = %[4]s
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = %[1]s/gitea.db
SQLITE_JOURNAL_MODE = WAL
[security]
INSTALL_LOCK = true
SECRET_KEY = a-key-of-tests
INTERNAL_TOKEN = eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJuYmYiOjE3NjcyMjU2MDB9.Mlz0OIgS6Rb7dkRPyVyDDsRFCJpWsYMx0QpR_Hm2dWk
MIN_PASSWORD_LENGTH = 6
PASSWORD_COMPLEXITY = off
PASSWORD_HASH_ALGO = pbkdf2_v1
[oauth2]
JWT_SECRET = AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
[service]
REQUIRE_SIGNIN_VIEW = %[5]t
DEFAULT_USER_VISIBILITY = %[6]s
DISABLE_REGISTRATION = true
[cron]
ENABLED = false
[indexer]
ISSUE_INDEXER_TYPE = db
[log]
MODE = console
LEVEL = warn
`, p.data, host, port, filepath.Dir(p.program), signIn, visibility, detection))
	if err != nil {
		return nil, err
	}
	done := filepath.Join(p.data, "prepared")
	if _, err := os.Stat(done); err == nil {
		return []string{"web", "--config", config}, nil
	}
	for _, arguments := range [][]string{
		{"migrate"},
		{"admin", "user", "create", "--username", Robot, "--password", RobotPassword, "--email", "robot@example.com", "--must-change-password=false"},
	} {
		command := exec.Command(p.program, append(arguments, "--config", config)...)
		command.Dir, command.Env = p.data, p.environment()
		if out, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("gitea %s: %w: %s", arguments[0], err, out)
		}
	}
	return []string{"web", "--config", config}, os.WriteFile(done, nil, 0o600)
}

// tagByRequest pushes the manifest of a digest under each tag, and sends several requests at the same time.
func tagByRequest(p *Process, path, digest string, tags []string) error {
	ref, err := name.NewDigest(p.Repository(path) + "@" + digest)
	if err != nil {
		return err
	}
	puller, err := remote.NewPuller(p.Options()...)
	if err != nil {
		return err
	}
	desc, err := puller.Get(p.t.Context(), ref)
	if err != nil {
		return err
	}
	pusher, err := remote.NewPusher(append(p.Options(), remote.Reuse(puller))...)
	if err != nil {
		return err
	}
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		failed error
		next   = make(chan string)
	)
	for range 4 {
		group.Go(func() {
			for tag := range next {
				if err := pusher.Push(p.t.Context(), ref.Tag(tag), desc); err != nil {
					mu.Lock()
					failed = fmt.Errorf("tag %s: %w", tag, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, tag := range tags {
		next <- tag
	}
	close(next)
	group.Wait()
	return failed
}
