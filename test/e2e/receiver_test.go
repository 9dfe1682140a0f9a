//go:build e2e && linux

package e2e

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// call is a hook request as decoded by its receiver.
type call struct {
	APIVersion      string            `json:"apiVersion"`
	ID              string            `json:"id"`
	Type            string            `json:"type"`
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	Microservice    string            `json:"microservice"`
	Group           string            `json:"group"`
	Release         string            `json:"release"`
	Version         string            `json:"version"`
	PreviousVersion string            `json:"previousVersion"`
	Run             int64             `json:"run"`
	Step            int32             `json:"step"`
	StepName        string            `json:"stepName"`
	Weight          int32             `json:"weight"`
	Phase           string            `json:"phase"`
	Reason          string            `json:"reason"`
	Time            time.Time         `json:"time"`
	Metadata        map[string]string `json:"metadata"`
}

// receiver is an HTTP endpoint of this process in the cluster's network. It checks the signature and the
// headers of each call, records the call, and responds as configured.
type receiver struct {
	t   *testing.T
	url string
	key []byte

	mu      sync.Mutex
	calls   []call
	answers map[string]int // The status codes, by hook, and by hook and version.
}

// receive starts a receiver. key is the signing key.
func receive(t *testing.T, key string) *receiver {
	t.Helper()
	r := &receiver{t: t, key: []byte(key), answers: map[string]int{}}
	r.url = serveInside(t, r) + "/hooks"
	return r
}

// serveInside serves in the cluster's network until the test ends. The returned URL has no path.
func serveInside(t *testing.T, handler http.Handler) (url string) {
	t.Helper()
	host, _, err := net.SplitHostPort(env.RegistryInternal)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := env.ListenInside(net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return "http://" + listener.Addr().String()
}

// answerAll sets the status code for a hook, for all versions without their own status code. The default is 200.
func (r *receiver) answerAll(hook string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[hook] = status
}

// answer sets the status code for a hook and a version from now on.
func (r *receiver) answer(hook, version string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[hook+" "+version] = status
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		return // The manager was killed during the call.
	}
	var c call
	if err := json.Unmarshal(body, &c); err != nil {
		r.t.Errorf("the body of a hook call is not JSON: %v: %q", err, body)
	}
	if problem := r.check(req, body, c); problem != "" {
		r.t.Errorf("call of hook %s: %s", c.Name, problem)
		http.Error(w, problem, http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.calls = append(r.calls, c)
	status := cmp.Or(r.answers[c.Name+" "+c.Version], r.answers[c.Name], http.StatusOK)
	r.mu.Unlock()
	w.WriteHeader(status)
	fmt.Fprintf(w, "%s says %d\n", c.Name, status)
}

// signature returns the signature of a request with the given body.
func (r *receiver) signature(req *http.Request, body []byte) string {
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte(req.Header.Get("X-Heighliner-Timestamp") + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// check describes the errors in a call.
func (r *receiver) check(req *http.Request, body []byte, c call) string {
	switch {
	case req.Method != http.MethodPost:
		return "method " + req.Method
	case !strings.HasPrefix(req.UserAgent(), "heighliner/"):
		return "user agent " + req.UserAgent()
	case req.Header.Get("Content-Type") != "application/json":
		return "content type " + req.Header.Get("Content-Type")
	case !hmac.Equal([]byte(r.signature(req, body)), []byte(req.Header.Get("X-Heighliner-Signature"))):
		return "signature " + req.Header.Get("X-Heighliner-Signature")
	case c.ID == "" || c.ID != req.Header.Get("X-Heighliner-Delivery"):
		return fmt.Sprintf("id %q and delivery %q", c.ID, req.Header.Get("X-Heighliner-Delivery"))
	case c.APIVersion != "hooks.hlnr.io/v1":
		return "apiVersion " + c.APIVersion
	case time.Since(c.Time).Abs() > time.Minute:
		return "time " + c.Time.String()
	}
	return ""
}

// of returns a hook's calls for a version so far.
func (r *receiver) of(hook, version string) []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []call
	for _, c := range r.calls {
		if c.Name == hook && c.Version == version {
			calls = append(calls, c)
		}
	}
	return calls
}

// ids returns the distinct IDs of calls.
func ids(calls []call) []string {
	var all []string
	for _, c := range calls {
		if !slices.Contains(all, c.ID) {
			all = append(all, c.ID)
		}
	}
	return all
}
