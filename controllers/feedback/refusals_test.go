package feedback

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// on sets the function that responds to requests. If answer returns false, GitHub responds.
func (s *story) on(answer func(w http.ResponseWriter, r *http.Request) bool) { s.answer.Store(&answer) }

// TestLockedConversation checks that a locked conversation gets no comment, that other conversations get
// comments, and that the condition reports no error.
func TestLockedConversation(t *testing.T) {
	s := begin(t, func(g *v1alpha1.GitHubRepositorySpec) { g.Feedback.Deployments.PullRequests = ptr.To(false) })
	for n := range 20 {
		s.open(githubtest.PullRequest{HeadRef: fmt.Sprintf("feature-%d", n)})
	}
	s.repo.Lock(20, true) // the newest pull request, which is written first
	s.repo.Lock(7, true)
	for range 10 {
		s.clock.Step(s.settle() + time.Second)
	}
	for n := 1; n <= 20; n++ {
		want := 1
		if n == 20 || n == 7 {
			want = 0
		}
		if got := len(s.repo.Comments(n)); got != want {
			t.Errorf("pull request %d has %d comments, want %d", n, got, want)
		}
	}
	if got, want := s.condition(), "True Succeeded: comments not written because the conversation is locked: #20, #7"; got != want {
		t.Errorf("condition %q, want %q", got, want)
	}
	if tries := s.server.Count(comments, 403); tries > 2*12 {
		t.Errorf("%d attempts to write to two locked conversations in %s", tries, "a few hours")
	}
	s.repo.Lock(7, false)
	s.clock.Step(invalidBackoff)
	s.settle()
	s.commented("unlocked", 7, "**queued**")
	// After feedback is removed from the specification, cleanup does not wait for the conversation to be unlocked.
	s.repo.Lock(3, true)
	s.edit(func(g *v1alpha1.GitHubRepository) { g.Spec.Feedback = nil })
	for range 10 {
		s.clock.Step(s.settle() + time.Second)
	}
	if ghr := s.get(); len(ghr.Finalizers)+len(ghr.Status.Comments) != 0 || s.condition() != "" {
		t.Errorf("feedback remains: %q, %d comments, %s", ghr.Finalizers, len(ghr.Status.Comments), s.condition())
	}
	s.commented("unlocked", 7, "no longer reported")
}

// TestSuspendedCredential checks that the condition reports an error that affects all writes, and that
// all feedback is written when the error no longer occurs.
func TestSuspendedCredential(t *testing.T) {
	s := begin(t)
	for n := range 8 {
		s.open(githubtest.PullRequest{HeadRef: fmt.Sprintf("feature-%d", n)})
	}
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		return refuse(w, http.StatusForbidden, `{"message":"This installation has been suspended","documentation_url":"https://docs.github.com/rest","status":"403"}`)
	})
	s.settle()
	if got := s.condition(); !strings.HasPrefix(got, "False Blocked: ") {
		t.Errorf("condition %q", got)
	}
	s.answer.Store(nil)
	s.clock.Step(maxBackoff)
	for range 20 {
		s.clock.Step(s.settle() + time.Second)
	}
	if got := s.condition(); got != allWritten {
		t.Errorf("condition %q", got)
	}
}

// TestCommentThatWasNeverWritten checks that no comment is created only for its final text, and that the record of a comment that
// could not be written does not remain.
func TestCommentThatWasNeverWritten(t *testing.T) {
	for name, end := range map[string]func(*story){
		"comments are turned off": func(s *story) {
			s.edit(func(g *v1alpha1.GitHubRepository) { g.Spec.Feedback.Comment = ptr.To(false) })
		},
		"no feedback": func(s *story) { s.edit(func(g *v1alpha1.GitHubRepository) { g.Spec.Feedback = nil }) },
		"closed":      func(s *story) { s.repo.Close(1, false); s.poll() },
	} {
		for may, permissions := range map[string]map[string]string{
			"read comments":     {"deployments": "write", "pull_requests": "read"},
			"not read comments": {"deployments": "write"},
		} {
			t.Run(name+", may "+may, func(t *testing.T) {
				s := begin(t)
				s.server.AddToken(token, githubtest.Access{Permissions: permissions})
				s.open(feature())
				s.settle()
				if got := s.condition(); !strings.HasPrefix(got, "False Forbidden: ") || len(s.get().Status.Comments) != 1 {
					t.Errorf("condition %q, %d records of comments", got, len(s.get().Status.Comments))
				}
				end(s)
				s.clock.Step(maxBackoff)
				s.settle()
				want := allWritten
				if name == "no feedback" {
					want = ""
				}
				ghr := s.get()
				if got := s.condition(); got != want || len(ghr.Status.Comments) != 0 || want == "" && len(ghr.Finalizers) != 0 {
					t.Errorf("condition %q, records of comments %+v, finalizers %q", got, ghr.Status.Comments, ghr.Finalizers)
				}
				s.server.AddToken(token, githubtest.Access{})
				s.edit(func(g *v1alpha1.GitHubRepository) {
					g.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "now"}
				})
				s.settle()
				if all := s.repo.Comments(1); len(all) != 0 {
					t.Errorf("comments %+v after the permission was granted", all)
				}
			})
		}
	}
}

