package githubtest

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"strings"
	"time"
)

// PullRequest is a pull request to open. Title may be empty, but HeadRef must be set.
type PullRequest struct {
	// Number is set by the server.
	Number int
	Title  string
	// HeadRef is the name of the branch.
	HeadRef string
	// HeadSHA is created by the server if it is empty.
	HeadSHA string
	// Fork is the full name of the fork that contains the branch; empty if the branch is in the repository itself.
	Fork string
	// BaseRef defaults to main.
	BaseRef string
	// Author defaults to octocat.
	Author string
	// Association defaults to OWNER.
	Association string
	Labels      []string
	Draft       bool
	// Locked conversations accept no comments.
	Locked bool
	// Closed and Merged are set by Close.
	Closed, Merged bool
	// ForkDeleted is set by DeleteFork, and AuthorDeleted by DeleteAuthor.
	ForkDeleted, AuthorDeleted bool
	// MergeCommitSHA is created by the server; an empty value is sent as null.
	MergeCommitSHA string
	// CreatedAt, UpdatedAt and ClosedAt are set by the server.
	CreatedAt, UpdatedAt, ClosedAt time.Time
}

// Release is a release to publish.
type Release struct {
	ID                int64
	Tag, Name         string
	Prerelease, Draft bool
	Published         time.Time
}

// Tag is a Git tag.
type Tag struct{ Name, SHA string }

// Deployment is a deployment that a client created.
type Deployment struct {
	ID                                             int64
	SHA, Ref, Task, Environment, Description       string
	Payload                                        any
	Transient, Production, AutoMerge, WantedChecks bool
	Creator                                        string
	Statuses                                       []DeploymentStatus
	created                                        time.Time
}

// State returns the state of the latest status; empty if there is no status.
func (d Deployment) State() string {
	if len(d.Statuses) == 0 {
		return ""
	}
	return d.Statuses[len(d.Statuses)-1].State
}

// DeploymentStatus is a status of a deployment.
type DeploymentStatus struct {
	ID                                                int64
	State, Description, EnvironmentURL, LogURL, Owner string
	created                                           time.Time
}

// CommitStatus is one status of a commit.
type CommitStatus struct {
	ID                                            int64
	State, Context, Description, TargetURL, Owner string
}

// Comment is a comment on a pull request.
type Comment struct {
	ID               int64
	Number           int
	Body, Author     string
	created, updated time.Time
}

// Repository is a repository on the server. Its methods may be called while the server is handling
// requests.
type Repository struct {
	s           *Server
	id          int64
	owner, name string

	private, archived, behind, checks bool

	pulls       []*PullRequest // in the order of their numbers, which start at 1
	releases    []*Release
	tags        []Tag
	commits     map[string]time.Time
	parents     map[string][]string // parents of merge commits, keyed by commit
	lateMerges  bool
	deployments []*Deployment
	comments    []*Comment

	commitStatuses map[string][]CommitStatus // keyed by commit
	seed           int

	past []moment // in chronological order; see SetLag
}

// FullName returns the current owner/name.
func (r *Repository) FullName() string { return r.owner + "/" + r.name }

// ID returns the ID of the repository, which does not change when the repository is renamed.
func (r *Repository) ID() int64 { return r.id }

// change calls f while it holds the lock, and records the new state.
func (r *Repository) change(f func()) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	f()
	r.keep()
}

// commit creates a commit and returns its SHA.
func (r *Repository) commit() string {
	r.seed++
	sha := fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "%d %d", r.id, r.seed)))
	r.commits[sha] = r.s.now()
	return sha
}

// Commit creates a commit that is dated now and is not on any branch, and returns its SHA.
func (r *Repository) Commit() (sha string) {
	r.change(func() { sha = r.commit() })
	return sha
}

// Open opens a pull request and returns its number.
func (r *Repository) Open(p PullRequest) int {
	r.change(func() {
		p.Number = len(r.pulls) + 1
		p.CreatedAt, p.UpdatedAt = r.s.now(), r.s.now()
		if p.HeadSHA == "" {
			p.HeadSHA = r.commit()
		}
		if _, known := r.commits[p.HeadSHA]; !known {
			r.commits[p.HeadSHA] = r.s.now()
		}
		p.MergeCommitSHA = r.merge(p.HeadSHA)
		for field, value := range map[*string]string{&p.BaseRef: "main", &p.Author: "octocat", &p.Association: "OWNER"} {
			if *field == "" {
				*field = value
			}
		}
		r.pulls = append(r.pulls, &p)
	})
	r.s.emit(r.PullRequestEvent(p.Number, "opened"))
	return p.Number
}

// Edit changes a pull request with f, and emits an event with the given action, such as edited, labeled, unlabeled, converted_to_draft or
// ready_for_review.
func (r *Repository) Edit(n int, action string, f func(*PullRequest)) {
	r.change(func() {
		p := r.pull(n)
		f(p)
		p.UpdatedAt = r.s.now()
	})
	r.s.emit(r.PullRequestEvent(n, action))
}

// Push adds a commit to the branch of a pull request, and returns the SHA of the commit.
func (r *Repository) Push(n int) (sha string) {
	r.Edit(n, "synchronize", func(p *PullRequest) {
		sha = r.commit()
		p.HeadSHA = sha
		if !r.lateMerges {
			p.MergeCommitSHA = r.merge(sha)
		}
	})
	return sha
}

// Close closes a pull request, with or without merging it.
func (r *Repository) Close(n int, merged bool) {
	r.Edit(n, "closed", func(p *PullRequest) {
		p.Closed, p.Merged, p.ClosedAt = true, merged, r.s.now()
		if merged {
			p.MergeCommitSHA = r.commit()
		}
	})
}

