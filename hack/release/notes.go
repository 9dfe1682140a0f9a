package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// releaseNotes returns the section of the version in CHANGELOG.md or, if this section does not exist yet,
// the section of unreleased changes.
func releaseNotes(in input) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(in.root, "CHANGELOG.md"))
	if err != nil {
		return nil, fmt.Errorf("read changelog: %w", err)
	}
	for _, title := range []string{"## [" + strings.TrimPrefix(in.version, "v") + "]", "## [Unreleased]"} {
		if section := section(string(text), title); section != "" {
			return []byte("# Heighliner " + in.version + "\n\n" + section + "\n"), nil
		}
	}
	return nil, fmt.Errorf("CHANGELOG.md has neither a section for %s nor an Unreleased section", in.version)
}

// section returns the section of a changelog below a heading, without the links at the end. It returns "" if
// there is no such section.
func section(text, title string) string {
	_, rest, found := strings.Cut("\n"+text, "\n"+title)
	if !found {
		return ""
	}
	_, rest, _ = strings.Cut(rest, "\n") // The rest of this line is the date.
	rest, _, _ = strings.Cut(rest, "\n## ")
	lines := strings.Split(rest, "\n")
	for len(lines) > 0 && (strings.TrimSpace(lines[len(lines)-1]) == "" || strings.HasPrefix(lines[len(lines)-1], "[")) {
		lines = lines[:len(lines)-1]
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
