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

// Bounds of the records, as the API has them.
const (
	maxRecords  = 600
	maxComments = 500
)

// facts are what a plan is made of.
type facts struct {
	// feedback that is wanted; nil: none, all that was written is taken back.
	feedback *v1alpha1.Feedback
	// here is the repository that all this is about. What was written at another one is
	// taken back there.
	here site
	// abandoned are the keys of writes to other repositories that are tried no more.
	abandoned map[string]bool
	// locked are the keys of comments that cannot be written, because the conversation is
	// locked.
	locked map[string]bool
	// looked says that GitHub was asked for pull requests, and gave all of them: one
	// that is missing is over.
	looked       bool
	pullRequests []v1alpha1.PullRequest
	tags         []v1alpha1.GitHubTag
	streams      []stream
	records      []v1alpha1.FeedbackRecord
	comments     []v1alpha1.CommentRecord
	// again is when facts that no event tells of change; 0: they do not.
	again time.Duration
}

// lookAgain asks for a look at the latest in so long.
func (f *facts) lookAgain(in time.Duration) {
	if f.again == 0 || in < f.again {
		f.again = in
	}
}

// plan is what is to be written.
type plan struct {
	// records and comments to keep: those that were, and one for each Deployment that
	// is about to be made, so that it is never forgotten.
	records  []v1alpha1.FeedbackRecord
	comments []v1alpha1.CommentRecord
	// writes to GitHub, the most urgent first.
	writes []write
	// left counts the Deployments and comments for which there is no room.
	left int
	// forsaken names the other repositories in which something stays as it is.
	forsaken []string
	// unknown counts the releases whose commit is not known.
	unknown int
}

// binds says that there is something that must be taken back one day.
func (p *plan) binds() bool {
	return slices.ContainsFunc(p.records, func(r v1alpha1.FeedbackRecord) bool { return r.State != v1alpha1.DeploymentInactive }) ||
		slices.ContainsFunc(p.comments, func(c v1alpha1.CommentRecord) bool { return !atRest(&c) && c.Deletions < 2 })
}

// write is one Deployment or one comment that is not as it is to be.
type write struct {
	// key of the write: the same for the same Deployment or comment.
	key string
	// from names the repository that it goes to, as site.from does.
	from string
	// checksum of what is to be written.
	checksum string

	// deployment: its record, and the verdict to write. nil for a comment.
	deployment *v1alpha1.FeedbackRecord
	verdict    verdict

	// lost: GitHub has not found it for so long that it counts as deleted.
	lost bool

	// comment: its record, and the text to write. nil for a Deployment.
	comment *v1alpha1.CommentRecord
	text    string
}

// target is the identity of a Deployment; from is that of site.from.
type target struct{ from, environment, ref string }

func targetOf(r *v1alpha1.FeedbackRecord, here site) target {
	return target{siteOfRecord(r).from(here), r.Environment, r.Ref}
}

func (t target) key() string { return fmt.Sprintf("deployment %s %s@%s", t.from, t.environment, t.ref) }

func commentKey(from string, number int64) string { return fmt.Sprintf("comment %s %d", from, number) }

// member is a Microservice in an environment.
type member struct {
	stream *stream
	group  *v1alpha1.ReleaseGroup
	pull   int64
	head   target
	// version that head is.
	version string
	verdict
}

// makePlan says what is to be written at GitHub. It is a pure function: the same facts
// make the same plan, and a plan that was carried out makes one without writes.
func makePlan(f *facts) plan {
	p := &planner{facts: f, wanted: map[target]*v1alpha1.FeedbackRecord{}, verdicts: map[target]verdict{}, states: map[target]v1alpha1.DeploymentState{}}
	for _, r := range f.records {
		p.states[targetOf(&r, f.here)] = r.State
	}
	if f.feedback != nil {
		p.previews()
		p.releases()
	}
	p.deployments()
	p.discussions()
	slices.SortStableFunc(p.out.writes, func(a, b write) int { return cmp.Compare(a.urgency(), b.urgency()) })
	return p.out
}

// urgency orders writes: what begins and becomes ready, what ends, comments, and last
// what is in another repository.
func (w *write) urgency() int {
	switch {
	case w.from != "":
		return 3
	case w.comment != nil:
		return 2
	case w.verdict.state == v1alpha1.DeploymentInactive:
		return 1
	}
	return 0
}

