package view_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/internal/view"
)

// TestReferenceNamesAllFields checks that docs/reference/view.md describes each field of the JSON form.
func TestReferenceNamesAllFields(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/reference/view.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var check func(reflect.Type)
	check = func(x reflect.Type) {
		for x.Kind() == reflect.Pointer || x.Kind() == reflect.Slice || x.Kind() == reflect.Map {
			x = x.Elem()
		}
		if x.Kind() != reflect.Struct || seen[x] || !strings.HasSuffix(x.PkgPath(), "internal/view") {
			return
		}
		seen[x] = true
		for i := range x.NumField() {
			f := x.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" && !strings.Contains(string(raw), "`"+name+"`") && !strings.Contains(string(raw), "`"+name+"[]`") {
				t.Errorf("%s.%s (%s) is not in docs/reference/view.md", x.Name(), f.Name, name)
			}
			check(f.Type)
		}
	}
	for _, v := range []any{view.Board{}, view.Service{}, view.Answer{}, view.History{}, view.Previews{}, view.Events{}, view.ReleaseDetail{}, view.Freezes{}, view.Versions{}} {
		check(reflect.TypeOf(v))
	}
}
