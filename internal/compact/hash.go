package compact

import (
	"hash/maphash"
	"reflect"
	"time"
)

var seed = maphash.MakeSeed()

// hashOf returns a hash that depends only on the type and the content of a pointer, slice, or map. It also returns the size of the content in bytes.
// ok is false if the content is larger than maxValue, or if it contains a time, an interface, or a floating-point number.
func hashOf(v reflect.Value) (hash uint64, size int, ok bool) {
	h := hasher{left: maxValue}
	h.SetSeed(seed)
	maphash.WriteComparable(&h.Hash, v.Type())
	h.write(v)
	return h.Sum64(), maxValue - h.left, h.left >= 0
}

// mapSize is the size of an empty map, in bytes.
const mapSize = 48

// slotsOf returns the number of slots for entries in a map with n entries. The number is a power of two, and at most seven eighths of the slots are
// in use.
func slotsOf(n int) int {
	slots := 8
	for slots*7 < n*8 {
		slots *= 2
	}
	return slots
}

// hasher calculates the hash of a value.
type hasher struct {
	maphash.Hash
	// left is the maximum total size, in bytes, of the values that may still be added. It is negative if the hash cannot be calculated,
	// for example because the value is too large.
	left int
}

// fits subtracts the size of a value from left, and reports whether the value may be added to the hash.
func (h *hasher) fits(size int) bool {
	h.left -= size
	return h.left >= 0
}

// write adds a value to the hash. The size of the value itself is counted with the slice or map that contains the value, or with the pointer to the
// value.
func (h *hasher) write(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if !h.fits(v.Len()) {
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
			h.left = -1 // A time may refer to the local time zone, which another goroutine may be initializing.
			return
		}
		for i := range v.NumField() {
			h.write(v.Field(i))
		}
	case reflect.Pointer:
		maphash.WriteComparable(&h.Hash, v.IsNil())
		if !v.IsNil() && h.fits(int(v.Type().Elem().Size())) {
			h.write(v.Elem())
		}
	case reflect.Slice:
		maphash.WriteComparable(&h.Hash, v.Len())
		// Unused capacity takes memory too. Each element counts as one byte more than its size, because the size of an empty struct is zero.
		if !h.fits(v.Cap()*int(v.Type().Elem().Size()) + v.Len()) {
			return
		}
		for i := range v.Len() {
			h.write(v.Index(i))
		}
	case reflect.Map:
		h.writeMap(v)
	default:
		h.left = -1
	}
}

// writeMap adds the sum of all entries' hashes to the hash, because a sum does not depend on the order of the entries.
func (h *hasher) writeMap(m reflect.Value) {
	if !h.fits(mapSize + slotsOf(m.Len())*int(m.Type().Key().Size()+m.Type().Elem().Size()+1)) {
		return
	}
	var sum uint64
	for all := m.MapRange(); all.Next() && h.left >= 0; {
		entry := hasher{left: h.left}
		entry.SetSeed(seed)
		entry.write(all.Key())
		entry.write(all.Value())
		sum += entry.Sum64()
		h.left = entry.left
	}
	maphash.WriteComparable(&h.Hash, m.Len())
	maphash.WriteComparable(&h.Hash, sum)
}
