package github

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// deployment returns a deployment of the first pull request.
func (w *world) deployment() Deployment {
	return Deployment{SHA: w.repo.PullRequest(1).HeadSHA, Environment: "pr-1/shop", Marker: "shop/ghr/uid-1", Description: "shop", Transient: true}
}

func TestDeploymentIsMadeOnce(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	w.repo.SetBehind(true)        // By default, GitHub would merge the base.
	w.repo.SetChecksPending(true) // By default, GitHub would refuse the deployment.
	c := w.token()
	first := must(c.EnsureDeployment(t.Context(), shop, w.deployment()))(t)
	for range 3 { // as after a crash, without state in memory
		if again := must(c.EnsureDeployment(t.Context(), shop, w.deployment()))(t); again != first {
			t.Errorf("deployment %d, want %d again", again, first)
		}
	}
	all := w.repo.Deployments()
	if len(all) != 1 || all[0].ID != first || !all[0].Transient || all[0].Production || all[0].AutoMerge || all[0].WantedChecks {
		t.Fatalf("deployments %+v", all)
	}
	if got := w.Count(deployRoute, 0); got != 1 {
		t.Errorf("%d requests to create, want 1", got)
	}
	sha := w.repo.Push(1)
	second := must(c.EnsureDeployment(t.Context(), shop, w.deployment()))(t)
	other := w.deployment()
	other.Marker = "other/ghr/uid-2"
	third := must(c.EnsureDeployment(t.Context(), shop, other))(t)
	all = w.repo.Deployments()
	if len(all) != 3 || all[1].ID != second || all[1].SHA != sha || all[2].ID != third {
		t.Errorf("deployments %+v, want one for each commit and marker", all)
	}
}

func TestDeploymentConflicts(t *testing.T) {
	for name, answer := range map[string]githubtest.Answer{"202": githubtest.DeploymentMerged, "409": githubtest.DeploymentConflict} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.open(1)
			w.Fail(githubtest.Fault{Route: deployRoute, Answer: answer, Times: 1})
			_, err := w.token().EnsureDeployment(t.Context(), shop, w.deployment())
			isKind(t, err, Conflict)
			if !Conflict.Transient() || len(w.repo.Deployments()) != 0 {
				t.Error("a conflict is final, or left a deployment behind")
			}
			if id := must(w.token().EnsureDeployment(t.Context(), shop, w.deployment()))(t); id != w.repo.Deployments()[0].ID {
				t.Errorf("deployment %d, want the one that was created", id)
			}
		})
	}
}

func TestDeploymentErrors(t *testing.T) {
	tests := map[string]struct {
		change func(*world, *Deployment)
		want   Kind
		words  string
	}{
		"archived":       {func(w *world, _ *Deployment) { w.repo.SetArchived(true) }, Forbidden, "archived"},
		"unknown commit": {func(_ *world, d *Deployment) { d.SHA = strings.Repeat("a", 40) }, Invalid, "422"},
		"short commit":   {func(_ *world, d *Deployment) { d.SHA = "abc" }, BadConfig, "SHA"},
		"no environment": {func(_ *world, d *Deployment) { d.Environment = "" }, BadConfig, "environment"},
		"no marker":      {func(_ *world, d *Deployment) { d.Marker = "" }, BadConfig, "marker"},
		"HTML marker":    {func(_ *world, d *Deployment) { d.Marker = "a-->b" }, BadConfig, "marker"},
		"no permission": {func(w *world, _ *Deployment) {
			w.AddToken("secret-a", githubtest.Access{Permissions: map[string]string{"deployments": "read"}})
		}, Forbidden, "deployments=write"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.open(1)
			d := w.deployment()
			test.change(w, &d)
			_, err := w.token().EnsureDeployment(t.Context(), shop, d)
			isKind(t, err, test.want)
			if !strings.Contains(err.Error(), test.words) {
				t.Errorf("message %q does not name %q", err, test.words)
			}
		})
	}
}

