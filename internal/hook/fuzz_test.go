package hook

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/await"
)

// answered is a transport that always returns the same response.
type answered struct {
	code int
	body string
}

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// FuzzAnswer checks that, for any response, only 200 to 204 approve, only 412 rejects the release permanently, and the
// part of the response that is shown is one line of valid text of limited length.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "")
	f.Add(409, "freeze until Monday\nmore")
	f.Add(412, "the change was withdrawn")
	f.Add(307, "\x1b[31m\xff\u2028…")
	f.Add(204, strings.Repeat("é", maxMessage))
	f.Fuzz(func(t *testing.T, code int, body string) {
		if code < 200 || code > 599 {
			return
		}
		defer await.Quick(t)()
		p, err := NewPool(Options{})
		if err != nil {
			t.Fatal(err)
		}
		p.shared = &http.Client{Transport: answered{code, body}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		q := Call{Hook: v1alpha1.Hook{Name: "a", Type: v1alpha1.HookConfirmPromotion, URL: "http://receiver.example/"}}
		got := p.call(context.Background(), &q, Credentials{})
		message := got.message
		if got.yes != (code <= 204) || got.refused != (code == StatusRefused) {
			t.Errorf("%d is treated as an approval: %t, as a rejection: %t", code, got.yes, got.refused)
		}
		if !utf8.ValidString(message) || len(message) > maxMessage || strings.ContainsAny(message, "\n\r\x00\x1b") {
			t.Errorf("%d %q: message %q of %d bytes", code, body, message, len(message))
		}
		if Uncallable(v1alpha1.HookStatus{Message: message}) {
			t.Errorf("the text of a receiver is mistaken for ours: %q", message)
		}
	})
}
