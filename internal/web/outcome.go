package web

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/view"
)

// outcomeTimeout limits how long the board waits for the manager to handle a decision.
const outcomeTimeout = 5 * time.Second

// maxDone is the maximum number of results that are kept for the page that is shown after an
// action.
const maxDone = 100

// done is the result of an action.
type done struct {
	Outcome
	act Act
}

// await waits briefly for the manager to handle a decision, and records the outcome.
func (s *Server) await(ctx context.Context, d *done) {
	if !slices.Contains(decides, d.act.Verb) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.outcomeTimeout)
	defer cancel()
	for {
		data, changed := s.Store.Data()
		if d.Outcome.Outcome = handled(data, d.act); d.Outcome.Outcome != "" {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// handled returns the outcome of a decision; empty while the manager has not handled it. The Microservice records the outcome first, and the
// release a few seconds later.
func handled(data cluster.Data, a Act) string {
	for i := range data.Microservices {
		ms := &data.Microservices[i]
		if ms.Namespace != a.Namespace || ms.Name != a.Service {
			continue
		}
		for _, g := range ms.Status.ReleaseGroups {
			for _, r := range g.Releases {
				if r.Decision != nil && r.Decision.ID == a.ID {
					return r.Decision.Outcome
				}
			}
		}
	}
	for i := range data.Releases {
		r := &data.Releases[i]
		if h := r.Status.LastHandledDecision; r.Namespace == a.Namespace && h != nil && h.ID == a.ID {
			return h.Outcome
		}
	}
	return ""
}

// notice is the result of an action as shown on the next page.
type notice struct {
	Class view.Class
	Text  string
}

// notice describes a result. The result is a success only if the manager applied the decision.
func (d done) notice() notice {
	switch outcome := d.Outcome.Outcome; {
	case d.Frozen != "":
		return notice{view.Moving, d.Text + "; nothing new starts until the freeze ends: " + d.Frozen}
	case !slices.Contains(decides, d.act.Verb):
		return notice{view.Stable, d.Text}
	case outcome == "":
		return notice{view.Moving, d.Text + ": not handled yet; the manager handles it as soon as it can, unless another decision replaces it"}
	case outcome != release.DecisionApplied:
		return notice{view.Failed, d.Text + ": not applied: " + cause(outcome)}
	}
	return notice{view.Stable, d.Text + ": applied"}
}

// doneActs contains the results of the most recent actions, keyed by a random ID.
type doneActs struct {
	mu   sync.Mutex
	ids  []string
	byID map[string]done
}

func (d *doneActs) put(id string, o done) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byID == nil {
		d.byID = map[string]done{}
	}
	if len(d.ids) == maxDone {
		delete(d.byID, d.ids[0])
		d.ids = d.ids[1:]
	}
	d.ids, d.byID[id] = append(d.ids, id), o
}

// get returns the notice about a result, or nil if the result is unknown. data may contain the outcome of a decision that was not handled when the
// result was stored.
func (d *doneActs) get(id string, data cluster.Data) *notice {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, is := d.byID[id]
	if !is {
		return nil
	}
	if found.Outcome.Outcome == "" && slices.Contains(decides, found.act.Verb) {
		found.Outcome.Outcome = handled(data, found.act)
	}
	n := found.notice()
	return &n
}
