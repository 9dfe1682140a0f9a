package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// writeReport writes the archive. It does not overwrite an existing file, and removes an incomplete file after an error.
func writeReport(name string, result *Result, objects []client.Object) (err error) {
	files, err := reportFiles(result, objects)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	return pack(file, files)
}

// pack writes an archive of files.
func pack(out io.Writer, files []entry) error {
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{Name: "hlnr-report/" + f.name, Mode: 0o600, Size: int64(len(f.text)), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		if _, err := archive.Write(f.text); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// entry is one file of the archive.
type entry struct {
	name string
	text []byte
}

// reportFiles returns the files of the archive: the findings and the objects, without secrets.
func reportFiles(result *Result, objects []client.Object) ([]entry, error) {
	cleaned := *result
	cleaned.Findings = make([]Finding, len(result.Findings))
	for i, f := range result.Findings {
		cleaned.Findings[i] = Finding{f.Level, f.Check, cleanText(f.Text), cleanText(f.Fix)}
	}
	var text bytes.Buffer
	if err := cleaned.write(&text); err != nil {
		return nil, err
	}
	raw, err := cli.JSON(&cleaned)
	if err != nil {
		return nil, fmt.Errorf("findings: %w", err)
	}
	files := []entry{{"doctor.txt", text.Bytes()}, {"doctor.json", raw}}
	for _, o := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", o.GetName(), err)
		}
		kind := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1alpha1."))
		raw, err := cli.YAML(clean(fields))
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", o.GetName(), err)
		}
		files = append(files, entry{"objects/" + o.GetNamespace() + "/" + kind + "/" + o.GetName() + ".yaml", raw})
	}
	return files, nil
}