// planner makes one plan.
type planner struct {
	*facts
	out     plan
	members []member // of the present heads
	wanted  map[target]*v1alpha1.FeedbackRecord
	// order in which wanted came.
	order    []target
	verdicts map[target]verdict
	states   map[target]v1alpha1.DeploymentState // as recorded
}

func enabled(b *bool) bool { return b == nil || *b }

// previews judges the heads of the pull requests that are chosen.
func (p *planner) previews() {
	for i := range p.streams {
		s := &p.streams[i]
		source := s.policy.Spec.Source.GitHub
		if source.PullRequests == nil {
			continue
		}
		chooser := s.chooser()
		for j := range p.pullRequests {
			pr := &p.pullRequests[j]
			sha := s.headOf(chooser, pr)
			if sha == "" {
				continue
			}
			g := s.group(pr.Number)
			head := target{"", environmentOf(p.feedback.Environment, s, s.slugOf(pr), pr), sha}
			p.members = append(p.members, member{stream: s, group: g, pull: pr.Number, version: sha, head: head, verdict: s.steady(g, sha, p.states[head])})
		}
	}
	if !enabled(p.feedback.Deployments.PullRequests) {
		return
	}
	for _, m := range p.members {
		p.want(m)
	}
}

// releases judges the active releases of what is no pull request.
func (p *planner) releases() {
	if !p.feedback.Deployments.Releases {
		return
	}
	for i := range p.streams {
		s := &p.streams[i]
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
			head := target{"", environmentOf(p.feedback.Environment, s, g.Slug, nil), p.commitOf(s, g.Slug, version)}
			m := member{stream: s, group: g, version: version, head: head, verdict: s.steady(g, version, p.states[head])}
			p.members = append(p.members, m)
			_, recorded := p.states[m.head]
			switch {
			case m.head.ref == "":
				p.out.unknown++
			case recorded || m.state == v1alpha1.DeploymentSuccess:
				p.want(m)
			}
		}
	}
}

