package githubrepository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// wants is what ImagePolicies read of a repository.
type wants struct {
	pulls, releases, tags bool
	// names are the regular expressions of the tags that are wanted, in order and with
	// separator between them; "" among them: all are.
	names string
	// labels that ImagePolicies name, in lower case, in order and with separator between
	// them.
	labels string
}

// separator is no part of any regular expression of the API.
const separator = "\x00"

// any says that something is wanted.
func (w wants) any() bool { return w.pulls || w.releases || w.tags }

// question is what is asked about a repository. A look answers one question.
type question struct {
	baseURL string
	repo    github.Repo
	// secret is the name of that of the credentials; "": nobody asks.
	secret string
	// webhook is the name of the Secret of the webhook, which is looked at meanwhile.
	webhook string
	wants   wants
	// interval between two looks.
	interval time.Duration
	// requested is the annotation that asks for a look now.
	requested string
}

// host is where the question goes, as an address.
func (q *question) host() string { return cmp.Or(q.baseURL, github.PublicURL) }

// look is what GitHub told about one repository.
type look struct {
	question question
	// begun is when it was asked for.
	begun time.Time
	// after which answers count that were given to others.
	after time.Time
	// due is when to look again; zero until the look is done.
	due time.Time
	// later says until when numbers and commits are not asked for again, because the
	// last answer did not settle them.
	later map[string]time.Time
	// announced is what deliveries say of pull requests, by number, and behind the part of
	// it that the answers do not hold yet.
	announced, behind map[int64]notice

	repository *github.Repository
	// other says that it is not the one that is known: somebody names another one.
	other    bool
	pulls    *pulls
	releases *github.List[github.Release]
	tags     *github.List[github.Tag]
	// rest says that not all could be asked in one look.
	rest bool
	// err is the first error.
	err error
	// webhook is the problem of the webhook's Secret, as the look began.
	webhook *status.Error
}

// slowInterval is the least interval of looks that only see whether the credential
// works.
const slowInterval = 10 * time.Minute

// newLook makes one that is to be filled; impatient asks for what nobody was told
// before.
func newLook(q question, known remembered, impatient bool, now time.Time) *look {
	l := &look{question: q, begun: now, later: map[string]time.Time{}, after: now}
	if !impatient {
		l.after = now.Add(-(q.interval - q.interval/8)) // looks are up to a tenth early
	}
	if known.look != nil && known.look.question.repo == q.repo {
		maps.Copy(l.later, known.look.later)
		l.expect(known.look.behind)
	}
	for thing, until := range l.later {
		if !until.After(now) {
			delete(l.later, thing)
		}
	}
	for _, announced := range []map[int64]notice{known.hints, l.announced} {
		for n := range announced {
			delete(l.later, numbered(n))
		}
	}
	return l
}

// answers says that the look is of this question, and not due again.
func (l *look) answers(q question, now time.Time) bool {
	return l != nil && l.question == q && now.Before(l.due)
}

// Bounds of one look, in requests about single pull requests and commits.
const maxAsked = 20

// unsettled is how long nobody asks again for what GitHub did not settle.
const unsettled = 10 * time.Minute

// asker fills a look.
type asker struct {
	*look
	// held are the pull requests that ImagePolicies offer.
	held       map[int64]bool
	reconciler *Reconciler
	client     *github.Client
	ctx        context.Context
}

