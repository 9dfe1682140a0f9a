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
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/version"
)

// Bounds on scans for pull requests.
const (
	// maxHeads is the maximum number of head commits whose images one scan requests. The next scan continues with other head commits.
	maxHeads = 50
	// defaultPulls is the default for spec.limits.groups.
	defaultPulls = 256
	// headFirst and headMost bound the delay until the next request for a head commit without an
	// image. The delay doubles each time, but never extends past the next regular scan. For an image
	// that may have to be replaced, only headFirst and the regular scan bound the delay.
	headFirst = 10 * time.Second
	headMost  = 5 * time.Minute
)

// head is the result for the head commit of one pull request. It is immutable.
type head struct {
	sha string
	// images are the images of the commit. If there are no images, refusal is the reason.
	images  []v1alpha1.ReleaseImage
	refusal *version.Refusal
	// byAge reports whether the images count as built from the commit only because of their build time. Such images may be
	// from an earlier commit whose build finished late. Therefore, their tag is requested again.
	byAge bool
	// tries is the number of requests that found no image, or only the known images, and next is the time of the next request.
	// Both are zero if the tag is not requested again.
	tries int
	next  time.Time
}

// knows reports whether the result is for the current head commit of a pull request.
func (h head) knows(pr *v1alpha1.PullRequest) bool { return h.sha == pr.HeadSHA && h.sha != "" }

// pullRequests is the selection of pull requests.
type pullRequests struct {
	releases []v1alpha1.OfferedRelease
	// otherRepository contains the slugs of groups from a previous repository.
	otherRepository map[string]bool
	// excluded contains the numbers of pull requests that the filters reject, and closed contains the closed
	// pull requests with the time at which they were closed.
	excluded map[int64]bool
	closed   map[int64]time.Time
}

// pullState is a pull request with its offered release.
type pullState struct {
	pr      *v1alpha1.PullRequest
	slug    string
	offered *v1alpha1.OfferedRelease // nil if there is no offered release
	// unknown reports whether the pull request is missing from GitHub's list. This does not prove that it is
	// closed.
	unknown bool
}

// selectPullRequests selects the releases of pull requests. It requests the images of a limited number of
// head commits per scan: first the head commits that were never requested, and then those that have waited
// longest.
func selectPullRequests(o *observed, a *recordReader) selection {
	s, due := o.selectPulls(a)
	if o.paused() {
		return s
	}
	if a.scanner == nil {
		s.incomplete = a.failed == nil && (a.incomplete || slices.ContainsFunc(due, func(st pullState) bool { return !a.heads[st.pr.Number].knows(st.pr) }))
		return s
	}
	for budget := maxHeads; len(due) > 0 && budget > 0 && s.failures < maxFailures; {
		slices.SortStableFunc(due, func(x, y pullState) int { return a.waitingSince(x.pr).Compare(a.waitingSince(y.pr)) })
		for _, st := range due[:min(budget, len(due))] {
			if h, ok := s.findHead(o, a, st); ok {
				a.heads[st.pr.Number] = h
			}
		}
		budget -= len(due)
		errors := s.registryErrors
		s, due = o.selectPulls(a)
		s.registryErrors = errors
	}
	s.noteUnreadable()
	a.failed = s.err
	maps.DeleteFunc(a.heads, func(number int64, h head) bool {
		return !slices.ContainsFunc(o.github.pulls, func(pr v1alpha1.PullRequest) bool {
			return pr.Number == number && pr.State == v1alpha1.PullRequestOpen && h.knows(&pr)
		})
	})
	clear(a.images) // the results are in heads; other images are requested again
	return s
}

// waitingSince returns the time at which the next request for a head commit is due; zero if the head commit has not been requested
// yet.
func (a *recordReader) waitingSince(pr *v1alpha1.PullRequest) time.Time {
	if h := a.heads[pr.Number]; h.knows(pr) {
		return h.next
	}
	return time.Time{}
}

