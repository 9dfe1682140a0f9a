package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/internal/view"
)

// Acts changes services for a reader.
type Acts interface {
	// May returns the verbs of the acts that the reader may do in a namespace, as in [ActsOf].
	May(ctx context.Context, namespace string) []string
	// Preview returns what an act would do, without doing it. A refusal is a [Problem].
	Preview(ctx context.Context, a Act) (Outcome, error)
	// Do executes an act. A refusal is a [Problem].
	Do(ctx context.Context, a Act) (Outcome, error)
	// MayFreeze reports whether the reader may create freezes of a namespace, or with "" of the cluster, and end them.
	MayFreeze(ctx context.Context, namespace string) (freeze, thaw bool)
	// PreviewFreeze returns what a freeze, or its end, would do, without doing it. A refusal is a [Problem].
	PreviewFreeze(ctx context.Context, f Freeze) (Outcome, error)
	// Freeze begins or ends a freeze. A refusal is a [Problem].
	Freeze(ctx context.Context, f Freeze) (Outcome, error)
}

// Act is a request of a reader to change a service.
type Act struct {
	// Verb: continue, adopt, deprecate, retry, pin, unpin, rollback, pause or resume.
	Verb               string
	Namespace, Service string
	// Target is a version or the name of a release; "" for the only possible one.
	Target string
	// Group by name, and Until in the format of "hlnr pin"; "" for all possible groups, and for no end.
	Group, Until string
	Reason       string
	// ID identifies the act: decisions with the same ID are applied once.
	ID string
}

// Outcome is the result of an act.
type Outcome struct {
	// Text is the result in one line, and Effects are its consequences.
	Text    string   `json:"text"`
	Effects []string `json:"effects,omitempty"`
	// Unknown is why Effects are not known; "" if they are.
	Unknown string `json:"unknown,omitempty"`
	// Refused is why the manager would not apply the act; "" if it would. It is set in previews only.
	Refused string `json:"refused,omitempty"`
	// Outcome of a decision as the manager recorded it; "" until then, and for other acts.
	Outcome string `json:"outcome,omitempty"`
	// Frozen is the freeze during which the release that the act selects does not start; "" if there is none.
	Frozen string `json:"frozen,omitempty"`
	// By is the reader as the API server knows them.
	By string `json:"by,omitempty"`
	// Command is the equivalent command.
	Command string `json:"command,omitempty"`
}

// actVerbs are the acts, with the labels of their buttons.
var actVerbs = map[string]string{
	"continue": "Continue", "adopt": "Adopt", "deprecate": "Deprecate", "retry": "Retry",
	"pin": "Pin", "unpin": "Unpin", "rollback": "Roll back", "pause": "Pause", "resume": "Resume",
}

// decides are the acts about releases, each with a verb of RBAC; changes are those that patch the service.
var decides, changes = []string{"continue", "adopt", "deprecate", "retry"}, []string{"pin", "unpin", "rollback", "pause", "resume"}

// ActsOf returns the verbs of the acts that a reader may do. may reports whether they have a verb of RBAC on a
// resource of hlnr.io.
func ActsOf(may func(verb, resource string) bool) []string {
	var out []string
	if may("patch", "versionedmicroservices") {
		for _, verb := range decides {
			if may(verb, "versionedmicroservices") {
				out = append(out, verb)
			}
		}
	}
	if may("patch", "microservices") {
		out = append(out, changes...)
	}
	return out
}

// mayAct reports whether the button for an act is shown to a reader who may do the given acts.
func mayAct(may []string, verb string) bool { return slices.Contains(may, verb) }

// permissions returns a function with the reader's acts in a namespace, for which buttons are shown. It checks
// each namespace of a page once.
func (s *Server) permissions(ctx context.Context) func(namespace string) []string {
	known := map[string][]string{}
	return func(namespace string) []string {
		if s.Acts == nil {
			return nil
		}
		may, is := known[namespace]
		if !is {
			may = s.Acts.May(ctx, namespace)
			known[namespace] = may
		}
		return may
	}
}

// request is the request for an act, with the service and the moment that it is about.
type request struct {
	Act
	service *view.Service
	moments *moments
	// choices are the possible targets, if the reader chooses one.
	choices []choice
	// shown and previewed are the fingerprint and the target of the preview that the reader saw; "" if there was none.
	shown, previewed string
}

