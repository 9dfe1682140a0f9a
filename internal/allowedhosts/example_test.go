package allowedhosts_test

import (
	"fmt"

	"github.com/heighliner/heighliner/internal/allowedhosts"
)

// A line such as "*.shop.example.com" allows a namespace to use every host below shop.example.com. Other hosts are
// listed by name.
func ExampleRules_Allowed() {
	rules, err := allowedhosts.Parse(map[string]string{"shop": "www.example.com\n*.shop.example.com"})
	if err != nil {
		panic(err)
	}
	for _, host := range []string{"www.example.com", "1-x.shop.example.com", "api.example.com"} {
		fmt.Println(host, rules.Allowed("shop", nil, host, false) == nil)
	}
	// Output:
	// www.example.com true
	// 1-x.shop.example.com true
	// api.example.com false
}