// commitOf finds the commit of a release: what its image says, or the tag of the
// same name. "": it is not known.
func (p *planner) commitOf(s *stream, slug, version string) string {
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

// isCommit says that text is a full SHA.
func isCommit(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// want notes a Deployment that is to be there.
func (p *planner) want(m member) {
	if w := p.wanted[m.head]; w != nil {
		w.PullRequest = min(w.PullRequest, m.pull)
		p.verdicts[m.head] = p.verdicts[m.head].worse(m.verdict)
		return
	}
	p.wanted[m.head] = &v1alpha1.FeedbackRecord{Repository: p.here.name, RepositoryID: p.here.id, Environment: m.head.environment, Ref: m.head.ref, PullRequest: m.pull}
	p.order = append(p.order, m.head)
	p.verdicts[m.head] = m.verdict
}

// deployments makes the records and their writes.
func (p *planner) deployments() {
	for _, r := range p.records {
		at, t := siteOfRecord(&r).current(p.here), targetOf(&r, p.here)
		r.RepositoryID, r.Repository = at.id, at.name
		if w := p.wanted[t]; w != nil {
			r.PullRequest = w.PullRequest
			p.keep(r, p.verdicts[t])
			continue
		}
		if v, known := p.former(&r); known {
			p.keep(r, v)
		} else {
			p.out.records = append(p.out.records, r) // as it is
		}
	}
	slices.SortStableFunc(p.order, func(a, b target) int {
		return cmp.Compare(p.wanted[b].PullRequest, p.wanted[a].PullRequest)
	})
	for _, t := range p.order {
		if _, recorded := p.states[t]; !recorded && p.verdicts[t].state != v1alpha1.DeploymentInactive {
			p.keep(*p.wanted[t], p.verdicts[t])
		}
	}
	p.boundRecords()
}

// keep keeps a record, with the write that it needs. Without feedback, and of another
// repository, nothing is kept that is over.
func (p *planner) keep(r v1alpha1.FeedbackRecord, v verdict) {
	sum := checksum(string(v.state), v.text, v.url)
	over := v.state == v1alpha1.DeploymentInactive && r.State == v1alpha1.DeploymentInactive
	t := targetOf(&r, p.here)
	if over && (p.feedback == nil || t.from != "") || p.forsakes(t.from, t.key(), r.Repository) {
		return
	}
	p.out.records = append(p.out.records, r)
	// Why something is inactive is told once: a pull request that is closed and then
	// forgotten is not told of again.
	if over || v.hold || r.DeploymentID != 0 && r.State == v.state && r.Checksum == sum {
		return
	}
	p.out.writes = append(p.out.writes, write{key: t.key(), from: t.from, checksum: sum, deployment: &r, verdict: v})
}

// forsakes says that a record of another repository is given up, and notes it.
func (p *planner) forsakes(from, key, name string) bool {
	if from == "" || !p.abandoned[key] {
		return false
	}
	if !slices.Contains(p.out.forsaken, name) {
		p.out.forsaken = append(p.out.forsaken, name)
	}
	return true
}

// former says what becomes of a Deployment that is not of a present head; false: it
// stays as it is for now.
func (p *planner) former(r *v1alpha1.FeedbackRecord) (verdict, bool) {
	inactive := func(text string) (verdict, bool) {
		return verdict{state: v1alpha1.DeploymentInactive, text: text}, true
	}
	if r.State == v1alpha1.DeploymentInactive {
		return inactive("")
	}
	if p.feedback == nil || !siteOfRecord(r).is(p.here) {
		return inactive("Previews are not reported any more.")
	}
	var now []member
	for _, m := range p.members {
		if m.head.environment == r.Environment && m.pull == r.PullRequest && (m.pull == 0 || enabled(p.feedback.Deployments.PullRequests)) {
			now = append(now, m)
		}
	}
	if len(now) == 0 {
		return p.over(r)
	}
	head := now[0]
	overtaken := fmt.Sprintf("%s took its place.", cmp.Or(short(head.head.ref), head.version))
	written := p.states[head.head] == v1alpha1.DeploymentSuccess
	ready := p.verdicts[head.head].state == v1alpha1.DeploymentSuccess
	if r.PullRequest == 0 {
		if written || head.head.ref == "" && head.state == v1alpha1.DeploymentSuccess {
			return inactive(overtaken)
		}
		return verdict{}, false // until the new one is ready
	}
	if written && ready {
		return inactive(overtaken)
	}
	// The former commit may go on serving until the new one is ready.
	var serving verdict
	for _, m := range now {
		if v := m.stream.steady(m.group, r.Ref, r.State); v.active {
			serving = serving.worse(v)
		}
	}
	switch {
	case serving.state != "":
		return serving, true
	case ready:
		return verdict{}, false // when that is written
	}
	return inactive(overtaken)
}

// over says what becomes of a Deployment of whose environment nothing is left.
func (p *planner) over(r *v1alpha1.FeedbackRecord) (verdict, bool) {
	inactive := verdict{state: v1alpha1.DeploymentInactive}
	if r.PullRequest == 0 {
		inactive.text = "The release is gone."
		return inactive, true
	}
	pr := p.pullRequest(r.PullRequest)
	switch {
	case pr == nil && !p.looked:
		return verdict{}, false
	case pr == nil || pr.State == v1alpha1.PullRequestClosed:
		inactive.text = "The pull request is closed."
	default:
		inactive.text = "The pull request has no preview here any more."
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

// boundRecords drops records beyond the bound: the oldest inactive ones first, and
// then new ones, which wait for room.
func (p *planner) boundRecords() {
	excess := len(p.out.records) - maxRecords
	if excess <= 0 {
		return
	}
	p.out.records = slices.DeleteFunc(p.out.records, func(r v1alpha1.FeedbackRecord) bool {
		drop := excess > 0 && r.State == v1alpha1.DeploymentInactive && p.wanted[targetOf(&r, p.here)] == nil
		if drop {
			excess--
		}
		return drop
	})
	dropped := map[string]bool{}
	for excess > 0 && len(p.out.records) > 0 {
		last := &p.out.records[len(p.out.records)-1]
		dropped[targetOf(last, p.here).key()] = true
		p.out.records = p.out.records[:len(p.out.records)-1]
		p.out.left++
		excess--
	}
	p.out.writes = slices.DeleteFunc(p.out.writes, func(w write) bool { return dropped[w.key] })
}

// discussions makes the comments and their writes.
func (p *planner) discussions() {
	rows := p.rows()
	for _, c := range p.comments {
		at := siteOfComment(&c).current(p.here)
		c.RepositoryID, c.Repository = at.id, at.name
		from := at.from(p.here)
		text, known := p.text(c.PullRequest, rows)
		if from != "" {
			text, known = textEnded, true
		}
		sum := checksum(text)
		switch {
		case !known, from == "" && p.holds(c.PullRequest):
			p.out.comments = append(p.out.comments, c)
		case (p.feedback == nil || from != "") && (atRest(&c) || c.Deletions > 1):
			// over, and not kept
		case p.feedback == nil && p.locked[commentKey(from, c.PullRequest)]:
			// it stays as it is: no one waits for the conversation to be unlocked
		case p.forsakes(from, commentKey(from, c.PullRequest), c.Repository):
		default:
			p.out.comments = append(p.out.comments, c)
			// One that was closed stays as it is when nothing is told any more.
			if c.Checksum != sum && c.Deletions < 2 && (text != textEnded || !atRest(&c)) {
				p.out.writes = append(p.out.writes, write{key: commentKey(from, c.PullRequest), from: from, checksum: sum, comment: &c, text: text})
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
			if at := slices.IndexFunc(p.out.comments, func(c v1alpha1.CommentRecord) bool { return atRest(&c) }); at >= 0 {
				p.out.comments = slices.Delete(p.out.comments, at, at+1)
			} else {
				p.out.left++
				continue
			}
		}
		c, text := v1alpha1.CommentRecord{Repository: p.here.name, RepositoryID: p.here.id, PullRequest: number}, commentText(rows[number])
		p.out.comments = append(p.out.comments, c)
		p.out.writes = append(p.out.writes, write{key: commentKey("", number), checksum: checksum(text), comment: &c, text: text})
	}
}

// holds says that what the comment on a pull request tells stands for now.
func (p *planner) holds(number int64) bool {
	return slices.ContainsFunc(p.members, func(m member) bool { return m.pull == number && m.hold })
}

// atRest says that a comment tells that all is over.
func atRest(c *v1alpha1.CommentRecord) bool {
	return c.Checksum == sumClosed || c.Checksum == sumEnded
}

// Checksums of the texts of comments that are at rest.
var sumClosed, sumEnded = checksum(textClosed), checksum(textEnded)

// rows of the comments, by pull request.
func (p *planner) rows() map[int64][]row {
	rows := map[int64][]row{}
	if p.feedback == nil || !enabled(p.feedback.Comment) {
		return rows
	}
	for _, m := range p.members {
		if m.pull == 0 {
			continue
		}
		ms := m.stream.microservice
		r := row{microservice: ms.Namespace + "/" + ms.Name, environment: m.head.environment, ref: m.head.ref, verdict: m.verdict}
		if !m.active && m.group != nil && m.group.Phase == v1alpha1.GroupLive {
			for _, former := range m.group.Releases {
				if former.Status == v1alpha1.ReleaseActive && former.Available {
					r.serving = former.SemVer.Version
				}
			}
		}
		rows[m.pull] = append(rows[m.pull], r)
	}
	return rows
}

// text of the comment on a pull request; false: it stays as it is for now.
func (p *planner) text(number int64, rows map[int64][]row) (string, bool) {
	pr := p.pullRequest(number)
	switch {
	case p.feedback == nil || !enabled(p.feedback.Comment):
		return textEnded, true
	case pr == nil && !p.looked:
		return "", false
	case pr == nil || pr.State == v1alpha1.PullRequestClosed:
		return textClosed, true
	}
	return commentText(rows[number]), true
}

// sortedNumbers are the pull requests, the newest first.
func sortedNumbers(rows map[int64][]row) []int64 {
	var numbers []int64
	for number := range rows {
		numbers = append(numbers, number)
	}
	slices.SortFunc(numbers, func(a, b int64) int { return cmp.Compare(b, a) })
	return numbers
}

// marker of the Deployments of a repository: its prefix, and the pull request.
func marker(prefix string, pullRequest int64) string {
	return prefix + strconv.FormatInt(pullRequest, 10)
}
