package compact

import "reflect"

// maxAdded is the maximum total size, in bytes, of the values and strings that one transform adds to the tables. Without this limit, the parts of one
// large object could replace all other entries of the tables.
const maxAdded = valuesSize / 8

// The tables are shared by all caches of a process.
var (
	stringTable = table[string, string]{size: stringsSize, equal: func(a, b string) bool { return a == b }}
	valueTable  = table[uint64, reflect.Value]{size: valuesSize, equal: equal}
)

func equal(a, b reflect.Value) bool { return reflect.DeepEqual(a.Interface(), b.Interface()) }

// sharer lets the parts of one object share memory with equal parts of other objects.
type sharer struct {
	// left is the maximum total size, in bytes, of the values and strings that may still be added to the tables.
	left int
	// stringsOnly specifies whether only strings share memory.
	stringsOnly bool
}

// mayAdd reports whether a value of the given size may be added to the tables. If the value may be added, mayAdd subtracts the size of the new entry
// from left.
func (s *sharer) mayAdd(size int) bool {
	if s.left < entrySize+size {
		return false
	}
	s.left -= entrySize + size
	return true
}

// text returns a string that is equal to in and shares memory with other equal strings. A string that is longer than maxString is not shared.
func (s *sharer) text(in string) string {
	if in == "" || len(in) > maxString {
		return in
	}
	known, ok := stringTable.known(in, in)
	if !ok && s.mayAdd(len(in)) {
		return stringTable.add(in, in, len(in))
	}
	return known
}

// share lets the content of v share memory with equal content. share changes only v itself. It does not change the
// values to which v refers, but replaces them with copies, because other objects, which already have readers, may refer
// to the same values.
func (s *sharer) share(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s.text(v.String()))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				s.share(v.Field(i))
			}
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if v.IsNil() || v.Kind() != reflect.Pointer && v.Len() == 0 {
			return
		}
		s.shareReferenced(v)
	}
}

// shareReferenced replaces a pointer, slice, or map with an equal shared value, or with a copy.
func (s *sharer) shareReferenced(v reflect.Value) {
	if s.stringsOnly {
		v.Set(s.copied(v))
		return
	}
	key, size, small := hashOf(v)
	if !small {
		v.Set(s.copied(v))
		return
	}
	if known, ok := valueTable.known(key, v); ok {
		v.Set(known)
		return
	}
	v.Set(s.copied(v))
	if s.mayAdd(size) {
		// The table must not contain v itself, which is a field of the object and may change.
		v.Set(valueTable.add(key, reflect.ValueOf(v.Interface()), size))
	}
}

// copied returns a copy of a pointer, slice, or map. The content of the copy shares memory with equal content. The copy of a slice has no unused
// capacity, so that append cannot write to the shared memory. A pointer to a boolean or a number is returned unchanged.
func (s *sharer) copied(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type().Elem().Kind() <= reflect.Complex128 {
			return v
		}
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(v.Elem())
		s.share(out.Elem())
		return out
	case reflect.Slice:
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(out, v)
		for i := 0; v.Type().Elem().Kind() > reflect.Complex128 && i < out.Len(); i++ {
			s.share(out.Index(i))
		}
		return out
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for all := v.MapRange(); all.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(all.Key())
		value.Set(all.Value())
		s.share(key)
		s.share(value)
		out.SetMapIndex(key, value)
	}
	return out
}
