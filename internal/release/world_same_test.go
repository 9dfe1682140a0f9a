package release

import (
	"reflect"
	"testing"
	"time"
	"unsafe"
)

// TestSame checks that the comparison of snapshots considers every field. Snapshots of the simulation share the values that the
// comparison considers unchanged.
func TestSame(t *testing.T) {
	eachField(t, func(a, b *object) bool { return a.same(b) })
	eachField(t, func(a, b *Report) bool { return sameReport(*a, *b) })
}

// eachField checks that two values are the same, and that they differ after a change to any field.
func eachField[T any](t *testing.T, same func(a, b *T) bool) {
	t.Helper()
	if !same(new(T), new(T)) {
		t.Errorf("two empty values of %T are not the same", *new(T))
	}
	var visit func(path []int, typ reflect.Type)
	visit = func(path []int, typ reflect.Type) {
		for i := range typ.NumField() {
			field, here := typ.Field(i), append(path[:len(path):len(path)], i)
			if field.Anonymous {
				visit(here, field.Type)
				continue
			}
			other := new(T)
			v := reflect.ValueOf(other).Elem().FieldByIndex(here)
			v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
			switch x := v.Addr().Interface().(type) {
			case *time.Time:
				*x = t0
			case *[]string:
				*x = []string{"a"}
			default:
				switch v.Kind() {
				case reflect.String:
					v.SetString("a")
				case reflect.Bool:
					v.SetBool(true)
				case reflect.Int, reflect.Int64:
					v.SetInt(1)
				case reflect.Pointer:
					v.Set(reflect.New(v.Type().Elem()))
				case reflect.Slice:
					v.Set(reflect.MakeSlice(v.Type(), 1, 1))
				default:
					t.Fatalf("no value for the field %s of %T", field.Name, *other)
				}
			}
			if same(new(T), other) || same(other, new(T)) {
				t.Errorf("the comparison of %T ignores %s", *other, field.Name)
			}
		}
	}
	visit(nil, reflect.TypeFor[T]())
}
