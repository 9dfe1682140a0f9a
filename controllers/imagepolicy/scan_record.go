package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/cosign"
	"github.com/heighliner/heighliner/internal/registry"
)

// origin identifies the source of a policy's versions.
type origin struct {
	repository string
	insecure   bool
	// further contains the additional repositories, secrets contains the names of all Secrets, and
	// pinned contains the tags of an explicit list, with one item per line.
	further, secrets, pinned string
	// source is the kind of source, with the referenced object.
	source string
}

// query describes what a scan reads for a policy. Each scan answers one query.
type query struct {
	origin
	// listed is a checksum of the items in the status of a GitHubRepository.
	listed string
	// timeout is the timeout of one request. The request for the list includes all pages of the list.
	timeout time.Duration
	maxTags int
	// filter identifies the tags that count against maxTags; empty means that all image tags count.
	filter string
	// interval is the interval between two scans.
	interval time.Duration
	// requested is the value of the annotation that requests an immediate scan.
	requested string
}

// isSame reports whether two queries are the same except for the items of the GitHubRepository and the
// request for a scan. If only these differ, a scan in progress is completed and then followed by another
// scan.
func (q query) isSame(other query) bool {
	q.listed, q.requested = other.listed, other.requested
	return q == other
}

// readsRegistry reports whether the registry's list of tags is read.
func (q *query) readsRegistry() bool { return q.source == "" || q.source == "registry" }

// repositories returns the repositories to read. The first repository is spec.image.
func (q *query) repositories() []string {
	return append([]string{q.repository}, strings.Fields(q.further)...)
}

// access contains the content of Secrets that a scan requires.
type access struct {
	// auths are the credentials for the repositories of the query. Access without a credential is
	// anonymous.
	auths []registry.Credential
	tls   registry.TLS
	// keys are the keys for verifying signatures: an image must be signed with one of them. Without keys,
	// nothing is verified.
	keys cosign.Keys
}

func (a *access) auth(image int) registry.Credential {
	if image < len(a.auths) {
		return a.auths[image]
	}
	return registry.Credential{}
}

// scanRecord is the result of a scan for one policy. It provides the answers for all reconciles
// until the next scan is due, so that frequent events from Microservices cause no requests.
type scanRecord struct {
	query  query
	access access
	// immediate reports whether the scan ignores earlier answers.
	immediate bool
	// time is the time at which the list was requested.
	time time.Time
	// due is the time of the next scan; zero until the scan is complete.
	due time.Time
	// pace is the pace of scans, which are less frequent while nothing changes.
	pace registry.Pace
	// previousChecksum and checksum are the checksums of the previous scan's results and of this scan's
	// results.
	previousChecksum, checksum string
	// failed is the first error in a scan for pull requests, or the error from a scan that panicked.
	failed error

	tags *answer[registry.Scan]
	// listBytes is the size of the list, and timeBytes is the size of times. They are set when the scan is complete.
	listBytes, timeBytes int

	images   map[ref]*answer[registry.Image]
	details  map[metadataRef]*answer[registry.Image]
	verified map[ref]*answer[cosign.Result]
	absences map[string]*answer[bool]
	// heads are the results for head commits of pull requests, keyed by pull request number.
	heads map[int64]head
	// times are the build times of images, keyed by tag, if the policy orders tags by build time. untimed
	// reports whether there are more unknown build times than one scan requests.
	times   map[string]*answer[buildTime]
	untimed bool
}

// ref identifies an image in a repository of the query, by tag or digest.
type ref struct {
	image      int
	identifier string
}

// metadataRef identifies the metadata of an image. labels are the quoted names of the labels that are kept.
type metadataRef struct {
	ref
	labels string
}

// answer is the result of a request. It is immutable, because several records can share it. To save memory, maps contain pointers to
// answers: even a map with a single entry reserves memory for eight values.
type answer[T any] struct {
	value T
	err   error
}

