// Package frozen formats and parses the message of a Microservice's Frozen condition. The planner formats the message, and hlnr and the board
// parse it. All functions are pure.
//
// A message is a list of waits that are separated by "; ", such as
//
//	2.0.0 is waiting at 20%: frozen until 2026-12-27T00:00:00Z by ClusterFreeze "christmas" ("code freeze")
//
// The manager and hlnr may have different versions. Therefore, only the following parts are parsed, and these parts must not change: a clause about a
// release begins with its version and " is waiting"; if the release has a rollout, the clause ends with "%" or "without pods"; the clause of a rollback
// is compared as a whole; and the description of the freeze begins with "frozen", contains the kind and the name of the object after " by ", and ends
// with the quoted reason in parentheses. The planner also uses the clauses for spec.paused and for services that are rolled out together.
// The board displays its own sentences, which are in internal/view/states.go.
package frozen

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	waits   = " is waiting"
	percent = "%"
	noPods  = " without pods"
	colon   = ": "
	start   = "frozen "
	next    = "; "
	cut     = "…" // ends a message that was truncated because it was too long for the status
)

// Wait is one wait for the end of a freeze.
type Wait struct {
	// Clause describes what is waiting. It is the result of one of the functions Release, AtWeight, WithoutPods, Rollback and Groups.
	// In a parsed message, it may be any other text.
	Clause string
	// Freeze is the result of the function Freeze.
	Freeze string
	// Cut reports whether the message ends within the clause.
	Cut bool
}

// Release returns the clause for a release without a rollout.
func Release(version string) string { return version + waits }

// AtWeight returns the clause for a rollout whose release has pods. weight is the release's share of the traffic, in percent. weight is 0 before the
// first step, and for a previously active release.
func AtWeight(version string, weight int) string {
	return fmt.Sprintf("%s%s at %d%s", version, waits, weight, percent)
}

// IsAtWeight reports whether a message contains the result of AtWeight for a version.
func IsAtWeight(message, version string) bool {
	return strings.Contains(next+message, next+version+waits+" at ")
}

// WithoutPods returns the clause for a rollout whose release has no pods yet.
func WithoutPods(version string) string { return version + waits + noPods }

// Rollback returns the clause for a rollback to a previously active version.
func Rollback(version string) string { return "the rollback to " + version + waits }

// Groups returns the clause for a group without releases. more is the number of other groups without releases.
func Groups(name string, more int) string {
	if more > 0 {
		return fmt.Sprintf("the first releases of %d groups, including group %s, are waiting", more+1, name)
	}
	return "the first release of group " + name + waits
}

// Freeze describes a freeze. until is the end of the freeze, or zero if the freeze has no end. name is the kind and the name of the object, such as
// `Freeze "name"`.
func Freeze(until time.Time, name, reason string) string {
	end := "indefinitely"
	if !until.IsZero() {
		end = "until " + until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s%s by %s (%q)", start, end, name, reason)
}

// String returns the wait as a part of a message.
func (w Wait) String() string { return w.Clause + colon + w.Freeze }

// Of reports whether a release of the version is waiting. It returns false for a rollback to the version.
func (w Wait) Of(version string) bool { return strings.HasPrefix(w.Clause, version+" ") }

// HasRollout reports whether a rollout is waiting, with or without pods. If the clause is truncated, this is not known, and HasRollout returns true.
func (w Wait) HasRollout() bool {
	return w.Cut || strings.HasSuffix(w.Clause, percent) || strings.HasSuffix(w.Clause, noPods)
}

// IsBy reports whether the wait is due to the given freeze. name is the kind and the name of the freeze, such as `Freeze "name"`.
func (w Wait) IsBy(name string) bool {
	_, by, _ := strings.Cut(w.Freeze, " by ")
	return strings.HasPrefix(by, name+" (")
}

// Parse returns the waits in a message, and ignores other text. If a message is truncated within its last clause, Parse assigns the freeze of the
// previous clause to this clause.
func Parse(message string) (out []Wait) {
	for {
		clause, freeze, found := strings.Cut(message, colon+start)
		if i := strings.LastIndex(clause, next); i >= 0 {
			clause = clause[i+len(next):]
		}
		if !found {
			text, isCut := strings.CutSuffix(clause, cut)
			if text = strings.Trim(text, next); isCut && len(out) > 0 && text != "" {
				clause, _, _ = strings.Cut(text, colon)
				out = append(out, Wait{Clause: clause, Freeze: out[len(out)-1].Freeze, Cut: true})
			}
			return out
		}
		n := length(freeze)
		out = append(out, Wait{Clause: clause, Freeze: start + freeze[:n]})
		message = strings.TrimPrefix(freeze[n:], next)
	}
}

// length returns the length of a freeze description at the beginning of text. The description ends with a quoted reason and a closing parenthesis.
// The reason may contain any text.
func length(text string) int {
	i := strings.Index(text, ` ("`)
	if i < 0 {
		return len(text)
	}
	reason, err := strconv.QuotedPrefix(text[i+2:])
	if err != nil {
		return len(text)
	}
	end := i + 2 + len(reason)
	if strings.HasPrefix(text[end:], ")") {
		end++
	}
	return end
}
