package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// writeReport writes the archive. A file that is there already is not replaced.
func writeReport(name string, result *Result, objects []client.Object) (err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	zipped := gzip.NewWriter(file)
	archive := tar.NewWriter(zipped)
	files, err := reportFiles(result, objects)
	if err != nil {
		return err
	}
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

// reportFiles are the findings and the objects, without secrets.
func reportFiles(result *Result, objects []client.Object) ([]entry, error) {
	var text bytes.Buffer
	if err := result.write(&text); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("write findings: %w", err)
	}
	var decoded any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil, fmt.Errorf("write findings: %w", err)
	}
	if raw, err = json.MarshalIndent(clean(decoded), "", "  "); err != nil {
		return nil, fmt.Errorf("write findings: %w", err)
	}
	files := []entry{{"doctor.txt", []byte(cleanText(text.String()))}, {"doctor.json", raw}}
	for _, o := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", o.GetName(), err)
		}
		kind := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1alpha1."))
		raw, err := yaml.Marshal(clean(fields))
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", o.GetName(), err)
		}
		files = append(files, entry{"objects/" + o.GetNamespace() + "/" + kind + "/" + o.GetName() + ".yaml", raw})
	}
	return files, nil
}
