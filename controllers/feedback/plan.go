package feedback

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Bounds on the records, as defined by the API schema.
const (
	maxRecords  = 600
	maxComments = 500
)

// observed is everything that a plan is based on.
type observed struct {
	// feedback is spec.feedback. If it is nil, all feedback is removed.
	feedback *v1alpha1.Feedback
	// repository is the current repository. Feedback in another repository is removed
	// from that repository.
	repository githubRepository
	// abandoned contains the keys of those writes to other repositories that are no longer attempted.
	abandoned map[string]bool
	// locked contains the keys of comments that cannot be written because their conversation is
	// locked.
	locked map[string]bool
	// pullRequestsComplete reports whether all open pull requests are known. If it is true, a pull request
	// that is not known is closed.
	pullRequestsComplete bool
	pullRequests         []v1alpha1.PullRequest
	tags                 []v1alpha1.GitHubTag
	services             []service
	records              []v1alpha1.FeedbackRecord
	comments             []v1alpha1.CommentRecord
	// requeueAfter is the time after which the state can change without an event; 0 means that it cannot.
	requeueAfter time.Duration
}

// requeueWithin requests a reconcile within the given time.
func (f *observed) requeueWithin(in time.Duration) {
	if f.requeueAfter == 0 || in < f.requeueAfter {
		f.requeueAfter = in
	}
}

// plan contains the new records and the writes to GitHub.
type plan struct {
	// records and comments are the new status: the previous records, and a record for each
	// Deployment that is about to be created, so that no Deployment is lost.
	records  []v1alpha1.FeedbackRecord
	comments []v1alpha1.CommentRecord
	// writes are the writes to GitHub, most urgent first.
	writes []write
	// omitted counts the Deployments and comments beyond the limits of the status.
	omitted int
	// abandoned lists the names of the other repositories in which feedback remains.
	abandoned []string
	// unknownCommits counts the releases whose commit is not known.
	unknownCommits int
}

// needsFinalizer reports whether there is feedback that must be removed eventually.
func (p *plan) needsFinalizer() bool {
	return slices.ContainsFunc(p.records, func(r v1alpha1.FeedbackRecord) bool { return r.State != v1alpha1.DeploymentInactive }) ||
		slices.ContainsFunc(p.comments, func(c v1alpha1.CommentRecord) bool { return !isFinal(&c) && c.Deletions < 2 })
}

// write is one Deployment or one comment that is not up to date.
type write struct {
	// key identifies the Deployment or comment.
	key string
	// otherRepository is the identifier, from githubRepository.otherThan, of the repository to
	// write to; empty if it is the current repository.
	otherRepository string
	// checksum is the checksum of the content to write.
	checksum string

	// deployment is the record of the Deployment, and want is the state to write. deployment is nil for
	// a comment.
	deployment *v1alpha1.FeedbackRecord
	want       releaseState

	// deleted reports whether the Deployment has been missing on GitHub for so long that it counts as deleted.
	deleted bool

	// comment is the record of the comment, and text is the text to write. comment is nil for a
	// Deployment.
	comment *v1alpha1.CommentRecord
	text    string
}

// editsOnly reports whether a write edits the comment if it exists, but does not create it. A comment is not created
// merely to show a final text.
func (w *write) editsOnly() bool {
	return w.comment != nil && (w.text == textClosed || w.text == textNotReported)
}

// searches reports whether a write must find a comment before it can edit it.
func (w *write) searches() bool { return w.editsOnly() && w.comment.CommentID == 0 }

// target is the identity of a Deployment. otherRepository has the same meaning as in write.
type target struct{ otherRepository, environment, ref string }

func targetOf(r *v1alpha1.FeedbackRecord, here githubRepository) target {
	return target{repositoryOfRecord(r).otherThan(here), r.Environment, r.Ref}
}

func (t target) key() string {
	return fmt.Sprintf("deployment %s %s@%s", t.otherRepository, t.environment, t.ref)
}

func commentKey(from string, number int64) string { return fmt.Sprintf("comment %s %d", from, number) }

// member is a Microservice in an environment.
type member struct {
	service *service
	group   *v1alpha1.ReleaseGroup
	pull    int64
	head    target
	// version is the head commit of a pull request, or the version of an active release.
	version string
	releaseState
}