func TestDeploymentStatusIsSetOnChange(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	c := w.token()
	id := must(c.EnsureDeployment(t.Context(), shop, w.deployment()))(t)
	long := strings.Repeat("ü", 200)
	steps := []struct {
		status DeploymentStatus
		wrote  bool
	}{
		{DeploymentStatus{State: Queued}, true},
		{DeploymentStatus{State: Queued}, false},
		{DeploymentStatus{State: InProgress, Description: "1.2.3 starts"}, true},
		{DeploymentStatus{State: InProgress, Description: "1.2.3 starts"}, false},
		{DeploymentStatus{State: Success, EnvironmentURL: "https://pr-1.example.com", LogURL: "https://example.com/log"}, true},
		{DeploymentStatus{State: Success, EnvironmentURL: "https://pr-1.example.com", LogURL: "https://example.com/log"}, false},
		{DeploymentStatus{State: Success, EnvironmentURL: "https://other.example.com", LogURL: "https://example.com/log"}, true},
		{DeploymentStatus{State: Failure, Description: long}, true},
		{DeploymentStatus{State: Failure, Description: long}, false},
		{DeploymentStatus{State: Queued}, true},
	}
	writes := 0
	for i, step := range steps {
		if got := must(c.SetDeploymentStatus(t.Context(), shop, id, step.status))(t); got != step.wrote {
			t.Errorf("step %d: wrote %v, want %v", i, got, step.wrote)
		}
		if step.wrote {
			writes++
		}
	}
	if got := w.Count(statusRoute, 201); got != writes {
		t.Errorf("%d statuses, want %d", got, writes)
	}
	if got := w.repo.Deployments()[0].Statuses[4]; got.State != "failure" || len(got.Description) != maxDescription {
		t.Errorf("status %+v, want a description of %d bytes", got, maxDescription)
	}
}

func TestDeactivate(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	c := w.token()
	id := must(c.EnsureDeployment(t.Context(), shop, w.deployment()))(t)
	for i, want := range []bool{true, false} {
		if got := must(c.Deactivate(t.Context(), shop, id, "closed"))(t); got != want {
			t.Errorf("time %d: wrote %v, want %v", i+1, got, want)
		}
	}
	if got := w.repo.Deployments()[0].State(); got != "inactive" {
		t.Errorf("state %s", got)
	}
	w.Fail(githubtest.Fault{Route: "GET /repos/{owner}/{repo}/deployments/{deployment_id}/statuses", Answer: githubtest.NotFound, Times: 1})
	_, err := c.Deactivate(t.Context(), shop, id, "closed")
	isKind(t, err, NotFound) // although it exists
	w.repo.DeleteDeployment(id)
	if got, err := c.Deactivate(t.Context(), shop, id, "closed"); got || err != nil {
		t.Errorf("deleted deployment: %v, %v", got, err)
	}
	w.repo.SetPrivate(true)
	w.AddToken("secret-a", githubtest.Access{Repositories: []string{"acme/other"}})
	_, err = c.Deactivate(t.Context(), shop, id, "closed")
	isKind(t, err, NotFound) // Lost access is not a deletion.
}

func TestCommentIsOne(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	c := w.token()
	w.repo.Comment(1, "ada", "Nice. "+Comment{Key: "uid-1"}.mark(1)+" is not ours")
	write := func(state CommentState, body string) CommentState {
		t.Helper()
		return must(c.EnsureComment(t.Context(), shop, 1, state, Comment{Key: "uid-1", Body: body}))(t)
	}
	ours := func() (bodies []string) {
		for _, comment := range w.repo.Comments(1) {
			if comment.Author == "octocat" {
				bodies = append(bodies, comment.Body)
			}
		}
		return bodies
	}
	want := func(body string, writes int) {
		t.Helper()
		if diff := cmp.Diff([]string{Comment{Key: "uid-1"}.mark(1) + "\n" + body}, ours()); diff != "" {
			t.Errorf("comments (-want +got):\n%s", diff)
		}
		if got := w.Count(commentRoute, 0) + w.Count(editRoute, 0); got != writes {
			t.Errorf("%d writes, want %d", got, writes)
		}
	}

	state := write(CommentState{}, "queued")
	want("queued", 1)
	if again := write(state, "queued"); again != state {
		t.Errorf("state %+v, want %+v", again, state)
	}
	want("queued", 2)                                            // With a known ID, the comment is written without a read.
	if again := write(CommentState{}, "ready"); again != state { // The ID is lost.
		t.Errorf("state %+v, want %+v", again, state)
	}
	want("ready", 3)
	if again := write(CommentState{}, "ready"); again != state {
		t.Errorf("state %+v, want %+v", again, state)
	}
	want("ready", 3)
	state = write(state, "ready again")
	want("ready again", 4)

	w.repo.DeleteComment(state.ID) // deleted by a user
	second := write(state, "ready")
	if !second.Recreated || second.Dismissed || second.ID == state.ID {
		t.Errorf("state %+v, want a new comment", second)
	}
	want("ready", 6) // two attempts to edit
	second = write(second, "closed")
	want("closed", 7)

	w.repo.DeleteComment(second.ID) // deleted again
	third := write(second, "ready")
	if diff := cmp.Diff(CommentState{Recreated: true, Dismissed: true}, third); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	w.ResetCounts()
	write(third, "other")
	if got := ours(); len(got) != 0 || w.Count("", 0) != 0 {
		t.Errorf("comments %q and %d requests after the comment was deleted twice", got, w.Count("", 0))
	}
}

