package compact

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// TestTableIsBounded checks that a table forgets values that are not used, keeps those that are used, and is limited by the size of its values.
func TestTableIsBounded(t *testing.T) {
	t.Parallel()
	const size, values = 36, 100
	all := table[string, string]{size: values * (entrySize + size), equal: func(a, b string) bool { return a == b }}
	used := all.add("used", "used", size)
	for i := range 5 * values {
		value := fmt.Sprint(i)
		all.add(value, value, size)
		if again, ok := all.known("used", strings.Clone("used")); !ok || unsafe.StringData(again) != unsafe.StringData(used) {
			t.Fatalf("after %d values, a value that is used is forgotten", i)
		}
	}
	if n := len(all.recent) + len(all.earlier); n > 2*values || n < values {
		t.Errorf("the table contains %d values, want between %d and %d", n, values, 2*values)
	}
	if _, ok := all.known("0", "0"); ok {
		t.Error("a value that was not used is kept")
	}
}

// TestTableWithEqualKeys checks that another value with the key of a value in the table is not replaced by it.
func TestTableWithEqualKeys(t *testing.T) {
	t.Parallel()
	all := table[int, string]{size: 1000, equal: func(a, b string) bool { return a == b }}
	all.add(1, "a", 1)
	if got := all.add(1, "b", 1); got != "b" {
		t.Errorf("add returns %q, want b", got)
	}
	for range 2 { // At first among the recent values, and then among the earlier ones.
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
	long := strings.Repeat("a", 257)
	shared(long)
	if _, ok := stringTable.known(long, long); ok {
		t.Error("a long string is kept")
	}
	many := map[string]string{}
	for i := range 200 {
		many[fmt.Sprint(i)] = ""
	}
	for name, large := range map[string]any{
		"map with a long value":    map[string]string{"a": strings.Repeat("a", 16<<10)},
		"map with a long key":      map[string]string{strings.Repeat("a", 16<<10): "a"},
		"map with many keys":       many,
		"slice with many elements": make([]string, 2<<10),
		"slice with a long string": []string{strings.Repeat("a", 16<<10)},
		"slice of bytes":           make([]byte, 2048),
	} {
		if _, _, small := hashOf(reflect.ValueOf(large)); small {
			t.Errorf("a %s is shared", name)
		}
	}
	if _, size, small := hashOf(reflect.ValueOf(map[string]string{"a": strings.Repeat("a", 1024)})); !small || size < 1024 || size > 1200 {
		t.Errorf("a map with 1 KiB has %d bytes, shared %t", size, small)
	}
	if stringTable.size > 1<<20 || valueTable.size > 1<<20 {
		t.Errorf("the tables contain up to %d and %d bytes", 2*stringTable.size, 2*valueTable.size)
	}
}