// newPlan plans the writes to GitHub. It is pure: the same input results in the same plan. After a
// plan is applied, the next plan contains no writes.
func newPlan(f *observed) plan {
	p := &planner{observed: f, wanted: map[target]*v1alpha1.FeedbackRecord{}, wantedStates: map[target]releaseState{}, recordedStates: map[target]v1alpha1.DeploymentState{}}
	for _, r := range f.records {
		p.recordedStates[targetOf(&r, f.repository)] = r.State
	}
	if f.feedback != nil {
		p.planPreviews()
		p.planReleases()
	}
	p.planDeployments()
	p.planComments()
	slices.SortStableFunc(p.out.writes, func(a, b write) int { return cmp.Compare(a.urgency(), b.urgency()) })
	return p.out
}

// urgency orders writes: new and changed Deployments, then inactive Deployments, then comments, and finally
// writes to other repositories.
func (w *write) urgency() int {
	switch {
	case w.otherRepository != "":
		return 3
	case w.comment != nil:
		return 2
	case w.want.state == v1alpha1.DeploymentInactive:
		return 1
	}
	return 0
}

// planner computes one plan.
type planner struct {
	*observed
	out     plan
	members []member // members for the current head commits and the active releases
	wanted  map[target]*v1alpha1.FeedbackRecord
	// order contains the keys of wanted in a fixed order.
	order          []target
	wantedStates   map[target]releaseState
	recordedStates map[target]v1alpha1.DeploymentState // the states in the records
}

func enabled(b *bool) bool { return b == nil || *b }

// planPreviews adds members and required Deployments for the head commits of selected pull requests.
func (p *planner) planPreviews() {
	for i := range p.services {
		s := &p.services[i]
		source := s.policy.Spec.Source.GitHub
		if source.PullRequests == nil {
			continue
		}
		chooser := s.chooser()
		for j := range p.pullRequests {
			pr := &p.pullRequests[j]
			sha := s.previewCommit(chooser, pr)
			if sha == "" {
				continue
			}
			g := s.groupOf(pr.Number)
			head := target{"", environmentOf(p.feedback.Environment, s, s.slugOf(pr), pr), sha}
			p.members = append(p.members, member{service: s, group: g, pull: pr.Number, version: sha, head: head, releaseState: s.stableState(g, sha, p.recordedStates[head])})
		}
	}
	if !enabled(p.feedback.Deployments.PullRequests) {
		return
	}
	for _, m := range p.members {
		p.require(m)
	}
}

// planReleases adds members and required Deployments for active releases that are not previews of pull requests.
func (p *planner) planReleases() {
	if !p.feedback.Deployments.Releases {
		return
	}
	for i := range p.services {
		s := &p.services[i]
		if s.policy.Spec.Source.GitHub.PullRequests != nil {
			continue
		}
		for j := range s.microservice.Status.ReleaseGroups {
			g := &s.microservice.Status.ReleaseGroups[j]
			at := slices.IndexFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Status == v1alpha1.ReleaseActive })
			if g.Phase != v1alpha1.GroupLive || at < 0 {
				continue
			}
			version := g.Releases[at].SemVer.Version
			head := target{"", environmentOf(p.feedback.Environment, s, g.Slug, nil), p.commitOf(s, g.Slug, &g.Releases[at])}
			m := member{service: s, group: g, version: version, head: head, releaseState: s.stableState(g, version, p.recordedStates[head])}
			p.members = append(p.members, m)
			_, recorded := p.recordedStates[m.head]
			switch {
			case m.head.ref == "":
				p.out.unknownCommits++
			case recorded || m.state == v1alpha1.DeploymentSuccess:
				p.require(m)
			}
		}
	}
}

// commitOf returns the commit that an active release was created from. If the release's object does not contain a commit, commitOf
// returns the revision that the ImagePolicy offers, or the commit of the tag for the version. If the tag has moved since the
// release was created, this commit belongs to a later release of the same version. commitOf returns "" if no commit is known.
func (p *planner) commitOf(s *service, slug string, row *v1alpha1.Release) string {
	if sha := s.commits[row.VersionedMicroservice]; isCommit(sha) {
		return sha
	}
	version := row.SemVer.Version
	for _, offered := range s.policy.Status.Releases {
		if offered.Group == slug && offered.SemVer.Version == version && isCommit(offered.Revision) {
			return offered.Revision
		}
	}
	for _, tag := range p.tags {
		if (tag.Name == version || tag.Name == "v"+version) && isCommit(tag.SHA) {
			return tag.SHA
		}
	}
	return ""
}

