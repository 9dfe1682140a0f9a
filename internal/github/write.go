package github

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/go-github/v57/github"

	"github.com/heighliner/heighliner/internal/outbound"
)

// These are the maximum lengths of text on GitHub, in bytes.
const (
	maxDescription = 140
	maxComment     = 65536
)

// markerPattern matches text that needs no escaping in an HTML comment or in JSON.
var markerPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:-]*$`)

// maxMarker is the maximum length of a marker, in characters.
const maxMarker = 200

func checkMarker(what call, marker string) error {
	if len(marker) > maxMarker || !markerPattern.MatchString(marker) || strings.Contains(marker, "--") {
		return &Error{Kind: BadConfig, Op: what.op, Object: what.object, detail: "the marker must consist of at most 200 letters, digits and ._/:-, begin with a letter or digit, and not contain --", remedy: "use the namespace, name and UID of the object"}
	}
	return nil
}

// Deployment is the input to EnsureDeployment.
type Deployment struct {
	// SHA is the full SHA of the commit.
	SHA string
	// Environment is the name of the environment that the pull request shows.
	Environment string
	// Marker distinguishes the deployments of this package from other deployments of the same commit and environment. It consists of at most 200
	// letters, digits and the characters ._/:-, begins with a letter or digit, and does not contain "--".
	Marker string
	// Description is truncated to 140 bytes.
	Description string
	// Transient is true for environments that exist only for a limited time, such as the environments of pull requests.
	Transient bool
	// Production is true for environments that end users use.
	Production bool
}

// payload is the payload of the deployments that this package creates.
type payload struct {
	Marker string `json:"heighliner"`
}

// EnsureDeployment returns the ID of the deployment of a commit to an environment, and creates the deployment if no deployment has the marker.
// Therefore, after a crash between the request and the recording of its response, EnsureDeployment finds the deployment that the request created.
// The deployment causes GitHub neither to merge a branch nor to wait for checks. Every error is an *Error. If the error is of kind Conflict, try
// again.
func (c *Client) EnsureDeployment(ctx context.Context, repo Repo, d Deployment) (int64, error) {
	id, _, err := c.ensureDeployment(ctx, repo, d)
	return id, err
}

// ensureDeployment does the work of EnsureDeployment, and reports whether it created the deployment.
func (c *Client) ensureDeployment(ctx context.Context, repo Repo, d Deployment) (id int64, made bool, err error) {
	what := c.call("create deployment of", repo, "@"+d.SHA, "deployments=write")
	if err := cmp.Or(repo.check(), checkMarker(what, d.Marker)); err != nil {
		return 0, false, err
	}
	if !shaPattern.MatchString(d.SHA) || d.Environment == "" {
		return 0, false, &Error{Kind: BadConfig, Op: what.op, Object: repo.String(), detail: "the full SHA or the environment is missing", remedy: "set both"}
	}
	ctx = ForWriting(ctx)
	id, err = c.findDeployment(ctx, what, repo, d)
	if id != 0 || err != nil {
		return id, false, err
	}
	created, _, err := c.api.Repositories.CreateDeployment(ctx, repo.Owner, repo.Name, &github.DeploymentRequest{
		Ref: &d.SHA, Environment: &d.Environment, Payload: payload{Marker: d.Marker},
		Description:          github.String(outbound.Printable([]byte(d.Description), maxDescription)),
		AutoMerge:            github.Bool(false), // By default, GitHub would merge the base into the branch.
		RequiredContexts:     &[]string{},        // Otherwise, GitHub rejects the deployment while checks run.
		TransientEnvironment: &d.Transient, ProductionEnvironment: &d.Production,
	})
	if err == nil && created.GetID() == 0 {
		err = errUnusable
	}
	if err == nil {
		return created.GetID(), true, nil
	}
	failure := classify(what, err)
	if failure.Kind == Conflict { // Another writer, or this process before a crash, may have created the deployment.
		if id, err := c.findDeployment(ctx, what, repo, d); id != 0 && err == nil {
			return id, false, nil
		}
	}
	return 0, false, failure
}

// findDeployment returns the ID of the first deployment with the marker, or 0.
func (c *Client) findDeployment(ctx context.Context, what call, repo Repo, d Deployment) (int64, error) {
	found, err := pages(ctx, c, what, func(ctx context.Context, o github.ListOptions) ([]*github.Deployment, *github.Response, error) {
		return c.api.Repositories.ListDeployments(ctx, repo.Owner, repo.Name, &github.DeploymentsListOptions{SHA: d.SHA, Environment: d.Environment, ListOptions: o})
	}, func(g *github.Deployment) (int64, bool, error) {
		if g.GetID() == 0 {
			return 0, false, errUnusable
		}
		ours := g.GetSHA() == d.SHA && g.GetEnvironment() == d.Environment && markerOf(g.Payload) == d.Marker
		return g.GetID(), ours, nil
	})
	if err != nil || len(found.Items) == 0 {
		return 0, err
	}
	return slices.Min(found.Items), nil
}

// markerOf returns the marker from a payload. GitHub returns the payload as an object, or as a string that contains an
// object.
func markerOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var p payload
	if json.Unmarshal(raw, &p) != nil {
		return ""
	}
	return p.Marker
}

// DeploymentState is the state of a deployment, in GitHub's spelling.
type DeploymentState string

// These are the states of a deployment.
const (
	Queued     DeploymentState = "queued"
	InProgress DeploymentState = "in_progress"
	Success    DeploymentState = "success"
	Failure    DeploymentState = "failure"
	Inactive   DeploymentState = "inactive"
)

// DeploymentStatus is the status of a deployment, as shown in the pull request.
type DeploymentStatus struct {
	State DeploymentState
	// Description is truncated to 140 bytes.
	Description string
	// EnvironmentURL is the URL of the environment; empty if there is none.
	EnvironmentURL string
	// LogURL is the URL of a page with details; empty if there is none.
	LogURL string
}

// SetDeploymentStatus adds a status to a deployment unless the latest status is the same, and reports whether it added a status. The call does not
// cause GitHub to mark other deployments as inactive. Every error is an *Error. An error of kind NotFound may mean that the deployment was deleted;
// [Client.DeploymentGone] reports whether it was.
func (c *Client) SetDeploymentStatus(ctx context.Context, repo Repo, deployment int64, s DeploymentStatus) (bool, error) {
	what := c.setStatus(repo, deployment)
	if err := repo.check(); err != nil {
		return false, err
	}
	ctx = ForWriting(ctx)
	s.Description = outbound.Printable([]byte(s.Description), maxDescription)
	type numbered struct {
		id int64
		DeploymentStatus
	}
	known, err := pages(ctx, c, what, func(ctx context.Context, o github.ListOptions) ([]*github.DeploymentStatus, *github.Response, error) {
		return c.api.Repositories.ListDeploymentStatuses(ctx, repo.Owner, repo.Name, deployment, &o)
	}, func(g *github.DeploymentStatus) (numbered, bool, error) {
		if g.GetID() == 0 {
			return numbered{}, false, errUnusable
		}
		return numbered{g.GetID(), DeploymentStatus{
			State: DeploymentState(g.GetState()), Description: g.GetDescription(), EnvironmentURL: g.GetEnvironmentURL(), LogURL: g.GetLogURL(),
		}}, true, nil
	})
	if err != nil {
		return false, err
	}
	if len(known.Items) > 0 {
		last := slices.MaxFunc(known.Items, func(a, b numbered) int { return cmp.Compare(a.id, b.id) })
		if last.DeploymentStatus == s {
			return false, nil
		}
	}
	if err := c.addStatus(ctx, repo, deployment, s); err != nil {
		return false, err
	}
	return true, nil
}

// Deactivate marks a deployment as inactive, and reports whether it added a status. A deleted deployment counts as inactive. Every error is an
// *Error.
func (c *Client) Deactivate(ctx context.Context, repo Repo, deployment int64, description string) (bool, error) {
	wrote, err := c.SetDeploymentStatus(ctx, repo, deployment, DeploymentStatus{State: Inactive, Description: description})
	if KindOf(err) != NotFound {
		return wrote, err
	}
	if gone, check := c.DeploymentGone(ctx, repo, deployment); check != nil || !gone {
		return false, err
	}
	return false, nil
}

// DeploymentGone reports whether a deployment was deleted. That is the case if GitHub does not find the deployment, but returns the repository's
// list of deployments for the same credential. Every error is an *Error.
func (c *Client) DeploymentGone(ctx context.Context, repo Repo, deployment int64) (bool, error) {
	what := c.call("get deployment", repo, fmt.Sprintf(" deployment %d", deployment), "deployments=read")
	if err := repo.check(); err != nil {
		return false, err
	}
	ctx = ForWriting(ctx)
	_, _, err := c.api.Repositories.GetDeployment(ctx, repo.Owner, repo.Name, deployment)
	if err == nil {
		return false, nil
	}
	if failure := classify(what, err); failure.Kind != NotFound {
		return false, failure
	}
	one := &github.DeploymentsListOptions{ListOptions: github.ListOptions{PerPage: 1}}
	if _, _, err := c.api.Repositories.ListDeployments(ctx, repo.Owner, repo.Name, one); err != nil {
		return false, classify(what, err)
	}
	return true, nil
}

// Comment is the input to EnsureComment.
type Comment struct {
	// Key identifies one writer of comments on any number of pull requests. It never changes. Users of GitHub must not know the key, because
	// they could use it to compute the mark that identifies the comment on any pull request. Without the key, they can only read the marks of
	// existing comments.
	Key string
	// Body is Markdown of less than 65 KB. Escape user text with EscapeMarkdown.
	Body string
	// EditOnly means that the comment is not created. If it does not exist, the ID in the returned state is 0, and there is no error.
	EditOnly bool
}

// mark returns the first line of the comment on a pull request. GitHub does not display this line. It reveals neither the key nor the mark of the
// comment on another pull request.
func (c Comment) mark(n int) string {
	mac := hmac.New(sha256.New, []byte(c.Key))
	fmt.Fprintf(mac, "comment on %d", n)
	return fmt.Sprintf("<!-- heighliner %x -->", mac.Sum(nil)[:16])
}

// CommentState is the state of a comment, which the caller stores. The zero value means that the comment is new or unknown.
type CommentState struct {
	// ID is the ID of the comment; 0 while it is unknown.
	ID int64
	// Recreated reports whether a user deleted the comment and the comment was then written once more.
	Recreated bool
	// Dismissed reports whether a user deleted the comment for the second time. In this case, the comment is not written again.
	Dismissed bool
}

// EnsureComment writes the comment that Comment.Key identifies on a pull request or issue, and later edits it in place. If the ID of the comment is
// lost, the comment is found by its first line. If a user deletes the comment, it is written once more, but not a third time. A comment by another
// user is never edited. Call EnsureComment only if the body has changed. If the ID is known, the comment is edited without being read first, because
// a new comment may not be visible in GitHub's replicas for a few seconds. The returned state must be stored even if there is an error. Every error
// is an *Error.
func (c *Client) EnsureComment(ctx context.Context, repo Repo, n int, state CommentState, comment Comment) (CommentState, error) {
	what := c.call("write comment on", repo, number(n), "pull_requests=write")
	if err := repo.check(); err != nil {
		return state, err
	}
	if comment.Key == "" {
		return state, &Error{Kind: BadConfig, Op: what.op, Object: what.object, detail: "the comment has no key", remedy: "set the key to the UID of the object"}
	}
	if state.Dismissed {
		return state, nil
	}
	ctx = ForWriting(ctx)
	mark := comment.mark(n)
	body := mark + "\n" + comment.Body
	if len(body) > maxComment {
		body = strings.ToValidUTF8(body[:maxComment], "")
	}
	if state.ID != 0 {
		_, _, err := c.api.Issues.EditComment(ctx, repo.Owner, repo.Name, state.ID, &github.IssueComment{Body: &body})
		if err == nil {
			return state, nil
		}
		if failure := classify(what, err); failure.Kind != NotFound {
			return state, failure
		}
	}
	current, err := c.comment(ctx, what, repo, n, state.ID, mark, body)
	if err != nil {
		return state, err
	}
	lost := state.ID != 0 && current == nil
	if lost && state.Recreated {
		return CommentState{Recreated: true, Dismissed: true}, nil
	}
	switch {
	case current == nil && comment.EditOnly:
		state.ID = 0
		return state, nil
	case current == nil:
		made, _, err := c.api.Issues.CreateComment(ctx, repo.Owner, repo.Name, n, &github.IssueComment{Body: &body})
		if err == nil && made.GetID() == 0 {
			err = errUnusable
		}
		if err != nil {
			return state, classify(what, err)
		}
		if login := made.GetUser().GetLogin(); login != "" {
			c.login.Store(&login)
		}
		return CommentState{ID: made.GetID(), Recreated: state.Recreated || lost}, nil
	}
	state.ID = current.id // The ID is returned even if the edit fails, because the comment exists.
	if current.change {
		if _, _, err := c.api.Issues.EditComment(ctx, repo.Owner, repo.Name, current.id, &github.IssueComment{Body: &body}); err != nil {
			return state, classify(what, err)
		}
	}
	return state, nil
}

// marked is a comment that begins with our mark. To save memory, it does not contain the text: any reader can copy the mark into many long
// comments.
type marked struct {
	id     int64
	login  string
	change bool // whether the text differs from the new body
}

// comment returns our first comment that begins with mark, or nil if the pull request is visible but has no such comment. It skips the comment whose
// ID is passed in the deleted argument.
func (c *Client) comment(ctx context.Context, what call, repo Repo, n int, deleted int64, mark, body string) (*marked, error) {
	found, err := pages(ctx, c, what, func(ctx context.Context, o github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
		return c.api.Issues.ListComments(ctx, repo.Owner, repo.Name, n, &github.IssueListCommentsOptions{ListOptions: o})
	}, func(g *github.IssueComment) (marked, bool, error) {
		if g.GetID() == 0 {
			return marked{}, false, errUnusable
		}
		return marked{g.GetID(), strings.Clone(g.GetUser().GetLogin()), g.GetBody() != body}, g.GetID() != deleted && strings.HasPrefix(g.GetBody(), mark), nil
	})
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	login, err := c.ownLogin(ctx)
	if err != nil {
		return nil, err
	}
	return firstBy(login, found.Items), nil
}

// firstBy returns the first comment by an author, or nil if there is no such comment. It also returns nil if the author is unknown, because any
// reader of our comment can copy the mark.
func firstBy(login string, comments []marked) (first *marked) {
	for i, comment := range comments {
		if login != "" && strings.EqualFold(comment.login, login) && (first == nil || comment.id < first.id) {
			first = &comments[i]
		}
	}
	return first
}

// ownLogin returns the login of the user or App to which the credential belongs; empty if the credential does not permit this request. A known login
// is not requested again. Every error is an *Error.
func (c *Client) ownLogin(ctx context.Context) (string, error) {
	if known := c.login.Load(); known != nil {
		return *known, nil
	}
	login, err := c.askLogin(ctx)
	if err != nil {
		failure := classify(call{op: "get", object: "login of the credential", anonymous: c.anonymous, app: c.apps != nil}, err)
		switch failure.Kind {
		case Forbidden, Denied, NotFound: // An installation token does not permit this request.
			return "", nil
		}
		return "", failure
	}
	c.login.Store(&login)
	return login, nil
}

func (c *Client) askLogin(ctx context.Context) (string, error) {
	if c.apps != nil {
		app, _, err := c.apps.Apps.Get(ctx, "")
		if err == nil && app.GetSlug() == "" {
			err = errUnusable
		}
		return app.GetSlug() + "[bot]", err
	}
	user, _, err := c.api.Users.Get(ctx, "")
	if err == nil && user.GetLogin() == "" {
		err = errUnusable
	}
	return user.GetLogin(), err
}

// EscapeMarkdown escapes text from other users for use in a comment. The result is a single line without markup, links,
// images, HTML, or mentions of users, teams and issues. The text is truncated to limit bytes before it is escaped.
func EscapeMarkdown(text string, limit int) string {
	var out strings.Builder
	for _, r := range outbound.Printable([]byte(text), limit) {
		switch {
		case r == '<':
			out.WriteString("&lt;")
		case r == '>':
			out.WriteString("&gt;")
		case r == '&':
			out.WriteString("&amp;")
		case r == '@' || r == '#':
			// GitHub parses mentions after it has processed the Markdown, so only a character between the symbol and the name prevents a mention.
			out.WriteRune('\\')
			out.WriteRune(r)
			out.WriteRune('\u200b')
		case r < unicode.MaxASCII && (unicode.IsPunct(r) || unicode.IsSymbol(r)):
			out.WriteRune('\\')
			out.WriteRune(r)
		case unicode.Is(unicode.Cf, r):
			// Omit the character, because it is invisible and may change the direction of the following text.
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
