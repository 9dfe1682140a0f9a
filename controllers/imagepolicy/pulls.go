package imagepolicy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/preview"
	"github.com/heighliner/heighliner/internal/version"
)

// Bounds of looks at pull requests.
const (
	// maxHeads is how many head commits one look asks for; the rest have the next one.
	maxHeads = 50
	// defaultPulls is the default of spec.limits.groups.
	defaultPulls = 256
	// headFirst and headMost are the waits after a head commit was found without an
	// image: doubled each time, and always over by the next look.
	headFirst = 10 * time.Second
	headMost  = 5 * time.Minute
)

// head is what looks learned of the head commit of one pull request. It is never
// changed.
type head struct {
	sha string
	// images of it; none: refusal says why.
	images  []v1alpha1.ReleaseImage
	refusal *version.Refusal
	// tries that found none, and when to ask again; zero with images.
	tries int
	next  time.Time
}

// knows says that the head is of a pull request's commit.
func (h head) knows(pr *v1alpha1.PullRequest) bool { return h.sha == pr.HeadSHA && h.sha != "" }

// pulled is what a pass makes of pull requests.
type pulled struct {
	releases []v1alpha1.OfferedRelease
	// former are the slugs of groups of another repository, which was named before.
	former map[string]bool
	// excluded are the numbers of pull requests that the filters refuse, and closed
	// those that were closed, with the time.
	excluded map[int64]bool
	closed   map[int64]time.Time
}

// stream is a pull request on its way through a pass, with what is offered of it.
type stream struct {
	pr     *v1alpha1.PullRequest
	slug   string
	former *v1alpha1.OfferedRelease // nil: nothing
	// unknown says that GitHub does not name it, which proves nothing.
	unknown bool
}

// scanPulls is scan for pull requests: it reads a look, or fills it where the asker has
// a scanner. What GitHub says is known; the registry is asked for the images of head
// commits, of a bounded number in one look: the ones that were never asked for first,
// then those that wait the longest.
func scanPulls(o *observed, a *asker) scanned {
	s, due := o.pulls(a)
	if o.quiet() {
		return s
	}
	if a.scanner == nil {
		s.unasked = a.failed == nil && (a.unasked || slices.ContainsFunc(due, func(st stream) bool { return !a.heads[st.pr.Number].knows(st.pr) }))
		return s
	}
	for budget := maxHeads; len(due) > 0 && budget > 0 && s.failures < maxFailures; {
		slices.SortStableFunc(due, func(x, y stream) int { return a.waits(x.pr).Compare(a.waits(y.pr)) })
		for _, st := range due[:min(budget, len(due))] {
			if h, ok := s.head(o, a, st); ok {
				a.heads[st.pr.Number] = h
			}
		}
		budget -= len(due)
		failures, err := s.failures, s.err
		s, due = o.pulls(a)
		s.failures, s.err = failures, err
	}
	a.failed = s.err
	maps.DeleteFunc(a.heads, func(number int64, h head) bool {
		return !slices.ContainsFunc(o.github.pulls, func(pr v1alpha1.PullRequest) bool {
			return pr.Number == number && pr.State == v1alpha1.PullRequestOpen && h.knows(&pr)
		})
	})
	clear(a.images) // what was found is in heads, and the others are asked for again
	return s
}

// waits is since when a head commit waits to be asked for; zero: it never was.
func (a *asker) waits(pr *v1alpha1.PullRequest) time.Time {
	if h := a.heads[pr.Number]; h.knows(pr) {
		return h.next
	}
	return time.Time{}
}

