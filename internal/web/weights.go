package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/weights"
)

// observedWeights contains the weights that were observed since the server started.
type observedWeights struct {
	mu  sync.Mutex
	all weights.History
}

// of returns the weights of a service.
func (w *observedWeights) of(namespace, name string) []view.GroupWeights {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Of(namespace, name)
}

// record observes the weights at each change to the store until the context is done.
func (s *Server) record(ctx context.Context) {
	for {
		data, changed := s.Store.Data()
		s.weights.mu.Lock()
		s.weights.all.Observe(data.Microservices, s.Clock.Now())
		s.weights.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// These constants are the size of the weights picture in its own units, and the number of its colors. The page scales the width.
const (
	weightsWidth  = 600.0
	weightsHeight = 60.0
	weightColors  = 4
)

// weightsPicture is the picture of the weights of a group. Time runs from left to right, and the shares are stacked.
type weightsPicture struct {
	Parts []weightsPart
	// Releases are in the order of their colors. The release that was observed first comes first.
	Releases []weightsRelease
	// From is the start of the picture.
	From  time.Time
	Label string
}

// weightsPart is a share during a period.
type weightsPart struct {
	Color               int
	X, Y, Width, Height string
}

type weightsRelease struct {
	Color         int
	Name, Version string
}

// drawWeights draws the weights of a group up to now.
func drawWeights(g view.GroupWeights, now time.Time) weightsPicture {
	out := weightsPicture{From: g.Points[0].Time.Time}
	span := max(now.Sub(out.From), time.Second)
	at := func(t time.Time) float64 {
		return min(1, max(0, t.Sub(out.From).Seconds()/span.Seconds())) * weightsWidth
	}
	var words []string
	for i, p := range g.Points {
		end := weightsWidth
		if i+1 < len(g.Points) {
			end = at(g.Points[i+1].Time.Time)
		}
		x, y := at(p.Time.Time), 0.0
		var shares []string
		for _, share := range p.Shares {
			height := float64(min(share.Weight, 100)) / 100 * weightsHeight
			out.Parts = append(out.Parts, weightsPart{out.color(share), fmt.Sprintf("%.1f", x), fmt.Sprintf("%.1f", y), fmt.Sprintf("%.1f", max(0, end-x)), fmt.Sprintf("%.1f", height)})
			y += height
			shares = append(shares, fmt.Sprintf("%s %d%%", share.Version, share.Weight))
		}
		words = append(words, view.Clock(p.Time.Time, now)+" "+strings.Join(shares, ", "))
	}
	out.Label = "Weights of group " + g.Group + ": " + strings.Join(words, "; ")
	return out
}

// color returns the number of a release's color. Each new release gets the next number; after weightColors releases, the numbers repeat.
func (p *weightsPicture) color(share view.WeightShare) int {
	i := slices.IndexFunc(p.Releases, func(r weightsRelease) bool { return r.Name == share.Release })
	if i < 0 {
		i = len(p.Releases)
		p.Releases = append(p.Releases, weightsRelease{i % weightColors, share.Release, share.Version})
	}
	return i % weightColors
}