// fill asks GitHub for all that a look wants, beside what is known. A part that fails
// is left out, and the others are asked for all the same, unless nothing may be asked.
func (a *asker) fill(known *v1alpha1.GitHubRepositoryStatus) {
	r, q := a.reconciler, &a.question
	repository, err := a.identify(a.after)
	if err != nil {
		a.fail(err)
		return
	}
	if a.other = known.RepositoryID != 0 && known.RepositoryID != repository.ID; a.other && strings.EqualFold(known.ResolvedFrom, q.repo.String()) {
		a.fail(replaced(known, &repository))
		return
	}
	a.repository = &repository
	if q.wants.pulls {
		a.fillPulls(repository.Repo, known.PullRequests)
	}
	if q.wants.releases && !a.paused() {
		releases, _, err := ask(a.ctx, r.shared, a.client, repository.Repo, "releases", a.after, counted(r.metrics, "Releases", func(ctx context.Context) (github.List[github.Release], error) {
			return a.client.Releases(ctx, repository.Repo)
		}))
		if a.fail(err) {
			a.releases = &releases
		}
	}
	if q.wants.tags && !a.paused() {
		tags, _, err := ask(a.ctx, r.shared, a.client, repository.Repo, "tags", a.after, counted(r.metrics, "Tags", func(ctx context.Context) (github.List[github.Tag], error) {
			return a.client.Tags(ctx, repository.Repo)
		}))
		if a.fail(err) {
			a.tags = &tags
		}
	}
}

// identify asks what the name of the specification leads to.
func (a *asker) identify(after time.Time) (github.Repository, error) {
	repo := a.question.repo
	repository, _, err := ask(a.ctx, a.reconciler.shared, a.client, repo, "repository", after, counted(a.reconciler.metrics, "Repository", func(ctx context.Context) (github.Repository, error) {
		return a.client.Repository(ctx, repo)
	}))
	return repository, err
}

// replaced is the problem that the name which led to one repository leads to another
// now: somebody else may have taken it. Only a person can say that it is meant.
func replaced(known *v1alpha1.GitHubRepositoryStatus, today *github.Repository) error {
	return status.NewTerminal("RepositoryReplaced", fmt.Errorf("spec.owner, spec.repo: %s is another repository now: its ID is %d, and was %d (%s); nothing is read from it, and what is known stays known; "+
		"correct the names if the repository was moved, or delete this GitHubRepository and create it again if the new one is meant",
		known.ResolvedFrom, today.ID, known.RepositoryID, known.Repository))
}

// foreign says that a pull request is of another repository than the one that was asked
// for, whose name was taken meanwhile. Nothing is believed then, and the next look asks
// again whose the name is.
func (a *asker) foreign(pr *github.PullRequest) bool {
	if pr.RepositoryID == a.repository.ID {
		return false
	}
	a.pulls = nil
	a.fail(fmt.Errorf("read pull request %d: it belongs to the repository of ID %d, and that of %s was %d a moment ago; it is asked again", pr.Number, pr.RepositoryID, a.repository.Repo, a.repository.ID))
	return true
}

// fail keeps the first error, and says that there is none.
func (a *asker) fail(err error) bool {
	if err != nil && a.err == nil {
		a.err = err
	}
	return err == nil
}

// paused says that nothing may be asked any more.
func (a *asker) paused() bool { return limited(a.err) || a.ctx.Err() != nil }

// fillPulls asks for the list of open pull requests, for those that it lacks by their
// numbers, and for the dates of heads that are new.
func (a *asker) fillPulls(repo github.Repo, known []v1alpha1.PullRequest) {
	r := a.reconciler
	list, started, err := ask(a.ctx, r.shared, a.client, repo, "pulls", a.after, counted(r.metrics, "PullRequests", func(ctx context.Context) (github.PullRequests, error) {
		return a.client.OpenPullRequests(ctx, repo)
	}))
	if !a.fail(err) {
		return
	}
	for i := range list.Items {
		if a.foreign(&list.Items[i]) {
			return
		}
	}
	p := &pulls{time: started, listed: list.Items, more: list.Truncated, other: a.other, unusable: map[int64]bool{}, asked: map[int64]github.PullRequest{}, dates: map[string]time.Time{}, parents: map[string][]string{}}
	for _, n := range list.Unusable {
		p.unusable[int64(n)] = true
	}
	a.pulls = p
	if !p.other {
		each(a, missing(known, p, a.held), numbered, func(n int64) error {
			pr, _, err := ask(a.ctx, r.shared, a.client, repo, numbered(n), started, counted(r.metrics, "PullRequest", func(ctx context.Context) (github.PullRequest, error) {
				return a.client.PullRequest(ctx, repo, int(n))
			}))
			if err != nil {
				return err
			}
			if a.foreign(&pr) {
				return a.err
			}
			p.asked[n] = pr
			switch {
			case pr.State != github.Open:
			case p.more:
				a.put(numbered(n), unsettled)
			default: // the list shifted while it was read
				a.put(numbered(n), a.question.interval/2)
			}
			return nil
		})
	}
	if a.pulls == nil {
		return
	}
	a.fillCommits(repo, undated(known, p), func(commit github.Commit) bool {
		if !commit.Committed.IsZero() {
			p.dates[commit.SHA] = commit.Committed
		}
		return !commit.Committed.IsZero()
	})
	heads := map[string]string{} // by trial merge
	for _, g := range p.open() {
		heads[g.MergeCommitSHA] = g.HeadSHA
	}
	a.fillCommits(repo, unmerged(known, p), func(commit github.Commit) bool {
		p.parents[commit.SHA] = commit.Parents
		return slices.Contains(commit.Parents, heads[commit.SHA])
	})
}