// actOf parses an act from the path and the values of a form.
func (s *Server) actOf(r *http.Request, values url.Values) (*request, error) {
	a := Act{Verb: r.PathValue("verb"), Namespace: r.PathValue("namespace"), Service: r.PathValue("service")}
	a.Target, a.Group, a.Until, a.ID = values.Get("target"), values.Get("group"), values.Get("until"), values.Get("id")
	a.Reason = strings.TrimSpace(values.Get("reason"))
	if s.Acts == nil {
		return nil, &Problem{Status: http.StatusForbidden, Title: "This board is read-only", Text: "It was started with --read-only. Use the command hlnr " + a.Verb + "."}
	}
	if _, known := actVerbs[a.Verb]; !known {
		return nil, &Problem{Status: http.StatusNotFound, Title: "Unknown action", Text: "The page of the service has a button for each action."}
	}
	m, _, err := s.moments(r.Context())
	if err != nil {
		return nil, err
	}
	e := m.services[keyOf(a.Namespace, a.Service)]
	if e == nil {
		return nil, &Problem{Status: http.StatusNotFound, Title: "There is no service " + a.Service + " in namespace " + a.Namespace, Text: "It was deleted in the meantime. Nothing was changed."}
	}
	if !slices.Contains(s.Acts.May(r.Context(), a.Namespace), a.Verb) {
		return nil, &Problem{Status: http.StatusForbidden, Title: "You are not allowed to " + strings.ToLower(actVerbs[a.Verb]) + " in namespace " + a.Namespace, Text: "Ask an administrator of the namespace for the permission, or to perform the action. Nothing was changed."}
	}
	return &request{Act: a, service: &e.Service, moments: m, shown: values.Get("shown"), previewed: values.Get("previewed")}, nil
}

// showAct shows what an act would do, with the form that submits it.
func (s *Server) showAct(w http.ResponseWriter, r *http.Request) {
	q, err := s.actOf(r, r.URL.Query())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	q.ID = "web-" + strings.ToLower(rand.Text()[:20])
	q.aim()
	s.writeAct(w, r, q, nil)
}

// writeAct writes the form of an act; refused is the error of an attempt.
func (s *Server) writeAct(w http.ResponseWriter, r *http.Request, q *request, refused *Problem) {
	outcome, shown, err := s.preview(r.Context(), q)
	problem := refused
	if err != nil && problem == nil {
		problem = problemOf(err)
	}
	if wantsJSON(r) {
		if problem != nil {
			respondJSON(w, r, problem.Status, problem)
			return
		}
		respondJSON(w, r, http.StatusOK, outcome)
		return
	}
	if errors.Is(err, errNoTarget) && refused == nil {
		problem = nil // the form asks for it
	}
	a := q.Act
	data := map[string]any{
		"A": a, "S": q.service, "Button": actVerbs[a.Verb], "About": abouts[a.Verb], "Label": q.label(), "Outcome": outcome, "Problem": problem, "Shown": shown,
		"Known": err == nil, "Possible": err == nil && outcome.Refused == "", "Choices": q.choices, "ByGroup": q.byGroup(), "Chosen": q.chosen(),
		"HasReason": a.Verb != "pause" && a.Verb != "resume" && a.Verb != "unpin", "HasUntil": a.Verb == "pin" || a.Verb == "rollback",
	}
	status := http.StatusOK
	if refused != nil {
		status = refused.Status
	}
	s.writeForm(w, r, status, actVerbs[a.Verb]+" "+a.Service, "act", data)
}

// writeForm writes a page with a form, which does not receive changes.
func (s *Server) writeForm(w http.ResponseWriter, r *http.Request, status int, title, name string, data map[string]any) {
	l := s.layout(r, "")
	l.Title, l.Live, l.Refresh = title, false, false
	var parts [][]byte
	for _, x := range []struct {
		template string
		data     any
	}{{"head", l}, {name, data}, {"foot", l}} {
		html, err := s.templates.execute(x.template, x.data)
		if err != nil {
			s.failed(w, r, err)
			return
		}
		parts = append(parts, html)
	}
	respond(w, r, status, "text/html; charset=utf-8", parts...)
}

// problemOf returns the problem for an error of an act.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return &Problem{Status: http.StatusInternalServerError, Title: "This could not be done", Text: err.Error()}
}

// doAct executes an act, and redirects to the service, which shows the result.
func (s *Server) doAct(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.fail(w, r, &Problem{Status: http.StatusBadRequest, Title: "The form cannot be read", Text: "Load the page again. Nothing was changed."})
		return
	}
	q, err := s.actOf(r, r.PostForm)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	form := q.ID
	if form == "" {
		q.ID = "web-" + strings.ToLower(rand.Text()[:20])
	}
	result, err := s.once(r.Context(), q, form)
	if err != nil {
		s.writeAct(w, r, q, problemOf(err))
		return
	}
	if wantsJSON(r) {
		respondJSON(w, r, http.StatusOK, result.Outcome)
		return
	}
	id := rand.Text()
	s.done.put(id, result)
	http.Redirect(w, r, servicePath(q.Namespace, q.Act.Service)+"?done="+id, http.StatusSeeOther)
}

// once checks and executes an act.
func (s *Server) once(ctx context.Context, q *request, id string) (done, error) {
	key := fmt.Sprintf("%q", []any{ReaderOf(ctx).User, q.Act, q.shown, q.previewed})
	result, err := s.submitted.once(ctx, id, key, s.Clock.Now, func(ctx context.Context) (done, error) {
		if err := s.check(ctx, q); err != nil {
			return done{}, err
		}
		outcome, err := s.Acts.Do(ctx, q.Act)
		if err != nil {
			return done{}, err
		}
		result := done{Outcome: outcome, act: q.Act}
		s.await(ctx, &result)
		return result, nil
	})
	if err != nil {
		q.aim() // also if another submission was checked
	}
	return result, err
}
