package github

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/google/go-github/v57/github"

	"github.com/heighliner/heighliner/internal/outbound"
)

// These limits, in bytes except for maxLabels and maxParents, apply to text that users of GitHub write. GitHub itself rejects longer names of branches
// and labels. Titles are truncated.
const (
	maxTitle  = 200
	maxRef    = 255
	maxName   = 200
	maxLabel  = 200 // 50 characters of up to four bytes
	maxLabels = 100
	maxURL    = 500
	// maxText is the maximum total size of the text of the pull requests in a list. 2,000 pull requests, each with a few labels, take up half of this
	// size.
	maxText = 8 << 20
	// maxParents is the maximum number of parents of a commit that are read. A merge by GitHub has two parents.
	maxParents = 16
)

// State is the state of a pull request.
type State string

// These are the states of a pull request.
const (
	Open   State = "Open"
	Closed State = "Closed"
)

// PullRequest is a pull request as reported by GitHub. Each text is a single line of limited length.
type PullRequest struct {
	Number int
	State  State
	// Merged reports whether a closed pull request was merged.
	Merged bool
	Title  string
	Draft  bool
	// Author is the login of the author; empty if the account was deleted.
	Author string
	// Association is the association of the author with the repository, in GitHub's spelling: OWNER, MEMBER, COLLABORATOR, CONTRIBUTOR,
	// FIRST_TIMER, FIRST_TIME_CONTRIBUTOR, MANNEQUIN or NONE.
	Association string
	Labels      []string
	// HeadRef is the name of the branch, and HeadSHA is its commit.
	HeadRef, HeadSHA string
	// HeadRepo is the full name of the branch's repository; empty if that repository was deleted.
	HeadRepo string
	// Fork reports whether the branch is in another repository, or in a repository that was deleted.
	Fork bool
	// BaseRef is the branch into which the pull request would be merged. RepositoryID is the ID of the repository that contains this branch. The pull
	// request belongs to that repository.
	BaseRef      string
	RepositoryID int64
	// MergeCommitSHA is the SHA of GitHub's test merge until the pull request is merged, and of the actual merge afterwards. It is empty if GitHub
	// has not created the test merge yet.
	MergeCommitSHA string
	// URL is the URL of the web page.
	URL                  string
	CreatedAt, UpdatedAt time.Time
	// ClosedAt is zero while the pull request is open.
	ClosedAt time.Time
}

// Release is a published release.
type Release struct {
	ID         int64
	Tag        string
	Name       string
	Prerelease bool
	// Published is never zero, because drafts are omitted.
	Published time.Time
	URL       string
}

// Tag is a Git tag.
type Tag struct {
	Name string
	// SHA is the SHA of the commit.
	SHA string
}

// Commit is a Git commit.
type Commit struct {
	SHA string
	// Committed is the committer date. The author of the commit can choose the date freely.
	Committed time.Time
	// Parents are the full SHAs of the parents.
	Parents []string
}

// Repository is a repository with its current name.
type Repository struct {
	ID int64
	// Repo is the current name. If it differs from the requested name, the repository was renamed or moved, and GitHub redirected the request.
	Repo          Repo
	DefaultBranch string
	Private       bool
	Archived      bool
	URL           string
}

var shaPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// PullRequests is a list of pull requests.
type PullRequests struct {
	List[PullRequest]
	// Unusable contains the numbers of the pull requests that were omitted because their branch names contain no printable characters.
	Unusable []int
}

// OpenPullRequests lists all open pull requests. Each number appears once. If a pull request is missing from the list, it may still be open,
// because pages shift while they are being read; use PullRequest to check. Every error is an *Error.
func (c *Client) OpenPullRequests(ctx context.Context, repo Repo) (PullRequests, error) {
	what := c.call("list pull requests of", repo, "", "pull_requests=read")
	if err := repo.check(); err != nil {
		return PullRequests{}, err
	}
	var all PullRequests
	seen := map[int]bool{}
	text := 0
	list, err := pages(ctx, c, what, func(ctx context.Context, o github.ListOptions) ([]*github.PullRequest, *github.Response, error) {
		return c.api.PullRequests.List(ctx, repo.Owner, repo.Name, &github.PullRequestListOptions{State: "open", Sort: "created", Direction: "asc", ListOptions: o})
	}, func(p *github.PullRequest) (PullRequest, bool, error) {
		converted, err := pullRequest(p)
		wanted := err == nil && converted.State == Open && !seen[converted.Number]
		seen[converted.Number] = true
		if text += converted.Text(); text > maxText {
			return PullRequest{}, false, &outbound.TooLargeError{Limit: maxText}
		}
		if wanted && converted.HeadRef == "" { // Users choose branch names, so a name must not cause the list to fail.
			all.Unusable = append(all.Unusable, converted.Number)
			return converted, false, nil
		}
		return converted, wanted, err
	})
	all.List = list
	return all, err
}