// fillCommits asks for commits. One that does not settle what is asked is put off: it
// never changes.
func (a *asker) fillCommits(repo github.Repo, commits []string, settles func(github.Commit) bool) {
	r := a.reconciler
	each(a, commits, func(sha string) string { return sha }, func(sha string) error {
		commit, _, err := ask(a.ctx, r.shared, a.client, repo, "commit "+sha, time.Time{}, counted(r.metrics, "Commit", func(ctx context.Context) (github.Commit, error) {
			return a.client.Commit(ctx, repo, sha)
		}))
		if err == nil && !settles(commit) {
			a.put(sha, unsettled)
		}
		return err
	})
}

// numbered names a pull request.
func numbered(n int64) string { return fmt.Sprintf("pull %d", n) }

// put off what is not to be asked for again before some time is over.
func (a *asker) put(thing string, wait time.Duration) {
	a.later[thing] = a.reconciler.clock.Now().Add(wait)
}

// each asks for things, as many as a look may, and goes on with the next one when
// GitHub does not know one of them, which settles nothing.
func each[T any](a *asker, things []T, name func(T) string, request func(T) error) {
	asked := 0
	for _, thing := range things {
		if a.paused() {
			return
		}
		if _, waits := a.later[name(thing)]; waits {
			continue
		}
		if asked == maxAsked {
			a.rest = true
			return
		}
		asked++
		err := request(thing)
		switch github.KindOf(err) {
		case github.NotFound, github.Conflict, github.Invalid, github.Malformed, github.Locked, github.Denied:
			a.put(name(thing), unsettled)
		default:
			if !a.fail(err) {
				return
			}
		}
	}
}

// Waits after a failure that time may mend, and of a look that goes on with another.
const (
	retryFirst = 15 * time.Second
	retryMost  = 5 * time.Minute
	goOn       = time.Second
)