// pulls makes of all that is known what is offered, refused and withdrawn, and says
// which head commits are to be asked for.
func (o *observed) pulls(a *asker) (s scanned, due []stream) {
	s = scanned{
		pulled:  &pulled{former: map[string]bool{}, excluded: map[int64]bool{}, closed: map[int64]time.Time{}},
		missing: map[string]bool{},
	}
	s.judgedBy(o, a)
	if !o.quiet() {
		s.list(o, a)
	}
	s.err = cmp.Or(s.err, a.failed)
	streams := o.streams(s.pulled)
	s.tags = len(streams)
	left := cmp.Or(int(o.policy.Spec.Limits.Groups), defaultPulls)
	held := map[string]bool{}
	for _, h := range o.held {
		held[h.Group] = true
	}
	for _, st := range streams {
		if left <= 0 && !held[st.slug] {
			s.reject(st.pr, version.VerdictLimits, fmt.Sprintf("not among those of the newest pushes (limits.groups %d)", cmp.Or(int(o.policy.Spec.Limits.Groups), defaultPulls)))
			s.result.Truncated = append(s.result.Truncated, st.slug)
			continue
		}
		offered, wants := o.offer(&s, a, st)
		if wants {
			due = append(due, st)
		}
		if offered != nil {
			offered.Held = left <= 0
			s.pulled.releases = append(s.pulled.releases, *offered)
			left--
		}
	}
	s.result.Counts = countsOf(s.result.Rejected)
	return s, due
}

// streams are the pull requests that are open, and those that are offered and not
// known to be closed, the newest push first.
func (o *observed) streams(p *pulled) []stream {
	offered := map[int64]*v1alpha1.OfferedRelease{}
	for i := range o.policy.Status.Releases {
		switch rel := &o.policy.Status.Releases[i]; {
		case rel.PullRequest == 0 || !carried(o.policy, rel):
		case o.github.known && o.another():
			p.former[rel.Group] = true
		default:
			offered[rel.PullRequest] = rel
		}
	}
	groups := o.groups(p)
	var streams []stream
	for i := range o.github.pulls {
		pr := &o.github.pulls[i]
		st := stream{pr: pr, slug: cmp.Or(groups[pr.Number], preview.Slug(pr.HeadRef, pr.Number)), former: offered[pr.Number]}
		if st.former != nil {
			st.slug = st.former.Group
		}
		delete(offered, pr.Number)
		if pr.State == v1alpha1.PullRequestClosed {
			p.closed[pr.Number] = ptr.Deref(pr.ClosedTime, metav1.Time{}).Time
			continue
		}
		streams = append(streams, st)
	}
	for number, former := range offered {
		streams = append(streams, stream{
			pr:   &v1alpha1.PullRequest{Number: number, HeadRef: former.SemVer.Name, HeadSHA: former.Revision, HeadTime: former.ReleaseTime},
			slug: former.Group, former: former, unknown: true,
		})
	}
	slices.SortFunc(streams, func(a, b stream) int { return preview.Newest(a.pr, b.pr) })
	return streams
}

// groups are the slugs under which pull requests are held, by number: a branch may be
// renamed, and the group stays. One that was taken back is nobody's any more.
func (o *observed) groups(p *pulled) map[int64]string {
	taken := maps.Clone(p.former)
	for _, w := range o.policy.Status.Withdrawn {
		taken[w.Group] = true
	}
	groups := map[int64]string{}
	for _, h := range o.held {
		number, ok := numberOf(h)
		if was := groups[number]; ok && !taken[h.Group] && (was == "" || h.Group < was) {
			groups[number] = h.Group
		}
	}
	return groups
}

// numberOf the pull request of which a version is held; false where it is of none.
func numberOf(h version.Held) (int64, bool) {
	number, ok := preview.Number(h.Group)
	return number, ok && preview.IsCommit(h.Version)
}

// offer gives what is offered of a pull request; nil for nothing. wants says that the
// registry is to be asked for its head commit.
func (o *observed) offer(s *scanned, a *asker, st stream) (offered *v1alpha1.OfferedRelease, wants bool) {
	if (o.gated || s.rekeyed) && !o.quiet() && st.former != nil && s.again(o, a, st) {
		st.former = nil
		s.pulled.excluded[st.pr.Number] = true
	}
	if st.former != nil && o.unbound(st.former) {
		st.former = nil
		s.pulled.excluded[st.pr.Number] = true
	}
	former := func() *v1alpha1.OfferedRelease {
		if st.former == nil {
			return nil
		}
		return ptr.To(*st.former)
	}
	if st.unknown || o.chooser == nil {
		return former(), false
	}
	if st.pr.HeadSHA == "" {
		s.reject(st.pr, version.VerdictExists, "its head commit is not known")
		return former(), false
	}
	if choice := o.chooser.Choose(st.pr); !choice.Taken() {
		s.reject(st.pr, choice.Verdict, choice.Reason)
		if !o.github.current || st.former != nil && slices.Contains(choice.Approved, st.former.Revision) {
			return former(), false
		}
		s.pulled.excluded[st.pr.Number] = true
		return nil, false
	}
	h := a.heads[st.pr.Number]
	known := h.knows(st.pr)
	wants = !known || len(h.images) == 0 && !a.clock.Now().Before(h.next)
	switch {
	case known && len(h.images) > 0:
		return o.preview(st, h.images), false
	case st.former != nil && st.former.Revision == st.pr.HeadSHA:
		return o.preview(st, st.former.Images), wants && a.impatient
	case known:
		s.reject(st.pr, h.refusal.Verdict, h.refusal.Reason)
	default:
		s.reject(st.pr, version.VerdictExists, "no image yet: the registry was not asked for it")
	}
	return former(), wants
}

