package outbound

// elements counts the values of JSON text while the text is read. It counts commas and opening brackets outside of strings. A few bytes of text
// can take a thousand bytes of memory after decoding, so a limit on bytes does not limit memory. For input that is not JSON, the count is
// arbitrary.
type elements struct {
	count            int
	inString, escape bool
}

func (e *elements) read(p []byte) {
	for _, b := range p {
		switch {
		case e.escape:
			e.escape = false
		case e.inString:
			e.escape, e.inString = b == '\\', b != '"'
		case b == '"':
			e.inString = true
		case b == ',', b == '{', b == '[':
			e.count++
		}
	}
}