// PullRequest requests one pull request. An error of kind NotFound does not prove that the pull request does not exist, because the credential may
// not be able to access it. Every error is an *Error.
func (c *Client) PullRequest(ctx context.Context, repo Repo, n int) (PullRequest, error) {
	what := c.call("get pull request", repo, number(n), "pull_requests=read")
	if err := repo.check(); err != nil {
		return PullRequest{}, err
	}
	answer, _, err := c.api.PullRequests.Get(ctx, repo.Owner, repo.Name, n)
	if err != nil {
		return PullRequest{}, classify(what, err)
	}
	converted, err := pullRequest(answer)
	if err == nil && (converted.Number != n || converted.HeadRef == "" && converted.State == Open) {
		err = errUnusable
	}
	if err != nil {
		return PullRequest{}, classify(what, err)
	}
	return converted, nil
}

// pullRequest converts a go-github pull request, in which any field may be nil. HeadRef is empty if the branch name contains no
// printable characters.
func pullRequest(p *github.PullRequest) (PullRequest, error) {
	head, base := p.GetHead(), p.GetBase()
	converted := PullRequest{
		Number: p.GetNumber(), Merged: !p.GetMergedAt().IsZero(), Draft: p.GetDraft(),
		Title:  outbound.Printable([]byte(p.GetTitle()), maxTitle),
		Author: outbound.Printable([]byte(p.GetUser().GetLogin()), maxName), Association: outbound.Printable([]byte(p.GetAuthorAssociation()), maxName),
		HeadRef: outbound.Printable([]byte(head.GetRef()), maxRef), HeadSHA: head.GetSHA(),
		HeadRepo: outbound.Printable([]byte(head.GetRepo().GetFullName()), maxName),
		Fork:     head.GetRepo().GetID() == 0 || head.GetRepo().GetID() != base.GetRepo().GetID(),
		BaseRef:  outbound.Printable([]byte(base.GetRef()), maxRef), RepositoryID: base.GetRepo().GetID(), MergeCommitSHA: p.GetMergeCommitSHA(),
		URL:       webAddress(p.GetHTMLURL()),
		CreatedAt: p.GetCreatedAt().UTC(), UpdatedAt: p.GetUpdatedAt().UTC(), ClosedAt: p.GetClosedAt().UTC(),
	}
	for _, label := range p.Labels {
		if name := outbound.Printable([]byte(label.GetName()), maxLabel); name != "" && len(converted.Labels) < maxLabels {
			converted.Labels = append(converted.Labels, name)
		}
	}
	switch p.GetState() {
	case "open":
		converted.State = Open
	case "closed":
		converted.State = Closed
	}
	if !shaPattern.MatchString(converted.MergeCommitSHA) {
		converted.MergeCommitSHA = ""
	}
	if converted.Number <= 0 || converted.State == "" || !shaPattern.MatchString(converted.HeadSHA) || head.GetRef() == "" {
		return PullRequest{}, errUnusable
	}
	return converted, nil
}

// Text returns the size of the pull request's text in bytes.
func (p *PullRequest) Text() int {
	n := len(p.Title) + len(p.Author) + len(p.Association) + len(p.HeadRef) + len(p.HeadSHA) + len(p.HeadRepo) + len(p.BaseRef) + len(p.MergeCommitSHA) + len(p.URL)
	for _, label := range p.Labels {
		n += len(label) + 16
	}
	return n
}

// webAddress returns text if it is the URL of a web page, and an empty string otherwise.
func webAddress(text string) string {
	if len(text) > maxURL || !webPattern.MatchString(text) {
		return ""
	}
	return text
}

var webPattern = regexp.MustCompile(`^https?://[!-~]+$`)

// Releases lists the published releases in GitHub's order, newest first. This is not necessarily the order of versions. Drafts, and releases whose
// tag names cannot be shown, are omitted. Every error is an *Error.
func (c *Client) Releases(ctx context.Context, repo Repo) (List[Release], error) {
	what := c.call("list releases of", repo, "", "contents=read")
	if err := repo.check(); err != nil {
		return List[Release]{}, err
	}
	seen := map[int64]bool{}
	return pages(ctx, c, what, func(ctx context.Context, o github.ListOptions) ([]*github.RepositoryRelease, *github.Response, error) {
		return c.api.Repositories.ListReleases(ctx, repo.Owner, repo.Name, &o)
	}, func(r *github.RepositoryRelease) (Release, bool, error) {
		if r.GetID() == 0 {
			return Release{}, false, errUnusable
		}
		wanted := !r.GetDraft() && !r.GetPublishedAt().IsZero() && shown(r.GetTagName()) && !seen[r.GetID()]
		seen[r.GetID()] = true
		return Release{
			ID: r.GetID(), Tag: r.GetTagName(), Name: outbound.Printable([]byte(r.GetName()), maxTitle),
			Prerelease: r.GetPrerelease(), Published: r.GetPublishedAt().UTC(), URL: webAddress(r.GetHTMLURL()),
		}, wanted, nil
	})
}