// TestDeletedCommentHasNoFinalText checks that a comment that a user deleted is not created again only for its final text, and that its record does
// not remain.
func TestDeletedCommentHasNoFinalText(t *testing.T) {
	for name, end := range map[string]func(*story){
		"comments are turned off": func(s *story) {
			s.edit(func(g *v1alpha1.GitHubRepository) { g.Spec.Feedback.Comment = ptr.To(false) })
		},
		"no feedback": func(s *story) { s.edit(func(g *v1alpha1.GitHubRepository) { g.Spec.Feedback = nil }) },
		"closed":      func(s *story) { s.repo.Close(1, false); s.poll() },
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.open(feature())
			s.settle()
			s.repo.DeleteComment(s.repo.Comments(1)[0].ID)
			end(s)
			s.settle()
			if all, records := s.repo.Comments(1), s.get().Status.Comments; len(all)+len(records) != 0 {
				t.Errorf("comments %+v, records %+v", all, records)
			}
		})
	}
}

// TestCommentThatWasDeletedTwice checks that a comment that a user deleted twice, the second time before its pull request was closed, is not
// written again if the pull request is reopened.
func TestCommentThatWasDeletedTwice(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.settle()
	s.repo.DeleteComment(s.repo.Comments(1)[0].ID)
	s.rolloutState(1, groupName, sha+" pending")
	s.settle()
	s.repo.DeleteComment(s.repo.Comments(1)[0].ID)
	s.repo.Close(1, false)
	s.poll()
	s.settle()
	s.repo.Reopen(1)
	s.rolloutState(1, groupName, sha+" +active")
	s.poll()
	s.settle()
	if all := s.repo.Comments(1); len(all) != 0 {
		t.Errorf("comments %+v", all)
	}
}

// TestClosedDuringAPause checks that a pull request that is opened and closed during a pause gets no comment.
func TestClosedDuringAPause(t *testing.T) {
	s := begin(t)
	s.server.Fail(githubtest.Fault{Route: comments, Answer: githubtest.SecondaryLimit, RetryAfter: time.Minute, Times: 1})
	sha := s.open(feature())
	s.settle()
	if got := s.condition(); !strings.HasPrefix(got, "False RateLimited: ") {
		t.Errorf("condition %q", got)
	}
	s.repo.Close(1, false)
	s.poll()
	s.clock.Step(time.Minute)
	s.settle()
	s.expect("closed", envName+" "+short(sha)+": queued inactive")
	if got, all := s.condition(), s.repo.Comments(1); got != allWritten || len(all)+len(s.get().Status.Comments) != 0 {
		t.Errorf("condition %q, comments %+v", got, all)
	}
}

// TestKilledWhileCommenting checks that a comment that was created but not recorded gets its final text even if its pull request is
// closed before the manager restarts.
func TestKilledWhileCommenting(t *testing.T) {
	s := begin(t)
	s.open(feature())
	s.settle()
	ghr := s.get()
	ghr.Status.Comments[0].CommentID, ghr.Status.Comments[0].Checksum = 0, ""
	if err := env.Client.Status().Update(t.Context(), ghr); err != nil {
		t.Fatal(err)
	}
	s.restart()
	s.repo.Close(1, false)
	s.poll()
	s.settle()
	s.commented("closed meanwhile", 1, "is closed")
	if c := s.get().Status.Comments; len(c) != 1 || c[0].CommentID == 0 {
		t.Errorf("records of comments %+v", c)
	}
}

// TestReservedRequests checks that feedback is written and removed while only the requests that are reserved for writes
// remain.
func TestReservedRequests(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.server.SetLimit(token, 5000, 499, time.Hour)
	s.settle() // the responses to the first task contain the limit
	s.rolloutState(1, groupName, sha+" +active")
	s.settle()
	s.expect("ready", envName+" "+short(sha)+": queued success")
	s.commented("ready", 1, "**ready**")
	if got := s.condition(); got != allWritten {
		t.Errorf("condition %q", got)
	}
	if err := env.Client.Delete(t.Context(), s.get()); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.expect("deleted", envName+" "+short(sha)+": queued success inactive")
	if s.get() != nil {
		t.Error("the deletion waits for the end of the hour")
	}
}

