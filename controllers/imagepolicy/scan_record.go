package imagepolicy

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/cosign"
	"github.com/heighliner/heighliner/internal/registry"
)

// origin is where a policy's versions come from.
type origin struct {
	repository string
	insecure   bool
	// further are the additional repositories, secrets the names of all Secrets, and pinned
	// the tags of an explicit list; one per line.
	further, secrets, pinned string
	// source is the kind of source, with what it references.
	source string
}

// query is what to read for a policy. A scan answers one query.
type query struct {
	origin
	// listed is a checksum of what a GitHubRepository lists.
	listed string
	// timeout of one request: the list with all its pages, or an image.
	timeout time.Duration
	maxTags int
	// filter identifies the tags that count against maxTags; "" for all tags of images.
	filter string
	// interval between two scans.
	interval time.Duration
	// requested is the annotation that requests an immediate scan.
	requested string
}

// isSame reports whether two queries differ at most in what GitHub lists, and in the request for a
// scan: a scan that is in progress is completed, and followed by another one.
func (q query) isSame(other query) bool {
	q.listed, q.requested = other.listed, other.requested
	return q == other
}

// readsRegistry reports whether the list of tags of the registry is read.
func (q *query) readsRegistry() bool { return q.source == "" || q.source == "registry" }

// repositories to read; the first is spec.image.
func (q *query) repositories() []string {
	return append([]string{q.repository}, strings.Fields(q.further)...)
}

// access is what a scan needs from Secrets.
type access struct {
	// auths are the credentials for the repositories of the query. Missing ones are
	// anonymous.
	auths []registry.Credential
	tls   registry.TLS
	// keys of which one must have signed an image. Without keys nothing is verified.
	keys cosign.Keys
}

func (a *access) auth(image int) registry.Credential {
	if image < len(a.auths) {
		return a.auths[image]
	}
	return registry.Credential{}
}

// scanRecord is the result of a scan for one policy. It answers all reconciles until the
// next scan is due, so that frequent events of Microservices cause no requests.
type scanRecord struct {
	query  query
	access access
	// immediate does not use earlier answers.
	immediate bool
	// time at which the list was requested.
	time time.Time
	// due is when to scan again; zero until the scan is complete.
	due time.Time
	// pace of scans: less often while nothing changes.
	pace registry.Pace
	// previousChecksum is of the results of the previous scan, checksum of this one.
	previousChecksum, checksum string
	// failed is the first error of a scan for pull requests.
	failed error

	tags *answer[registry.Scan]
	// listBytes is what the list takes, once the scan is complete.
	listBytes int
	images    map[ref]answer[registry.Image]
	details   map[ref]answer[registry.Image]
	verified  map[ref]answer[cosign.Result]
	absences  map[string]answer[bool]
	// heads are the results for head commits of pull requests, by number.
	heads map[int64]head
	// times are the build times of images, by tag, if they are the versions; untimed reports
	// that there are more tags than one scan requests.
	times   map[string]answer[buildTime]
	untimed bool
}

// ref identifies an image of one of the query's repositories, by tag or digest.
type ref struct {
	image      int
	identifier string
}

type answer[T any] struct {
	value T
	err   error
}

func newScanRecord(q query, by access, impatient bool) *scanRecord {
	return &scanRecord{
		query: q, access: by, immediate: impatient,
		images: map[ref]answer[registry.Image]{}, details: map[ref]answer[registry.Image]{}, verified: map[ref]answer[cosign.Result]{},
		absences: map[string]answer[bool]{}, heads: map[int64]head{}, times: map[string]answer[buildTime]{},
	}
}

// continueFrom copies the pace of the previous scan, and its results for pull requests.
func (l *scanRecord) continueFrom(before *scanRecord) *scanRecord {
	if before == nil || before.query.origin != l.query.origin {
		return l
	}
	l.previousChecksum, l.times = before.checksum, withoutErrors(before.times)
	if l.immediate || before.access.keys.ID() != l.access.keys.ID() {
		return l // the head commits were verified with other keys
	}
	l.heads = maps.Clone(before.heads)
	if before.query == l.query {
		l.pace = before.pace
	}
	return l
}

// list returns the list of tags; nil without one.
func (l *scanRecord) list() []string {
	if l == nil || l.tags == nil {
		return nil
	}
	return l.tags.value.Tags
}