// shown reports whether the name of a tag can be shown on one line without being changed. A changed name would be the name of a different
// tag.
func shown(name string) bool {
	return name != "" && outbound.Printable([]byte(name), maxRef) == name
}

// Tags lists the tags in no particular order. It omits tags whose names cannot be shown. Every error is an *Error.
func (c *Client) Tags(ctx context.Context, repo Repo) (List[Tag], error) {
	what := c.call("list tags of", repo, "", "contents=read")
	if err := repo.check(); err != nil {
		return List[Tag]{}, err
	}
	seen := map[string]bool{}
	return pages(ctx, c, what, func(ctx context.Context, o github.ListOptions) ([]*github.RepositoryTag, *github.Response, error) {
		return c.api.Repositories.ListTags(ctx, repo.Owner, repo.Name, &o)
	}, func(t *github.RepositoryTag) (Tag, bool, error) {
		if t.GetName() == "" || !shaPattern.MatchString(t.GetCommit().GetSHA()) {
			return Tag{}, false, errUnusable
		}
		wanted := shown(t.GetName()) && !seen[t.GetName()]
		seen[t.GetName()] = true
		return Tag{Name: t.GetName(), SHA: t.GetCommit().GetSHA()}, wanted, nil
	})
}

// Commit requests one commit by its full SHA. Every error is an *Error.
func (c *Client) Commit(ctx context.Context, repo Repo, sha string) (Commit, error) {
	what := c.call("get commit", repo, "@"+sha, "contents=read")
	if err := repo.check(); err != nil {
		return Commit{}, err
	}
	if !shaPattern.MatchString(sha) {
		return Commit{}, &Error{Kind: BadConfig, Op: what.op, Object: repo.String(), detail: "the given value is not a full SHA", remedy: "use the full SHA of the commit"}
	}
	answer, _, err := c.api.Git.GetCommit(ctx, repo.Owner, repo.Name, sha)
	if err == nil && answer.GetSHA() != sha {
		err = errUnusable
	}
	if err != nil {
		return Commit{}, classify(what, err)
	}
	commit := Commit{SHA: sha, Committed: answer.GetCommitter().GetDate().UTC()}
	for _, parent := range answer.Parents[:min(len(answer.Parents), maxParents)] {
		if shaPattern.MatchString(parent.GetSHA()) {
			commit.Parents = append(commit.Parents, parent.GetSHA())
		}
	}
	return commit, nil
}

// Repository requests the repository itself, and follows a redirect to its current name. Every error is an *Error.
func (c *Client) Repository(ctx context.Context, repo Repo) (Repository, error) {
	what := c.call("get repository", repo, "", "metadata=read")
	if err := repo.check(); err != nil {
		return Repository{}, err
	}
	answer, _, err := c.api.Repositories.Get(ctx, repo.Owner, repo.Name)
	return repositoryFrom(what, answer, err)
}

// RepositoryByID requests the repository with the given ID. The ID does not change when the repository is renamed. Every error is an *Error.
func (c *Client) RepositoryByID(ctx context.Context, id int64) (Repository, error) {
	what := call{op: "get repository", object: fmt.Sprintf("number %d", id), permission: "metadata=read", anonymous: c.anonymous}
	answer, _, err := c.api.Repositories.GetByID(ctx, id)
	if err == nil && answer.GetID() != id {
		err = errUnusable
	}
	return repositoryFrom(what, answer, err)
}

func repositoryFrom(what call, answer *github.Repository, err error) (Repository, error) {
	if err != nil {
		return Repository{}, classify(what, err)
	}
	today := Repo{Owner: answer.GetOwner().GetLogin(), Name: answer.GetName()}
	if answer.GetID() == 0 || today.check() != nil {
		return Repository{}, classify(what, errUnusable)
	}
	return Repository{
		ID: answer.GetID(), Repo: today, DefaultBranch: outbound.Printable([]byte(answer.GetDefaultBranch()), maxRef),
		Private: answer.GetPrivate(), Archived: answer.GetArchived(), URL: webAddress(answer.GetHTMLURL()),
	}, nil
}
