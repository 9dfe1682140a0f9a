package notify

import (
	"fmt"

	"github.com/heighliner/heighliner/internal/status"
)

// pair is a name and a value that a chat message shows below its title.
type pair struct{ name, value string }

// details returns the names and values that a chat message shows below its title.
func details(m Message) (out []pair) {
	add := func(name, value string) {
		if value != "" {
			out = append(out, pair{name, value})
		}
	}
	add("Namespace", m.Namespace)
	add("Group", m.Group)
	add("Version", status.Short(m.Version))
	if m.PullRequest > 0 {
		add("Pull request", fmt.Sprintf("#%d", m.PullRequest))
	}
	add("Commit", status.Short(m.Commit))
	add("Next", m.Command)
	return out
}

// cut shortens a string to a maximum number of bytes.
func cut(text string, limit int) string { return status.LineOf(text, limit) }
