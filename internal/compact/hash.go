package compact

import (
	"hash/maphash"
	"reflect"
	"time"
)

var seed = maphash.MakeSeed()

// hashOf returns a hash of a pointer, slice, or map that depends only on its type and content, and the size of the content in bytes. It returns
// false if the content is larger than maxValue, or if it contains a time, an interface, or a floating-point number.
func hashOf(v reflect.Value) (hash uint64, size int, ok bool) {
	h := hasher{left: maxValue}
	h.SetSeed(seed)
	maphash.WriteComparable(&h.Hash, v.Type())
	h.write(v)
	return h.Sum64(), maxValue - h.left, h.left >= 0
}

const (
	// scalarSize is the approximate size of a number, pointer, or string without its content, in bytes.
	scalarSize = 8
	// mapEntrySize is the approximate size of an entry of a map without its key and value, in bytes. A map has up to two free slots for each entry.
	mapEntrySize = 80
)

// hasher calculates the hash of a value.
type hasher struct {
	maphash.Hash
	// left is the size of the values that may follow, in bytes. It is negative if the value is too large.
	left int
}

// write adds a value to the hash.
func (h *hasher) write(v reflect.Value) {
	if h.left -= scalarSize; h.left < 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		if h.left -= v.Len(); h.left < 0 {
			return
		}
		maphash.WriteComparable(&h.Hash, v.Len())
		_, _ = h.WriteString(v.String()) // never fails
	case reflect.Bool:
		maphash.WriteComparable(&h.Hash, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		maphash.WriteComparable(&h.Hash, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		maphash.WriteComparable(&h.Hash, v.Uint())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			h.left = -1 // It may refer to the local time zone, which is written once, while other goroutines run.
			return
		}
		for i := range v.NumField() {
			h.write(v.Field(i))
		}
	case reflect.Pointer:
		maphash.WriteComparable(&h.Hash, v.IsNil())
		if !v.IsNil() {
			h.write(v.Elem())
		}
	case reflect.Slice:
		maphash.WriteComparable(&h.Hash, v.Len())
		for i := 0; i < v.Len() && h.left >= 0; i++ {
			h.write(v.Index(i))
		}
	case reflect.Map:
		h.writeMap(v)
	default:
		h.left = -1
	}
}

// writeMap adds the sum of the hashes of all entries to the hash, which does not depend on their order.
func (h *hasher) writeMap(m reflect.Value) {
	var sum uint64
	for all := m.MapRange(); all.Next() && h.left >= 0; {
		entry := hasher{left: h.left - mapEntrySize}
		entry.SetSeed(seed)
		entry.write(all.Key())
		entry.write(all.Value())
		sum += entry.Sum64()
		h.left = entry.left
	}
	maphash.WriteComparable(&h.Hash, m.Len())
	maphash.WriteComparable(&h.Hash, sum)
}