func newScanRecord(q query, by access, impatient bool) *scanRecord {
	return &scanRecord{
		query: q, access: by, immediate: impatient,
		images: map[ref]*answer[registry.Image]{}, details: map[metadataRef]*answer[registry.Image]{}, verified: map[ref]*answer[cosign.Result]{},
		absences: map[string]*answer[bool]{}, heads: map[int64]head{}, times: map[string]*answer[buildTime]{},
	}
}

// continueFrom copies the checksum, the build times, the results for pull requests, and the pace of the previous scan.
func (l *scanRecord) continueFrom(before *scanRecord) *scanRecord {
	if before == nil || before.query.origin != l.query.origin {
		return l
	}
	l.previousChecksum, l.times = before.checksum, withoutErrors(before.times)
	if l.immediate || before.access.keys.ID() != l.access.keys.ID() {
		return l // the scan ignores earlier answers, or the head commits of the previous scan were verified with other keys
	}
	l.heads = maps.Clone(before.heads)
	if before.query == l.query {
		l.pace = before.pace
	}
	return l
}

// list returns the list of tags, or nil if there is none.
func (l *scanRecord) list() []string {
	if l == nil || l.tags == nil {
		return nil
	}
	return l.tags.value.Tags
}

// measure sets listBytes and timeBytes.
func (l *scanRecord) measure() {
	const entry = 128 // memory overhead of a build time, in addition to its strings
	l.listBytes, l.timeBytes = 0, 0
	for _, tag := range l.list() {
		l.listBytes += len(tag) + 16
	}
	for tag, x := range l.times {
		l.timeBytes += len(tag) + len(x.value.digest) + entry
	}
}

// bytes returns the size of the list and of the build times.
func (l *scanRecord) bytes() int {
	if l == nil {
		return 0
	}
	return l.listBytes + l.timeBytes
}

// shorten returns a copy without the list or, if there is no list, without the build times.
func (l *scanRecord) shorten() *scanRecord {
	c := *l
	if c.listBytes > 0 {
		c.tags, c.listBytes = nil, 0
	} else {
		c.times, c.timeBytes = map[string]*answer[buildTime]{}, 0
	}
	return &c
}

// clone returns a copy to which a scan adds the missing answers.
func (l *scanRecord) clone() *scanRecord {
	c := *l
	c.images, c.details, c.verified = maps.Clone(l.images), maps.Clone(l.details), maps.Clone(l.verified)
	c.absences, c.heads, c.times = maps.Clone(l.absences), maps.Clone(l.heads), maps.Clone(l.times)
	return &c
}

// recordReader reads a record, and requests from the registry the answers that the record lacks.
type recordReader struct {
	*scanRecord
	clock clock.PassiveClock
	// scanner makes the requests for missing answers. If it is nil, a missing answer results in errNotScanned.
	scanner  Scanner
	verifier Verifier
	ctx      context.Context
	// counts reports whether a tag counts against the limit; nil means that all tags count.
	counts func(tag string) bool
	// labels are the names of the labels that Inspect returns.
	labels []string
	// timesLeft is the number of build times that may still be requested.
	timesLeft int
	// report is called with the progress of the scan; it may be nil.
	report   func(Progress)
	progress Progress
	// incomplete reports whether an answer was missing.
	incomplete bool
}

// Errors of a scan that are not registry errors.
var (
	errNotScanned = errors.New("not scanned yet")
	errTimedOut   = errors.New("the scan took longer than two minutes; the results so far are kept, and the next scan requests the rest")
)

// progressed updates the progress, and reports it.
func (a *recordReader) progressed(change func(*Progress)) {
	if a.report != nil {
		change(&a.progress)
		a.report(a.progress)
	}
}

// cached returns the answer in the record. If the record lacks the answer, it is requested and recorded.
func cached[K comparable, T any](a *recordReader, answers map[K]*answer[T], key K, image int, request func(registry.Request) (T, error)) (T, error) {
	if known := answers[key]; known != nil {
		return known.value, known.err
	}
	if a.scanner == nil {
		a.incomplete = true
		var none T
		return none, errNotScanned
	}
	var value T
	err := contain.Panics(func() (err error) { value, err = request(a.request(image)); return err })
	if err != nil && a.ctx.Err() != nil {
		err = errTimedOut
	}
	answers[key] = &answer[T]{value, err}
	return value, err
}

