package split_test

import (
	"fmt"

	"github.com/heighliner/heighliner/internal/split"
)

// A canary without a ready endpoint gets no weight.
func ExampleWeights() {
	active := split.Share{Release: "shop-1-0-0", Eligible: true, Weight: 90, Ready: true, Available: true}
	canary := split.Share{Release: "shop-1-1-0", Eligible: true, Weight: 10}

	weights, withheld := split.Weights([]split.Share{active, canary})
	fmt.Println(weights, withheld)

	canary.Ready, canary.Available = true, true
	weights, withheld = split.Weights([]split.Share{active, canary})
	fmt.Println(weights, withheld)
	// Output:
	// map[shop-1-0-0:100] [shop-1-1-0]
	// map[shop-1-0-0:90 shop-1-1-0:10] []
}