// selectPulls decides which pull requests are offered, rejected, and withdrawn according to the results so
// far. It returns the selection and the head commits to request.
func (o *observed) selectPulls(a *recordReader) (s selection, due []pullState) {
	s = selection{
		pulled:  &pullRequests{otherRepository: map[string]bool{}, excluded: map[int64]bool{}, closed: map[int64]time.Time{}},
		missing: map[string]bool{},
	}
	s.compareKeys(o, a)
	if !o.paused() {
		s.list(o, a)
	}
	s.err = cmp.Or(s.err, a.failed)
	streams := o.pullStreams(s.pulled)
	s.tags = len(streams)
	left := cmp.Or(int(o.policy.Spec.Limits.Groups), defaultPulls)
	held := map[string]bool{}
	for _, h := range o.inUse {
		held[h.Group] = true
	}
	for _, st := range streams {
		if left <= 0 && !held[st.slug] {
			s.reject(st.pr, version.VerdictLimits, fmt.Sprintf("beyond spec.limits.groups (%d): pull requests with the newest pushes come first", cmp.Or(int(o.policy.Spec.Limits.Groups), defaultPulls)))
			s.result.Truncated = append(s.result.Truncated, st.slug)
			continue
		}
		offered, wants := o.offerPull(&s, a, st)
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

// pullStreams returns the open pull requests, and the offered pull requests that are not known to be
// closed, newest push first.
func (o *observed) pullStreams(p *pullRequests) []pullState {
	offered := map[int64]*v1alpha1.OfferedRelease{}
	for i := range o.policy.Status.Releases {
		switch rel := &o.policy.Status.Releases[i]; {
		case rel.PullRequest == 0 || !isCurrent(o.policy, rel):
		case o.github.known && o.repositoryChanged():
			p.otherRepository[rel.Group] = true
		default:
			offered[rel.PullRequest] = rel
		}
	}
	groups := o.groupsInUse(p)
	var streams []pullState
	for i := range o.github.pulls {
		pr := &o.github.pulls[i]
		st := pullState{pr: pr, slug: cmp.Or(groups[pr.Number], preview.Slug(pr.HeadRef, pr.Number)), offered: offered[pr.Number]}
		if st.offered != nil {
			st.slug = st.offered.Group
		}
		delete(offered, pr.Number)
		if pr.State == v1alpha1.PullRequestClosed {
			p.closed[pr.Number] = ptr.Deref(pr.ClosedTime, metav1.Time{}).Time
			continue
		}
		streams = append(streams, st)
	}
	for number, previous := range offered {
		streams = append(streams, pullState{
			pr:   &v1alpha1.PullRequest{Number: number, HeadRef: previous.SemVer.Name, HeadSHA: previous.Revision, HeadTime: previous.ReleaseTime},
			slug: previous.Group, offered: previous, unknown: true,
		})
	}
	slices.SortFunc(streams, func(a, b pullState) int { return preview.Newest(a.pr, b.pr) })
	return streams
}

// groupsInUse returns the slugs of groups in use, keyed by pull request number. The slug of a group
// does not change when a branch is renamed. Withdrawn groups and groups from a previous repository are omitted.
func (o *observed) groupsInUse(p *pullRequests) map[int64]string {
	taken := maps.Clone(p.otherRepository)
	for _, w := range o.policy.Status.Withdrawn {
		taken[w.Group] = true
	}
	groups := map[int64]string{}
	for _, h := range o.inUse {
		number, ok := numberOf(h)
		if was := groups[number]; ok && !taken[h.Group] && (was == "" || h.Group < was) {
			groups[number] = h.Group
		}
	}
	return groups
}

// numberOf returns the pull request number of a version in use, or false if the version is not from a pull
// request.
func numberOf(h version.Held) (int64, bool) {
	number, ok := preview.Number(h.Group)
	return number, ok && preview.IsCommit(h.Version)
}

// offerPull returns the release to offer for a pull request, or nil. wants reports whether the head
// commit must be requested.
func (o *observed) offerPull(s *selection, a *recordReader, st pullState) (offered *v1alpha1.OfferedRelease, wants bool) {
	if (o.recheck || s.keysChanged) && !o.paused() && st.offered != nil && s.recheck(o, a, st) {
		st.offered = nil
		s.pulled.excluded[st.pr.Number] = true
	}
	if st.offered != nil && o.needsFullSHA(st.offered) {
		st.offered = nil
		s.pulled.excluded[st.pr.Number] = true
	}
	previous := func() *v1alpha1.OfferedRelease {
		if st.offered == nil {
			return nil
		}
		return ptr.To(*st.offered)
	}
	if st.unknown || o.chooser == nil {
		return previous(), false
	}
	if st.pr.HeadSHA == "" {
		s.reject(st.pr, version.VerdictExists, "its head commit is unknown")
		return previous(), false
	}
	choice := o.chooser.Choose(st.pr)
	if !choice.Taken() {
		s.reject(st.pr, choice.Verdict, choice.Reason)
		if !o.github.current || st.offered != nil && slices.Contains(choice.Approved, st.offered.Revision) {
			return previous(), false
		}
		s.pulled.excluded[st.pr.Number] = true
		return nil, false
	}
	if o.github.current && choice.Approved != nil && st.offered != nil && !slices.Contains(choice.Approved, st.offered.Revision) {
		st.offered = nil // The approval of the earlier commit was removed.
		s.pulled.excluded[st.pr.Number] = true
	}
	h := a.heads[st.pr.Number]
	known := h.knows(st.pr)
	wants = !known || (len(h.images) == 0 || h.byAge) && !a.clock.Now().Before(h.next)
	switch {
	case known && len(h.images) > 0:
		return o.previewRelease(st, h.images), wants
	case st.offered != nil && st.offered.Revision == st.pr.HeadSHA:
		return o.previewRelease(st, st.offered.Images), wants && (a.immediate || o.offersMovingTag(st))
	case known:
		s.reject(st.pr, h.refusal.Verdict, h.refusal.Reason)
	default:
		s.reject(st.pr, version.VerdictExists, "no image yet: not scanned")
	}
	return previous(), wants
}

// offersMovingTag reports whether the tag of an offered release does not contain a commit SHA and its image may therefore have to be replaced. It
// returns false for forks, because if the tag does not contain a commit SHA, their images must have a revision label.
func (o *observed) offersMovingTag(st pullState) bool {
	return !st.pr.Fork && slices.ContainsFunc(o.chooser.Tags(st.pr), func(t preview.Tag) bool { return t.Moves && t.Name == tagOf(st.offered.Images) })
}

// needsFullSHA reports whether the offered image from a fork has a tag without the full commit SHA,
// although the current policy for forks requires the full SHA.
func (o *observed) needsFullSHA(offered *v1alpha1.OfferedRelease) bool {
	return o.chooser != nil && o.chooser.NeedsApproval(&v1alpha1.PullRequest{Fork: offered.Fork}) && !strings.Contains(tagOf(offered.Images), offered.Revision)
}

// recheck checks an offered release again, and reports whether it is withdrawn. The release's images exist,
// so only their content is checked. If only the keys changed, labels are not checked, because they may contain
// the branch name, and the branch may have been renamed.
func (s *selection) recheck(o *observed, a *recordReader, st pullState) bool {
	pr := *st.pr
	pr.HeadSHA = st.offered.Revision
	var refusal *version.Refusal
	if o.recheck {
		refusal = s.check(o, a, st.offered.Images, preview.VarsOf(&pr))
	} else {
		refusal = s.checkSignatures(o, a, st.offered.Images)
	}
	if isFinal(refusal) {
		if st.unknown || pr.HeadSHA != st.pr.HeadSHA { // otherwise, the rejection is recorded for the head commit
			s.reject(&pr, refusal.Verdict, refusal.Reason)
		}
		return true
	}
	s.undecided = s.undecided || refusal != nil
	return false
}

// countsOf returns the number of rejections for each verdict, sorted by verdict.
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

// maxName is the maximum length of a group name in the schema.
const maxName = 253

// previewRelease returns the release of the head commit of a pull request.
func (o *observed) previewRelease(st pullState, images []v1alpha1.ReleaseImage) *v1alpha1.OfferedRelease {
	name, pushed := st.pr.HeadRef, preview.Pushed(st.pr)
	if len(name) > maxName || name == "" {
		name = st.slug
	}
	if pushed == nil && st.offered != nil && st.offered.Revision == st.pr.HeadSHA {
		pushed = st.offered.ReleaseTime
	}
	return &v1alpha1.OfferedRelease{
		SemVer: v1alpha1.SemVer{Name: name, Version: st.pr.HeadSHA}, Group: st.slug, Level: v1alpha1.LevelPreview, Images: images,
		PullRequest: st.pr.Number, Fork: st.pr.Fork, ReleaseTime: pushed, Revision: st.pr.HeadSHA, URL: o.github.link("pull", strconv.FormatInt(st.pr.Number, 10)),
	}
}

// reject records the rejection of a head commit.
func (s *selection) reject(pr *v1alpha1.PullRequest, verdict version.Verdict, reason string) {
	s.result.Rejected = append(s.result.Rejected, version.Rejection{
		Version: pr.HeadSHA, Verdict: verdict, Reason: fmt.Sprintf("pull request %d (%s): %s", pr.Number, preview.Branch(pr.HeadRef), reason),
	})
}

// findHead requests the images of a head commit. It tries one candidate tag after another. If images of the commit are
// already known, it requests only their tag, unless a user requested the scan. It returns false if the registry did not respond.
func (s *selection) findHead(o *observed, a *recordReader, st pullState) (head, bool) {
	h, known := head{sha: st.pr.HeadSHA}, a.heads[st.pr.Number]
	if !known.knows(st.pr) {
		known = head{}
	}
	h.tries = known.tries
	current := known.images
	if len(current) == 0 && st.offered != nil && st.offered.Revision == st.pr.HeadSHA {
		current = st.offered.Images
	}
	var tried []string
	for _, tag := range o.chooser.Tags(st.pr) {
		if len(current) > 0 && !a.immediate && tag.Name != tagOf(current) {
			continue
		}
		for i := range a.query.repositories() {
			delete(a.images, ref{i, tag.Name})
		}
		before := s.failures
		if known.byAge && s.stillRefersTo(o, a, tag.Name, current) {
			return known.again(a), true
		}
		images, refusal := s.findImages(o, a, tag.Name, preview.VarsOf(st.pr))
		if refusal == nil && tag.Inspect {
			h.byAge, refusal = s.checkHead(o, a, st, tag, images, current)
		}
		switch {
		case s.failures > before || refusal != nil && s.failures >= maxFailures:
			return head{}, false
		case refusal == nil && h.byAge:
			h.images, h.refusal, h.tries = images, nil, 0
			return h.again(a), true
		case refusal == nil:
			h.images, h.refusal, h.tries = images, nil, 0
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
	if known.byAge {
		return known.again(a), true // the images remain until the tag refers to newer images of the commit
	}
	if h.refusal == nil {
		h.refusal = rejectf(version.VerdictExists, "no image yet: the registry has none of the tags %s", strings.Join(tried, ", "))
	}
	return h.again(a), true
}

// again returns a copy with the time of the next request. The delay doubles each time, up to headMost if there is no image, but never
// extends past the next regular scan.
func (h head) again(a *recordReader) head {
	delay := min(headFirst<<min(h.tries, 20), a.pace.Fresh(a.query.interval))
	if len(h.images) == 0 {
		delay = min(delay, headMost)
	}
	h.next = a.clock.Now().Add(delay)
	h.tries++
	return h
}

// stillRefersTo reports whether a tag refers to the given images. It does not request the content of images.
func (s *selection) stillRefersTo(o *observed, a *recordReader, tag string, images []v1alpha1.ReleaseImage) bool {
	for i := range images {
		if image, refusal := s.exists(o, a, i, tag); refusal != nil || image.Digest != images[i].Digest {
			return false
		}
	}
	return true
}

// checkHead rejects the images of a tag unless all of them were built from the head commit. byAge reports whether an image counts as
// built from the head commit only because of its build time. Such an image does not replace a newer image in current.
func (s *selection) checkHead(o *observed, a *recordReader, st pullState, tag preview.Tag, images, current []v1alpha1.ReleaseImage) (byAge bool, _ *version.Refusal) {
	unchanged, changed := false, false
	for i, image := range images {
		inspected, err := a.Inspect(i, image.Digest, o.platforms[0])
		if err != nil {
			s.noteError(err)
			return false, rejectf(version.VerdictExists, "the image cannot be read: %s", err)
		}
		previous := ""
		if st.offered != nil && st.offered.Revision != st.pr.HeadSHA {
			previous = st.offered.Images[i].Digest
		}
		if why := preview.OfHead(st.pr, tag, preview.Image{Digest: image.Digest, Revision: inspected.Revision, Created: inspected.Created}, previous); why != "" {
			return false, rejectf(version.VerdictExists, "%s", why)
		}
		if !tag.Moves || inspected.Revision != "" {
			continue
		}
		byAge = true
		if i >= len(current) || current[i].Digest == image.Digest {
			unchanged = true
			continue
		}
		changed = true
		offered, err := a.Inspect(i, current[i].Digest, o.platforms[0])
		switch {
		case is(err, registry.NotFound): // the registry deleted the image when the tag moved
		case err != nil:
			s.noteError(err)
			return false, rejectf(version.VerdictExists, "the offered image cannot be read: %s", err)
		case offered.Revision != "" || !inspected.Created.After(offered.Created):
			return false, rejectf(version.VerdictExists, "it has no revision label, and the offered image is newer or has a revision label")
		}
	}
	if unchanged && changed {
		return false, rejectf(version.VerdictExists, "it still refers to the offered image in some of the repositories")
	}
	return byAge, nil
}

// withdrawPulls returns the withdrawn groups that are in use: groups of closed pull requests, groups that the
// filters reject, and groups without a pull request. A withdrawal and its time remain until the group is
// offered again or is no longer in use.
func (o *observed) withdrawPulls(p *pullRequests, now time.Time) []v1alpha1.Withdrawal {
	offered, seen := map[string]bool{}, map[string]bool{}
	for _, rel := range p.releases {
		offered[rel.Group] = true
	}
	before := map[string]v1alpha1.Withdrawal{}
	for _, w := range o.policy.Status.Withdrawn {
		before[w.Group] = w
	}
	var out []v1alpha1.Withdrawal
	for _, h := range o.inUse {
		if h.Group == "" || offered[h.Group] || seen[h.Group] {
			continue
		}
		seen[h.Group] = true
		w := v1alpha1.Withdrawal{Group: h.Group, Time: metav1.NewTime(now)}
		number, isPull := numberOf(h)
		closed, isClosed := p.closed[number]
		was, stands := before[h.Group]
		switch {
		case p.otherRepository[h.Group], !isPull:
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
			continue // without a result, the group is not withdrawn
		}
		if stands && was.Version == "" && was.Reason == w.Reason {
			w.Time = was.Time
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b v1alpha1.Withdrawal) int { return strings.Compare(a.Group, b.Group) })
	return out
}