// unbound reports whether an image is offered of a fork by a tag that does not hold the
// whole commit, though that needs an approval now: another policy found it.
func (o *observed) unbound(offered *v1alpha1.OfferedRelease) bool {
	return o.chooser != nil && o.chooser.NeedsApproval(&v1alpha1.PullRequest{Fork: offered.Fork}) && !strings.Contains(tagOf(offered.Images), offered.Revision)
}

// again judges what is offered once more, and reports whether it is withdrawn. Its images
// are there: only what they are counts. Of other keys alone the labels are not judged: the
// branch may have another name since.
func (s *scanned) again(o *observed, a *asker, st stream) bool {
	pr := *st.pr
	pr.HeadSHA = st.former.Revision
	var refusal *version.Refusal
	if o.gated {
		refusal = s.judge(o, a, st.former.Images, preview.VarsOf(&pr))
	} else {
		refusal = s.judgeSignatures(o, a, st.former.Images)
	}
	if final(refusal) {
		if st.unknown || pr.HeadSHA != st.pr.HeadSHA { // else it is refused as the head commit
			s.reject(&pr, refusal.Verdict, refusal.Reason)
		}
		return true
	}
	s.undecided = s.undecided || refusal != nil
	return false
}

// countsOf counts rejections by verdict, in the order of the verdicts' names.
func countsOf(rejected []version.Rejection) []version.Count {
	n := map[version.Verdict]int{}
	for _, x := range rejected {
		n[x.Verdict]++
	}
	var counts []version.Count
	for _, v := range slices.Sorted(maps.Keys(n)) {
		counts = append(counts, version.Count{Verdict: v, Tags: n[v]})
	}
	return counts
}

// maxName is the schema's bound on a group's name.
const maxName = 253

// preview is the offer of a pull request's head commit.
func (o *observed) preview(st stream, images []v1alpha1.ReleaseImage) *v1alpha1.OfferedRelease {
	name, pushed := st.pr.HeadRef, preview.Pushed(st.pr)
	if len(name) > maxName || name == "" {
		name = st.slug
	}
	if pushed == nil && st.former != nil && st.former.Revision == st.pr.HeadSHA {
		pushed = st.former.ReleaseTime
	}
	return &v1alpha1.OfferedRelease{
		SemVer: v1alpha1.SemVer{Name: name, Version: st.pr.HeadSHA}, Group: st.slug, Level: v1alpha1.LevelPreview, Images: images,
		PullRequest: st.pr.Number, Fork: st.pr.Fork, ReleaseTime: pushed, Revision: st.pr.HeadSHA, URL: o.github.link("pull", strconv.FormatInt(st.pr.Number, 10)),
	}
}

// reject a head commit.
func (s *scanned) reject(pr *v1alpha1.PullRequest, verdict version.Verdict, reason string) {
	s.result.Rejected = append(s.result.Rejected, version.Rejection{
		Version: pr.HeadSHA, Verdict: verdict, Reason: fmt.Sprintf("pull request %d (%s): %s", pr.Number, preview.Branch(pr.HeadRef), reason),
	})
}

