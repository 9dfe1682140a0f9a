package preview_test

import (
	"fmt"

	"github.com/heighliner/heighliner/internal/preview"
)

// The group of a pull request is named after its branch and number.
func ExampleSlug() {
	slug := preview.Slug("feature/Cart", 42)
	number, ok := preview.Number(slug)
	fmt.Println(slug, number, ok)
	// Output: feature-cart-42 42 true
}

func ExampleBranch() {
	fmt.Println(preview.Branch("feature/Cart"))
	// Output: feature-cart
}