// Reopen reopens a pull request.
func (r *Repository) Reopen(n int) {
	r.Edit(n, "reopened", func(p *PullRequest) { p.Closed, p.Merged, p.ClosedAt = false, false, time.Time{} })
}

// Label sets the labels of a pull request.
func (r *Repository) Label(n int, labels ...string) {
	r.Edit(n, "labeled", func(p *PullRequest) { p.Labels = labels })
}

// SetDraft makes a pull request a draft, or marks it as ready for review.
func (r *Repository) SetDraft(n int, draft bool) {
	action := map[bool]string{true: "converted_to_draft", false: "ready_for_review"}[draft]
	r.Edit(n, action, func(p *PullRequest) { p.Draft = draft })
}

// Lock locks or unlocks the conversation of a pull request.
func (r *Repository) Lock(n int, locked bool) {
	action := map[bool]string{true: "locked", false: "unlocked"}[locked]
	r.Edit(n, action, func(p *PullRequest) { p.Locked = locked })
}

// DeleteFork deletes the fork that contains the branch of a pull request. It emits no event.
func (r *Repository) DeleteFork(n int) { r.change(func() { r.pull(n).ForkDeleted = true }) }

// DeleteAuthor deletes the account of the author of a pull request. It emits no event.
func (r *Repository) DeleteAuthor(n int) { r.change(func() { r.pull(n).AuthorDeleted = true }) }

// PullRequest returns a pull request.
func (r *Repository) PullRequest(n int) (p PullRequest) {
	r.change(func() { p = *r.pull(n); p.Labels = slices.Clone(p.Labels) })
	return p
}

// pull returns a pull request. If the number does not exist, it records a failure and returns a pull request that is not stored.
func (r *Repository) pull(n int) *PullRequest {
	if n < 1 || n > len(r.pulls) {
		r.s.fail("change pull request %d of %s: it does not exist", n, r.FullName())
		return &PullRequest{}
	}
	return r.pulls[n-1]
}

// Publish publishes a release, or stores it as a draft.
func (r *Repository) Publish(release Release) {
	r.change(func() {
		release.ID = r.s.nextID()
		if release.Published.IsZero() && !release.Draft {
			release.Published = r.s.now()
		}
		r.releases = append(r.releases, &release)
	})
	if !release.Draft {
		r.s.emit(r.event("release", "published", func(body map[string]any) { body["release"] = r.s.release(r, &release) }))
	}
}

// Tag creates a tag for a new commit, and returns the SHA of the commit.
func (r *Repository) Tag(name string) (sha string) {
	r.change(func() {
		sha = r.commit()
		r.tags = append(r.tags, Tag{name, sha})
	})
	return sha
}

// SetPrivate sets whether the repository is private. A private repository is hidden from anonymous requests and from tokens that cannot access it.
func (r *Repository) SetPrivate(private bool) { r.change(func() { r.private = private }) }

// SetArchived sets whether the repository is archived. An archived repository is read-only.
func (r *Repository) SetArchived(archived bool) { r.change(func() { r.archived = archived }) }

// SetBehind sets whether all branches are behind their base. If they are, a request to create a deployment with auto_merge
// creates no deployment, and its response has status 202.
func (r *Repository) SetBehind(behind bool) { r.change(func() { r.behind = behind }) }

// SetChecksPending sets whether checks are pending. If they are, a request to create a deployment that requires checks
// fails with status 409.
func (r *Repository) SetChecksPending(pending bool) { r.change(func() { r.checks = pending }) }

// Rename changes the full name of the repository. Requests for the previous name are redirected.
func (r *Repository) Rename(fullName string) {
	r.change(func() {
		r.s.previous[strings.ToLower(r.FullName())] = r.id
		r.owner, r.name, _ = strings.Cut(fullName, "/")
		delete(r.s.previous, strings.ToLower(fullName))
	})
}

// Deployments returns the deployments in the order in which they were created.
func (r *Repository) Deployments() (all []Deployment) {
	r.change(func() {
		for _, d := range r.deployments {
			copied := *d
			copied.Statuses = slices.Clone(d.Statuses)
			all = append(all, copied)
		}
	})
	return all
}

// CommitStatuses returns the statuses of a commit in the order in which they were created.
func (r *Repository) CommitStatuses(sha string) (all []CommitStatus) {
	r.change(func() { all = slices.Clone(r.commitStatuses[sha]) })
	return all
}

// DeleteDeployment deletes a deployment, as a user with the required permission can.
func (r *Repository) DeleteDeployment(id int64) {
	r.change(func() {
		r.deployments = slices.DeleteFunc(r.deployments, func(d *Deployment) bool { return d.ID == id })
	})
}

// Comments returns the comments on a pull request in the order in which they were created.
func (r *Repository) Comments(n int) (all []Comment) {
	r.change(func() {
		for _, c := range r.comments {
			if c.Number == n {
				all = append(all, *c)
			}
		}
	})
	return all
}

// Comment writes a comment as the given author, and returns its ID.
func (r *Repository) Comment(n int, author, body string) (id int64) {
	r.change(func() { id = r.addComment(n, author, body).ID })
	return id
}

func (r *Repository) addComment(n int, author, body string) *Comment {
	c := &Comment{ID: r.s.nextID(), Number: n, Author: author, Body: body, created: r.s.now(), updated: r.s.now()}
	r.comments = append(r.comments, c)
	return c
}

// DeleteComment deletes a comment, as a user can.
func (r *Repository) DeleteComment(id int64) {
	r.change(func() { r.comments = slices.DeleteFunc(r.comments, func(c *Comment) bool { return c.ID == id }) })
}
