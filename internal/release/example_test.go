package release_test

import (
	"fmt"

	"github.com/heighliner/heighliner/internal/release"
)

// A canary without a ready endpoint gets no weight until it has one.
func ExampleSplit() {
	active := release.Share{Release: "shop-1-0-0", Status: release.Active, Weight: 90, Ready: true, Available: true}
	canary := release.Share{Release: "shop-1-1-0", Status: release.Canary, Weight: 10}

	weights, withheld := release.Split([]release.Share{active, canary})
	fmt.Println(weights, withheld)

	canary.Ready, canary.Available = true, true
	weights, withheld = release.Split([]release.Share{active, canary})
	fmt.Println(weights, withheld)
	// Output:
	// map[shop-1-0-0:100] [shop-1-1-0]
	// map[shop-1-0-0:90 shop-1-1-0:10] []
}