// request returns a request for an image's repository.
func (a *recordReader) request(image int) registry.Request {
	q := &a.query
	return registry.Request{
		Repository: q.repositories()[image], Insecure: q.insecure, Auth: a.access.auth(image), TLS: a.access.tls, Timeout: q.timeout, MaxTags: q.maxTags,
		Counts: a.counts, CountsAs: q.filter,
	}
}

// List requests the tags once per scan. For sources other than a registry, it requests nothing
// and returns only the time.
func (a *recordReader) List() (registry.Scan, error) {
	known := map[struct{}]*answer[registry.Scan]{}
	if a.tags != nil {
		known[struct{}{}] = a.tags
	}
	scan, err := cached(a, known, struct{}{}, 0, func(r registry.Request) (registry.Scan, error) {
		if !a.query.readsRegistry() {
			return registry.Scan{Time: a.clock.Now()}, nil
		}
		if !a.immediate {
			r.MaxAge = a.pace.Fresh(a.query.interval)
		}
		return a.scanner.List(a.ctx, r)
	})
	if got := known[struct{}{}]; got != nil && a.tags == nil {
		a.tags, a.time = got, got.value.Time
		if got.err != nil {
			a.time = a.clock.Now()
		}
	}
	return scan, err
}

// shareHead is the maximum age of a digest that policies share for the same tag of a pull request's image.
const shareHead = 5 * time.Second

// Resolve requests a tag's image once per scan. Policies that share the list also share the answers to
// all requests that follow the request for the list. Policies for pull requests share answers that are not
// older than shareHead, and policies with other sources share answers that are not older than their current
// interval between scans.
func (a *recordReader) Resolve(image int, tag string) (registry.Image, error) {
	return cached(a, a.images, ref{image, tag}, image, func(r registry.Request) (registry.Image, error) {
		r.MaxAge = a.clock.Since(a.time) + 1
		switch q := &a.query; {
		case a.immediate || q.readsRegistry():
		case strings.HasPrefix(q.source, "github pull requests"):
			r.MaxAge = shareHead
		default:
			r.MaxAge = a.pace.Fresh(q.interval)
		}
		return a.scanner.Resolve(a.ctx, r, tag)
	})
}

// Inspect requests an image's metadata once per scan. It keeps only the labels that the policy matches, because an image can have 64 KiB of
// labels, and the record keeps the metadata of many images.
func (a *recordReader) Inspect(image int, digest, platform string) (registry.Image, error) {
	key := metadataRef{ref{image, digest}, fmt.Sprintf("%q", a.labels)}
	return cached(a, a.details, key, image, func(r registry.Request) (registry.Image, error) {
		found, err := a.scanner.Inspect(a.ctx, r, digest, platform)
		all := found.Labels
		found.Labels = nil
		for _, name := range a.labels {
			if value, ok := all[name]; ok {
				if found.Labels == nil {
					found.Labels = map[string]string{}
				}
				found.Labels[name] = value
			}
		}
		return found, err
	})
}

// Verify verifies an image's signature once per scan.
func (a *recordReader) Verify(image int, digest string) (cosign.Result, error) {
	return cached(a, a.verified, ref{image, digest}, image, func(r registry.Request) (cosign.Result, error) {
		if !a.immediate {
			r.MaxAge = a.query.interval // an earlier result is reused until the interval has passed
		}
		return a.verifier.Verify(a.ctx, r, digest, a.access.keys)
	})
}

// Gone checks once per scan whether an image still exists. If digest is empty, it checks only the tag.
func (a *recordReader) Gone(tag, digest, witness string) (bool, error) {
	return cached(a, a.absences, tag+"@"+digest, 0, func(r registry.Request) (bool, error) {
		return a.scanner.Gone(a.ctx, r, tag, digest, witness)
	})
}