// isCommit reports whether text is a full SHA.
func isCommit(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// require adds to the plan a Deployment that should exist.
func (p *planner) require(m member) {
	if w := p.wanted[m.head]; w != nil {
		w.PullRequest = min(w.PullRequest, m.pull)
		p.wantedStates[m.head] = p.wantedStates[m.head].merge(m.releaseState)
		return
	}
	p.wanted[m.head] = &v1alpha1.FeedbackRecord{Repository: p.repository.name, RepositoryID: p.repository.id, Environment: m.head.environment, Ref: m.head.ref, PullRequest: m.pull}
	p.order = append(p.order, m.head)
	p.wantedStates[m.head] = m.releaseState
}

// planDeployments plans the Deployment records and the writes for them.
func (p *planner) planDeployments() {
	for _, r := range p.records {
		at, t := repositoryOfRecord(&r).resolve(p.repository), targetOf(&r, p.repository)
		r.RepositoryID, r.Repository = at.id, at.name
		if w := p.wanted[t]; w != nil {
			r.PullRequest = w.PullRequest
			p.keepRecord(r, p.wantedStates[t])
			continue
		}
		if v, known := p.previous(&r); known {
			p.keepRecord(r, v)
		} else {
			p.out.records = append(p.out.records, r) // unchanged
		}
	}
	slices.SortStableFunc(p.order, func(a, b target) int {
		return cmp.Compare(p.wanted[b].PullRequest, p.wanted[a].PullRequest)
	})
	for _, t := range p.order {
		if _, recorded := p.recordedStates[t]; !recorded && p.wantedStates[t].state != v1alpha1.DeploymentInactive {
			p.keepRecord(*p.wanted[t], p.wantedStates[t])
		}
	}
	p.boundRecords()
}

// keepRecord keeps a record, and adds the write that the record requires, if any. It drops an inactive record if
// feedback is not configured, or if the record is for another repository.
func (p *planner) keepRecord(r v1alpha1.FeedbackRecord, v releaseState) {
	sum := checksum(string(v.state), v.description, v.url)
	over := v.state == v1alpha1.DeploymentInactive && r.State == v1alpha1.DeploymentInactive
	t := targetOf(&r, p.repository)
	if over && (p.feedback == nil || t.otherRepository != "") || p.abandons(t.otherRepository, t.key(), r.Repository) {
		return
	}
	p.out.records = append(p.out.records, r)
	// The reason why a Deployment is inactive is written once, and not updated later.
	if over || v.unstable || r.DeploymentID != 0 && r.State == v.state && r.Checksum == sum {
		return
	}
	p.out.writes = append(p.out.writes, write{key: t.key(), otherRepository: t.otherRepository, checksum: sum, deployment: &r, want: v})
}

// abandons reports whether the cleanup of another repository is abandoned. If it is, abandons adds the
// name of the repository to the plan.
func (p *planner) abandons(from, key, name string) bool {
	if from == "" || !p.abandoned[key] {
		return false
	}
	if !slices.Contains(p.out.abandoned, name) {
		p.out.abandoned = append(p.out.abandoned, name)
	}
	return true
}

// previous returns the state of a Deployment whose commit is no longer a head commit. It returns
// false if the state does not change for now.
func (p *planner) previous(r *v1alpha1.FeedbackRecord) (releaseState, bool) {
	inactive := func(text string) (releaseState, bool) {
		return releaseState{state: v1alpha1.DeploymentInactive, description: text}, true
	}
	if r.State == v1alpha1.DeploymentInactive {
		return inactive("")
	}
	if p.feedback == nil || !repositoryOfRecord(r).same(p.repository) {
		return inactive("This environment is no longer reported.")
	}
	var now []member
	for _, m := range p.members {
		if m.head.environment == r.Environment && m.pull == r.PullRequest && (m.pull == 0 || enabled(p.feedback.Deployments.PullRequests)) {
			now = append(now, m)
		}
	}
	if len(now) == 0 {
		return p.planEnded(r)
	}
	head := now[0]
	replaced := fmt.Sprintf("Replaced by %s.", cmp.Or(short(head.head.ref), head.version))
	if r.PullRequest == 0 {
		if slices.ContainsFunc(now, func(m member) bool { return !p.isReported(m) && m.hasReplaced(r.Ref) }) {
			return releaseState{}, false // unchanged until the new release is reported as ready or failed
		}
		if len(now) > 1 {
			replaced = "Replaced by another release."
		}
		return inactive(replaced)
	}
	written := p.recordedStates[head.head] == v1alpha1.DeploymentSuccess
	ready := p.wantedStates[head.head].state == v1alpha1.DeploymentSuccess
	if written && ready {
		return inactive(replaced)
	}
	// The previous commit might still be serving.
	var serving releaseState
	for _, m := range now {
		if v := m.service.stableState(m.group, r.Ref, r.State); v.active {
			serving = serving.merge(v)
		}
	}
	switch {
	case serving.state != "":
		return serving, true
	case ready:
		return releaseState{}, false // unchanged until the state of the head commit has been written
	}
	return inactive(replaced)
}

// hasReplaced reports whether the active release may have replaced a release of a commit: its group still contains a release of
// this commit, or another release whose commit is not known. The records do not show to which Microservice a commit belongs.
func (m member) hasReplaced(commit string) bool {
	return slices.ContainsFunc(m.group.Releases, func(row v1alpha1.Release) bool {
		of := m.service.commits[row.VersionedMicroservice]
		return of == commit || of == "" && row.Status != v1alpha1.ReleaseActive
	})
}

// isReported reports whether the Deployment of an active release shows that the release is ready or has failed. If the commit is not
// known, there is no Deployment, and isReported reports whether the release itself is ready.
func (p *planner) isReported(m member) bool {
	if m.head.ref == "" {
		return m.state == v1alpha1.DeploymentSuccess
	}
	state := p.recordedStates[m.head]
	return state == v1alpha1.DeploymentSuccess || state == v1alpha1.DeploymentFailure
}

// planEnded returns the state of a Deployment whose environment no longer exists.
func (p *planner) planEnded(r *v1alpha1.FeedbackRecord) (releaseState, bool) {
	inactive := releaseState{state: v1alpha1.DeploymentInactive}
	if r.PullRequest == 0 {
		inactive.description = "The release no longer exists."
		return inactive, true
	}
	pr := p.pullRequest(r.PullRequest)
	switch {
	case pr == nil && !p.pullRequestsComplete:
		return releaseState{}, false
	case pr == nil || pr.State == v1alpha1.PullRequestClosed:
		inactive.description = "The pull request is closed."
	default:
		inactive.description = "The pull request no longer has a preview in this environment."
	}
	return inactive, true
}

func (p *planner) pullRequest(number int64) *v1alpha1.PullRequest {
	for i := range p.pullRequests {
		if p.pullRequests[i].Number == number {
			return &p.pullRequests[i]
		}
	}
	return nil
}

// boundRecords drops records beyond the limit: first the oldest inactive records, and then new
// records. A later plan adds the new records again.
func (p *planner) boundRecords() {
	excess := len(p.out.records) - maxRecords
	if excess <= 0 {
		return
	}
	p.out.records = slices.DeleteFunc(p.out.records, func(r v1alpha1.FeedbackRecord) bool {
		drop := excess > 0 && r.State == v1alpha1.DeploymentInactive && p.wanted[targetOf(&r, p.repository)] == nil
		if drop {
			excess--
		}
		return drop
	})
	dropped := map[string]bool{}
	for excess > 0 && len(p.out.records) > 0 {
		last := &p.out.records[len(p.out.records)-1]
		dropped[targetOf(last, p.repository).key()] = true
		p.out.records = p.out.records[:len(p.out.records)-1]
		p.out.omitted++
		excess--
	}
	p.out.writes = slices.DeleteFunc(p.out.writes, func(w write) bool { return dropped[w.key] })
}

// planComments plans the comments and the writes for them.
func (p *planner) planComments() {
	rows := p.commentRows()
	for _, c := range p.comments {
		at := repositoryOfComment(&c).resolve(p.repository)
		c.RepositoryID, c.Repository = at.id, at.name
		from := at.otherThan(p.repository)
		text, known := p.commentOf(c.PullRequest, rows)
		if from != "" {
			text, known = textNotReported, true
		}
		sum := checksum(text)
		switch {
		case !known, from == "" && p.isUnstable(c.PullRequest):
			p.out.comments = append(p.out.comments, c)
		case (p.feedback == nil || from != "") && (isFinal(&c) || c.Deletions > 1):
			// The record is dropped, because the cleanup is complete.
		case p.feedback == nil && p.locked[commentKey(from, c.PullRequest)]:
			// The comment remains: cleanup does not wait for the conversation to be unlocked.
		case p.abandons(from, commentKey(from, c.PullRequest), c.Repository):
		default:
			p.out.comments = append(p.out.comments, c)
			// The comment on a closed pull request is not changed when feedback ends.
			if c.Checksum != sum && c.Deletions < 2 && (text != textNotReported || !isFinal(&c)) {
				p.out.writes = append(p.out.writes, write{key: commentKey(from, c.PullRequest), otherRepository: from, checksum: sum, comment: &c, text: text})
			}
		}
		if from == "" {
			delete(rows, c.PullRequest)
		}
	}
	for _, number := range sortedNumbers(rows) {
		if !slices.ContainsFunc(rows[number], func(r row) bool { return r.state != v1alpha1.DeploymentInactive }) {
			continue
		}
		if len(p.out.comments) >= maxComments {
			if at := slices.IndexFunc(p.out.comments, func(c v1alpha1.CommentRecord) bool { return isFinal(&c) }); at >= 0 {
				p.out.comments = slices.Delete(p.out.comments, at, at+1)
			} else {
				p.out.omitted++
				continue
			}
		}
		c, text := v1alpha1.CommentRecord{Repository: p.repository.name, RepositoryID: p.repository.id, PullRequest: number}, commentText(rows[number])
		p.out.comments = append(p.out.comments, c)
		p.out.writes = append(p.out.writes, write{key: commentKey("", number), checksum: checksum(text), comment: &c, text: text})
	}
}

// isUnstable reports whether a state in the comment on a pull request is unstable, in which case the comment does not change
// for now.
func (p *planner) isUnstable(number int64) bool {
	return slices.ContainsFunc(p.members, func(m member) bool { return m.pull == number && m.unstable })
}

// isFinal reports whether a comment has its final text.
func isFinal(c *v1alpha1.CommentRecord) bool {
	return c.Checksum == sumClosed || c.Checksum == sumNotReported
}

// Checksums of final comment texts.
var sumClosed, sumNotReported = checksum(textClosed), checksum(textNotReported)

// commentRows returns the comment rows of each pull request.
func (p *planner) commentRows() map[int64][]row {
	rows := map[int64][]row{}
	if p.feedback == nil || !enabled(p.feedback.Comment) {
		return rows
	}
	for _, m := range p.members {
		if m.pull == 0 {
			continue
		}
		ms := m.service.microservice
		r := row{microservice: ms.Namespace + "/" + ms.Name, environment: m.head.environment, ref: m.head.ref, releaseState: m.releaseState}
		if !m.active && m.group != nil && m.group.Phase == v1alpha1.GroupLive {
			for _, previous := range m.group.Releases {
				if previous.Status == v1alpha1.ReleaseActive && previous.Available {
					r.serving = previous.SemVer.Version
				}
			}
		}
		rows[m.pull] = append(rows[m.pull], r)
	}
	return rows
}

// commentOf returns the text of the comment on a pull request. It returns false if the comment does not change for now.
func (p *planner) commentOf(number int64, rows map[int64][]row) (string, bool) {
	pr := p.pullRequest(number)
	switch {
	case p.feedback == nil || !enabled(p.feedback.Comment):
		return textNotReported, true
	case pr == nil && !p.pullRequestsComplete:
		return "", false
	case pr == nil || pr.State == v1alpha1.PullRequestClosed:
		return textClosed, true
	}
	return commentText(rows[number]), true
}

// sortedNumbers returns the numbers of the pull requests, newest first.
func sortedNumbers(rows map[int64][]row) []int64 {
	var numbers []int64
	for number := range rows {
		numbers = append(numbers, number)
	}
	slices.SortFunc(numbers, func(a, b int64) int { return cmp.Compare(b, a) })
	return numbers
}

// marker returns the marker for a pull request's Deployments.
func marker(prefix string, pullRequest int64) string {
	return prefix + strconv.FormatInt(pullRequest, 10)
}
