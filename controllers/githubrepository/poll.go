package githubrepository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// wanted contains the parts of a repository that ImagePolicies read.
type wanted struct {
	pulls, releases, tags bool
	// commits reports whether the commits of releases are needed.
	commits bool
	// names are the regular expressions that select the tags that ImagePolicies read, sorted and joined by separator. An
	// empty expression selects all tags.
	names string
	// labels are the labels to which ImagePolicies refer, in lower case, sorted and joined by separator.
	labels string
}

// separator does not occur in regular expressions in the API.
const separator = "\x00"

// any reports whether there is anything to read.
func (w wanted) any() bool { return w.pulls || w.releases || w.tags }

// query describes what a poll reads from a repository. Each poll answers one query.
type query struct {
	baseURL string
	repo    github.Repo
	// secret is the name of the Secret with credentials; empty for anonymous access.
	secret string
	// webhook is the name of the webhook's Secret, which is checked before each poll.
	webhook string
	wanted  wanted
	// interval is the interval between two polls.
	interval time.Duration
	// requested is the value of the annotation that requests an immediate poll.
	requested string
}

// isSame reports whether two queries are the same except for the request for an immediate poll. If only the
// request differs, a poll in progress is completed and then followed by another poll. If the poll in progress were
// canceled instead, frequent requests would cancel every poll.
func (q query) isSame(other query) bool {
	q.requested = other.requested
	return q == other
}

// host returns the server's address.
func (q *query) host() string { return cmp.Or(q.baseURL, github.PublicURL) }

// poll contains GitHub's responses about one repository.
type poll struct {
	query query
	// startedAt is when the poll was started.
	startedAt time.Time
	// immediate reports whether the poll ignores earlier responses. A poll that replaces an immediate poll is also immediate.
	immediate bool
	// after is the time after which a shared response must have been requested; older responses are not used.
	after time.Time
	// due is the time of the next poll; zero until the poll is complete.
	due time.Time
	// postponed contains the times before which pull requests and commits are not requested again,
	// because the last response was not conclusive.
	postponed map[string]time.Time
	// announced contains the notices from deliveries. The keys are the numbers of pull requests. missing
	// contains those notices whose changes are not in GitHub's responses yet.
	announced, missing map[int64]notice
	// dates and parents have the same meaning as in pullRequests, for the commits of pull requests that the status
	// does not contain. Later polls do not read these commits again, because a commit never changes.
	dates   map[string]time.Time
	parents map[string][]string

	repository *github.Repository
	// otherRepository reports whether the specification refers to a repository other than the one
	// in the status.
	otherRepository bool
	pulls           *pullRequests
	releases        *github.List[github.Release]
	tags            *github.List[github.Tag]
	// incomplete reports whether more than one poll is required for all requests.
	incomplete bool
	// err is the first error.
	err error
	// webhook is the problem with the webhook's Secret at the start of the poll, or nil.
	webhook *status.Error
}

// credentialCheckInterval is the minimum interval between polls that only check the credentials.
const credentialCheckInterval = 10 * time.Minute

// newPoll returns a poll to run. If immediate is set, the poll ignores earlier responses.
func newPoll(q query, known cacheEntry, immediate bool, now time.Time) *poll {
	l := &poll{query: q, startedAt: now, immediate: immediate, postponed: map[string]time.Time{}, after: now}
	if !immediate {
		l.after = now.Add(-(q.interval - q.interval/8)) // a poll may start early, by up to 10% of the interval
	}
	if known.poll != nil && known.poll.query.repo == q.repo {
		maps.Copy(l.postponed, known.poll.postponed)
		l.dates, l.parents = known.poll.dates, known.poll.parents
		l.expect(known.poll.missing)
	}
	for thing, until := range l.postponed {
		if !until.After(now) {
			delete(l.postponed, thing)
		}
	}
	for _, announced := range []map[int64]notice{known.hints, l.announced} {
		for n := range announced {
			delete(l.postponed, numbered(n))
		}
	}
	return l
}

// answers reports whether the poll is for this query and the next poll is not due yet.
func (l *poll) answers(q query, now time.Time) bool {
	return l != nil && l.query == q && now.Before(l.due)
}

// maxReads is the maximum number of requests of each kind in a poll: for individual pull requests, for the dates
// of head commits, and for the parents of test merges.
const maxReads = 20

// unsettledDelay is the delay before a request without a conclusive response from GitHub is repeated.
const unsettledDelay = 10 * time.Minute

// poller runs a poll.
type poller struct {
	*poll
	// offered contains the numbers of the pull requests that ImagePolicies offer.
	offered    map[int64]bool
	reconciler *Reconciler
	client     *github.Client
	ctx        context.Context
}

// runContained runs the poll, and recovers from panics. A poll that panics fails, and discards its responses, which
// may be incomplete.
func (a *poller) runContained(known *v1alpha1.GitHubRepositoryStatus) {
	err := contain.Panics(func() error {
		a.run(known)
		a.finish(a.reconciler.clock.Now())
		return nil
	})
	if err != nil {
		a.pulls, a.releases, a.tags, a.err = nil, nil, nil, err
		a.finish(a.reconciler.clock.Now())
	}
}