// TestFailureOfADroppedWrite checks that the failure of a write is forgotten when the write is no longer planned.
func TestFailureOfADroppedWrite(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.settle()
	s.server.Fail(githubtest.Fault{Route: statuses, Answer: githubtest.Validation})
	s.rolloutState(1, groupName, sha+" pending")
	s.settle()
	if got := s.condition(); !strings.HasPrefix(got, "False Invalid: ") || len(s.remembered().failures) != 1 {
		t.Errorf("condition %q, failures %+v", got, s.remembered().failures)
	}
	s.rolloutState(1, groupName) // the state that was written before
	s.settle()
	if got := s.condition(); got != allWritten || len(s.remembered().failures) != 0 {
		t.Errorf("condition %q, failures %+v", got, s.remembered().failures)
	}
	s.server.Heal()
	s.rolloutState(1, groupName, sha+" pending")
	s.settle()
	s.expect("the same write without a wait", envName+" "+short(sha)+": queued in_progress")
}

func refuse(w http.ResponseWriter, code int, body string) bool {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprint(w, body)
	return true
}

// lagging makes reads of Deployments omit new Deployments, as GitHub's replicas do, until healed is
// called.
func (s *story) lagging() (healed func()) {
	var mu sync.Mutex
	lag := false
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		_, thing, about := strings.Cut(r.URL.Path, "/deployments")
		switch {
		case !about:
			return false
		case r.Method == http.MethodPost && thing == "":
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return refuse(w, http.StatusInternalServerError, "{}")
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			made := httptest.NewRecorder()
			s.server.ServeHTTP(made, r)
			lag = true
			return refuse(w, made.Code, made.Body.String())
		case r.Method != http.MethodGet || !lag:
			return false
		case thing == "":
			return refuse(w, http.StatusOK, `[]`)
		}
		return refuse(w, http.StatusNotFound, `{"message":"Not Found","documentation_url":"https://docs.github.com/rest","status":"404"}`)
	})
	return func() { mu.Lock(); defer mu.Unlock(); lag = false }
}

// TestReplicaLag checks that a new Deployment gets its first status, and that no second Deployment is
// created, although GitHub's replicas know about the Deployment only after a few seconds.
func TestReplicaLag(t *testing.T) {
	s := begin(t)
	healed := s.lagging()
	sha := s.open(feature())
	s.settle()
	s.expect("made", envName+" "+short(sha)+": queued")
	s.rolloutState(1, groupName, sha+" pending")
	for range 3 {
		wait := s.settle()
		s.expect("not known yet", envName+" "+short(sha)+": queued")
		if got := s.condition(); !strings.HasPrefix(got, "False NotFound: ") || wait <= 0 || wait > 10*time.Second {
			t.Errorf("condition %q, requeued after %s", got, wait)
		}
		s.clock.Step(wait)
	}
	healed()
	s.settle()
	s.expect("known", envName+" "+short(sha)+": queued in_progress")
}

// TestClosedWhileReplicasLag covers a pull request that is closed before the replicas know about its
// Deployment. The Deployment must become inactive, and must not count as deleted.
func TestClosedWhileReplicasLag(t *testing.T) {
	s := begin(t)
	healed := s.lagging()
	sha := s.open(feature())
	s.settle()
	s.repo.Close(1, false)
	s.poll()
	wait := s.settle()
	s.expect("closed", envName+" "+short(sha)+": queued")
	healed()
	s.clock.Step(wait)
	s.settle()
	s.expect("known", envName+" "+short(sha)+": queued inactive")
}

// TestDeploymentDeleted checks that a Deployment that a user deleted on GitHub is created again after it
// has been missing on GitHub for a minute, even if retries are requested.
func TestDeploymentDeleted(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.settle()
	s.repo.DeleteDeployment(s.repo.Deployments()[0].ID)
	s.rolloutState(1, groupName, sha+" pending")
	began := s.clock.Now()
	for try := range 20 {
		wait := s.settle()
		if len(s.repo.Deployments()) > 0 {
			break
		}
		if try%2 == 0 {
			s.request(try)
		}
		s.clock.Step(wait)
	}
	s.expect("created again", envName+" "+short(sha)+": in_progress")
	if took := s.clock.Since(began); took < deletedAfter || took > 3*deletedAfter {
		t.Errorf("created again after %s", took)
	}
	if diff := cmp.Diff(allWritten, s.condition()); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
}

// TestEverythingLags checks that there is one Deployment and one comment, with the complete state,
// although all reads return the state from a few seconds ago.
func TestEverythingLags(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.server.SetLag(5 * time.Second)
	s.settle()
	s.expect("opened", envName+" "+short(sha)+": queued")
	s.rolloutState(1, groupName, sha+" pending")
	s.settle()
	s.commented("a second later", 1, "**in progress**")
	for range 5 {
		s.clock.Step(10 * time.Second)
		s.settle()
	}
	s.expect("pending", envName+" "+short(sha)+": queued in_progress")
	s.rolloutState(1, groupName, sha+" +active")
	s.settle()
	s.commented("ready", 1, "**ready**")
	if c := s.get().Status.Comments; len(c) != 1 || c[0].Deletions != 0 {
		t.Errorf("comments %+v", c)
	}
}
