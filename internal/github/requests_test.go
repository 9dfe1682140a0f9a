package github

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type answers []int

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	code := (*a)[0]
	*a = (*a)[1:]
	if code == 0 {
		return nil, errors.New("no response")
	}
	return &http.Response{StatusCode: code, Body: http.NoBody}, nil
}

// TestRequestsAreCounted checks that requests are counted by the status code of their responses.
func TestRequestsAreCounted(t *testing.T) {
	var p Pool
	sent := counting{&answers{200, 304, 304, 0, 403}, &p.codes}
	for range 5 {
		if response, err := sent.RoundTrip(nil); err == nil {
			response.Body.Close()
		}
	}
	if diff := cmp.Diff(map[int]int{200: 1, 304: 2, 0: 1, 403: 1}, p.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
