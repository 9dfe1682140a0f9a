package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRunJob(t *testing.T) {
	t.Parallel()
	var reports []map[string]string
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body map[string]string
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		reports = append(reports, body)
		w.WriteHeader(code)
		_, _ = w.Write([]byte("table orders is locked\n"))
	}))
	t.Cleanup(server.Close)
	var out strings.Builder
	environ := []string{"HOME=/", "HLNR_VERSION=1.0.0"}
	if err := RunJob(t.Context(), Config{JobURL: server.URL}, environ, &out); err != nil || out.String() != "done\n" {
		t.Errorf("the Job ends with error %v and output %q", err, out.String())
	}
	if len(reports) != 2 || reports[0]["PHASE"] != "begin" || reports[1]["PHASE"] != "end" || reports[0]["HLNR_VERSION"] != "1.0.0" || reports[0]["HOME"] != "" {
		t.Errorf("it reports %v", reports)
	}
	code = http.StatusConflict
	if err := RunJob(t.Context(), Config{JobURL: server.URL}, environ, &out); err == nil || err.Error() != "table orders is locked" {
		t.Errorf("a rejected Job ends with %v", err)
	}
	if _, err := ParseConfig([]string{"--job-url", server.URL, "--job-duration", "-1s"}, func(string) string { return "" }, &out); err == nil {
		t.Error("a negative duration is accepted")
	}
}
