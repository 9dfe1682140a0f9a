package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/internal/release"
)

// preview returns the effects of an action and their fingerprint. Any error is a [Problem] or
// errNoTarget.
func (s *Server) preview(ctx context.Context, q *request) (Outcome, string, error) {
	if err := q.aimed(); err != nil {
		return Outcome{}, "", err
	}
	raw, err := s.Acts.Preview(ctx, q.Act)
	if err != nil {
		return Outcome{}, "", err
	}
	outcome := readable(raw, q.Verb)
	if q.Until == "" {
		return outcome, q.fingerprint(raw), nil
	}
	// The reader can change the end of a pin in the form without another preview, so the fingerprint does not depend on it.
	endless := q.Act
	endless.Until = ""
	if without, err := s.Acts.Preview(ctx, endless); err == nil { // An error means that the action changes only the end of the pin.
		raw = without
	}
	return outcome, q.fingerprint(raw), nil
}

// check rejects an action if the reader saw a different preview, or if the manager would not apply the action.
func (s *Server) check(ctx context.Context, q *request) error {
	asked := q.Target
	q.aim()
	outcome, shown, err := s.preview(ctx, q)
	what := "version"
	if q.byGroup() {
		what = "group"
	}
	switch {
	case errors.Is(err, errNoTarget), q.Verb == "rollback" && asked == "" && err == nil:
		return &Problem{Status: http.StatusConflict, Title: "Choose a " + what, Text: "The form did not contain a choice. Nothing was changed. Check what will happen, and confirm."}
	case err != nil:
		return err
	case q.shown != "" && q.previewed != q.chosen():
		return &Problem{Status: http.StatusConflict, Title: "You chose a different " + what + " than the one that was shown", Text: "Nothing was changed. Below is what will happen with " + versionOf(q.service, q.chosen()) + ": check it, and confirm."}
	case q.shown != "" && q.shown != shown:
		return &Problem{Status: http.StatusConflict, Title: "The preview was out of date", Text: "The service has changed since the preview was created. Nothing was changed. Below is what will happen now: check it, and confirm."}
	case outcome.Refused != "":
		return &Problem{Status: http.StatusConflict, Title: "The manager would not apply this action", Text: outcome.Refused + ". Nothing was changed."}
	}
	return nil
}

// passing matches times, which may differ between two previews of the same action.
var passing = regexp.MustCompile(`\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?(\.\d+)?(Z|[+-]\d{2}:\d{2}| [A-Z]{2,5})?)?|\b\d{1,2}:\d{2}(:\d{2})?\b|\b(\d+(\.\d+)?(h|ms|m|s))+\b|\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b`)

// fingerprint identifies the content of a preview, except for times and for the reason, which the reader writes later.
func (q *request) fingerprint(o Outcome) string {
	h := sha256.New()
	text := strings.Replace(o.Text, fmt.Sprintf(" (%q)", q.Reason), "", 1)
	for _, line := range slices.Concat([]string{q.Verb, q.Target, q.Group, text}, o.Effects) {
		fmt.Fprintf(h, "%s\n", passing.ReplaceAllString(delay.ReplaceAllString(line, ""), "…"))
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// These expressions match the lines of a forecast that are reworded for readers: decisions, and waits for approvals. Each line can begin
// with a delay and a group.
var (
	delay    = regexp.MustCompile(`^after \S+: `)
	decision = regexp.MustCompile(`^((?:after \S+: )?(?:\S+: )?)decision (\w+) by (an unnamed user|"(?:[^"\\]|\\.)*") on (\S+): (.*)$`)
	waits    = regexp.MustCompile(`^((?:after \S+: )?(?:\S+: )?)(\S+) waits in step "([^"]*)" for (.*)$`)
	// approver matches the assumed approvers of a forecast.
	approver = regexp.MustCompile(`\bapprover \d+\b`)
)

// readable rewrites the effects of a preview for readers of the board. It omits the decisions that a forecast assumes. If the
// manager would not apply the action, the result contains the reason and no effects.
func readable(o Outcome, verb string) Outcome {
	var effects []string
	for _, line := range o.Effects {
		if d := decision.FindStringSubmatch(line); d != nil {
			switch mine := strings.EqualFold(d[2], verb) && !approver.MatchString(d[3]); {
			case mine && d[5] == release.DecisionApplied:
				effects = append(effects, d[1]+d[4]+" "+decided[verb])
			case mine && o.Refused == "":
				o.Refused = cause(d[5])
			}
			continue
		}
		if w := waits.FindStringSubmatch(line); w != nil {
			if approver.MatchString(w[4]) {
				continue // This line repeats the wait after an assumed approval.
			}
			line = w[1] + "then " + w[2] + " waits for " + article(w[4]) + " in step " + w[3]
		}
		effects = append(effects, line)
	}
	o.Effects = effects
	if o.Refused != "" {
		o.Effects = nil // These effects would happen even without the action.
	}
	return o
}

// decided describes the effect of an applied decision on its release.
var decided = map[string]string{
	"continue": "is continued by this decision", "adopt": "skips its remaining steps", "deprecate": "is aborted; the active release gets all traffic", "retry": "starts again",
}

// article adds an article to the description of what a step waits for, as in "an approval". "2 approvals" remains unchanged.
func article(what string) string {
	if strings.HasPrefix(what, "approval") {
		return "an " + what
	}
	return what
}

// cause returns the part of a decision's outcome that explains why the decision is not applied.
func cause(outcome string) string {
	return strings.TrimPrefix(outcome, release.DecisionNotApplicable+": ")
}
