package outbound

// elements counts the values of JSON text while it is read: the commas between them
// and the brackets that open them, outside of strings. A few bytes of text can take a
// thousand in memory once they are decoded, so a limit on bytes does not limit memory. For
// input that is not JSON the count is arbitrary.
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
