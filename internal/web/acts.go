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

// Acts performs a reader's actions on services.
type Acts interface {
	// May returns the verbs of the actions that the reader may perform in a namespace, as computed by [ActsOf].
	May(ctx context.Context, namespace string) []string
	// Preview returns the effects of an action without performing it. If the action is refused, the
	// error is a [Problem].
	Preview(ctx context.Context, a Act) (Outcome, error)
	// Do performs an action. If the action is refused, the error is a [Problem].
	Do(ctx context.Context, a Act) (Outcome, error)
	// MayFreeze reports whether the reader may begin freezes in a namespace, and whether they may end them. An empty namespace means the cluster.
	MayFreeze(ctx context.Context, namespace string) (freeze, thaw bool)
	// PreviewFreeze returns the effects of beginning or ending a freeze, without beginning or ending it. If the
	// request is refused, the error is a [Problem].
	PreviewFreeze(ctx context.Context, f Freeze) (Outcome, error)
	// Freeze begins or ends a freeze. If the request is refused, the error is a [Problem].
	Freeze(ctx context.Context, f Freeze) (Outcome, error)
}

// Act is an action that a reader requests for a service.
type Act struct {
	// Verb is continue, adopt, deprecate, retry, pin, unpin, rollback, pause or resume.
	Verb               string
	Namespace, Service string
	// Target is a version or the name of a release; empty if there is only one possible target.
	Target string
	// Group is the name of a group; empty for all possible groups. Until is the end of a pin, in the format that
	// "hlnr pin" accepts; if it is empty, the pin has no end.
	Group, Until string
	Reason       string
	// ID identifies the action. Decisions with the same ID are applied only once.
	ID string
}

// Outcome is the result of an action.
type Outcome struct {
	// Text describes the result in one line. Effects lists the consequences.
	Text    string   `json:"text"`
	Effects []string `json:"effects,omitempty"`
	// Unknown explains why Effects are unknown; empty if they are known.
	Unknown string `json:"unknown,omitempty"`
	// Refused explains why the manager would not apply the action; empty if it would. It is set only in previews.
	Refused string `json:"refused,omitempty"`
	// Outcome is the outcome of a decision. It is empty until the manager records the outcome, and for actions that are not decisions.
	Outcome string `json:"outcome,omitempty"`
	// Frozen describes the freeze that blocks the start of the selected release; empty if there is none.
	Frozen string `json:"frozen,omitempty"`
	// By is the user name that identifies the reader to the API server.
	By string `json:"by,omitempty"`
	// Command is the hlnr command that is equivalent to the action.
	Command string `json:"command,omitempty"`
	// UID and Generation identify the freeze that the action deletes. They are empty for other actions.
	UID        string `json:"uid,omitempty"`
	Generation int64  `json:"generation,omitempty"`
}

// actVerbs maps the verb of each action to the label of its button.
var actVerbs = map[string]string{
	"continue": "Continue", "adopt": "Adopt", "deprecate": "Deprecate", "retry": "Retry",
	"pin": "Pin", "unpin": "Unpin", "rollback": "Roll back", "pause": "Pause", "resume": "Resume",
}

// decides contains the actions on releases. Each of these actions has its own RBAC verb. changes contains the
// actions that patch the service.
var decides, changes = []string{"continue", "adopt", "deprecate", "retry"}, []string{"pin", "unpin", "rollback", "pause", "resume"}

// ActsOf returns the verbs of the actions that a reader may perform. may reports whether the reader may use an RBAC
// verb on an hlnr.io resource.
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

// mayAct reports whether a button for an action is shown to a reader who may perform the given actions.
func mayAct(may []string, verb string) bool { return slices.Contains(may, verb) }

// permissions returns a function that returns the actions the reader may perform in a namespace. Only these actions have buttons. The function
// checks each namespace of a page only once.
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

// request is a request for an action, with the service to which the action applies, and the state of the board.
type request struct {
	Act
	service *view.Service
	moments *moments
	// choices are the possible targets if the reader must choose a target.
	choices []choice
	// shown is the fingerprint of the preview that the reader saw, and previewed is its target; both are empty if there was no preview.
	shown, previewed string
}

// actOf parses an action from the path of the request and the values of a form.
func (s *Server) actOf(r *http.Request, values url.Values) (*request, error) {
	a := Act{Verb: r.PathValue("verb"), Namespace: r.PathValue("namespace"), Service: r.PathValue("service")}
	a.Target, a.Group, a.Until, a.ID = values.Get("target"), values.Get("group"), values.Get("until"), values.Get("id")
	a.Reason = strings.TrimSpace(values.Get("reason"))
	if s.Acts == nil {
		return nil, &Problem{Status: http.StatusForbidden, Title: "This board is read-only", Text: "It was started with --read-only. Use the command hlnr " + a.Verb + "."}
	}
	if _, known := actVerbs[a.Verb]; !known {
		return nil, &Problem{Status: http.StatusNotFound, Title: "Unknown action", Text: "The service page has a button for each action."}
	}
	m, _, err := s.moments(r.Context())
	if err != nil {
		return nil, err
	}
	e := m.services[keyOf(a.Namespace, a.Service)]
	if e == nil {
		return nil, &Problem{Status: http.StatusNotFound, Title: "There is no service " + a.Service + " in namespace " + a.Namespace, Text: "It may have been deleted in the meantime. Nothing was changed."}
	}
	if !slices.Contains(s.Acts.May(r.Context(), a.Namespace), a.Verb) {
		return nil, &Problem{Status: http.StatusForbidden, Title: "You are not allowed to " + strings.ToLower(actVerbs[a.Verb]) + " in namespace " + a.Namespace, Text: "Ask an administrator of the namespace for the permission, or ask them to perform the action. Nothing was changed."}
	}
	return &request{Act: a, service: &e.Service, moments: m, shown: values.Get("shown"), previewed: values.Get("previewed")}, nil
}

// showAct shows the effects of an action, with the form that submits it.
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

// writeAct writes the form of an action. refused is the error of the previous attempt, or nil.
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
		problem = nil // The form asks for a target.
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

// writeForm writes a page with a form. The page is not updated live.
func (s *Server) writeForm(w http.ResponseWriter, r *http.Request, status int, title, name string, data map[string]any) {
	l := s.layout(r, "")
	l.Title, l.Live = title, false
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

// problemOf converts the error of an action to a problem.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return &Problem{Status: http.StatusInternalServerError, Title: "The action failed", Text: err.Error()}
}

// doAct performs an action and redirects to the page of the service, which shows the result.
func (s *Server) doAct(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.fail(w, r, &Problem{Status: http.StatusBadRequest, Title: "The form cannot be read", Text: "Nothing was changed. Go back, reload the page, and submit the form again."})
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

// once checks and performs an action only once, even if its form is submitted twice. See submissions.once.
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
		q.aim() // If another submission of the form was checked instead, aim was not called for this one.
	}
	return result, err
}
