// Command githubcontract creates the copy of GitHub's published API description that tests use to check
// internal/github and its stand-in server. The copy contains the parts of the OpenAPI description that
// cover the operations that internal/github uses, and examples of the webhooks that internal/github
// receives.
//
// To update it, fetch the two packages from the npm registry, and run the command at the root of
// the repository:
//
//	npm pack @octokit/openapi@23.0.2 @octokit/webhooks-examples@7.6.1
//	go run ./hack/githubcontract octokit-openapi-23.0.2.tgz octokit-webhooks-examples-7.6.1.tgz
//
// It writes to internal/github/githubtest/testdata, and reads the list of operations from
// internal/github/githubtest/reference/routes.json.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const home = "internal/github/githubtest"

// events are the events whose examples are in the copy: the events that the guides mention, and
// events about a repository or an installation as a whole.
var events = []string{
	"create", "delete", "installation", "installation_repositories", "package", "ping",
	"pull_request", "pull_request_review", "push", "release", "repository",
}

type object = map[string]any

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: githubcontract octokit-openapi-VERSION.tgz octokit-webhooks-examples-VERSION.tgz")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "githubcontract:", err)
		os.Exit(1)
	}
}

func run(openapi, webhooks string) error {
	api, err := unpack(openapi, "package/generated/api.github.com.json", "package/package.json", "package/LICENSE")
	if err != nil {
		return err
	}
	hooks, err := unpack(webhooks, "package/api.github.com/index.json", "package/package.json")
	if err != nil {
		return err
	}
	if err := writeOperations(api["package/generated/api.github.com.json"]); err != nil {
		return err
	}
	if err := writeWebhooks(hooks["package/api.github.com/index.json"]); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(home, "testdata", "LICENSE"), api["package/LICENSE"], 0o644); err != nil {
		return err
	}
	return writeReadme(api["package/package.json"], hooks["package/package.json"])
}

// unpack reads files from a package.
func unpack(name string, wanted ...string) (map[string][]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(z); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if slices.Contains(wanted, header.Name) {
			if files[header.Name], err = io.ReadAll(archive); err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
		}
	}
	for _, want := range wanted {
		if files[want] == nil {
			return nil, fmt.Errorf("read %s: file %s is missing", name, want)
		}
	}
	return files, nil
}

// description is an OpenAPI description.
type description struct{ root object }

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// writeOperations writes the routes' operations, with one example of each response.
func writeOperations(text []byte) error {
	var d description
	if err := json.Unmarshal(text, &d.root); err != nil {
		return fmt.Errorf("read the description: %w", err)
	}
	paths := map[string]object{}
	for path, item := range d.root["paths"].(object) {
		paths[parameter.ReplaceAllString(path, "{}")] = item.(object)
	}
	var index struct {
		Routes []struct{ Method, Path string }
	}
	routes, err := os.ReadFile(filepath.Join(home, "reference", "routes.json"))
	if err == nil {
		err = json.Unmarshal(routes, &index)
	}
	if err != nil {
		return fmt.Errorf("read the routes: %w", err)
	}
	operations, examples := object{}, object{}
	for _, route := range index.Routes {
		name := route.Method + " " + route.Path
		found, ok := paths[parameter.ReplaceAllString(route.Path, "{}")][strings.ToLower(route.Method)].(object)
		if !ok {
			return fmt.Errorf("operation %s is missing from the description", name)
		}
		operations[name] = d.operation(found)
		if example := d.example(found); example != nil {
			examples[name] = example
		}
	}
	if err := correct(operations); err != nil {
		return err
	}
	return errors.Join(writeLines("operations.json", operations), writeLines("examples.json", examples))
}

// incomplete lists the response fields that the description mistakenly declares as not nullable. They are null
// if a pull request's fork, or the account of the fork's owner, was deleted, as the description of webhooks
// specifies.
var incomplete = map[string][]string{
	"GET /repos/{owner}/{repo}/pulls":               {"items", "properties", "head", "properties", "repo"},
	"GET /repos/{owner}/{repo}/pulls/{pull_number}": {"properties", "head", "properties", "repo"},
}

func correct(operations object) error {
	for name, path := range incomplete {
		at := operations[name].(object)["responses"].(object)["200"]
		for _, part := range path {
			o, _ := at.(object)
			at = o[part]
		}
		o, ok := at.(object)
		if !ok || o["nullable"] == true {
			return fmt.Errorf("the description of %s has changed in %q: update the list of incomplete fields", name, path)
		}
		o["nullable"] = true
	}
	return nil
}

