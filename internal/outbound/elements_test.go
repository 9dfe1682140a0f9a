package outbound

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestElements(t *testing.T) {
	tests := map[string]struct {
		text string
		want int
	}{
		"nothing":             {"", 0},
		"empty objects":       {"[{},{},{}]", 6},
		"fields":              {`{"a":1,"b":[2,3]}`, 4},
		"punctuation in text": {`{"a":"[{,,,}]"}`, 1},
		"escaped quotes":      {`{"a":"\"[{,","b":"\\"}`, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var whole, bytewise elements
			whole.read([]byte(test.text))
			for i := range test.text {
				bytewise.read([]byte{test.text[i]})
			}
			if whole.count != test.want || bytewise.count != test.want {
				t.Errorf("%d elements, %d byte by byte, want %d", whole.count, bytewise.count, test.want)
			}
		})
	}
}

// TestElementsAreBounded checks that reading a body fails before a decoder receives too many elements.
func TestElementsAreBounded(t *testing.T) {
	read := func(text string, most int) error {
		b := &body{ReadCloser: io.NopCloser(strings.NewReader(text)), left: 1 << 20, limit: 1 << 20, maxElements: most}
		_, err := io.ReadAll(b)
		if _, again := b.Read(make([]byte, 8)); err != nil && again == nil {
			t.Error("the data after the error can be read")
		}
		return err
	}
	text := "[" + strings.Repeat("{},", 99) + "{}]"
	if err := read(text, 200); err != nil {
		t.Errorf("200 elements: %v", err)
	}
	if err := read(text, 0); err != nil {
		t.Errorf("without a bound: %v", err)
	}
	var large *TooLargeError
	if err := read(text, 199); !errors.As(err, &large) || !strings.Contains(err.Error(), "199 elements") {
		t.Errorf("more elements than allowed: %v", err)
	}
}
