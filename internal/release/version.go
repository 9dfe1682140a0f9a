package release

import (
	"strings"

	"github.com/heighliner/heighliner/internal/version"
)

// compare orders two versions as the ImagePolicy that offers them does.
func compare(a, b string) int { return version.Compare(a, b) }

// compareNames orders streams: "10.x" above "9.x".
func compareNames(a, b string) int { return compare(streamVersion(a), streamVersion(b)) }

// streamVersion reads "1.x" as 1.0 and "1.2.x" as 1.2.
func streamVersion(name string) string {
	text := strings.TrimSuffix(name, ".x")
	if text != name && !strings.Contains(text, ".") {
		return text + ".0"
	}
	return text
}
