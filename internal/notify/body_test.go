package notify

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// example returns a message with all fields.
func example(event v1alpha1.NotificationEvent) Message {
	return Message{
		APIVersion: APIVersion, ID: "0a1b", Thread: "2c3d", Event: event, Severity: severityOf(event), Time: time.Date(2030, 1, 31, 9, 0, 0, 123456000, time.UTC),
		Title: `shop 1.1.0 failed: exit 1: "no <database>"`, Policy: "team", Receiver: "chat", Namespace: "shop", Microservice: "shop", Group: "1.x", Release: "shop-1-1-0-0a1b2c3d",
		Version: "1.1.0", PreviousVersion: "1.0.0", Step: 1, Steps: 2, Weight: 10, Reason: "CrashLoopBackOff", Cause: `exit 1: "no <database>"`,
		Image: "registry.example.com:5000/team/Shop:1.1.0@sha256:0b31b1", Commit: "4be1c02d", Command: "hlnr retry -n shop shop 1.1.0", URL: "https://board.example.com/services/shop/shop",
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		`{"text": {{json .title}}}`: `{"text": "shop 1.1.0 failed: exit 1: \"no \u003cdatabase\u003e\""}`,
		`{{.microservice}} {{if eq .event "Failed"}}failed{{else}}{{.event}}{{end}} {{.step}}/{{.steps}}`: "shop failed 1/2",
		`{{if and (ne .severity "info") (not .pullRequest)}}x{{end}}{{/* nothing */}}`:                    "x",
		`{{.event | json}}`: `"Failed"`,
		"plain":             "plain",
	} {
		got, err := render(template, example(v1alpha1.NotifyFailed))
		if err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v; want %s", template, got, err, want)
		}
	}
	if got, err := render(`{{json .}}`, example(v1alpha1.NotifyFailed)); err != nil || !json.Valid(got) {
		t.Errorf("the whole message is %s, %v", got, err)
	}
}

// TestRefusedTemplates checks that templates are rejected if they take a long time or read values that are not part
// of a message.
func TestRefusedTemplates(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		`{{range 1000000000}}{{end}}`:           "only fields, if, and the functions",
		`{{with .title}}{{end}}`:                "only fields, if, and the functions",
		`{{define "a"}}{{end}}x`:                `it defines "a"`,
		`{{block "a" .}}{{end}}`:                `it defines "a"`,
		`{{template "a"}}`:                      "only fields, if, and the functions",
		`{{printf "%1000000000d" 1}}`:           `function "printf" is not allowed`,
		`{{if printf "%9d" 1}}{{end}}`:          `function "printf" is not allowed`,
		`{{if .step}}{{else}}{{html 1}}{{end}}`: `function "html" is not allowed`,
		`{{json (print 1)}}`:                    `function "print" is not allowed`,
		`{{$x := .title}}{{$x}}`:                "variables are not allowed",
		`{{.Title}}`:                            `no entry for key "Title"`,
		`{{.title.x}}`:                          "can't evaluate field",
		`{{nothing}}`:                           `function "nothing" not defined`,
		`{{.title`:                              "unclosed action",
		`{{call .title}}`:                       `function "call" is not allowed`,
		`{{(json .).x}}`:                        "only fields, if, and the functions",
	} {
		if err := CheckTemplate(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %s", template, err, want)
		}
	}
	long := example(v1alpha1.NotifyFailed)
	long.Cause = strings.Repeat("x", 1<<10)
	if got, err := render(strings.Repeat("{{.cause}}", 100), long); err == nil {
		t.Errorf("a body of %d bytes is created", len(got))
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add(`{"text": {{json .title}}}`)
	f.Add(`{{if and (ne .severity "info") (not .step)}}x{{else if .note}}{{.note}}{{end}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 8192 {
			return
		}
		began := time.Now()
		body, _ := render(text, example(v1alpha1.NotifyFailed))
		if len(body) > maxBody || time.Since(began) > 5*time.Second {
			t.Errorf("%q gives %d bytes in %s", text, len(body), time.Since(began))
		}
	})
}

// TestCloudEvents checks that the attributes of a CloudEvent match its CDEvent, and that the types and fields conform to the CDEvents schemas.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	own := regexp.MustCompile(`^dev\.cdeventsx\.[a-zA-Z0-9]+-[a-zA-Z]+\.[a-zA-Z]+\.[0-9]\.[0-9]\.[0-9]$`) // for custom events in version 0.4 of the specification
	standard := map[v1alpha1.NotificationEvent]string{v1alpha1.NotifyPromoted: typeUpgraded, v1alpha1.NotifyRestored: typeRolledBack}
	for _, event := range every {
		raw, err := cloudEventOf(example(event))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			cloudEvent
			Data struct {
				Context map[string]string `json:"context"`
				Subject struct {
					ID, Source, Type string
					Content          map[string]any
				} `json:"subject"`
				CustomData            map[string]any
				CustomDataContentType string
			} `json:"data"`
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		c := got.Data.Context
		want := map[string]string{"version": "0.4.1", "id": got.ID, "source": got.Source, "type": got.Type, "timestamp": got.Time, "chainId": "2c3d"}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("%s: context of the CDEvent: %s", event, diff)
		}
		if got.SpecVersion != "1.0" || got.Subject != got.Data.Subject.ID || got.Time != "2030-01-31T09:00:00.123456Z" || got.ID != "0a1b" {
			t.Errorf("%s: attributes %+v", event, got.cloudEvent)
		}
		kind, isStandard := standard[event]
		switch {
		case isStandard && (got.Type != kind || got.Data.Subject.Type != "service"):
			t.Errorf("%s has type %s of %s", event, got.Type, got.Data.Subject.Type)
		case !isStandard && (!own.MatchString(got.Type) || got.Data.Subject.Type != "heighliner-release"):
			t.Errorf("%s has type %s of %s", event, got.Type, got.Data.Subject.Type)
		}
		content := got.Data.Subject.Content
		if content["artifactId"] != "pkg:oci/shop@sha256%3A0b31b1?repository_url=registry.example.com%3A5000%2Fteam%2FShop&tag=1.1.0" || content["environment"].(map[string]any)["id"] != "shop" {
			t.Errorf("%s: content %v", event, content)
		}
		if got.Data.CustomData["title"] != example(event).Title {
			t.Errorf("%s: custom data %v", event, got.Data.CustomData)
		}
	}
	first := example(v1alpha1.NotifyPromoted)
	first.PreviousVersion, first.Image = "", ""
	if got := typeOf(first); got != typeDeployed {
		t.Errorf("a first release has type %s", got)
	}
	if got := artifactOf(first); got != "pkg:generic/shop@1.1.0" {
		t.Errorf("a release without a known image is %s", got)
	}
}
