package version_test

import (
	"fmt"

	"github.com/heighliner/heighliner/internal/version"
)

// An ImagePolicy with groupBy Major offers the newest releases of each major version.
func ExampleSelect() {
	rules := version.Rules{GroupBy: version.GroupByMajor, Range: ">=1.1.0"}
	tags := []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0-rc.1", "2.0.0", "latest"}
	result, err := version.Select(rules, tags, nil, nil)
	if err != nil {
		panic(err)
	}
	for _, r := range result.Offered {
		fmt.Println("offered:", r.Group, r.Version)
	}
	for _, r := range result.Rejected {
		fmt.Println("rejected:", r.Tag, r.Verdict)
	}
	// Output:
	// offered: 2.x 2.0.0
	// offered: 1.x 1.2.0
	// offered: 1.x 1.1.0
	// rejected: 1.3.0-rc.1 Level
	// rejected: 1.0.0 Range
	// rejected: latest Parse
}

func ExampleCompare() {
	fmt.Println(version.Compare("1.10.0", "1.9.0"))
	fmt.Println(version.Compare("1.0.0-rc.1", "1.0.0"))
	// Output:
	// 1
	// -1
}

// The name of a group becomes part of names and domains.
func ExampleSlug() {
	fmt.Println(version.Slug("1.2.x"))
	// Output: 1-2-x
}