// resolve follows references.
func (d description) resolve(value any) any {
	for {
		o, ok := value.(object)
		ref, has := o["$ref"].(string)
		if !ok || !has {
			return value
		}
		value = d.root
		for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			value = value.(object)[strings.ReplaceAll(part, "~1", "/")]
		}
	}
}

// words are the keys of a description that do not affect validation.
var words = map[string]bool{"description": true, "summary": true, "example": true, "title": true, "externalDocs": true, "examples": true, "x-github-breaking-changes": true, "x-octokit": true, "deprecated": true, "discriminator": true}

// expand returns a schema without the keys in words, and with its references replaced by their targets. A
// property that has one of these keys as its name is a schema, and is kept.
func (d description) expand(value any, properties bool) any {
	switch v := d.resolve(value).(type) {
	case object:
		expanded := object{}
		for name, part := range v {
			if !properties && words[name] {
				continue
			}
			expanded[name] = d.expand(part, !properties && name == "properties")
		}
		if !properties && expanded["default"] == "" {
			delete(expanded, "format") // The address may be empty.
		}
		return expanded
	case []any:
		expanded := make([]any, 0, len(v))
		for _, part := range v {
			expanded = append(expanded, d.expand(part, false))
		}
		return expanded
	default:
		return v
	}
}

func (d description) operation(o object) object {
	query, responses := object{}, object{}
	parameters, _ := o["parameters"].([]any)
	for _, one := range parameters {
		if p := d.resolve(one).(object); p["in"] == "query" {
			query[p["name"].(string)] = d.expand(p["schema"], false)
		}
	}
	for status, one := range o["responses"].(object) {
		responses[status] = nil
		if schema := d.content(one)["schema"]; schema != nil {
			responses[status] = d.expand(schema, false)
		}
	}
	operation := object{"query": query, "responses": responses}
	if schema := d.content(o["requestBody"])["schema"]; schema != nil {
		operation["body"] = d.expand(schema, false)
	}
	return operation
}

// content returns the JSON schema of a request or a response.
func (d description) content(value any) object {
	o, _ := d.resolve(value).(object)
	content, _ := o["content"].(object)
	media, _ := content["application/json"].(object)
	return media
}

// example returns the first example of the successful response.
func (d description) example(o object) object {
	responses := o["responses"].(object)
	for _, status := range []string{"200", "201"} {
		examples, _ := d.content(responses[status])["examples"].(object)
		for _, name := range slices.Sorted(maps.Keys(examples)) {
			return object{"status": json.Number(status), "body": d.resolve(examples[name]).(object)["value"]}
		}
	}
	return nil
}

// writeLines writes an object with one field per line.
func writeLines(name string, all object) error {
	var out bytes.Buffer
	out.WriteString("{\n")
	for i, key := range slices.Sorted(maps.Keys(all)) {
		if i > 0 {
			out.WriteString(",\n")
		}
		line, err := encode(all[key])
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%q: %s", key, line)
	}
	out.WriteString("\n}\n")
	return os.WriteFile(filepath.Join(home, "testdata", name), out.Bytes(), 0o644)
}

func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
}

// writeWebhooks writes the examples of the events, one per line.
func writeWebhooks(text []byte) error {
	var all []struct {
		Name     string
		Examples []json.RawMessage
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read the examples of webhooks: %w", err)
	}
	var out bytes.Buffer
	for _, kind := range all {
		if !slices.Contains(events, kind.Name) {
			continue
		}
		for _, payload := range kind.Examples {
			line, err := encode(object{"event": kind.Name, "payload": payload})
			if err != nil {
				return err
			}
			out.Write(append(line, '\n'))
		}
	}
	return os.WriteFile(filepath.Join(home, "testdata", "webhooks.jsonl"), out.Bytes(), 0o644)
}

func writeReadme(packages ...[]byte) error {
	var out strings.Builder
	out.WriteString("# GitHub's published contract, trimmed\n\n" +
		"Generated by `go run ./hack/githubcontract`. The package comment of this command explains how to update the copy. Do not edit.\n\n" +
		"| Package | Version | License | Files |\n| --- | --- | --- | --- |\n")
	for i, text := range packages {
		var p struct{ Name, Version, License string }
		if err := json.Unmarshal(text, &p); err != nil {
			return err
		}
		files := []string{"`operations.json` (parameters and bodies of the operations that are used), `examples.json` (responses)", "`webhooks.jsonl` (payloads, one per line)"}[i]
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", p.Name, p.Version, p.License, files)
	}
	out.WriteString("\nBoth packages are by the Octokit contributors, under the license in `LICENSE`.\n")
	return os.WriteFile(filepath.Join(home, "testdata", "README.md"), []byte(out.String()), 0o644)
}