// run makes all requests that the query needs and whose responses are not known yet. If the request
// for one part fails, the other parts are still requested, unless GitHub must not be called at all.
func (a *poller) run(known *v1alpha1.GitHubRepositoryStatus) {
	r, q := a.reconciler, &a.query
	repository, err := a.resolveName(a.after)
	if err != nil {
		a.noteError(err)
		return
	}
	if a.otherRepository = known.RepositoryID != 0 && known.RepositoryID != repository.ID; a.otherRepository && strings.EqualFold(known.ResolvedFrom, q.repo.String()) {
		a.noteError(repositoryReplaced(known, &repository))
		return
	}
	a.repository = &repository
	if q.wanted.pulls {
		a.readPullRequests(repository.Repo, known.PullRequests)
	}
	if q.wanted.releases && !a.stopped() {
		releases, _, err := cached(a.ctx, r.requests, a.client, repository.Repo, "releases", a.after, counted(r.metrics, "Releases", func(ctx context.Context) (github.List[github.Release], error) {
			return a.client.Releases(ctx, repository.Repo)
		}))
		if a.noteError(err) {
			a.releases = &releases
		}
	}
	if q.wanted.tags && !a.stopped() {
		tags, _, err := cached(a.ctx, r.requests, a.client, repository.Repo, "tags", a.after, counted(r.metrics, "Tags", func(ctx context.Context) (github.List[github.Tag], error) {
			return a.client.Tags(ctx, repository.Repo)
		}))
		if a.noteError(err) {
			a.tags = &tags
		}
	}
}

// resolveName requests the repository to which the name in the specification resolves.
func (a *poller) resolveName(after time.Time) (github.Repository, error) {
	repo := a.query.repo
	repository, _, err := cached(a.ctx, a.reconciler.requests, a.client, repo, "repository", after, counted(a.reconciler.metrics, "Repository", func(ctx context.Context) (github.Repository, error) {
		return a.client.Repository(ctx, repo)
	}))
	return repository, err
}

// repositoryReplaced returns the error for a name that now resolves to a different repository than before.
// Another GitHub user may have taken the name. Therefore, a user of the cluster must decide whether the change
// is intended.
func repositoryReplaced(known *v1alpha1.GitHubRepositoryStatus, now *github.Repository) error {
	return status.NewTerminal("RepositoryReplaced", fmt.Errorf("spec.owner, spec.repo: %s is now another repository: its ID is %d instead of %d (%s); the new repository is not read, and the status is kept; "+
		"correct the names if the repository was moved, or delete and recreate this GitHubRepository to use the new repository",
		known.ResolvedFrom, now.ID, known.RepositoryID, known.Repository))
}

// isForeign reports whether a pull request belongs to another repository because another GitHub user took
// the name during the poll. The poll then fails, and the next poll resolves the name again.
func (a *poller) isForeign(pr *github.PullRequest) bool {
	if pr.RepositoryID == a.repository.ID {
		return false
	}
	a.pulls = nil
	a.noteError(fmt.Errorf("read pull request %d: it belongs to the repository with ID %d, but the ID of %s was %d a moment ago; trying again", pr.Number, pr.RepositoryID, a.repository.Repo, a.repository.ID))
	return true
}

// noteError keeps the first error, and reports whether err is nil.
func (a *poller) noteError(err error) bool {
	if err != nil && a.err == nil {
		a.err = err
	}
	return err == nil
}

// stopped reports whether GitHub must not be called again in this poll.
func (a *poller) stopped() bool { return limited(a.err) || a.ctx.Err() != nil }

