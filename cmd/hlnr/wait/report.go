package wait

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// Change is a line of the JSON output (-o json) that was printed at Time and reports a new fact.
type Change struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	// What is the kind of fact: found, started, available, "step N", active, routes or pods.
	What string `json:"what"`
	// Text describes the fact for users. It is empty if What is sufficient.
	Text string `json:"text,omitempty"`
	// Since is the time at which the fact became true, which can be long before Time. If the objects do not record
	// this time, or if Text has changed since an earlier line, Since is the time at which the command read the fact.
	// Since is nil if the objects do not record the time of a fact that the first read found.
	Since *metav1.Time `json:"since,omitempty"`
}

// Result is the last line of the JSON output (-o json): the result of the wait.
type Result struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	Namespace       string      `json:"namespace"`
	Microservice    string      `json:"microservice"`
	Version         string      `json:"version"`
	// For is the value of --for: active, canary, approval or step=NAME.
	For string `json:"for"`
	// Result is Yes, No, TimedOut or Waits, and ExitCode is the exit code of the command.
	Result   string `json:"result"`
	ExitCode int    `json:"exitCode"`
	// Message describes the result for users. It is empty if the result is Yes.
	Message string `json:"message,omitempty"`
}

// results maps exit codes to results.
var results = map[cli.Code]string{cli.ExitYes: "Yes", cli.ExitNo: "No", cli.ExitTimeout: "TimedOut", cli.ExitWaits: "Waits"}

// show prints new facts, each with the time at which it became true. If the objects do not record this time, or if the text has changed
// since an earlier line, the line shows the time at which the command read the fact. It shows no time if the objects do not record the
// time of a fact that the first read found.
func (w *waiter) show(lines []line) error {
	first := !w.read
	w.read = true
	for _, l := range lines {
		if old, seen := w.shown[l.What]; seen && (old == l.Text || l.What == "started" || l.What == "found") {
			continue
		}
		since := l.Since
		if _, seen := w.shown[l.What]; since.IsZero() && !first || seen {
			since = w.Now()
		}
		w.shown[l.What] = l.Text
		if w.output.Format == cli.FormatJSON {
			c := Change{TypeMeta: kind("WaitChange"), Time: w.time(), What: l.What, Text: l.Text}
			if !since.IsZero() {
				c.Since = &metav1.Time{Time: since.UTC()}
			}
			if err := w.print(c); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintln(w.out, strings.TrimRight(fmt.Sprintf("%8s  %-14s  %s", clock(since, w.Now()), l.What, text.Clean(l.Text)), " ")); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// clock returns the time of day of t, preceded by the date if t is not today. It returns an empty string if t is zero.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	switch {
	case t.IsZero():
		return ""
	case t.Format(time.DateOnly) != now.Format(time.DateOnly):
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// end ends the command with an answer.
func (w *waiter) end(a *answer) error {
	if w.output.Format == cli.FormatJSON {
		err := w.print(Result{
			TypeMeta: kind("Wait"), Time: w.time(), Namespace: w.namespace, Microservice: w.name, Version: w.question.version, For: w.question.state,
			Result: results[a.code], ExitCode: int(a.code), Message: a.text,
		})
		if err != nil {
			return err
		}
	}
	if a.code == cli.ExitYes {
		return nil
	}
	return &cli.Exit{Code: a.code, Err: errors.New(text.Clean(a.text))}
}

// print writes a value as a JSON object on one line.
func (w *waiter) print(value any) error {
	raw, err := cli.JSONLine(value)
	if err != nil {
		return err
	}
	if _, err := w.out.Write(raw); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func (w *waiter) time() metav1.Time { return metav1.Time{Time: w.Now().UTC()} }

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: view.APIVersion, Kind: name}
}
