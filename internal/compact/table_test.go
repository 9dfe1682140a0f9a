package compact

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestTableIsBounded checks that a table forgets values that are not used and keeps values that are used, and that the total
// size of its values is limited.
func TestTableIsBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 36, 1000} {
		const values = 100
		all := table[string, string]{size: values * (entrySize + size), equal: func(a, b string) bool { return a == b }}
		used := all.add("used", "used", size)
		for i := range 5 * values {
			value := fmt.Sprint(i)
			all.add(value, value, size)
			if again, ok := all.known("used", strings.Clone("used")); !ok || unsafe.StringData(again) != unsafe.StringData(used) {
				t.Fatalf("size %d: after %d values, a value that is used is forgotten", size, i)
			}
		}
		if n := len(all.recent) + len(all.earlier); n > 2*values || n < values {
			t.Errorf("size %d: the table contains %d values, want between %d and %d", size, n, values, 2*values)
		}
		if _, ok := all.known("0", "0"); ok {
			t.Errorf("size %d: a value that was not used is kept", size)
		}
	}
}

// TestTableWithEqualKeys checks that a value is not replaced by a different value with the same key in the table.
func TestTableWithEqualKeys(t *testing.T) {
	t.Parallel()
	all := table[int, string]{size: 1000, equal: func(a, b string) bool { return a == b }}
	all.add(1, "a", 1)
	if got := all.add(1, "b", 1); got != "b" {
		t.Errorf("add returns %q, want b", got)
	}
	for range 2 { // First among the recent values, and then among the earlier ones.
		if got, ok := all.known(1, "b"); ok || got != "b" {
			t.Errorf("known returns %q, %t, want b and false", got, ok)
		}
		all.recent, all.earlier = nil, all.recent
	}
}

// TestLargeValuesAreNotShared checks that the tables contain no strings of more than 256 bytes and no values of more than 16 KiB, and that each table
// is limited to 2 MiB.
func TestLargeValuesAreNotShared(t *testing.T) {
	t.Parallel()
	parts := sharer{left: 1 << 20}
	for _, length := range []int{256, 257} {
		text := strings.Repeat("a", length)
		parts.text(text)
		if _, ok := stringTable.known(text, text); ok != (length == 256) {
			t.Errorf("a string of %d bytes is shared: %t", length, ok)
		}
	}
	many := map[string]string{}
	for i := range 600 {
		many[fmt.Sprint(i)] = ""
	}
	for name, large := range map[string]any{
		"map with a long value":       map[string]string{"a": strings.Repeat("a", 16<<10)},
		"map with a long key":         map[string]string{strings.Repeat("a", 16<<10): "a"},
		"map with many keys":          many,
		"slice with many elements":    make([]string, 1<<10),
		"slice with a long string":    []string{strings.Repeat("a", 16<<10)},
		"slice of bytes":              make([]byte, 16<<10),
		"slice with unused capacity":  make([]int64, 1, 2<<10),
		"slice of empty structs":      make([]struct{}, 17<<10),
		"number with unused capacity": []*resource.Quantity{new(resource.MustParse("1." + strings.Repeat("0", 50_000) + "1"))},
	} {
		if _, _, small := hashOf(reflect.ValueOf(large)); small {
			t.Errorf("a %s is shared", name)
		}
	}
	for name, x := range map[string]struct {
		value any
		size  int
	}{
		"map with one entry": {map[string]string{"a": strings.Repeat("a", 8<<10)}, 48 + 8*33 + 1 + 8<<10},
		"slice of strings":   {[]string{"a", strings.Repeat("a", 15<<10)}, 2*17 + 1 + 15<<10},
		"pointer":            {new(int64(1)), 8},
		"slice of pointers":  {[]*int64{nil, new(int64(1))}, 2*9 + 8},
	} {
		if _, size, small := hashOf(reflect.ValueOf(x.value)); !small || size != x.size {
			t.Errorf("%s: %d bytes, shared %t, want %d bytes", name, size, small, x.size)
		}
	}
	if stringTable.size > 1<<20 || valueTable.size > 1<<20 {
		t.Errorf("the tables contain up to %d and %d bytes", 2*stringTable.size, 2*valueTable.size)
	}
}

// TestSlotsOfMaps checks the number of slots in the Go runtime's maps.
func TestSlotsOfMaps(t *testing.T) {
	for n, want := range map[int]int{0: 8, 1: 8, 7: 8, 8: 16, 14: 16, 15: 32, 113: 256} {
		if got := slotsOf(n); got != want {
			t.Errorf("a map with %d entries has %d slots, want %d", n, got, want)
		}
	}
}