// readPullRequests requests the list of open pull requests, each pull request that is missing from the
// list, the dates of new head commits, and the parents of new test merges.
func (a *poller) readPullRequests(repo github.Repo, known []v1alpha1.PullRequest) {
	r := a.reconciler
	list, started, err := cached(a.ctx, r.requests, a.client, repo, "pulls", a.after, counted(r.metrics, "PullRequests", func(ctx context.Context) (github.PullRequests, error) {
		return a.client.OpenPullRequests(ctx, repo)
	}))
	if !a.noteError(err) {
		return
	}
	for i := range list.Items {
		if a.isForeign(&list.Items[i]) {
			return
		}
	}
	p := &pullRequests{time: started, listed: list.Items, more: list.Truncated, other: a.otherRepository, unusable: map[int64]bool{}, asked: map[int64]github.PullRequest{}}
	for _, n := range list.Unusable {
		p.unusable[int64(n)] = true
	}
	a.pulls = p
	if !p.other {
		forEach(a, missing(known, p, a.offered), numbered, func(n int64) error {
			pr, _, err := cached(a.ctx, r.requests, a.client, repo, numbered(n), started, counted(r.metrics, "PullRequest", func(ctx context.Context) (github.PullRequest, error) {
				return a.client.PullRequest(ctx, repo, int(n))
			}))
			if err != nil {
				return err
			}
			if a.isForeign(&pr) {
				return a.err
			}
			p.asked[n] = pr
			switch {
			case pr.State != github.Open:
			case p.more:
				a.postpone(numbered(n), unsettledDelay)
			default: // the list changed while its pages were read
				a.postpone(numbered(n), a.query.interval/2)
			}
			return nil
		})
	}
	if a.pulls == nil {
		return
	}
	var undated, merges []string
	a.dates, undated = splitRead(undatedHeads(known, p), a.dates)
	a.parents, merges = splitRead(unknownMerges(known, p), a.parents)
	p.dates, p.parents = a.dates, a.parents
	a.readCommits(repo, undated, func(commit github.Commit) bool {
		if !commit.Committed.IsZero() {
			p.dates[commit.SHA] = commit.Committed
		}
		return !commit.Committed.IsZero()
	})
	heads := map[string]string{} // head commits by test merge
	for _, g := range p.open() {
		heads[g.MergeCommitSHA] = g.HeadSHA
	}
	a.readCommits(repo, merges, func(commit github.Commit) bool {
		p.parents[commit.SHA] = commit.Parents
		return slices.Contains(commit.Parents, heads[commit.SHA])
	})
}

// splitRead returns the results for the commits that an earlier poll has read, and the commits that no earlier poll
// has read.
func splitRead[T any](commits []string, earlier map[string]T) (read map[string]T, unread []string) {
	read = map[string]T{}
	for _, sha := range commits {
		if value, known := earlier[sha]; known {
			read[sha] = value
		} else {
			unread = append(unread, sha)
		}
	}
	return read, unread
}

// readCommits requests commits. If the response for a commit is not conclusive, the next request
// is postponed, because the response to an immediate second request would probably be the same.
func (a *poller) readCommits(repo github.Repo, commits []string, conclusive func(github.Commit) bool) {
	r := a.reconciler
	forEach(a, commits, func(sha string) string { return sha }, func(sha string) error {
		commit, _, err := cached(a.ctx, r.requests, a.client, repo, "commit "+sha, time.Time{}, counted(r.metrics, "Commit", func(ctx context.Context) (github.Commit, error) {
			return a.client.Commit(ctx, repo, sha)
		}))
		if err == nil && !conclusive(commit) {
			a.postpone(sha, unsettledDelay)
		}
		return err
	})
}

// numbered returns the key of a pull request in postponed.
func numbered(n int64) string { return fmt.Sprintf("pull %d", n) }

// postpone defers the next request for a pull request or commit.
func (a *poller) postpone(thing string, wait time.Duration) {
	a.postponed[thing] = a.reconciler.clock.Now().Add(wait)
}

// forEach makes a request for each item that is not postponed, up to maxReads requests. If an error concerns
// only one item, for example because GitHub does not know it, forEach postpones this item and continues.
func forEach[T any](a *poller, things []T, name func(T) string, request func(T) error) {
	asked := 0
	for _, thing := range things {
		if a.stopped() {
			return
		}
		if _, waits := a.postponed[name(thing)]; waits {
			continue
		}
		if asked == maxReads {
			a.incomplete = true
			return
		}
		asked++
		err := request(thing)
		switch github.KindOf(err) {
		case github.NotFound, github.Conflict, github.Invalid, github.Malformed, github.Locked, github.Denied:
			a.postpone(name(thing), unsettledDelay)
		default:
			if !a.noteError(err) {
				return
			}
		}
	}
}

// Delays after a transient failure, and before a poll that continues an incomplete poll.
const (
	retryFirst    = 15 * time.Second
	retryMost     = 5 * time.Minute
	continueDelay = time.Second
)

// finish sets the time at which the next poll is due. Normally, this is at the end of the interval or up
// to 10% earlier, so that not all polls happen in the same second. An incomplete poll continues after
// continueDelay. After a poll that failed because of a rate limit, the next poll is due when requests are
// allowed again. After any other failure, it is due after the interval, or earlier if the failure is
// transient.
func (l *poll) finish(now time.Time) {
	l.findMissing()
	interval := l.query.interval
	if !l.query.wanted.any() {
		interval = max(interval, credentialCheckInterval)
	}
	var e *github.Error
	switch {
	case l.err == nil && l.incomplete:
		l.due = now.Add(continueDelay)
	case l.err == nil:
		l.due = now.Add(interval - rand.N(interval/10+1))
	case limited(l.err) && errors.As(l.err, &e) && e.RetryAt.After(now):
		l.due = e.RetryAt.Add(rand.N(10 * time.Second))
	case !transient(l.err):
		l.due = now.Add(interval)
	default:
		l.due = now.Add(min(retryMost, max(retryFirst, interval/4), interval))
	}
	if l.err != nil {
		return
	}
	for _, what := range l.missing {
		if again := now.Add(what.wait()); again.Before(l.due) {
			l.due = again
		}
	}
}
