package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/controllers/imagepolicy"
	versions "github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/internal/view/text"
)

// The output formats.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

var outputs = []string{outputTable, outputJSON, outputYAML}

func isOutput(word string) bool { return slices.Contains(outputs, word) }

// verdictOffered is the value of Verdict for an offered tag. The other values are the verdicts of
// internal/version.
const verdictOffered = "Offered"

// report is the output of explain. Its JSON fields are an interface for scripts.
type report struct {
	// Policy is the name of the ImagePolicy, and Image is the repository of its image.
	Policy string `json:"policy,omitempty"`
	Image  string `json:"image"`
	// Tags is the number of tags, Offered is the number of offered tags, and Groups is the number of groups that
	// the offered tags belong to.
	Tags    int `json:"tags"`
	Offered int `json:"offered"`
	Groups  int `json:"groups"`
	// Latest is the highest version of the newest group.
	Latest string `json:"latest,omitempty"`
	// Refused contains the number of rejected tags for each verdict, in the order of the filters.
	Refused []refusedCount `json:"refused,omitempty"`
	// Hidden is the number of candidates that are not printed.
	Hidden int `json:"hidden,omitempty"`
	// Notes contains notes about the result, for example about checks that the command did not perform.
	Notes []string `json:"notes,omitempty"`
	// Candidates contains the tags with their results, sorted with the newest version first.
	Candidates []judged `json:"candidates"`
	// Hint describes how to show the hidden candidates.
	Hint string `json:"-"`
}

type refusedCount struct {
	Verdict string `json:"verdict"`
	Tags    int    `json:"tags"`
}

// judged is one tag with its result.
type judged struct {
	Tag string `json:"tag"`
	// Version is the version in normal form. Group and Level are set for an offered version.
	Version string `json:"version,omitempty"`
	Group   string `json:"group,omitempty"`
	Level   string `json:"level,omitempty"`
	// Verdict is "Offered", or the filter that rejected the tag.
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	// Image is the image with its digest, if the registry was used.
	Image string `json:"image,omitempty"`
}

func newReport(policy *v1alpha1.ImagePolicy, e imagepolicy.Explanation, o options) report {
	r := report{
		Policy: policy.Name, Image: policy.Spec.Image, Tags: len(e.Offered) + len(e.Rejected), Offered: len(e.Offered),
		Notes: notes(policy, e, o),
	}
	for _, c := range e.Counts {
		r.Refused = append(r.Refused, refusedCount{string(c.Verdict), c.Tags})
	}
	offered := make([]judged, 0, len(e.Offered))
	for i, rel := range e.Offered {
		j := judged{Tag: rel.Tag, Version: rel.Version, Group: rel.Group, Level: string(rel.Level), Verdict: verdictOffered, Image: e.Images[rel.Tag].Image}
		if i == 0 || e.Offered[i-1].Group != rel.Group {
			r.Groups++
			j.Reason = "newest of its group"
		}
		offered = append(offered, j)
	}
	if len(offered) > 0 {
		r.Latest = offered[0].Version
	}
	shown := len(e.Rejected)
	if !o.all {
		shown = min(shown, o.refused)
	}
	r.Hidden = len(e.Rejected) - shown
	rejected := make([]judged, 0, shown)
	for _, x := range e.Rejected[:shown] {
		rejected = append(rejected, judged{Tag: x.Tag, Version: x.Version, Verdict: string(x.Verdict), Reason: x.Reason})
	}
	r.Candidates = merge(offered, rejected)
	return r
}

// merge merges the sorted lists of offered and rejected tags into one sorted list, with the newest version first. If two
// versions are equal, the offered tag is first.
func merge(offered, rejected []judged) []judged {
	all := make([]judged, 0, len(offered)+len(rejected))
	for len(offered) > 0 && len(rejected) > 0 {
		if rejected[0].Version == "" || versions.Compare(offered[0].Version, rejected[0].Version) >= 0 {
			all, offered = append(all, offered[0]), offered[1:]
		} else {
			all, rejected = append(all, rejected[0]), rejected[1:]
		}
	}
	return append(append(all, offered...), rejected...)
}