// head asks the registry for the image of a head commit, by one tag after the other.
// It gives false where the registry did not answer, which says nothing.
func (s *scanned) head(o *observed, a *asker, st stream) (head, bool) {
	h := head{sha: st.pr.HeadSHA}
	if known := a.heads[st.pr.Number]; known.knows(st.pr) {
		h.tries = known.tries
	}
	var tried []string
	for _, tag := range o.chooser.Tags(st.pr) {
		for i := range a.question.repositories() {
			delete(a.images, ref{i, tag.Name})
		}
		before := s.failures
		images, refusal := s.find(o, a, tag.Name, preview.VarsOf(st.pr))
		if refusal == nil && tag.Inspect {
			refusal = s.ofHead(o, a, st, tag, images)
		}
		switch {
		case s.failures > before || refusal != nil && s.failures >= maxFailures:
			return head{}, false
		case refusal == nil:
			h.images, h.refusal = images, nil
			return h, true
		case refusal.Verdict == version.VerdictExists && s.missing[tag.Name]:
			tried = append(tried, tag.Name)
		case h.refusal == nil:
			h.refusal = &version.Refusal{Verdict: refusal.Verdict, Reason: "tag " + tag.Name + ": " + refusal.Reason}
			if refusal.Verdict == version.VerdictExists {
				h.refusal.Reason = "no image yet: " + h.refusal.Reason
			}
		}
	}
	if h.refusal == nil {
		h.refusal = refuse(version.VerdictExists, "no image yet: the registry has none of the tags %s", strings.Join(tried, ", "))
	}
	h.next = a.clock.Now().Add(min(headFirst<<min(h.tries, 10), headMost, a.pace.Fresh(a.question.interval)))
	h.tries++
	return h, true
}

// ofHead refuses the images of a tag, unless all are of the head commit.
func (s *scanned) ofHead(o *observed, a *asker, st stream, tag preview.Tag, images []v1alpha1.ReleaseImage) *version.Refusal {
	for i, image := range images {
		says, err := a.Inspect(i, image.Digest, o.platforms[0])
		if err != nil {
			s.fail(err)
			return refuse(version.VerdictExists, "the image cannot be read: %s", err)
		}
		former := ""
		if st.former != nil && st.former.Revision != st.pr.HeadSHA {
			former = st.former.Images[i].Digest
		}
		if why := preview.OfHead(st.pr, tag, preview.Image{Digest: image.Digest, Revision: says.Revision, Created: says.Created}, former); why != "" {
			return refuse(version.VerdictExists, "%s", why)
		}
	}
	return nil
}

// withdrawPulls says which groups that somebody holds are taken back: those of closed
// pull requests, those that the filters refuse, and those that are of no pull request.
// A withdrawal stands, with its time, until the group is offered again or nobody holds
// it any more.
func (o *observed) withdrawPulls(p *pulled, now time.Time) []v1alpha1.Withdrawal {
	offered, seen := map[string]bool{}, map[string]bool{}
	for _, rel := range p.releases {
		offered[rel.Group] = true
	}
	before := map[string]v1alpha1.Withdrawal{}
	for _, w := range o.policy.Status.Withdrawn {
		before[w.Group] = w
	}
	var out []v1alpha1.Withdrawal
	for _, h := range o.held {
		if h.Group == "" || offered[h.Group] || seen[h.Group] {
			continue
		}
		seen[h.Group] = true
		w := v1alpha1.Withdrawal{Group: h.Group, Time: metav1.NewTime(now)}
		number, isPull := numberOf(h)
		closed, isClosed := p.closed[number]
		was, stands := before[h.Group]
		switch {
		case p.former[h.Group], !isPull:
			w.Reason = v1alpha1.WithdrawnExcluded
		case isClosed:
			w.Reason = v1alpha1.WithdrawnClosed
			if !closed.IsZero() {
				w.Time = metav1.NewTime(closed)
			}
		case p.excluded[number]:
			w.Reason = v1alpha1.WithdrawnExcluded
		case stands && was.Version == "":
			w.Reason = was.Reason
		default:
			continue // nothing is known of it, which proves nothing
		}
		if stands && was.Version == "" && was.Reason == w.Reason {
			w.Time = was.Time
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b v1alpha1.Withdrawal) int { return strings.Compare(a.Group, b.Group) })
	return out
}
