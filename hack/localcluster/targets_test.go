package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTargetsOf(t *testing.T) {
	tests := map[string]struct {
		pods string
		want string
	}{
		"none": {`{"items":[]}`, `[]`},
		"release": {`{"items":[{"metadata":{"namespace":"shop","name":"shop-1","annotations":{"prometheus.io/scrape":"true"},
			"labels":{"app":"shop","hlnr.io/microservice":"shop","hlnr.io/group":"1-x","hlnr.io/release":"shop-1-0-0-abc"}},
			"spec":{"containers":[{"ports":[{"containerPort":53,"protocol":"UDP"},{"containerPort":8080,"protocol":"TCP"}]}]},
			"status":{"phase":"Running","podIP":"10.244.0.7"}}]}`,
			`[{"targets":["10.244.0.7:8080"],"labels":{"namespace":"shop","pod":"shop-1","app":"shop","hlnr_io_microservice":"shop","hlnr_io_group":"1-x","hlnr_io_release":"shop-1-0-0-abc"}}]`},
		"port and path by annotation": {`{"items":[{"metadata":{"namespace":"a","name":"b","annotations":{
			"prometheus.io/scrape":"true","prometheus.io/port":"9100","prometheus.io/path":"/stats"}},
			"spec":{"containers":[{"ports":[{"containerPort":8080,"protocol":"TCP"}]}]},"status":{"phase":"Running","podIP":"10.244.0.8"}}]}`,
			`[{"targets":["10.244.0.8:9100"],"labels":{"namespace":"a","pod":"b","__metrics_path__":"/stats"}}]`},
		"no annotations, not running, no address, no port": {`{"items":[
			{"metadata":{"name":"a"},"spec":{"containers":[{"ports":[{"containerPort":1,"protocol":"TCP"}]}]},"status":{"phase":"Running","podIP":"10.244.0.9"}},
			{"metadata":{"name":"b","annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"1"}},"status":{"phase":"Succeeded","podIP":"10.244.0.9"}},
			{"metadata":{"name":"c","annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"1"}},"status":{"phase":"Running"}},
			{"metadata":{"name":"d","annotations":{"prometheus.io/scrape":"true"}},"status":{"phase":"Running","podIP":"10.244.0.9"}}]}`, `[]`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var pods podList
			var want []scrapeTarget
			for text, into := range map[string]any{test.pods: &pods, test.want: &want} {
				if err := json.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, targetsOf(pods)); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTargetsAreAnErrorWithoutAPIServer(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	server := httptest.NewServer(targetsHandler(&api{client: away.Client(), server: away.URL}))
	defer server.Close()
	for path, want := range map[string]int{"/": http.StatusBadGateway, "/healthz": http.StatusOK} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, response.Status, want)
		}
	}
}