// notes returns the notes about the result, for example about checks that the manager performs and that this run did not perform.
func notes(policy *v1alpha1.ImagePolicy, e imagepolicy.Explanation, o options) (notes []string) {
	spec := &policy.Spec
	if o.tags != "" {
		notes = append(notes, "the registry was not used: each tag counts as an image for all platforms")
	} else if len(spec.ImagePullSecrets) > 0 && o.dockerConfig == "" {
		notes = append(notes, "spec.imagePullSecrets were not read: access to the registry was anonymous; set --docker-config")
	}
	if o.tags == "" && len(spec.Platforms) == 0 && !o.platformSet {
		notes = append(notes, fmt.Sprintf("spec.platforms is not set: the images were evaluated for %s, the platform of this machine, but the manager uses its own platform: set --platform to the platform of the manager or to the value of its --default-platform flag", o.platform))
	}
	for _, part := range []struct {
		field string
		set   bool
	}{
		{"spec.match.labels", o.tags != "" && spec.Match != nil && len(spec.Match.Labels) > 0},
		{"spec.additionalImages", o.tags != "" && len(spec.AdditionalImages) > 0},
		{"spec.verify", e.Unverified},
	} {
		if part.set {
			notes = append(notes, part.field+" was not checked: a cluster might reject versions that are offered here")
		}
	}
	if e.Cut {
		notes = append(notes, fmt.Sprintf("there are more tags than spec.limits.tags (%d): the manager does not read the tags beyond this limit", spec.Limits.Tags))
	}
	if len(e.Result.Truncated) > 0 {
		notes = append(notes, "groups beyond spec.limits.groups: "+strings.Join(e.Result.Truncated, ", "))
	}
	if spec.MinAge != "" {
		notes = append(notes, fmt.Sprintf("spec.minAge: versions found by the first scan are offered immediately, and later ones after %s", spec.MinAge))
	}
	if spec.Suspend {
		notes = append(notes, "spec.suspend is true: the manager does not scan")
	}
	return notes
}

// summary returns one line: "12 tags: 3 offered in 1 group, latest 2.1.0; 9 rejected (8 Parse, 1
// Deny)".
func (r report) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", cli.Count(r.Tags, "tag"))
	if r.Offered == 0 {
		b.WriteString("none offered")
	} else {
		fmt.Fprintf(&b, "%d offered in %s, latest %s", r.Offered, cli.Count(r.Groups, "group"), r.Latest)
	}
	if refused := r.Tags - r.Offered; refused > 0 {
		parts := make([]string, len(r.Refused))
		for i, c := range r.Refused {
			parts[i] = fmt.Sprintf("%d %s", c.Tags, c.Verdict)
		}
		fmt.Fprintf(&b, "; %d rejected (%s)", refused, strings.Join(parts, ", "))
	}
	if r.Hidden > 0 {
		fmt.Fprintf(&b, "; %d of them are not shown: %s", r.Hidden, cmp.Or(r.Hint, "use --all to show them"))
	}
	return b.String()
}

func (r report) write(out io.Writer, form string) error {
	var raw []byte
	var err error
	switch form {
	case outputJSON:
		raw, err = cli.JSON(r)
	case outputYAML:
		raw, err = cli.YAML(r)
	default:
		return r.table(out)
	}
	if err == nil {
		_, err = out.Write(raw)
	}
	return err
}

// table prints a row for each candidate, the summary and the notes.
func (r report) table(out io.Writer) error {
	var b strings.Builder
	if len(r.Candidates) > 0 {
		var rows bytes.Buffer
		w := tabwriter.NewWriter(&rows, 0, 8, 3, ' ', 0)
		fmt.Fprintln(w, "TAG\tVERSION\tGROUP\tVERDICT\tREASON")
		for _, c := range r.Candidates {
			cells := []string{printable(c.Tag), orDash(c.Version), orDash(c.Group), c.Verdict, c.Reason}
			for i := range cells {
				cells[i] = text.Clean(cells[i])
			}
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for row := range strings.Lines(rows.String()) {
			b.WriteString(strings.TrimRight(row, " \n") + "\n")
		}
		b.WriteByte('\n')
	}
	b.WriteString(text.Clean(r.summary()) + "\n")
	for _, note := range r.Notes {
		b.WriteString("note: " + text.Clean(note) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printable quotes strings that are not valid tags, because they could contain control characters.
func printable(tag string) string {
	if versions.IsTag(tag) {
		return tag
	}
	return fmt.Sprintf("%q", tag)
}
