// Command release assembles the files of a release from built binaries. The same input produces the same bytes.
//
//	release -version v0.2.0 -image registry.example.com/heighliner -binaries bin/release -out dist/v0.2.0
//	release -version v0.2.0 -image registry.example.com/heighliner -install
//
// The second form prints only install.yaml. The folder of binaries contains heighliner-OS-ARCH and hlnr-OS-ARCH, and the
// certificates of public CAs as ca-certificates.crt.
//
//	main.go        flags, and the list of files
//	archive.go     archives with fixed times and owners
//	image.go       the images of all architectures as an OCI layout
//	sbom.go        contents of a binary, as SPDX
//	provenance.go  origin of the files, as an in-toto statement
//	manifests.go   the chart and install.yaml
//	notes.go       release notes from the changelog
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// input is the input for the files of a release.
type input struct {
	// root is the root folder of the repository.
	root string
	// version is the version, such as v0.2.0.
	version string
	// image is the repository of the image in the manifests, without a tag.
	image string
	// binaries is the folder of the built binaries.
	binaries string
	// baseURL is the URL below which the files are published.
	baseURL string
	// commit is the commit from which the binaries were built. time is the time of the commit and of all files.
	commit string
	time   time.Time
}

// semantic matches semantic versions with a leading v, as in Git and image tags.
var semantic = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

func main() {
	var in input
	out := flag.String("out", "", "folder for the files; it must not exist yet")
	install := flag.Bool("install", false, "print only install.yaml")
	epoch := flag.Int64("epoch", 0, "time of the commit and of all files, in seconds since 1970")
	flag.StringVar(&in.root, "root", ".", "folder of the repository")
	flag.StringVar(&in.version, "version", "", "version, such as v0.2.0")
	flag.StringVar(&in.image, "image", "", "repository of the image, without a tag")
	flag.StringVar(&in.binaries, "binaries", "", "folder of the binaries")
	flag.StringVar(&in.baseURL, "base-url", "https://github.com/heighliner/heighliner/releases/download", "URL below which the release folders are published")
	flag.StringVar(&in.commit, "commit", "", "commit from which the binaries were built")
	flag.Parse()
	in.time = time.Unix(*epoch, 0).UTC()
	if err := run(in, *out, *install); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run writes the files of a release, or prints install.yaml.
func run(in input, out string, install bool) error {
	if !semantic.MatchString(in.version) {
		return fmt.Errorf("-version: %q must be a semantic version such as v0.2.0", in.version)
	}
	if in.image == "" || strings.Contains(in.image[strings.LastIndex(in.image, "/")+1:], ":") || strings.Contains(in.image, "@") {
		return fmt.Errorf("-image: %q must be a repository without a tag or digest, such as registry.example.com/heighliner", in.image)
	}
	if install {
		text, err := installYAML(in)
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(text)
		return err
	}
	files, err := assemble(in)
	if err != nil {
		return err
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		return fmt.Errorf("create release folder: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(out, name), files[name], 0o644); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		fmt.Printf("%10d  %s\n", len(files[name]), filepath.Join(out, name))
	}
	return nil
}

// binary is a binary for one platform.
type binary struct {
	name, os, arch string
	content        []byte
}

// file returns the name of the binary in the folder of binaries.
func (b binary) file() string { return b.name + "-" + b.os + "-" + b.arch }

// readBinaries returns all binaries of the folder, sorted by name and platform.
func readBinaries(dir string) ([]binary, error) {
	var found []binary
	for _, name := range []string{"heighliner", "hlnr"} {
		paths, err := filepath.Glob(filepath.Join(dir, name+"-*-*"))
		if err != nil {
			return nil, fmt.Errorf("find binaries: %w", err)
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("find binaries: there is no %s: run make release", filepath.Join(dir, name+"-OS-ARCH"))
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("read binary: %w", err)
			}
			parts := strings.Split(filepath.Base(path), "-")
			found = append(found, binary{name: name, os: parts[1], arch: parts[2], content: content})
		}
	}
	return found, nil
}

// assemble returns the content of all files of a release, by name.
func assemble(in input) (map[string][]byte, error) {
	binaries, err := readBinaries(in.binaries)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(in.root, "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("read license: %w", err)
	}
	files := map[string][]byte{}
	for _, b := range binaries {
		called := map[string]string{"heighliner": "heighliner", "hlnr": "kubectl-hlnr"}[b.name]
		program := called
		if b.os == "windows" {
			program += ".exe"
		}
		archive, err := tarGz(in.time, []entry{{program, 0o755, b.content}, {"LICENSE", 0o644, license}})
		if err != nil {
			return nil, err
		}
		files[called+"-"+b.os+"-"+b.arch+".tar.gz"] = archive
		if files[b.file()+".spdx.json"], err = sbom(in, b); err != nil {
			return nil, fmt.Errorf("%s: %w", b.file(), err)
		}
	}
	layout, index, err := ociLayout(in, binaries)
	if err != nil {
		return nil, err
	}
	files["heighliner-image.tar"] = layout
	for name, make := range map[string]func(input) ([]byte, error){
		"heighliner-" + strings.TrimPrefix(in.version, "v") + ".tgz": chartArchive, "install.yaml": installYAML, "RELEASE_NOTES.md": releaseNotes,
	} {
		if files[name], err = make(in); err != nil {
			return nil, err
		}
	}
	if files["hlnr.yaml"], err = krew(in, files); err != nil {
		return nil, err
	}
	if files["provenance.intoto.json"], err = provenance(in, binaries, files, index); err != nil {
		return nil, err
	}
	files["SHA256SUMS"] = checksums(files)
	return files, nil
}

// checksums returns the checksums in the format that sha256sum --check reads.
func checksums(files map[string][]byte) []byte {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&out, "%s  %s\n", hash(files[name]), name)
	}
	return out.Bytes()
}

// hash returns the SHA-256 of content, in hexadecimal.
func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// krew returns the krew manifest for kubectl hlnr, which hack/krew/manifest.sh creates from the hlnr archives.
func krew(in input, files map[string][]byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "heighliner-krew-")
	if err != nil {
		return nil, fmt.Errorf("create folder: %w", err)
	}
	defer os.RemoveAll(dir)
	for name, content := range files {
		if strings.HasPrefix(name, "kubectl-hlnr-") {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				return nil, fmt.Errorf("write archive: %w", err)
			}
		}
	}
	cmd := exec.Command(filepath.Join(in.root, "hack", "krew", "manifest.sh"), in.version, in.baseURL+"/"+in.version, dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	manifest, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("write krew manifest: %w: %s", err, &stderr)
	}
	return manifest, nil
}