// TestCommentOfAnother checks that another user's copy of the client's comment is never edited, regardless of what happens to the original, and of
// whether the process knows its own login.
func TestCommentOfAnother(t *testing.T) {
	for name, restarts := range map[string]bool{"in one process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.open(1)
			c := w.token()
			comment := Comment{Key: "uid", Body: "ready"}
			state := must(c.EnsureComment(t.Context(), shop, 1, CommentState{}, comment))(t)
			copied := w.repo.Comment(1, "mallory", w.repo.Comments(1)[0].Body)
			w.repo.DeleteComment(state.ID)
			if restarts {
				w.restart()
				c = w.token()
			}
			comment.Body = "ready again"
			for range 2 {
				state = must(c.EnsureComment(t.Context(), shop, 1, state, comment))(t)
			}
			if all := w.repo.Comments(1); len(all) != 2 || state.ID == copied {
				t.Errorf("our comment is %d of %+v", state.ID, all)
			}
			found := must(c.EnsureComment(t.Context(), shop, 1, CommentState{}, comment))(t)
			if found.ID != state.ID {
				t.Errorf("our comment %d is found again as %d", state.ID, found.ID)
			}
		})
	}
}

// TestCommentOfAnotherAuthor checks the case of a user who knows the form of our comments and can read those on one
// pull request. This knowledge does not help the user on another pull request, and comments of other users are never
// treated as ours.
func TestCommentOfAnotherAuthor(t *testing.T) {
	credentials := map[string]func(*world) Credential{
		"token": func(*world) Credential { return Credential{Token: "secret-a"} },
		"App": func(w *world) Credential {
			w.AddApp(7, &key().PublicKey)
			w.Install(7, "acme", false, githubtest.Access{Login: "shop-bot[bot]"})
			return Credential{App: &App{ID: 7, Owner: "acme", PrivateKey: keyPEM()}}
		},
	}
	for name, credential := range credentials {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.open(3)
			sent := credential(w)
			ensure := func(n int, state CommentState, body string) CommentState {
				t.Helper()
				return must(w.client(sent).EnsureComment(t.Context(), shop, n, state, Comment{Key: "uid", Body: body}))(t)
			}
			ensure(1, CommentState{}, "ready")
			first := w.repo.Comments(1)[0].Body
			for n := 2; n <= 3; n++ {
				w.repo.Comment(n, "mallory", strings.Replace(first, "1", "2", 1))
				w.repo.Comment(n, "mallory", Comment{Key: "uid"}.mark(n)+"\nas if they knew it")
			}
			w.restart()
			for n := 2; n <= 3; n++ {
				state := ensure(n, CommentState{}, "table")
				state = ensure(n, state, "table, later")
				ensure(n, state, "table, last")
				all := w.repo.Comments(n)
				if len(all) != 3 || all[0].Author != "mallory" || all[1].Author != "mallory" || !strings.HasSuffix(all[2].Body, "table, last") {
					t.Errorf("comments on %d: %+v", n, all)
				}
			}
			if w.Count("GET /user", 0)+w.Count("GET /app", 0) != 1 {
				t.Errorf("the login was requested %d times, want once", w.Count("GET /user", 0)+w.Count("GET /app", 0))
			}
		})
	}
}

// TestCommentIsFoundAfterACrash checks that a comment that was written before a crash is found by its author and its first line.
func TestCommentIsFoundAfterACrash(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	state := must(w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "uid", Body: "ready"}))(t)
	w.restart()
	if found := must(w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "uid", Body: "ready"}))(t); found != state {
		t.Errorf("state %+v, want %+v", found, state)
	}
	w.restart()
	w.Fail(githubtest.Fault{Route: "GET /user", Answer: githubtest.Unavailable, Times: 1})
	_, err := w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "uid", Body: "ready"})
	isKind(t, err, Unreachable)
	if all := w.repo.Comments(1); len(all) != 1 {
		t.Errorf("comments %+v while the login cannot be requested", all)
	}
}

// TestCommentIsOnlyEdited checks that a comment that may only be edited is found by its first line, and that it is not created.
func TestCommentIsOnlyEdited(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	comment := Comment{Key: "uid", Body: "closed", EditOnly: true}
	if state := must(w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, comment))(t); state != (CommentState{}) {
		t.Errorf("state %+v without a comment", state)
	}
	if got := w.Count(commentRoute, 0); got != 0 {
		t.Errorf("%d comments were created", got)
	}
	made := must(w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "uid", Body: "ready"}))(t)
	w.Fail(githubtest.Fault{Route: editRoute, Answer: githubtest.Validation, Times: 1})
	state, err := w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, comment)
	isKind(t, err, Invalid)
	if state != made {
		t.Errorf("state %+v after a failed edit, want %+v", state, made)
	}
	if state := must(w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, comment))(t); state != made {
		t.Errorf("state %+v, want %+v", state, made)
	}
	if all := w.repo.Comments(1); len(all) != 1 || !strings.HasSuffix(all[0].Body, "closed") {
		t.Errorf("comments %+v", all)
	}
	w.repo.DeleteComment(made.ID)
	if state := must(w.token().EnsureComment(t.Context(), shop, 1, made, comment))(t); state.ID != 0 || len(w.repo.Comments(1)) != 0 {
		t.Errorf("state %+v after the comment was deleted, comments %+v", state, w.repo.Comments(1))
	}
}

