package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// repository is the URL of the sources.
const repository = "https://github.com/heighliner/heighliner"

// spdxPackage is a package in SPDX 2.3.
type spdxPackage struct {
	SPDXID           string         `json:"SPDXID"`
	Name             string         `json:"name"`
	VersionInfo      string         `json:"versionInfo"`
	DownloadLocation string         `json:"downloadLocation"`
	FilesAnalyzed    bool           `json:"filesAnalyzed"`
	SourceInfo       string         `json:"sourceInfo,omitempty"`
	Checksums        []spdxChecksum `json:"checksums,omitempty"`
	ExternalRefs     []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// notInID matches characters that an SPDX identifier must not contain.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// sbom returns an SPDX 2.3 document for a binary. It contains the binary, the linked modules, and the
// standard library, as recorded by the Go linker.
func sbom(in input, b binary) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(b.content))
	if err != nil {
		return nil, fmt.Errorf("read Go build information: %w", err)
	}
	program := spdxPackage{
		SPDXID: "SPDXRef-Package-" + b.name, Name: b.file(), VersionInfo: in.version, DownloadLocation: "NOASSERTION",
		Checksums:    []spdxChecksum{{"SHA256", hash(b.content)}},
		ExternalRefs: purl(info.Main.Path, in.version),
	}
	packages := []spdxPackage{program, module(&debug.Module{Path: "std", Version: info.GoVersion})}
	for _, dependency := range info.Deps {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		packages = append(packages, module(dependency))
	}
	relationships := []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", program.SPDXID}}
	for _, p := range packages[1:] {
		relationships = append(relationships, spdxRelationship{program.SPDXID, "DEPENDS_ON", p.SPDXID})
	}
	return indented(map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": b.file() + " " + in.version,
		"documentNamespace": repository + "/spdx/" + in.version + "/" + b.file() + "/" + hash(b.content),
		"creationInfo":      map[string]any{"created": in.time.Format(time.RFC3339), "creators": []string{"Tool: heighliner-hack-release"}},
		"packages":          packages, "relationships": relationships,
	})
}

// module returns the package of a linked module.
func module(m *debug.Module) spdxPackage {
	p := spdxPackage{
		SPDXID: "SPDXRef-Package-" + notInID.ReplaceAllString(m.Path+"-"+m.Version, "-"), Name: m.Path, VersionInfo: m.Version,
		DownloadLocation: "NOASSERTION", ExternalRefs: purl(m.Path, strings.TrimPrefix(m.Version, "go")),
	}
	if m.Sum != "" {
		p.SourceInfo = "go.sum " + m.Sum
	}
	return p
}

// purl returns the package URL of a Go module.
func purl(path, version string) []spdxRef {
	if path == "std" {
		path = "stdlib"
	}
	return []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")}}
}

// indented returns indented JSON with a final newline.
func indented(content any) ([]byte, error) {
	raw, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return append(raw, '\n'), nil
}