// measure sets listBytes.
func (l *scanRecord) measure() {
	l.listBytes = 0
	for _, tag := range l.list() {
		l.listBytes += len(tag) + 16
	}
}

// clone returns a copy for a scan of what is missing.
func (l *scanRecord) clone() *scanRecord {
	c := *l
	c.images, c.details, c.verified = maps.Clone(l.images), maps.Clone(l.details), maps.Clone(l.verified)
	c.absences, c.heads, c.times = maps.Clone(l.absences), maps.Clone(l.heads), maps.Clone(l.times)
	return &c
}

// recordReader reads a record, and requests what is missing there from the registry.
type recordReader struct {
	*scanRecord
	clock clock.PassiveClock
	// scanner is called for what is missing. If it is nil, that is errNotScanned.
	scanner  Scanner
	verifier Verifier
	ctx      context.Context
	// counts reports whether a tag counts against the limit; nil if all do.
	counts func(tag string) bool
	// timesLeft is how many build times may still be requested.
	timesLeft int
	// report is called with the progress of the scan; it may be nil.
	report   func(Progress)
	progress Progress
	// incomplete reports that something was missing.
	incomplete bool
}

// Errors of a scan that are not errors of the registry.
var (
	errNotScanned = errors.New("not scanned yet")
	errTimedOut   = errors.New("the scan took longer than two minutes; its results are kept, and the rest is requested again")
)

// progressed changes and reports the progress.
func (a *recordReader) progressed(change func(*Progress)) {
	if a.report != nil {
		change(&a.progress)
		a.report(a.progress)
	}
}

// cached returns the answer in the record, or requests and records it.
func cached[K comparable, T any](a *recordReader, answers map[K]answer[T], key K, image int, request func(registry.Request) (T, error)) (T, error) {
	if known, ok := answers[key]; ok {
		return known.value, known.err
	}
	if a.scanner == nil {
		a.incomplete = true
		var none T
		return none, errNotScanned
	}
	value, err := request(a.request(image))
	if err != nil && a.ctx.Err() != nil {
		err = errTimedOut
	}
	answers[key] = answer[T]{value, err}
	return value, err
}

// request for the repository of an image.
func (a *recordReader) request(image int) registry.Request {
	q := &a.query
	return registry.Request{
		Repository: q.repositories()[image], Insecure: q.insecure, Auth: a.access.auth(image), TLS: a.access.tls, Timeout: q.timeout, MaxTags: q.maxTags,
		Counts: a.counts, CountsAs: q.filter,
	}
}

// List requests the tags once per scan. For other sources than a registry it only returns
// the time.
func (a *recordReader) List() (registry.Scan, error) {
	known := map[struct{}]answer[registry.Scan]{}
	if a.tags != nil {
		known[struct{}{}] = *a.tags
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
	if got, ok := known[struct{}{}]; ok && a.tags == nil {
		a.tags, a.time = &got, got.value.Time
		if got.err != nil {
			a.time = a.clock.Now()
		}
	}
	return scan, err
}

// shareHead is the maximum age of a digest that policies share for the same tag of a pull
// request's image.
const shareHead = 5 * time.Second

// Resolve requests the image of a tag once per scan. Policies that share the list share what
// was requested since; those with other sources share it within their interval.
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

// Inspect requests the metadata of an image once per scan.
func (a *recordReader) Inspect(image int, digest, platform string) (registry.Image, error) {
	return cached(a, a.details, ref{image, digest}, image, func(r registry.Request) (registry.Image, error) {
		return a.scanner.Inspect(a.ctx, r, digest, platform)
	})
}

// Verify verifies the signature of an image once per scan.
func (a *recordReader) Verify(image int, digest string) (cosign.Result, error) {
	return cached(a, a.verified, ref{image, digest}, image, func(r registry.Request) (cosign.Result, error) {
		if !a.immediate {
			r.MaxAge = a.query.interval // old results are requested again only after the interval
		}
		return a.verifier.Verify(a.ctx, r, digest, a.access.keys)
	})
}

// Gone requests a proof of absence once per scan; without a digest, for the tag only.
func (a *recordReader) Gone(tag, digest, witness string) (bool, error) {
	return cached(a, a.absences, tag+"@"+digest, 0, func(r registry.Request) (bool, error) {
		return a.scanner.Gone(a.ctx, r, tag, digest, witness)
	})
}
