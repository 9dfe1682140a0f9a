package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// cdeventsVersion is the version of the CDEvents specification that the events conform to.
const cdeventsVersion = "0.4.1"

// These are the types of events. CDEvents defines the types for changes to a service in its environment. All other
// transitions have custom types that this project defines.
const (
	typeDeployed   = "dev.cdevents.service.deployed.0.2.0"
	typeUpgraded   = "dev.cdevents.service.upgraded.0.2.0"
	typeRolledBack = "dev.cdevents.service.rolledback.0.2.0"
	typeOwn        = "dev.cdeventsx.heighliner-release.%s.0.1.0"
)

// cloudEvent is an event in the structured mode of CloudEvents 1.0.
type cloudEvent struct {
	SpecVersion     string  `json:"specversion"`
	ID              string  `json:"id"`
	Source          string  `json:"source"`
	Type            string  `json:"type"`
	Subject         string  `json:"subject"`
	Time            string  `json:"time"`
	DataContentType string  `json:"datacontenttype"`
	Data            cdEvent `json:"data"`
}

// cdEvent is an event as the CDEvents specification defines it.
type cdEvent struct {
	Context               cdContext `json:"context"`
	Subject               cdSubject `json:"subject"`
	CustomData            Message   `json:"customData"`
	CustomDataContentType string    `json:"customDataContentType"`
}

type cdContext struct {
	Version   string `json:"version"`
	ID        string `json:"id"`
	Source    string `json:"source"`
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	ChainID   string `json:"chainId"`
}

type cdSubject struct {
	ID      string         `json:"id"`
	Source  string         `json:"source"`
	Type    string         `json:"type"`
	Content map[string]any `json:"content"`
}

// cloudEventOf returns the body of a CloudEvent for a message.
func cloudEventOf(m Message) ([]byte, error) {
	source := "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + m.Namespace + "/microservices/" + m.Microservice
	at := m.Time.UTC().Format("2006-01-02T15:04:05.999999Z07:00")
	kind := typeOf(m)
	subject := cdSubject{ID: m.Namespace + "/" + m.Microservice, Source: source, Type: "service"}
	subject.Content = map[string]any{"environment": map[string]string{"id": m.Namespace, "source": source}, "artifactId": artifactOf(m)}
	if strings.HasPrefix(kind, "dev.cdeventsx.") {
		subject.ID, subject.Type = m.Namespace+"/"+m.Release, "heighliner-release"
		subject.Content["service"] = map[string]string{"id": m.Namespace + "/" + m.Microservice, "source": source}
	}
	event := cloudEvent{
		SpecVersion: "1.0", ID: m.ID, Source: source, Type: kind, Subject: subject.ID, Time: at, DataContentType: "application/cdevents+json",
		Data: cdEvent{
			Context: cdContext{Version: cdeventsVersion, ID: m.ID, Source: source, Type: kind, Timestamp: at, ChainID: m.Thread},
			Subject: subject, CustomData: m, CustomDataContentType: "application/json",
		},
	}
	raw, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("write CloudEvent: %w", err)
	}
	return raw, nil
}

// typeOf returns the CloudEvents type of a message.
func typeOf(m Message) string {
	switch {
	case m.Event == v1alpha1.NotifyPromoted && m.PreviousVersion == "":
		return typeDeployed
	case m.Event == v1alpha1.NotifyPromoted:
		return typeUpgraded
	case m.Event == v1alpha1.NotifyRestored:
		return typeRolledBack
	}
	return fmt.Sprintf(typeOwn, strings.ToLower(string(m.Event)))
}

// artifactOf returns the package URL of a release's image, or of the release's version if the image is not
// known.
func artifactOf(m Message) string {
	name, digest, found := strings.Cut(m.Image, "@")
	if !found {
		return "pkg:generic/" + url.PathEscape(m.Microservice) + "@" + url.PathEscape(m.Version)
	}
	repository, tag := name, ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repository, tag = name[:i], name[i+1:]
	}
	last := repository[strings.LastIndexByte(repository, '/')+1:]
	query := url.Values{"repository_url": {repository}}
	if t := cmp.Or(tag, ""); t != "" {
		query.Set("tag", t)
	}
	return "pkg:oci/" + strings.ToLower(last) + "@" + url.QueryEscape(digest) + "?" + query.Encode()
}
