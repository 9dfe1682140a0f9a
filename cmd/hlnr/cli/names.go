package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxNamed is the maximum number of names in a message.
const maxNamed = 8

// maxNear is the maximum number of suggested names.
const maxNear = 3

// Unknown returns the error for a name that does not exist, with the nearest existing names, or with a
// list of existing names if none is near. The what parameter is a singular description of the kind of object,
// optionally with its location, such as "Microservice in namespace shop". The exit code is [ExitUsage].
func Unknown(what, name string, names []string) error {
	text := missing(what, name)
	if near := Nearest(name, names); len(near) > 0 {
		return Suggest(what, name, near)
	}
	text += "; " + Available(names)
	if strings.Contains(what, " in namespace ") {
		text += "; select another namespace with -n"
	}
	return Usage(errors.New(text))
}

// Suggest returns the error for a name that does not exist, with the names that the user probably meant. The exit code is [ExitUsage].
func Suggest(what, name string, near []string) error {
	return Usage(fmt.Errorf("%s; did you mean %s?", missing(what, name), quoted(near[:min(len(near), maxNear)], " or ")))
}

// missing describes a name that does not exist, for example `there is no Microservice with the name "shop" in namespace prod`.
func missing(what, name string) string {
	kind, location, located := strings.Cut(what, " in ")
	text := fmt.Sprintf("there is no %s with the name %q", kind, name)
	if located {
		text += " in " + location
	}
	return text
}

// Count returns a number with its noun, such as "1 tag" or "2 tags".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Available lists at most eight names for a message.
func Available(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	switch {
	case len(names) == 0:
		return "there are no others"
	case len(names) == 1:
		return "available: " + names[0]
	case len(names) > maxNamed:
		return fmt.Sprintf("available: %s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return "available: " + strings.Join(names, ", ")
}

func quoted(names []string, or string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, or)
}

// Nearest returns at most three names that the user probably meant, with the nearest name first. These are the names that
// differ from the given name by a few edits, or that contain it.
func Nearest(name string, names []string) []string {
	type near struct {
		name     string
		distance int
	}
	var found []near
	low := strings.ToLower(name)
	for _, n := range names {
		d, other := 0, strings.ToLower(n)
		switch d = edits(low, other); {
		case d <= max(1, min(len(low), len(other))/3):
		case len(low) >= 3 && strings.Contains(other, low):
			d = 10
		default:
			continue
		}
		found = append(found, near{n, d})
	}
	slices.SortFunc(found, func(a, b near) int { return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name)) })
	found = slices.Compact(found)
	out := make([]string, 0, maxNear)
	for _, n := range found[:min(len(found), maxNear)] {
		out = append(out, n.name)
	}
	return out
}

// maxCompared is the maximum length of names that are compared. Comparisons of longer names would take too long.
const maxCompared = 256

// edits returns the minimum number of edits that turn a into b. An edit inserts, deletes or replaces a letter, or swaps two
// adjacent letters.
func edits(a, b string) int {
	if len(a) > maxCompared || len(b) > maxCompared {
		return maxCompared
	}
	last, row, next := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], last[j-2]+1)
			}
		}
		if last == nil {
			last = make([]int, len(b)+1)
		}
		last, row, next = row, next, last
	}
	return row[len(b)]
}