// TestMarksAreIndependent checks that the public text of a comment reveals neither the key nor the mark on another pull request.
func TestMarksAreIndependent(t *testing.T) {
	seen := map[string]bool{}
	for _, key := range []string{"uid", "uid2"} {
		for _, n := range []int{1, 2, 12} {
			mark := Comment{Key: key}.mark(n)
			if seen[mark] || strings.Contains(mark, key) {
				t.Errorf("mark %q", mark)
			}
			seen[mark] = true
		}
	}
	_, err := newWorld(t).token().EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Body: "b"})
	isKind(t, err, BadConfig)
}

func TestCommentNeedsThePullRequest(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	c := w.token()
	state := must(c.EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "m", Body: "b"}))(t)
	w.Fail(githubtest.Fault{Answer: githubtest.NotFound}) // as after the loss of access
	got, err := c.EnsureComment(t.Context(), shop, 1, state, Comment{Key: "m", Body: "c"})
	isKind(t, err, NotFound)
	if got != state {
		t.Errorf("state %+v with an error, want %+v", got, state)
	}
	w.Heal()
	w.Fail(githubtest.Fault{Route: commentRoute, Answer: githubtest.Gone, Times: 1})
	_, err = c.EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "other", Body: "c"})
	isKind(t, err, NotFound)
}

// TestMissingPermissionIsNamedByGitHub checks that a permission that GitHub reports takes precedence over the documented one.
func TestMissingPermissionIsNamedByGitHub(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	w.AddToken("secret-b", githubtest.Access{Permissions: map[string]string{"issues": "read"}})
	_, err := w.client(Credential{Token: "secret-b"}).EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "m", Body: "b"})
	isKind(t, err, Forbidden)
	if want := "issues=write; pull_requests=write"; !strings.Contains(err.Error(), want) {
		t.Errorf("message %q does not name %q", err, want)
	}
}

func TestCommentIsCut(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	body := strings.Repeat("é", maxComment)
	state := must(w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "m", Body: body}))(t)
	again := must(w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "m", Body: body}))(t)
	if again != state || w.Count(editRoute, 0) != 0 {
		t.Error("a truncated comment is written again")
	}
}

func TestEscapeMarkdown(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain":         {"Add carts", "Add carts"},
		"markup":        {"**a** `b` [c](d) ![e](f)", `\*\*a\*\* \` + "`b\\`" + ` \[c\]\(d\) \!\[e\]\(f\)`},
		"HTML":          {"<img src=x> &amp; <!-- x -->", `&lt;img src\=x&gt; &amp;amp\; &lt;\!\-\- x \-\-&gt;`},
		"mentions":      {"@acme/all #12", "\\@\u200bacme\\/all \\#\u200b12"},
		"addresses":     {"https://evil.example www.x.y", `https\:\/\/evil\.example www\.x\.y`},
		"lines":         {"a\n# b", "a \\#\u200b b"},
		"direction":     {"a\u202eb\u200bc", "abc"},
		"truncated":     {strings.Repeat("ü", 300), strings.Repeat("ü", 50)},
		"invalid UTF-8": {"a\xffb", "ab"},
		"backslash":     {`\@a`, "\\\\\\@\u200ba"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, EscapeMarkdown(test.text, 100)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeploymentsAreFoundByPrefix(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	c := w.token()
	want := []MadeDeployment{}
	for _, marker := range []string{"uid-1:a", "uid-1:b", "uid-2:a"} {
		d := w.deployment()
		d.Marker, d.Environment = marker, "pr-1/"+marker[len(marker)-1:]
		id := must(c.EnsureDeployment(t.Context(), shop, d))(t)
		want = append(want, MadeDeployment{ID: id, SHA: d.SHA, Environment: d.Environment, Marker: marker})
	}
	tests := map[string]struct {
		prefix, environment string
		want                []MadeDeployment
	}{
		"a prefix":                    {"uid-1:", "", []MadeDeployment{want[1], want[0]}},
		"all deployments":             {"", "", []MadeDeployment{want[2], want[1], want[0]}},
		"a prefix and an environment": {"uid-1:", "pr-1/a", want[:1]},
		"no match":                    {"uid-3:", "", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, must(c.Deployments(t.Context(), shop, test.prefix, "", test.environment))(t).Items); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
