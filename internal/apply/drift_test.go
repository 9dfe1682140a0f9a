package apply

import "testing"

// TestListsWithItemsOfOtherClients checks that an item that another client adds to a list counts as a difference, unless server-side apply would keep the
// item.
func TestListsWithItemsOfOtherClients(t *testing.T) {
	t.Parallel()
	list := func(field string, names ...string) map[string]any {
		items := []any{}
		for _, name := range names {
			items = append(items, map[string]any{"name": name})
		}
		return map[string]any{field: items}
	}
	for field, kept := range map[string]bool{"ports": true, "listeners": true, "rules": false, "http": false, "hostnames": false} {
		if got := within(list(field, "foreign", "own"), list(field, "own"), ""); got != kept {
			t.Errorf("%s with an added item: equal %t, want %t", field, got, kept)
		}
		if within(list(field, "foreign"), list(field, "own"), "") {
			t.Errorf("%s without its own item: equal", field)
		}
	}
}