// close sets when to look again: with the interval, up to a tenth earlier, so that not
// all ask in the same second, and soon if not all could be asked for. After a failure:
// when GitHub says so, sooner than the interval where time alone may mend it, else with
// the interval.
func (l *look) close(now time.Time) {
	l.settle()
	interval := l.question.interval
	if !l.question.wants.any() {
		interval = max(interval, slowInterval)
	}
	var e *github.Error
	switch {
	case l.err == nil && l.rest:
		l.due = now.Add(goOn)
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
	for _, what := range l.behind {
		if again := now.Add(what.wait()); again.Before(l.due) {
			l.due = again
		}
	}
}

// limited says that GitHub asked for a pause, or that what is left is for writing.
func limited(err error) bool {
	kind := github.KindOf(err)
	return kind == github.RateLimited || kind == github.Reserved
}

// retryTime is the end of the pause that GitHub asked for.
func retryTime(err error) time.Time {
	var e *github.Error
	if errors.As(err, &e) {
		return e.RetryAt
	}
	return time.Time{}
}

// transient says that time alone may mend it.
func transient(err error) bool {
	var e *github.Error
	return !errors.As(err, new(*status.Error)) && (!errors.As(err, &e) || e.Kind.Transient())
}

// failure gives the reason and message of an error.
func failure(err error) (reason, message string) {
	var e *github.Error
	var s *status.Error
	switch {
	case errors.As(err, &e):
		return string(e.Kind), e.Error()
	case errors.As(err, &s):
		return s.Reason, s.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "Unreachable", "look at GitHub: not all was answered within two minutes; what was learned is kept, and the rest is asked again"
	}
	return "Failed", err.Error()
}

// Bounds of the schema on releases and tags, and of both in bytes of JSON.
const (
	maxReleases     = 100
	maxReleaseBytes = 30_000
	maxTags         = 500
	maxTagBytes     = 70_000
)

// releasesOf are the newest releases, and how many have no room.
func releasesOf(list *github.List[github.Release]) ([]v1alpha1.GitHubRelease, int) {
	all := slices.Clone(list.Items)
	slices.SortStableFunc(all, func(a, b github.Release) int {
		return cmp.Or(b.Published.Compare(a.Published), cmp.Compare(b.ID, a.ID))
	})
	var result []v1alpha1.GitHubRelease
	for _, r := range all {
		result = append(result, v1alpha1.GitHubRelease{Tag: r.Tag, Prerelease: r.Prerelease, PublishedTime: stamp(r.Published)})
	}
	return fit(result, maxReleases, maxReleaseBytes)
}

// tagsOf are the highest of the tags that are wanted, and how many have no room. Each
// regular expression has the same share of the room.
func tagsOf(list *github.List[github.Tag], names string) ([]v1alpha1.GitHubTag, int) {
	all := make([]v1alpha1.GitHubTag, 0, len(list.Items))
	for _, t := range list.Items {
		all = append(all, v1alpha1.GitHubTag{Name: t.Name, SHA: t.SHA})
	}
	highest := func(a, b v1alpha1.GitHubTag) int { return natural(b.Name, a.Name) }
	slices.SortFunc(all, highest)
	turn := map[string]int{} // the first one in which a regular expression takes a tag
	for _, text := range strings.Split(names, separator) {
		pattern, err := regexp.Compile("^(?:" + text + ")$")
		if err != nil {
			continue // its ImagePolicy says so
		}
		n := 0
		for _, t := range all {
			if text != "" && !pattern.MatchString(t.Name) {
				continue
			}
			if first, taken := turn[t.Name]; !taken || n < first {
				turn[t.Name] = n
			}
			n++
		}
	}
	wanted := slices.DeleteFunc(all, func(t v1alpha1.GitHubTag) bool { _, ok := turn[t.Name]; return !ok })
	slices.SortStableFunc(wanted, func(a, b v1alpha1.GitHubTag) int { return cmp.Compare(turn[a.Name], turn[b.Name]) })
	kept, left := fit(wanted, maxTags, maxTagBytes)
	slices.SortFunc(kept, highest)
	return kept, left
}

// fit gives the first items, as many as there may be, and how many are left out.
func fit[T any](all []T, most, room int) ([]T, int) {
	size := 0
	for i, x := range all {
		if size += sizeOf(x) + 1; i == most || size > room {
			return all[:i], len(all) - i
		}
	}
	return all, 0
}

// digits and other parts of a name.
var parts = regexp.MustCompile(`[0-9]+|[^0-9]+`)

// natural compares names, numbers in them by their value.
func natural(a, b string) int {
	x, y := parts.FindAllString(a, -1), parts.FindAllString(b, -1)
	for i := range min(len(x), len(y)) {
		m, n := x[i], y[i]
		if m[0] <= '9' && m[0] >= '0' && n[0] <= '9' && n[0] >= '0' {
			m, n = strings.TrimLeft(m, "0"), strings.TrimLeft(n, "0")
			if c := cmp.Compare(len(m), len(n)); c != 0 {
				return c
			}
		}
		if c := strings.Compare(m, n); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}
